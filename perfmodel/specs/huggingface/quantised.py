"""Converts the ``quantization_config`` or the ``hf_quant_config.json`` of a checkpoint to values of
`--weights` and `--kv-dtype`.

The module reads fp8, mxfp4, AWQ, GPTQ, AutoRound, compressed-tensors, ModelOpt, Quark, bitsandbytes and
torchao. The file names the modules that have 16 bits, module by module and layer by layer. The LM head and
the router have 16 bits unless the file names a format for them. The makers of all these formats leave them at
16 bits (transformers, `get_modules_to_not_convert`).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from perfmodel.specs.huggingface.keys import Keys
from perfmodel.specs.huggingface.names import other_spellings
from perfmodel.specs.huggingface.schemes import Scheme, fp8, kv_of, modelopt, scheme_of
from perfmodel.specs.models.weights import KEPT, PARTS, weight_format


def formats_of(
    keys: Keys, sidecar: Keys | None, layers: Mapping[str, Sequence[int]], model_type: str
) -> dict[str, str]:
    """The fields `weights` and `kv_dtype` of ModelSpec. The result is empty if the file states no formats.

    - keys: the contents of ``config.json``.
    - sidecar: the contents of ``hf_quant_config.json`` in the same folder, which take precedence.
    - layers: the layers that have each GEMM. The key ``mtp`` has the layers after the model's own.

    Raises InputError for an unknown format.
    """
    if (stated := _stated(keys, sidecar)) is None:
        return {}
    scheme, settings = stated
    modules = other_spellings("module") | (
        other_spellings("module of gemma4") if model_type.startswith("gemma4") else {}
    )
    formats = {
        gemm: _mixed(Counter(_of_layer(scheme, modules[gemm], layer) for layer in where))
        for gemm, where in layers.items()
        if where and gemm != "mtp"
    }
    if keys.data.get("expert_dtype") == "fp4" and formats.get("experts") == "fp8-block":  # DeepSeek-V4
        formats["experts"] = "mxfp4"
    formats["lm_head"] = scheme.of("lm_head", scheme.lm_head)
    if _mtp_in_16_bits(scheme, layers.get("mtp", ())):
        formats["mtp"] = "bf16"
    # in a checkpoint with mxfp4, only experts have mxfp4
    first = "bf16" if scheme.default == "mxfp4" else scheme.default
    kv = kv_of(settings)
    return {"weights": spelled(formats, first)} | ({"kv_dtype": kv} if kv else {})


def _stated(keys: Keys, sidecar: Keys | None) -> tuple[Scheme, Keys] | None:
    """The scheme of the checkpoint, and the mapping that states it. The result is None without a mapping."""
    method = keys.mapping("quantization_config")
    if sidecar and (inner := sidecar.mapping("quantization")):
        scheme = modelopt(inner)
        if method and scheme.default == "bf16" and method.data.get("quant_method") == "fp8":
            # ModelOpt converted a checkpoint in fp8: the modules that it left alone remain in fp8
            scheme = replace(scheme, default=fp8(method), kept=None)
        return scheme, inner
    return (scheme_of(method), method) if method else None


def _mtp_in_16_bits(scheme: Scheme, layers: Sequence[int]) -> bool:
    """Whether the checkpoint leaves a multi-token prediction layer at 16 bits. Files name such a layer by a
    number after those of the model (DeepSeek), or ``mtp.layers.0`` (Qwen).
    """
    names = [f"layers.{layer}" for layer in layers] + ["mtp.layers.0"]
    return bool(layers) and any(scheme.of(name) == "bf16" for name in names)


def _mixed(layers: Counter[str]) -> str:
    """The format of a GEMM as text, from the number of layers with each format."""
    if len(layers) == 1:
        return next(iter(layers))
    return "+".join(f"{form}*{count}" for form, count in layers.items())


def _of_layer(scheme: Scheme, modules: Sequence[str], layer: int) -> str:
    """The format of a GEMM in one layer. If the formats of its modules differ, the result is that of the
    first module that does not have the default format.
    """
    formats = [scheme.of(f"layers.{layer}.{module}") for module in modules]
    return next((name for name in formats if name != scheme.default), scheme.default)


def spelled(formats: Mapping[str, str], first: str) -> str:
    """The shortest value of `--weights` that gives every GEMM its format. If several values are equally
    short, it is the one that begins with `first`.
    """
    bases = dict.fromkeys(name for gemm, name in formats.items() if gemm not in (*KEPT, "mtp"))
    ways = []
    for base in sorted(bases, key=lambda name: name != first):
        plain = weight_format(base)
        own = []
        for part, gemms in PARTS.items():
            here = {gemm: formats[gemm] for gemm in gemms if gemm in formats}
            if len({*here.values()}) == 1:
                here = {part: here[next(iter(here))]}
            own += [(name, form) for name, form in here.items() if plain.of(name).name != form]
        ways.append(",".join([base, *(f"{name}={form}" for name, form in own)]))
    return min(ways, key=lambda text: text.count(","))
