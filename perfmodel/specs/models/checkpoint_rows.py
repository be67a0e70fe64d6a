"""The bundled table of checkpoints in other formats: ``models/checkpoints.csv``."""

from dataclasses import dataclass
from functools import cache

from perfmodel.reading import data_folder, read_rows


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A bundled model in other formats, listed in ``models/checkpoints.csv`` by its Hugging Face id.

    - source: where its formats are stated: its config.json, its model card or a log of a server that ran it.
    """

    checkpoint: str
    model: str
    weights: str
    kv_dtype: str
    source: str


@cache
def listed_checkpoints() -> tuple[Checkpoint, ...]:
    """The rows of ``models/checkpoints.csv``."""
    return read_rows(data_folder("models") / "checkpoints.csv", Checkpoint)
