"""The state that a layer keeps instead of a cache: the mapping `linear_attention` of ModelSpec."""

from typing import Any

from perfmodel.specs.huggingface.keys import Fields, Keys
from perfmodel.specs.models.recurrent_kinds import STATE_FORMATS


def state_of(
    kind: str, layers: int, key: tuple[int, int], value: tuple[int, int], kernel: int, **more: Any
) -> Fields:
    """The `linear_attention` mapping.

    - key, value: number of heads and their width.
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
    """Format of the recurrent state; by default fp32, as in published files."""
    value = keys.data.get(key, "float32")
    if value not in STATE_FORMATS:
        raise keys.bad(key, f"one of {', '.join(STATE_FORMATS)}")
    return STATE_FORMATS[value]
