"""Models that share a bundled shape and differ in their longest context: ``models/variants.csv``."""

from dataclasses import dataclass
from functools import cache

from perfmodel.reading import data_folder, read_rows
from perfmodel.specs.boundary import files
from perfmodel.specs.models.model import ModelSpec
from perfmodel.specs.models.names import base_name, with_sizes


@dataclass(frozen=True, slots=True)
class Variant:
    """Another model of a bundled shape, listed in ``models/variants.csv``.

    It has its own longest context, and acceptances that were measured for the bundled model do not apply to
    it.

    - name: the name without owner and tuning suffix.
    """

    name: str
    max_position_embeddings: int
    source: str


@cache
def _variants() -> dict[str, Variant]:
    """Name -> the listed variant."""
    return {row.name: row for row in read_rows(data_folder("models") / "variants.csv", Variant)}


def variant(name: str) -> Variant | None:
    """The variant that a name means; None for the bundled model itself."""
    plain = base_name(name)
    if plain in files.bundled_names("models"):
        return None
    return _variants().get(with_sizes(plain) or plain)


def name_of(name: str, model: ModelSpec) -> str:
    """The name of the model itself: of the variant that the user named, else of the bundled model."""
    other = variant(name)
    return model.name if other is None else other.name
