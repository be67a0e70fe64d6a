"""Finds the formats of a checkpoint's modules. Each quantisation method has its own keys."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from perfmodel.specs.huggingface.keys import Keys
from perfmodel.specs.huggingface.names import perfmodel_names

_MODELOPT = perfmodel_names("modelopt")
_TORCHAO = perfmodel_names("torchao")
_MIXED = "MIXED_PRECISION"


@dataclass(frozen=True)
class Scheme:
    """The formats of a checkpoint's modules.

    - default: format of the linear modules in layers.
    - named: formats of modules by name.
    - kept: a pattern that matches the modules with 16 bits.
    - matched: patterns of module names, each with its format.
    - lm_head: format of the LM head.
    """

    default: str
    named: Mapping[str, str] = field(default_factory=dict)
    kept: re.Pattern[str] | None = None
    matched: tuple[tuple[re.Pattern[str], str], ...] = ()
    lm_head: str = "bf16"

    def of(self, module: str, default: str | None = None) -> str:
        """The format of one module.

        - module: name of the module, without the part before ``layers``.
        - default: format of a module that the file does not name. None means the scheme's default.
        """
        if self.kept and self.kept.search(
            f"{module}\nmodel.language_model.{module}\nlanguage_model.model.{module}"
        ):
            return "bf16"
        parts = module.split(".")
        for end in range(len(parts), 0, -1):  # the module, then the modules that contain it
            if (owner := ".".join(parts[:end])) in self.named:
                return self.named[owner]
        spelled = (module, f"model.{module}", f"model.language_model.{module}")
        for pattern, form in self.matched:
            if any(map(pattern.match, spelled)):
                return form
        return self.default if default is None else default


def scheme_of(q: Keys) -> Scheme:
    """The scheme of a `quantization_config`. The quantisation method determines how the configuration is
    read.
    """
    method = q.data.get("quant_method", "modelopt" if "quant_algo" in q.data else None)
    if str(method) not in _READERS:
        raise q.bad("quant_method", f"one of {', '.join(_READERS)}")
    return _READERS[str(method)](q)


def fp8(q: Keys) -> str:
    """The format of FP8 weights, with or without block scales."""
    if q.data.get("weight_block_size") is None:
        return "fp8"
    if q.data["weight_block_size"] != [128, 128]:
        raise q.bad("weight_block_size", "[128, 128] or null")
    return "fp8-block"


def _int4(q: Keys, method: str) -> str:
    """The format of AWQ, GPTQ and AutoRound weights."""
    bits = q.integer("bits" if "bits" in q.data else "w_bit")
    if bits not in (4, 8) or (bits == 8 and method == "awq"):
        raise q.bad("bits", "4" if method == "awq" else "4 or 8")
    if bits == 8:
        return "int8-wo"
    group = q.integer("group_size" if "group_size" in q.data else "q_group_size", low=-1, high=9999)
    return _grouped(group, q.flag("zero_point", True) if method == "awq" else not q.flag("sym", True))


def _grouped(group: int, zero: bool) -> str:
    """The format of 4-bit integers with a scale, and possibly a zero, for each group. Without a group size,
    there is one scale per column.
    """
    if group < 1:
        return "int4"
    return f"awq-g{group}" if zero else f"int4-g{group}-sym"


def _by_groups(q: Keys) -> Scheme:
    """Reads AWQ and GPTQ."""
    form = _int4(q, str(q.data["quant_method"]))
    return Scheme(form, kept=_kept(q), lm_head=form if q.flag("lm_head", False) else "bf16")


def _autoround(q: Keys) -> Scheme:
    """Reads Intel's AutoRound. It is like GPTQ, but `extra_config` lists modules with other numbers of
    bits.
    """
    if q.data.get("data_type", "int") != "int":
        raise q.bad("data_type", "int")
    form = _int4(q, "gptq")
    named = dict[str, str]()
    for module, own in q.parts("extra_config").items():
        if (bits := own.integer("bits", 4)) != q.integer("bits"):
            named[_short(module)] = "bf16" if bits == 16 else _int4(own, "gptq")
    return Scheme(form, named, lm_head=form if q.flag("quant_lm_head", False) else "bf16")


def _bitsandbytes(q: Keys) -> Scheme:
    """Reads bitsandbytes, with 4 or 8 bits."""
    if not q.flag("load_in_4bit", bool(q.data.get("_load_in_4bit"))):
        return Scheme("int8", kept=_kept(q))
    return Scheme("nf4-dq" if q.flag("bnb_4bit_use_double_quant", False) else "nf4", kept=_kept(q))


def _torchao(q: Keys) -> Scheme:
    """Reads torchao. The file has the name of a configuration, or a mapping with its fields under
    ``default``.
    """
    kind = q.data.get("quant_type")
    fields = q.mapping("quant_type_kwargs")
    if isinstance(kind, dict):
        default = (q.mapping("quant_type") or q).mapping("default")
        kind, fields = (default.data.get("_type"), default.mapping("_data")) if default else (None, None)
    key = str(kind).lower().replace("_", "").removesuffix("config")
    if key not in _TORCHAO:
        raise q.bad("quant_type", f"one of {', '.join(_TORCHAO)}")
    group = fields.integer("group_size", 128, high=9999) if fields else 128
    return Scheme(_TORCHAO[key].format(group=group), kept=_kept(q))


def _quark(q: Keys) -> Scheme:
    """Reads AMD's Quark. One configuration applies to all linear modules. Others apply to modules that match
    a pattern.
    """
    if (base := q.mapping("global_quant_config")) is None:
        raise q.bad("global_quant_config", "a mapping of weight and input_tensors")
    own = tuple(
        (
            re.compile(re.escape(name).replace(r"\*", ".*") + r"(?=\.|$)"),
            _quark_format(part),
        )  # * matches any text
        for name, part in q.parts("layer_quant_config").items()
    )
    return Scheme(_quark_format(base), kept=_kept(q), matched=own)


def _quark_format(part: Keys) -> str:
    """Format of AMD Quark's layers, from the types of weights and inputs. Raises InputError for other
    types.
    """
    weight = part.mapping("weight")
    inputs = part.mapping("input_tensors")
    if weight is None:
        return "bf16"
    kind = str(weight.data.get("dtype"))
    taken = str(inputs.data.get("dtype")) if inputs else None
    if kind == "fp8_e4m3":
        return "fp8" if taken == kind else "fp8-wo"
    if kind in ("int8", "uint8"):
        return "int8" if taken == "int8" else "int8-wo"
    if kind in ("fp4", "mxfp4") and weight.integer("group_size", 32) == 32:
        return {None: "mxfp4", "fp4": "mxfp4-a4", "mxfp4": "mxfp4-a4", "fp8_e4m3": "mxfp4-a8"}.get(
            taken, "mxfp4-a8"
        )
    if kind in ("int4", "uint4"):
        form = _grouped(weight.integer("group_size", 0, low=-1), kind == "uint4")
        return form if taken is None else f"{form}-a8"
    raise weight.bad("dtype", "fp8_e4m3, int8, int4, uint4, or fp4 in groups of 32")


def _compressed(q: Keys) -> Scheme:
    """Reads compressed-tensors. Each group has a format and targets. A target is ``Linear``, the name of a
    module, or a pattern that begins with ``re:``.
    """
    if q.mapping("config_groups") is None:
        raise q.bad("config_groups", "a mapping of groups")
    default = "bf16"
    named = dict[str, str]()
    matched = list[tuple[re.Pattern[str], str]]()
    for group in q.parts("config_groups").values():
        form = _group(group)
        for target in group.strings("targets"):
            if target == "Linear":
                default = form
            elif target.startswith("re:"):
                try:
                    matched.append((re.compile(target[3:]), form))
                except re.error:
                    raise group.bad(
                        "targets", "['Linear'], names of modules or regular expressions"
                    ) from None
            else:
                named[_short(target)] = form
    return Scheme(default, named, _kept(q), tuple(matched))


def _group(group: Keys) -> str:
    """The format of one group of compressed-tensors, from the bits and types of weights and inputs."""
    if (weights := group.mapping("weights")) is None:
        return "bf16"
    bits = weights.integer("num_bits")
    kind = weights.data.get("type", "int")
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
        form = _grouped(size, not weights.flag("symmetric", True))
        return form if weight_only else f"{form}-a8"
    else:
        raise weights.bad("num_bits", "8 (int, float) or 4 (int, float in groups of 16 or 32)")
    return f"{name}-wo" if weight_only else name


def modelopt(q: Keys) -> Scheme:
    """The scheme of a ModelOpt checkpoint, from its ``config.json`` or ``hf_quant_config.json``."""
    if q.data.get("quant_algo") == _MIXED:
        if q.mapping("quantized_layers") is None:
            raise q.bad("quantized_layers", "a mapping of modules to formats")
        named = {_short(module): _algorithm(entry) for module, entry in q.parts("quantized_layers").items()}
        return Scheme("bf16", named, _kept(q))
    return Scheme(_algorithm(q), kept=_kept(q))


def _algorithm(q: Keys) -> str:
    """The format that `quant_algo` of ModelOpt names."""
    name = str(q.data.get("quant_algo")).upper()
    if name not in _MODELOPT:
        raise q.bad("quant_algo", f"one of {', '.join((*_MODELOPT, _MIXED))}")
    return _MODELOPT[name]


def kv_of(q: Keys) -> str | None:
    """The KV format of a checkpoint with KV scales. Engines use it by default (vLLM, utils/torch_utils.py).
    The result is None for other checkpoints.
    """
    name = q.data.get("kv_cache_quant_algo")
    if isinstance(scheme := q.data.get("kv_cache_scheme"), dict):
        if scheme.get("type") == "float":
            name = {8: "FP8", 4: "NVFP4"}.get(scheme.get("num_bits", 0))
        else:
            name = None
    elif isinstance(scheme, str):
        name = scheme
    return {"FP8": "fp8", "NVFP4": "nvfp4"}.get(str(name).upper())


_LISTS = (
    "modules_to_not_convert",
    "ignored_layers",
    "ignore",
    "exclude",
    "exclude_modules",
    "llm_int8_skip_modules",
)
"""Keys of lists of modules that are not quantised."""


def _kept(q: Keys) -> re.Pattern[str] | None:
    """A pattern that matches the modules in the file's lists of unquantised modules. The result is None
    without such a module. An entry is the path of a module or a part of it, may contain ``*``, or is a
    pattern after ``re:``.
    """
    ways = []
    for key, pattern in dict.fromkeys((name, p) for name in _LISTS for p in q.strings(name)):
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
    """The path of a module, beginning with ``layers``."""
    return re.sub(r"^(?:(?:model|language_model|text_model|transformer|backbone)\.)+", "", module)


_READERS: dict[str, Callable[[Keys], Scheme]] = {
    "auto-round": _autoround,
    "awq": _by_groups,
    "bitsandbytes": _bitsandbytes,
    "compressed-tensors": _compressed,
    "fbgemm_fp8": lambda q: Scheme("fp8", kept=_kept(q)),
    "fp8": lambda q: Scheme(fp8(q), kept=_kept(q)),
    "gptq": _by_groups,
    **dict.fromkeys(("modelopt", "modelopt_fp4", "modelopt_mixed"), modelopt),
    "mxfp4": lambda q: Scheme("mxfp4", kept=_kept(q)),
    "quark": _quark,
    "torchao": _torchao,
}
"""The reader of each quantisation method."""
