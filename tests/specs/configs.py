"""Config files as they were published, and the tables that the reader is held to."""

import json
from pathlib import Path
from typing import Any

from perfmodel.specs import ModelSpec

Config = dict[str, Any]
FOLDER = Path(__file__).parent
DESCRIPTIVE = {"name", "title", "hf_id", "aliases", "model_type", "published", "source", "notes", "mtp_head"}


def table(name: str) -> Any:
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))


def sizes(*given: int) -> Config:
    """Of layers, hidden state, heads, KV heads, MLP, vocabulary and positions."""
    names = (
        "num_hidden_layers",
        "hidden_size",
        "num_attention_heads",
        "num_key_value_heads",
        "intermediate_size",
        "vocab_size",
        "max_position_embeddings",
    )
    return dict(zip(names, given, strict=True))


def page(value: Any, unit: str) -> Config:
    """A quantity of a device, as a file states it."""
    return {"value": value, "unit": unit, "source": "a page"}


DEVICE: Config = {
    "name": "mine",
    "title": "Mine",
    "vendor": "me",
    "architecture": "x",
    "calibration": "ideal",
    "memory": page(1.0, "GB"),
    "memory_bandwidth": page(1.0, "TB/s"),
    "peak": {"bf16": page(1, "TFLOP/s")},
}


def shape(spec: ModelSpec) -> Config:
    return {k: v for k, v in spec.as_mapping().items() if k not in DESCRIPTIVE | {"rope_scaling"}}


PUBLISHED: dict[str, tuple[str, Config]] = {
    f: (e["name"], e["config"]) for f, e in table("family_configs").items()
}
"""Family -> a bundled model and its published config file, which must give it."""
LLAMA, DEEPSEEK_V3 = (PUBLISHED[name][1] for name in ("llama", "deepseek_v3"))
TABLE: dict[str, Config] = table("published_configs")
"""Newer bundled models -> the fewest keys of published files from which the reader gets each, with their
sources.
"""
