"""What a checkpoint comes in: its ``quantization_config`` or ``hf_quant_config.json`` as `--weights` and `--kv-dtype`.

Formats of fp8, mxfp4, AWQ, GPTQ, AutoRound, compressed-tensors, ModelOpt, Quark, bitsandbytes, torchao and MLX. Which
modules stay at 16 bits is read from the file, module by module and layer by layer; LM head and router stay so unless
the file names a format for them, as the makers of all these formats but MLX leave them (transformers,
`get_modules_to_not_convert`).
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from perfmodel.specs.formats import KEPT, PARTS, weight_format
from perfmodel.specs.huggingface.keys import Keys

# GEMM -> modules of a layer that it multiplies with, in the spellings of all families.
MODULES = {
    "qkv": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.qkv_proj", "mixer.q_proj"),
    "o": ("self_attn.o_proj", "mixer.o_proj"),
    "qkv_down": ("self_attn.q_a_proj", "self_attn.kv_a_proj_with_mqa"),
    "q_up": ("self_attn.q_b_proj",),
    "o_down": ("self_attn.o_a_proj",),
    "gate_up": ("mlp.gate_proj", "mlp.up_proj", "mlp.gate_up_proj", "feed_forward.gate_proj", "mixer.up_proj"),
    "down": ("mlp.down_proj", "feed_forward.down_proj", "mixer.down_proj"),
    "shared_gate_up": (
        "mlp.shared_experts.gate_proj",
        "mlp.shared_expert.gate_proj",
        "feed_forward.shared_expert.gate_proj",
        "mixer.shared_experts.up_proj",
    ),
    "shared_down": (
        "mlp.shared_experts.down_proj",
        "mlp.shared_expert.down_proj",
        "feed_forward.shared_expert.down_proj",
        "mixer.shared_experts.down_proj",
    ),
    "index_q": ("self_attn.indexer.wq_b",),
    "state_in": ("linear_attn.in_proj_qkv", "linear_attn.in_proj_qkvz", "mixer.in_proj"),
    "state_out": ("linear_attn.out_proj", "mixer.out_proj"),
    "latent_in": ("mixer.fc1_latent_proj",),
    "latent_out": ("mixer.fc2_latent_proj",),
    "experts": (
        "mlp.experts.0.gate_proj",
        "mlp.experts.gate_up_proj",
        "block_sparse_moe.experts.0.w1",
        "feed_forward.experts.0.gate_proj",
        "mixer.experts.0.up_proj",
        "experts.0.gate_proj",
    ),
}
_MODELOPT = {
    "FP8": "fp8",
    "FP8_PER_CHANNEL_PER_TOKEN": "fp8",
    "FP8_PB_WO": "fp8-block",
    "MXFP8": "mxfp8",
    "NVFP4": "nvfp4",
    "W4A16_NVFP4": "nvfp4-wo",
    "W4A16_AWQ": "int4-g128-sym",
    "W4A8_AWQ": "int4-g128-sym-a8",
    "W4A8_NVFP4_FP8": "nvfp4-a8",
    "W4A8_MXFP4_FP8": "mxfp4-a8",
    "MXFP4": "mxfp4",
}
_TORCHAO = {
    "int4weightonly": "int4-g{group}",
    "int8weightonly": "int8-wo",
    "int8dynamicactivationint8weight": "int8",
    "int8dynamicactivationint4weight": "int4-g{group}-a8",
    "float8weightonly": "fp8-wo",
    "float8dynamicactivationfloat8weight": "fp8",
    "float8dynamicactivationint4weight": "int4-g{group}-sym-a8",
}
"""Class of torchao's configuration, without its ``Config`` and underscores -> format."""
_MIXED = "MIXED_PRECISION"
METHODS = (
    "auto-round", "awq", "bitsandbytes", "compressed-tensors", "fbgemm_fp8", "fp8", "gptq", "modelopt", "modelopt_fp4",
    "modelopt_mixed", "mxfp4", "quark", "torchao",
)  # fmt: skip


@dataclass(frozen=True)
class _Scheme:
    """`default`: format of a layer's linear modules. named: module -> format. kept: matches what stays at 16 bits.

    matched: pattern of modules -> format. lm_head, embedding: their own, else at 16 bits.
    """

    default: str
    named: Mapping[str, str] = field(default_factory=dict)
    kept: re.Pattern[str] | None = None
    matched: tuple[tuple[re.Pattern[str], str], ...] = ()
    lm_head: str = "bf16"
    embedding: str = "bf16"

    def of(self, module: str, default: str | None = None) -> str:
        """Format of one module, named without what stands before ``layers``."""
        if self.kept and self.kept.search(f"{module}\nmodel.language_model.{module}\nlanguage_model.model.{module}"):
            return "bf16"
        for owner in (module, *_owners(module)):
            if owner in self.named:
                return self.named[owner]
        spelled = (module, f"model.{module}", f"model.language_model.{module}")
        for pattern, form in self.matched:
            if any(map(pattern.match, spelled)):
                return form
        return self.default if default is None else default


def formats_of(
    keys: Keys, sidecar: Keys | None, layers: Mapping[str, Sequence[int]], modules: Mapping[str, Sequence[str]]
) -> dict[str, str]:
    """`weights` and `kv_dtype` of ModelSpec; nothing where the file says nothing.

    keys: a ``config.json``; sidecar: the ``hf_quant_config.json`` beside it, whose word counts where both speak.
    layers: GEMM -> layers that have it, ``mtp`` those behind the model's own. modules: where not as in `MODULES`.
    Raises InputError for a format that is not known.
    """
    found = keys.mapping("quantization_config") or keys.mapping("quantization")
    if sidecar and (inner := sidecar.mapping("quantization")):
        scheme, said = _modelopt(inner), inner
        if found and scheme.default == "bf16" and found.data.get("quant_method") == "fp8":
            scheme = replace(scheme, default=_fp8(found), kept=None)  # what it leaves alone stays as it came
    elif found:
        scheme, said = _scheme(found), found
    else:
        return {}
    formats = {
        gemm: _mixed(Counter(_of_layer(scheme, modules.get(gemm, MODULES[gemm]), layer) for layer in where))
        for gemm, where in layers.items()
        if where and gemm != "mtp"
    }
    if keys.data.get("expert_dtype") == "fp4" and formats["experts"] == "fp8-block":  # DeepSeek-V4
        formats["experts"] = "mxfp4"
    formats["lm_head"] = scheme.of("lm_head", scheme.lm_head)
    if scheme.embedding != "bf16":
        formats["embedding"] = scheme.embedding
    if any("bf16" in (scheme.of(f"layers.{layer}"), scheme.of("mtp.layers.0")) for layer in layers.get("mtp", ())):
        formats["mtp"] = "bf16"
    first = "bf16" if scheme.default == "mxfp4" else scheme.default  # mxfp4 is a format of experts alone
    return {"weights": _spelled(formats, first)} | ({"kv_dtype": kv} if (kv := _kv(said)) else {})


def _mixed(layers: Counter[str]) -> str:
    return next(iter(layers)) if len(layers) == 1 else "+".join(f"{form}*{count}" for form, count in layers.items())


def _of_layer(scheme: _Scheme, modules: Sequence[str], layer: int) -> str:
    """Format of a GEMM in one layer: the first of its modules that is not as all others."""
    found = [scheme.of(f"layers.{layer}.{module}") for module in modules]
    return next((name for name in found if name != scheme.default), scheme.default)


def _spelled(formats: Mapping[str, str], first: str) -> str:
    """The shortest `--weights` that gives every GEMM its format; of two as short the one that begins with `first`."""
    bases = dict.fromkeys(name for gemm, name in formats.items() if gemm not in (*KEPT, "mtp"))
    ways = []
    for base in sorted(bases, key=lambda name: name != first):
        plain, own = weight_format(base), []
        for part, gemms in PARTS.items():
            here = {gemm: formats[gemm] for gemm in gemms if gemm in formats}
            if len({*here.values()}) == 1:
                here = {part: here[next(iter(here))]}
            own += [(name, form) for name, form in here.items() if plain.of(name).name != form]
        ways.append(",".join([base, *(f"{name}={form}" for name, form in own)]))
    return min(ways, key=lambda text: text.count(","))


def _scheme(q: Keys) -> _Scheme:
    """One `quantization_config`, by its method."""
    method = q.data.get("quant_method", "modelopt" if "quant_algo" in q.data else None)
    if method is None and "bits" in q.data and "group_size" in q.data:
        return _mlx(q)
    kept = _kept(q, "modules_to_not_convert", "ignored_layers", "ignore")
    if method == "fp8":
        return _Scheme(_fp8(q), kept=kept)
    if method == "fbgemm_fp8":
        return _Scheme("fp8", kept=kept)
    if method == "mxfp4":
        return _Scheme("mxfp4", kept=kept)
    if method in ("awq", "gptq"):
        form = _int4(q, method)
        return _Scheme(form, kept=kept, lm_head=form if q.flag("lm_head", False) else "bf16")
    if method == "auto-round":
        return _autoround(q)
    if method == "bitsandbytes":
        return _bitsandbytes(q)
    if method == "torchao":
        return _torchao(q, kept)
    if method == "quark":
        return _quark(q)
    if method == "compressed-tensors":
        return _compressed(q)
    if method in METHODS:
        return _modelopt(q)
    raise q.bad("quant_method", f"one of {', '.join(METHODS)}")


def _fp8(q: Keys) -> str:
    if q.data.get("weight_block_size") is None:
        return "fp8"
    if q.data["weight_block_size"] != [128, 128]:
        raise q.bad("weight_block_size", "[128, 128] or null")
    return "fp8-block"


def _int4(q: Keys, method: str) -> str:
    bits = q.integer("bits" if "bits" in q.data else "w_bit")
    if bits not in (4, 8) or (bits == 8 and method == "awq"):
        raise q.bad("bits", "4" if method == "awq" else "4 or 8")
    if bits == 8:
        return "int8-wo"
    group = q.integer("group_size" if "group_size" in q.data else "q_group_size", low=-1, high=9999)
    if group < 1:  # one scale a column
        return "int4"
    zero = q.flag("zero_point", True) if method == "awq" else not q.flag("sym", True)
    return f"awq-g{group}" if zero else f"int4-g{group}-sym"


def _autoround(q: Keys) -> _Scheme:
    """Intel's AutoRound: as GPTQ; `extra_config` names modules of other bits, 16 among them."""
    if q.data.get("data_type", "int") != "int":
        raise q.bad("data_type", "int")
    form, named = _int4(q, "gptq"), dict[str, str]()
    extra = q.mapping("extra_config")
    for module in extra.data if extra else ():
        own = extra.mapping(module) if extra else None
        if own and (bits := own.integer("bits", 4)) != q.integer("bits"):
            named[_short(module)] = "bf16" if bits == 16 else _int4(own, "gptq")
    return _Scheme(form, named, lm_head=form if q.flag("quant_lm_head", False) else "bf16")


def _bitsandbytes(q: Keys) -> _Scheme:
    kept = _kept(q, "llm_int8_skip_modules")
    if not q.flag("load_in_4bit", bool(q.data.get("_load_in_4bit"))):
        return _Scheme("int8", kept=kept)
    return _Scheme("nf4-dq" if q.flag("bnb_4bit_use_double_quant", False) else "nf4", kept=kept)


def _torchao(q: Keys, kept: re.Pattern[str] | None) -> _Scheme:
    """torchao: the name of its configuration, or that with its fields under ``default``."""
    kind, fields = q.data.get("quant_type"), q.mapping("quant_type_kwargs")
    if isinstance(kind, dict):
        default = (q.mapping("quant_type") or q).mapping("default")
        kind, fields = (default.data.get("_type"), default.mapping("_data")) if default else (None, None)
    key = str(kind).lower().replace("_", "").removesuffix("config")
    if key not in _TORCHAO:
        raise q.bad("quant_type", f"one of {', '.join(_TORCHAO)}")
    group = fields.integer("group_size", 128, high=9999) if fields else 128
    return _Scheme(_TORCHAO[key].format(group=group), kept=kept)


def _quark(q: Keys) -> _Scheme:
    """AMD's Quark: one configuration for all linear modules, others by pattern of module."""
    base, layers = q.mapping("global_quant_config"), q.mapping("layer_quant_config")
    if base is None:
        raise q.bad("global_quant_config", "a mapping of weight and input_tensors")
    own = [(_pattern(name), _quark_format(part)) for name in (layers.data if layers else ())
           if layers and (part := layers.mapping(name))]  # fmt: skip
    return _Scheme(_quark_format(base), kept=_kept(q, "exclude"), matched=tuple(own))


def _quark_format(part: Keys) -> str:
    weight, inputs = part.mapping("weight"), part.mapping("input_tensors")
    if weight is None:
        return "bf16"
    kind, taken = str(weight.data.get("dtype")), str(inputs.data.get("dtype")) if inputs else None
    if kind == "fp8_e4m3":
        return "fp8" if taken == kind else "fp8-wo"
    if kind in ("int8", "uint8"):
        return "int8" if taken == "int8" else "int8-wo"
    if kind in ("fp4", "mxfp4") and weight.integer("group_size", 32) == 32:
        return {None: "mxfp4", "fp4": "mxfp4-a4", "mxfp4": "mxfp4-a4", "fp8_e4m3": "mxfp4-a8"}.get(taken, "mxfp4-a8")
    if kind in ("int4", "uint4"):
        group = weight.integer("group_size", 0, low=-1)
        form = "int4" if group < 1 else f"int4-g{group}-sym" if kind == "int4" else f"awq-g{group}"
        return form if taken is None else f"{form}-a8"
    raise weight.bad("dtype", "fp8_e4m3, int8, int4, uint4, or fp4 in groups of 32")


def _mlx(q: Keys) -> _Scheme:
    """MLX quantises embedding and LM head too; modules of their own bits, or none, are keys beside `bits`."""

    def form(part: Keys) -> str:
        bits, group = part.integer("bits", low=2, high=8), part.integer("group_size", high=9999)
        mode = part.data.get("mode") or "affine"
        if (mode, bits, group) in (("mxfp4", 4, 32), ("nvfp4", 4, 16), ("mxfp8", 8, 32)):
            return mode if mode == "mxfp4" else f"{mode}-wo"
        if mode != "affine":
            raise part.bad("mode", "affine, mxfp4, nvfp4 or mxfp8")
        return f"int{bits}-g{group}"

    whole = form(q)
    own = {
        _short(m): form(part) if (part := q.mapping(m)) else "bf16" for m, v in q.data.items() if isinstance(v, dict)
    }
    own |= {_short(m): "bf16" for m, v in q.data.items() if v is False}
    return _Scheme(whole, own, lm_head=whole, embedding=own.get("embed_tokens", whole))


def _pattern(text: str) -> re.Pattern[str]:
    """A module's name in which ``*`` stands for anything."""
    return re.compile(re.escape(text).replace(r"\*", ".*") + r"(?=\.|$)")


def _compressed(q: Keys) -> _Scheme:
    """compressed-tensors: groups of targets, each ``Linear`` or modules by name or ``re:``."""
    groups = q.mapping("config_groups")
    if groups is None:
        raise q.bad("config_groups", "a mapping of groups")
    default, named, matched = "bf16", dict[str, str](), list[tuple[re.Pattern[str], str]]()
    for name in groups.data:
        group = groups.mapping(name)
        if group is None:
            continue
        form = _group(group)
        for target in group.strings("targets"):
            if target == "Linear":
                default = form
            elif target.startswith("re:"):
                try:
                    matched.append((re.compile(target[3:]), form))
                except re.error:
                    raise group.bad("targets", "['Linear'], names of modules or regular expressions") from None
            else:
                named[_short(target)] = form
    return _Scheme(default, named, _kept(q, "ignore"), tuple(matched))


def _group(group: Keys) -> str:
    """Format of one group of compressed-tensors, from bits and type of weights and inputs."""
    weights = group.mapping("weights")
    if weights is None:
        return "bf16"
    bits, kind = weights.integer("num_bits"), weights.data.get("type", "int")
    size = weights.integer("group_size", 0, low=-1)
    inputs = group.mapping("input_activations")
    weight_only = inputs is None
    if (bits, kind) == (8, "float"):
        name = "mxfp8" if size == 32 else "fp8-block" if weights.data.get("block_structure") else "fp8"
    elif (bits, kind) == (8, "int"):
        name = "int8"
    elif (bits, kind, size) == (4, "float", 16):
        name = "nvfp4-a8" if inputs and inputs.data.get("num_bits") == 8 else "nvfp4"
    elif (bits, kind, size) == (4, "float", 32):
        return "mxfp4" if weight_only else "mxfp4-a8"
    elif (bits, kind) == (4, "int"):
        zero = "" if weights.flag("symmetric", True) else "awq"
        form = "int4" if size < 1 else f"awq-g{size}" if zero else f"int4-g{size}-sym"
        return form if weight_only else f"{form}-a8"
    else:
        raise weights.bad("num_bits", "8 (int, float) or 4 (int, float in groups of 16 or 32)")
    return f"{name}-wo" if weight_only else name


def _modelopt(q: Keys) -> _Scheme:
    """ModelOpt, in the form of ``config.json`` or of ``hf_quant_config.json``."""
    kept = _kept(q, "exclude_modules", "ignore")
    algorithm = q.data.get("quant_algo")
    if algorithm == _MIXED:
        table = q.mapping("quantized_layers")
        if table is None:
            raise q.bad("quantized_layers", "a mapping of modules to formats")
        named = {_short(module): _algorithm(entry) for module in table.data if (entry := table.mapping(module))}
        return _Scheme("bf16", named, kept)
    return _Scheme(_algorithm(q), kept=kept)


def _algorithm(q: Keys) -> str:
    name = str(q.data.get("quant_algo")).upper()
    if name not in _MODELOPT:
        raise q.bad("quant_algo", f"one of {', '.join((*_MODELOPT, _MIXED))}")
    return _MODELOPT[name]


def _kv(q: Keys) -> str | None:
    """KV format of a checkpoint with scales for it; engines take it by default (vLLM, utils/torch_utils.py)."""
    name = q.data.get("kv_cache_quant_algo")
    if isinstance(scheme := q.data.get("kv_cache_scheme"), dict):
        name = {8: "FP8", 4: "NVFP4"}.get(scheme.get("num_bits", 0)) if scheme.get("type") == "float" else None
    elif isinstance(scheme, str):
        name = scheme
    return {"FP8": "fp8", "NVFP4": "nvfp4"}.get(str(name).upper())


def _kept(q: Keys, *lists: str) -> re.Pattern[str] | None:
    """What matches a module that one of the lists names: by path, by part of a path, with ``*`` or as ``re:``."""
    ways = []
    for key, pattern in dict.fromkeys((name, p) for name in lists for p in q.strings(name)):
        if pattern.startswith("re:"):
            way = pattern[3:].removeprefix("^")
        elif pattern.endswith(("norm", "bias")):
            continue
        else:
            short = _short(pattern)
            start = "^" if short.startswith("layers.") else r"(?:^|\.)"
            way = start + re.escape(short).replace(r"\*", ".*") + r"(?=\.|$)"
        try:
            re.compile(way)
        except re.error:
            raise q.bad(key, f"a list of module names or regular expressions, not {pattern[:40]!r}") from None
        ways.append(way)
    return re.compile("|".join(ways), re.MULTILINE) if ways else None


def _short(module: str) -> str:
    """A module's path from ``layers`` on."""
    return re.sub(r"^(?:(?:model|language_model|text_model|transformer|backbone)\.)+", "", module)


def _owners(module: str) -> Iterator[str]:
    """The modules that a module is part of, nearest first."""
    while "." in module:
        module = module.rpartition(".")[0]
        yield module
