"""Number formats: the bytes of a value, and the number format in which a device computes with it."""

import re

from perfmodel.errors import unknown_name
from perfmodel.immutable import Immutable
from perfmodel.specs.models.ggml import BLOCKS


class Format(Immutable):
    """A number format.

    - name: the name that users write.
    - bytes_per_value: stored bytes per value, including block scales.
    - compute: the format in which a GEMM computes. It determines the device peak.
    - input_bytes: bytes of one activation value, if a kernel quantises the input of the GEMM first. It is
      None if no kernel quantises the input.
    """

    name: str
    bytes_per_value: float
    compute: str
    input_bytes: float | None = None

    @property
    def packed(self) -> bool:
        """Whether a GEMM must unpack the stored weights to 16 bits before it computes."""
        return self.compute == "bf16" and self.bytes_per_value < 2.0

    @property
    def weight_only(self) -> "Format":
        """The format with the same weights whose GEMMs compute in bf16."""
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


def block_format(name: str) -> Format:
    """The format of a tensor in a GGUF file, by its name."""
    _, values, size = BLOCKS[name]
    return Format(name, size / values, "bf16")


KV_FORMATS = {
    name: Format(name, WEIGHT_FORMATS[name].bytes_per_value, "fp32" if name == "fp32" else "bf16")
    for name in ("fp32", "bf16", "fp16", "fp8", "int8", "nvfp4", "int4")
} | {name: block_format(name) for name in ("q8_0", "q5_1", "q5_0", "iq4_nl", "q4_1", "q4_0")}
_ENGINES_KV = {"fp8_e4m3": "fp8", "fp8_e5m2": "fp8", "bfloat16": "bf16", "float16": "fp16"}
"""The format that a word of vLLM and SGLang for ``--kv-cache-dtype`` means."""


def kv_format(name: str, flag: str = "--kv-dtype") -> Format:
    """The KV-cache format with this name. Attention computes in bf16, or in fp32 for an fp32 cache. Raises
    InputError for an unknown name.
    """
    word = name.strip().lower()
    key = _ENGINES_KV.get(word, word)
    if key not in KV_FORMATS:
        raise unknown_name(flag, "KV format", name, KV_FORMATS)
    return KV_FORMATS[key]
