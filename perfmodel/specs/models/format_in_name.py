"""Reads the weight format from the name of a checkpoint that no table lists, such as
``nvidia/Llama-3.3-70B-Instruct-FP8``.
"""

import re

from perfmodel.immutable import Immutable

_NAME = re.compile(
    r"""
    (?P<model>.+?)
    [-.](?:quantized\.)?                               # RedHatAI writes -quantized.w4a16
    (?P<format>
        fp8-block | fp8 | mxfp8 | nvfp4 | fp4 | mxfp4-q8 | mxfp4
        | awq | gptq-(?:int8|8bit) | gptq | int4 | w4a16 | int8 | w8a8
        | [2-8]bit                                     # of MLX
    )
    (?:-(?:dynamic|int4|4bit|(?P<sym>sym)))?           # FP8-dynamic, AWQ-INT4, AWQ-4bit, int4-sym
    """,
    re.VERBOSE,
)
"""A name that ends with a format in one of its usual spellings."""
_MEANT = {
    "fp4": "nvfp4",
    "int4": "int4-g128",
    "w4a16": "int4-g128-sym",
    "w8a8": "int8",
    "gptq-8bit": "int8-g128-sym",
    "gptq-int8": "int8-g128-sym",
}
"""The format that a word in the name of a checkpoint means, if the two differ."""
_SCALES_CACHE = ("nvidia/", "unsloth/")
"""Owners whose NVFP4 checkpoints contain the scales of an FP8 cache. Engines then use such a cache.

Sources: NVIDIA ModelOpt, kv_cache_quant_algo; vLLM's log of unsloth/Qwen3.8-27B-NVFP4. The checkpoints of
RedHatAI and Inferact have a 16-bit cache.
"""


class NamedCheckpoint(Immutable):
    """The facts that the name of a checkpoint states.

    - model: the name without the format.
    - kv_dtype: the KV format. None means the model's own KV format.
    """

    model: str
    weights: str
    kv_dtype: str | None

    @property
    def formats(self) -> dict[str, str]:
        """The formats as fields of `ModelSpec`."""
        if self.kv_dtype is None:
            return {"weights": self.weights}
        return {"weights": self.weights, "kv_dtype": self.kv_dtype}


def format_in_name(key: str) -> NamedCheckpoint | None:
    """The facts that a name in lower case states. The result is None if the name does not end with a
    format.
    """
    name = _NAME.fullmatch(key)
    if name is None:
        return None
    weights = _MEANT.get(name["format"], name["format"])
    if name["sym"] and weights == "int4-g128":
        weights = f"{weights}-sym"
    has_cache_scales = weights == "nvfp4" and key.startswith(_SCALES_CACHE)
    return NamedCheckpoint(name["model"], weights, "fp8" if has_cache_scales else None)
