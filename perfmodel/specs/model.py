"""Finding a model's shape: bundled by name or alias, or read from a file of one's own."""

import os
from functools import cache
from pathlib import Path

from perfmodel.specs import files
from perfmodel.specs.shape import MLA, ModelSpec, MoE, RopeScaling

__all__ = ["MLA", "ModelSpec", "MoE", "RopeScaling", "aliases", "load_bundled", "load_model"]


@cache
def aliases() -> dict[str, str]:
    """Alias and Hugging Face id (lower case) -> bundled name."""
    table: dict[str, str] = {}
    for name in files.bundled_names("models"):
        model = load_bundled(name)
        for alias in (*model.aliases, model.hf_id or name):
            table[alias.lower()] = name
    return table


@cache
def load_bundled(name: str) -> ModelSpec:
    """A bundled model by its exact name."""
    path = files.data_directory("models") / f"{name}.yaml"
    return files.parse(ModelSpec, files.read_mapping(path), str(path))


def load_model(name: str, flag: str = "--model") -> ModelSpec:
    """A model by bundled name, alias, Hugging Face id, YAML path, ``config.json`` path or a folder that holds one.

    Raises InputError naming what is unknown or missing.
    """
    key = name.strip().lower()
    if key in files.bundled_names("models"):
        return load_bundled(key)
    path = Path(name)
    if os.path.isdir(name):
        return _read(path / "config.json")
    if name.endswith((".json", ".yaml", ".yml")) or (files.looks_like_path(name) and os.path.isfile(name)):
        return _read(path)
    return load_bundled(files.bundled_path("models", "model", name, flag, aliases()).stem)


def _read(path: Path) -> ModelSpec:
    data = files.read_mapping(path)
    if path.suffix != ".json" or {"name", "title", "source"} <= data.keys():
        return files.parse(ModelSpec, data, str(path))
    from perfmodel.specs.huggingface import from_config  # most questions name a bundled model

    return from_config(data, str(path))
