"""The number formats of a checkpoint that a question names by its repository or by a folder."""

from pathlib import Path
from typing import NamedTuple

from perfmodel.reading import is_file
from perfmodel.specs.models.checkpoint_rows import listed_checkpoints
from perfmodel.specs.models.model_files import read_model

CONFIG = "config.json"


class StoredFormats(NamedTuple):
    """The formats that a checkpoint states.

    - kv_dtype: the format of the KV cache whose scales are in the checkpoint; bf16 without scales.
    """

    weights: str
    kv_dtype: str


def stored_formats(checkpoint: str) -> StoredFormats | None:
    """The formats of a listed checkpoint, or of a folder with a ``config.json``. The result is None for any
    other checkpoint, which may be on another machine. Raises InputError for a config that cannot be read.
    """
    for row in listed_checkpoints():
        if row.checkpoint == checkpoint:
            return StoredFormats(row.weights, row.kv_dtype)
    config = Path(checkpoint) / CONFIG
    if not is_file(config):
        return None
    model = read_model(config)
    return StoredFormats(model.weights, model.kv_dtype)
