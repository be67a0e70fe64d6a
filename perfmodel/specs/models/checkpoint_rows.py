"""The bundled table of quantised checkpoints, ``models/checkpoints.csv``."""

from dataclasses import dataclass
from functools import cache

from perfmodel.reading import data_folder, read_rows


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """One row of ``models/checkpoints.csv``: a checkpoint of a bundled model in other number formats, by its
    Hugging Face id.

    - source: the place that states its formats: its config.json, its model card, or the log of a server that
      ran it.
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
