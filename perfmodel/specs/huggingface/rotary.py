"""Reads the rotary position embeddings of a ``config.json`` into fields of ModelSpec."""

from typing import Any, get_args

from perfmodel.specs.huggingface.families import Family
from perfmodel.specs.huggingface.keys import NEEDED, Fields, Keys
from perfmodel.specs.models.components import MAX_TOKENS, RopeType

ORIGINAL = "original_max_position_embeddings"
"""Key of the longest context before the scaling."""
SHARE = "partial_rotary_factor"
"""Key of the share of a head's dimensions that have a rotary position."""
UNSCALED = ("default", "proportional", "mrope")
"""Types that keep the frequencies of `rope_theta`."""
FURTHER_KEYS = {
    "yarn": ("attention_factor", "beta_fast", "beta_slow", "truncate", "mscale", "mscale_all_dim"),
    "longrope": ("attention_factor", "short_factor", "long_factor"),
}
"""The optional keys of each type of scaling."""


def rotary(keys: Keys, family: Family, positions: int) -> Fields:
    """The fields `rope_theta`, `partial_rotary_factor` and `rope_scaling`. These fields are read from the old
    layout of the file, or from the newer `rope_parameters`.

    - positions: longest sequence of the model, in tokens.

    Raises InputError for an unknown type of scaling, and if keys of the type's rule are missing.
    """
    newer = keys.mapping("rope_parameters")
    if newer and "full_attention" in newer.data:
        newer = newer.mapping("full_attention")
    first = newer or keys
    fields: Fields = {
        "rope_theta": first.number("rope_theta", keys.number("rope_theta", family.rope_theta)),
        SHARE: first.number(SHARE, keys.number(SHARE, 1.0)),
    }
    scaling = newer or keys.mapping("rope_scaling")
    if scaling is None:
        return fields
    key = "rope_type" if "rope_type" in scaling.data else "type"
    rope_type = scaling.data.get(key, "default" if newer else None)
    if rope_type in UNSCALED:
        return fields
    rope_type = "longrope" if rope_type == "su" else rope_type
    if rope_type not in get_args(RopeType):
        raise scaling.bad(key, f"one of default, {', '.join(get_args(RopeType))}")
    return fields | {"rope_scaling": _rule(keys, scaling, rope_type, positions)}


def _rule(keys: Keys, scaling: Keys, rope_type: str, positions: int) -> dict[str, Any]:
    """The fields of `RopeScaling`.

    - scaling: the mapping of the file that states them.
    """
    is_llama3 = rope_type == "llama3"
    original = keys.integer(ORIGINAL, positions, high=MAX_TOKENS)
    original = scaling.integer(ORIGINAL, NEEDED if is_llama3 else original, high=MAX_TOKENS)
    usual_factor = positions / original if rope_type == "longrope" else NEEDED
    rule: dict[str, Any] = {
        "rope_type": rope_type,
        "factor": scaling.number("factor", usual_factor),
        ORIGINAL: original,
    }
    if is_llama3:
        rule |= {name: scaling.number(name) for name in ("low_freq_factor", "high_freq_factor")}
    for name in FURTHER_KEYS.get(rope_type, ()):
        value = scaling.data.get(name)
        if value or value is False:  # some files have 0 instead of null
            rule[name] = value
    return rule
