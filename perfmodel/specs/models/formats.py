"""Number formats: bytes per value, the peak that computes with it, and the format of each tensor."""

import re
from collections.abc import Collection

from perfmodel.errors import InputError, refuse, unknown_name
from perfmodel.immutable import Immutable
from perfmodel.specs.models.ggml import BLOCKS, MIXES, of_mix
from perfmodel.specs.models.mlx import MXFP4, of_bits


class Format(Immutable):
    """A number format.

    name: as the user writes it. bytes_per_value: storage, including block scales. compute: the device peak
    for a GEMM in this format. input_bytes: bytes of one activation value if a kernel quantises the GEMM's
    input first; None if not.
    """

    name: str
    bytes_per_value: float
    compute: str
    input_bytes: float | None = None

    @property
    def packed(self) -> bool:
        """True where a GEMM must unpack the stored weights to the 16 bits that it computes with."""
        return self.compute == "bf16" and self.bytes_per_value < 2.0

    @property
    def weight_only(self) -> "Format":
        """The same bytes, computed in bf16."""
        if self.input_bytes is None:
            return self
        name = re.sub("-a[48]$", "", self.name)
        return Format(name if name != self.name else f"{name}-wo", self.bytes_per_value, "bf16")


# Scales: fp8-block one fp32 per 128 x 128 weights and per 128 inputs (DeepSeek-V3, arXiv 2412.19437, 3.3.2);
# mx* one e8m0 byte per 32 (OCP Microscaling Formats 1.0); nvfp4 one fp8 per 16 (NVIDIA, "Introducing NVFP4",
# 2025); nf4 one fp32 per 64, or (-dq) a byte, and an fp32 per 256 of these (QLoRA, arXiv 2305.14314). Scales
# per row or per tensor are left out.
WEIGHT_FORMATS = {
    f.name: f
    for f in (
        Format("fp32", 4.0, "fp32"),
        Format("bf16", 2.0, "bf16"),
        Format("fp16", 2.0, "bf16"),
        Format("fp8", 1.0, "fp8", 1.0),
        Format("fp8-block", 1.0 + 4 / 128**2, "fp8", 1.0 + 4 / 128),
        Format("mxfp8", 1.0 + 1 / 32, "fp8", 1.0 + 1 / 32),
        Format("int8", 1.0, "int8", 1.0),
        Format("nvfp4", 0.5 + 1 / 16, "fp4", 0.5 + 1 / 16),
        Format("mxfp4", 0.5 + 1 / 32, "bf16"),
        Format("mxfp4-a8", 0.5 + 1 / 32, "fp8", 1.0 + 1 / 32),
        Format("mxfp4-a4", 0.5 + 1 / 32, "fp4", 0.5 + 1 / 32),
        Format("int4", 0.5, "bf16"),
        Format("nf4", 0.5 + 4 / 64, "bf16"),
        Format("nf4-dq", 0.5 + 1 / 64 + 4 / (64 * 256), "bf16"),
    )
}


def _of_block(name: str) -> Format:
    """A format of the tensors in a GGUF file."""
    _, values, size = BLOCKS[name]
    return Format(name, size / values, "bf16")


KV_FORMATS = {
    name: Format(name, WEIGHT_FORMATS[name].bytes_per_value, "fp32" if name == "fp32" else "bf16")
    for name in ("fp32", "bf16", "fp16", "fp8", "int8", "nvfp4", "int4")
} | {name: _of_block(name) for name in ("q8_0", "q5_1", "q5_0", "iq4_nl", "q4_1", "q4_0")}
_GROUP_BYTES = {"int": 4.0, "awq": 2.5, "int-sym": 2.0}
"""Bytes per group of weights: a 16-bit scale, and a zero of 16 bits (gpt-fast, MLX), of 4 bits (AWQ, GPTQ),
or none.
"""
_GROUPED = re.compile(r"(?P<method>int|awq)(?P<bits>[2-8])?-g(?P<size>[1-9]\d{0,3})(?P<symmetric>-sym)?")
"""``intBITS-gSIZE`` or ``awq-gSIZE``."""
_ENGINES_KV = {"fp8_e4m3": "fp8", "fp8_e5m2": "fp8", "bfloat16": "bf16", "float16": "fp16"}
"""Words of vLLM and SGLang for ``--kv-cache-dtype`` -> the format."""
_SHORT = {
    **dict.fromkeys(("awq", "awq-int4", "awq-4bit"), "awq-g128"),
    **dict.fromkeys(
        ("gptq", "gptq-int4", "gptq-4bit", "w4a16", "autoround", "int4-autoround"), "int4-g128-sym"
    ),
    "w8a8": "int8",
    "w8a16": "int8-wo",
    "bfloat16": "bf16",
    **dict.fromkeys(("float16", "half", "f16"), "fp16"),
    **dict.fromkeys(("float32", "float", "f32"), "fp32"),
}
"""Words of checkpoints, engines and users -> the format. GPTQ, AutoRound and compressed-tensors' W4A16 have
groups of 128 and no zero unless a checkpoint states another one.
"""
_SHOWN = (
    *WEIGHT_FORMATS,
    "fp8-wo",
    "nvfp4-wo",
    "int4-g128",
    "int4-g128-sym",
    "awq-g128",
    "4bit",
    "8bit",
    MXFP4,
    *MIXES,
)

PARTS = {
    "attention": ("qkv", "o", "qkv_down", "q_up", "o_down"),
    "indexer": ("index_q",),
    "recurrent": ("state_in", "state_out"),
    "mlp": ("gate_up", "down"),
    "shared": ("shared_gate_up", "shared_down", "latent_in", "latent_out"),
    "experts": ("experts",),
    "router": ("router",),
    "latent": ("absorb_k", "absorb_v"),
    "index_k": ("index_k",),
    "compress": ("compress",),
    "streams": ("streams",),
    "lm_head": ("lm_head",),
    "embedding": ("embedding",),
    "mtp": ("mtp",),
}
"""Part of a model -> its GEMMs, with the names of `perfmodel ops`."""
KEPT = ("router", "latent", "index_k", "compress", "streams", "lm_head", "embedding")
"""Parts that stay at 16 bits unless they are named.

Checkpoints leave out router, LM head and embedding. vLLM holds the up-projections of a latent and the keys of
an indexer in bf16 regardless of their stored format (model_executor/layers/attention/mla_attention.py,
models/deepseek_v2.py).
"""
_PART_OF = {tensor: part for part, tensors in PARTS.items() for tensor in tensors}


def _format(name: str, flag: str) -> Format:
    """One format, or ``A*3+B*75``: a GEMM that is A in 3 layers and B in 75. It runs as most of its layers
    do.
    """
    if "+" in name:
        return _mixed(name, flag)
    key = _SHORT.get(name, name)
    if key.endswith("-a8") and key not in WEIGHT_FORMATS:
        weights = _format(key.removesuffix("-a8"), flag).weight_only
        return Format(key, weights.bytes_per_value, "fp8", 1.0)
    grouped = _grouped(key)
    if grouped is not None:
        return grouped
    quantised = WEIGHT_FORMATS.get(key.removesuffix("-wo"))
    if quantised and key.endswith("-wo") and quantised.input_bytes is not None:
        return quantised.weight_only
    if key in BLOCKS and key not in WEIGHT_FORMATS:
        return _of_block(key)
    mean_bits = re.fullmatch(r"([1-9]\d?(?:\.\d{1,4})?)bpw", key)
    if mean_bits:
        return Format(key, float(mean_bits[1]) / 8, "bf16")
    if key.startswith("ud-"):
        raise refuse(
            flag, None, "the file (--model FILE.gguf) or its mean (as 4.9bpw): this mix differs", name
        )
    if key not in WEIGHT_FORMATS:
        from perfmodel.specs.boundary.unlisted import (  # only a refusal needs it
            refuse_unlisted,
            unlisted_names,
        )

        refuse_unlisted(flag, name, unlisted_names().weight_formats)
        raise unknown_name(flag, "weight format", name, _SHOWN)
    return WEIGHT_FORMATS[key]


def _mixed(name: str, flag: str) -> Format:
    """A format whose parts are in some layers each: their mean size, at the peak of most layers."""
    formats = [(_format(form, flag), layers) for form, layers in _shares(name, flag)]
    usual, _ = max(formats, key=lambda share: share[1])
    all_layers = sum(layers for _, layers in formats)
    size = sum(form.bytes_per_value * layers for form, layers in formats) / all_layers
    return Format(name, size, usual.compute, usual.input_bytes)


def _grouped(key: str) -> Format | None:
    """Integers with a scale per group, such as ``int4-g128-sym``; None for another word."""
    word = _GROUPED.fullmatch(key)
    if word is None or (word["method"] == "int") != (word["bits"] is not None):
        return None
    scale_bytes = _GROUP_BYTES.get(word["method"] + (word["symmetric"] or ""))
    if scale_bytes is None:
        return None
    bits = int(word["bits"] or 4)
    return Format(key, bits / 8 + scale_bytes / int(word["size"]), "bf16")


def _shares(name: str, flag: str = "--weights") -> list[tuple[str, int]]:
    """Formats of a mixed one, and the number of layers of each."""
    shares = []
    for part in name.split("+"):
        form, _, layers = part.partition("*")
        if not re.fullmatch(r"[1-9]\d{0,4}", layers):
            raise refuse(flag, None, "FORMAT, or FORMAT*LAYERS+FORMAT*LAYERS where layers differ", name)
        shares.append((form, int(layers)))
    return shares


class Weights(Immutable):
    """Formats of all matrices of a model: `base` for its layers, and separate ones for parts or single GEMMs.

    given: the spelling of the user, if it names a mix of formats.
    """

    base: Format
    own: tuple[tuple[str, Format], ...] = ()
    given: str = ""

    def of(self, tensor: str) -> Format:
        """Format of one GEMM: its own, else that of its part, else 16 bits if that is usual for the part,
        else that of the layers.
        """
        named = dict(self.own)
        part = _PART_OF.get(tensor, tensor)
        for name in (tensor, part):
            if name in named:
                return named[name]
        if part in KEPT and self.base.bytes_per_value < 2.0:
            return WEIGHT_FORMATS["bf16"]
        return self.base

    @property
    def name(self) -> str:
        """The spelling that `weight_format` reads."""
        spelled = ",".join([self.base.name, *(f"{tensor}={form.name}" for tensor, form in self.own)])
        return self.given or spelled

    @property
    def computes(self) -> tuple[str, ...]:
        """Peaks at which its GEMMs run, the layers' first."""
        return tuple(dict.fromkeys([self.base.compute, *(form.compute for _, form in self.own)]))

    def within(self, peaks: Collection[str], wide_mxfp4: bool = False) -> "Weights":
        """The same bytes as a device with these peaks runs them: weight-only if it has no peak for the
        format.

        wide_mxfp4: whether MXFP4 experts keep 16-bit activations where the device has an fp4 peak.
        """
        own = tuple((tensor, _on_device(form, peaks, wide_mxfp4)) for tensor, form in self.own)
        return Weights(_on_device(self.base, peaks, wide_mxfp4), own, self.given if own == self.own else "")


BF16 = Weights(WEIGHT_FORMATS["bf16"])
"""Every matrix in bf16."""


def _on_device(form: Format, peaks: Collection[str], wide_mxfp4: bool = False) -> Format:
    if "+" in form.name:
        shares = (
            (_on_device(_format(name, ""), peaks, wide_mxfp4).name, layers)
            for name, layers in _shares(form.name)
        )
        return _format("+".join(f"{name}*{layers}" for name, layers in shares), "")
    if form.name == "mxfp4" and "fp4" in peaks and not wide_mxfp4:
        # most engines run gpt-oss's experts on 8-bit activations on Blackwell
        return WEIGHT_FORMATS["mxfp4-a8"]
    return form if form.compute in peaks else form.weight_only


def weight_format(name: str, flag: str = "--weights") -> Weights:
    """``FORMAT[,PART=FORMAT...]``: the format of the layers' matrices, and of parts (`PARTS`) or single
    GEMMs.

    ``fp8``, ``fp8-block`` (128 x 128), ``mxfp8``, ``int8``, ``nvfp4`` and ``mxfp4-a8`` quantise activations
    too and run at that peak. With ``-wo`` they are weight-only and compute in bf16. So do ``mxfp4``,
    ``int4``, ``int4-gN`` (a 16-bit scale and zero per N weights; any of 2 to 8 bits), ``int4-gN-sym`` (a
    scale), ``awq-gN`` (scale and 4-bit zero), ``nf4`` and ``nf4-dq`` (bitsandbytes). Any of these with
    ``-a8`` runs on 8-bit activations. ``q4_k_m`` is a file of llama.cpp (`ggml.MIXES`), ``4.9bpw`` one with
    that many bits per weight; ``4bit`` or ``8bit-g32`` is a checkpoint of MLX (`mlx.of_bits`). A format of
    its tensors (``q4_k``) is weight-only. Parts of `KEPT` stay at 16 bits unless they are named. ``A*3+B*75``
    is A in 3 layers and B in 75. Raises InputError for an unknown name.
    """
    parts = [part.strip().lower() for part in name.split(",")]
    mix = of_mix(parts[0]) or of_bits(parts[0])
    base, *mixed = (mix or parts[0]).split(",")
    own = _part_formats(mixed, name, flag) | _part_formats(parts[1:], name, flag)
    return Weights(_format(base, flag), tuple(own.items()), ",".join(parts) if mix else "")


def _part_formats(parts: list[str], name: str, flag: str) -> dict[str, Format]:
    """The formats of ``PART=FORMAT``."""
    own: dict[str, Format] = {}
    for text in parts:
        tensor, equals, form = (part.strip() for part in text.partition("="))
        if not equals or (tensor not in PARTS and tensor not in _PART_OF):
            raise refuse(
                flag,
                None,
                f"FORMAT[,PART=FORMAT...], PART one of {', '.join(PARTS)} or a GEMM of `perfmodel ops`",
                name,
            )
        if tensor in own:
            raise InputError(f"{flag}: {tensor} is given twice")
        own[tensor] = _format(form, flag)
    return own


def kv_format(name: str, flag: str = "--kv-dtype") -> Format:
    """A KV-cache format. Attention itself computes in bf16 (fp32 for an fp32 cache)."""
    word = name.strip().lower()
    key = _ENGINES_KV.get(word, word)
    if key not in KV_FORMATS:
        raise unknown_name(flag, "KV format", name, KV_FORMATS)
    return KV_FORMATS[key]


class Precision(Immutable):
    """Formats of one model's weights and cache. Activations are bf16, or fp32 with fp32 weights.

    index_compute: peak at which an indexer's scores run.
    """

    weights: Weights
    kv: Format
    index_compute: str = "bf16"

    @property
    def activation_bytes(self) -> float:
        """Bytes of one activation value."""
        return 4.0 if self.weights.base.compute == "fp32" else 2.0

    @property
    def narrow_kv(self) -> bool:
        """Whether values of the cache have less than 16 bits, for which engines have other kernels."""
        return self.kv.bytes_per_value < 2.0

    @property
    def attention_compute(self) -> str:
        """Peak at which attention runs."""
        return "fp32" if self.weights.base.compute == "fp32" else self.kv.compute
