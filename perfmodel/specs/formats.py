"""Number formats: how many bytes a value takes and which tensor-core peak computes with it."""

import re
from dataclasses import dataclass

from perfmodel.errors import unknown_name


@dataclass(frozen=True, slots=True)
class Format:
    """A number format.

    name: as the user writes it. bytes_per_value: storage, scales included where the name says a group size.
    compute: the device peak that a GEMM on it runs at.
    """

    name: str
    bytes_per_value: float
    compute: str

    @property
    def packed(self) -> bool:
        """True where a GEMM must unpack the stored weights to the 16 bits that it computes with."""
        return self.compute == "bf16" and self.bytes_per_value < 2.0


WEIGHT_FORMATS = {
    f.name: f
    for f in (
        Format("fp32", 4.0, "fp32"),
        Format("bf16", 2.0, "bf16"),
        Format("fp16", 2.0, "bf16"),
        Format("fp8", 1.0, "fp8"),
        Format("int8", 1.0, "int8"),
        Format("fp8-wo", 1.0, "bf16"),
        Format("int8-wo", 1.0, "bf16"),
        Format("int4", 0.5, "bf16"),
        Format("mxfp4", 4.25 / 8, "bf16"),
    )
}
KV_FORMATS = {
    f.name: f
    for f in (
        Format("fp32", 4.0, "fp32"),
        Format("bf16", 2.0, "bf16"),
        Format("fp16", 2.0, "bf16"),
        Format("fp8", 1.0, "bf16"),
        Format("int8", 1.0, "bf16"),
        Format("int4", 0.5, "bf16"),
    )
}


def weight_format(name: str, flag: str = "--weights") -> Format:
    """A weight format. ``-wo`` is weight-only (computes in bf16); ``int4-gN`` adds a bf16 scale and zero per N weights.

    ``fp8`` and ``int8`` quantise activations too and run at that peak. Raises InputError for an unknown name.
    """
    key = name.strip().lower()
    if group := re.fullmatch(r"int4-g([1-9]\d{0,3})", key):
        return Format(key, 0.5 + 4.0 / int(group[1]), "bf16")
    if key not in WEIGHT_FORMATS:
        raise unknown_name(flag, "weight format", name, [*WEIGHT_FORMATS, "int4-g32"])
    return WEIGHT_FORMATS[key]


def kv_format(name: str, flag: str = "--kv-dtype") -> Format:
    """A KV-cache format; attention itself computes in bf16 (fp32 for an fp32 cache)."""
    key = name.strip().lower()
    if key not in KV_FORMATS:
        raise unknown_name(flag, "KV format", name, KV_FORMATS)
    return KV_FORMATS[key]


@dataclass(frozen=True, slots=True)
class Precision:
    """Formats of one model's weights and cache. Activations are bf16, or fp32 beside fp32 weights."""

    weights: Format
    kv: Format

    @property
    def activation_bytes(self) -> float:
        """Bytes of one activation value."""
        return 4.0 if self.weights.compute == "fp32" else 2.0

    @property
    def attention_compute(self) -> str:
        """Peak that attention runs at."""
        return "fp32" if self.weights.compute == "fp32" else self.kv.compute
