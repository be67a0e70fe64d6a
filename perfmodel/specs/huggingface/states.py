"""Builds the mapping `linear_attention` of ModelSpec, which describes layers with a recurrent state instead
of a cache.
"""

from typing import Any

from perfmodel.specs.huggingface.keys import Fields, Keys
from perfmodel.specs.models.recurrent_kinds import STATE_FORMATS


def state_of(
    kind: str, layers: int, key: tuple[int, int], value: tuple[int, int], kernel: int, **more: Any
) -> Fields:
    """The mapping `linear_attention`.

    - key, value: number and width of the key heads, and of the value heads.
    """
    return {
        "kind": kind,
        "layers": layers,
        "num_key_heads": key[0],
        "key_head_dim": key[1],
        "num_value_heads": value[0],
        "value_head_dim": value[1],
        "conv_kernel": kernel,
        **more,
    }


def state_dtype(keys: Keys, key: str) -> str:
    """The number format of the recurrent state. By default it is fp32, as in published files."""
    value = keys.data.get(key, "float32")
    if value not in STATE_FORMATS:
        raise keys.bad(key, f"one of {', '.join(STATE_FORMATS)}")
    return STATE_FORMATS[value]
