"""Reads a model from a user's file: a YAML file of this program, a ``config.json`` or a ``.gguf`` file."""

from pathlib import Path

from perfmodel.errors import about_file
from perfmodel.reading import is_file
from perfmodel.specs.boundary import files
from perfmodel.specs.models.model import ModelSpec
from perfmodel.specs.models.names import aliases, load_bundled, shape_for

SAME_SHAPE = ("num_hidden_layers", "hidden_size", "num_attention_heads", "vocab_size")
"""Fields in which a GGUF file and the bundled model that it names must agree."""
OF_FILE = ("weights", "max_position_embeddings", "source")
"""Fields that come from the file even if the bundled model is used."""


def read_model(path: Path) -> ModelSpec:
    """Reads the model of a file. Raises InputError, which names the file and its error."""
    with about_file(path):
        if path.suffix == ".gguf":
            return _of_gguf(path)
        return _of_mapping(path)


def _of_mapping(path: Path) -> ModelSpec:
    """The model of a YAML file or of a ``config.json``. If there is an ``hf_quant_config.json`` in the same
    folder, the formats come from this file.
    """
    data = files.read_mapping(path, infinity=True)
    if path.suffix != ".json" or {"name", "title", "source"} <= data.keys():
        return files.parse(ModelSpec, data, str(path))
    from perfmodel.specs.huggingface import from_config  # imported late

    beside = path.with_name(path.name.replace("config.json", "hf_quant_config.json"))
    has_beside = beside != path and is_file(beside)
    return from_config(data, str(path), files.read_mapping(beside) if has_beside else None)


def _of_gguf(path: Path) -> ModelSpec:
    """The model of a ``.gguf`` file. If the file names a bundled model with the same shape, the result is the
    bundled model in the formats of the file.
    """
    from perfmodel.specs.gguf.shape import from_gguf  # imported late

    spec, names = from_gguf(path)
    for name in names:
        known = _bundled(name)
        if known is None or any(getattr(known, field) != getattr(spec, field) for field in SAME_SHAPE):
            continue
        of_file = {field: getattr(spec, field) for field in OF_FILE}
        return known.replace(hf_id=name if "/" in name else known.hf_id, **of_file)
    return spec


def _bundled(name: str) -> ModelSpec | None:
    """The bundled model of a name in a file. The result is None if there is none."""
    listed = shape_for(files.spelling(name)) or files.spelling(name)
    bundled = aliases().get(listed, listed)
    return load_bundled(bundled) if bundled in files.bundled_names("models") else None
