"""Finds the kind of draft head that a ``config.json`` describes."""

from collections.abc import Mapping
from typing import Any

_NAMED = ("dspark", "dflash", "dflare", "domino", "eagle")
"""Kinds whose name is part of the class name of the head. The first match is used."""
_MASKS = ("ptd_token_id", "pard_token", "mask_token_id")
"""Keys of an EAGLE head that drafts all of its tokens in one pass over masks (vLLM, spec_decode)."""


def kind_of_head(config: Mapping[str, Any]) -> str | None:
    """The kind of a draft head: dspark, dflash, dflash2, dflare, domino, peagle or eagle. The result is None
    for a whole model.
    """
    classes = _classes(config)
    kind = _named_kind(classes, config)
    if kind == "dflash":
        return _kind_of_block(config)
    if kind == "eagle":
        masked = "peagle" in classes or any(config.get(key) is not None for key in _MASKS)
        return "peagle" if masked else "eagle"
    return kind


def _classes(config: Mapping[str, Any]) -> str:
    """The names of the classes that read the file, in lower case."""
    architectures = config.get("architectures")
    names = [config.get("speculators_model_type")]
    if isinstance(architectures, list):
        names += architectures
    return " ".join(name.lower() for name in names if isinstance(name, str))


def _named_kind(classes: str, config: Mapping[str, Any]) -> str | None:
    """The kind according to the names of classes, or else according to keys that only one kind has."""
    for kind in _NAMED:
        if kind in classes:
            return kind
    if {"block_size", "target_layer_ids"} <= config.keys():
        return "dflash"
    return "eagle" if "draft_vocab_size" in config else None


def _kind_of_block(config: Mapping[str, Any]) -> str:
    """The kind of a head with DFlash's layers. DFlash2 also has a selector, and Domino has corrections."""
    block = config.get("dflash_config")
    if not isinstance(block, dict):  # the reader of the head refuses such a file
        return "dflash"
    if "selector_rank" in block:
        return "dflash2"
    return "domino" if block.get("projector_type") == "domino" else "dflash"
