"""Models that share a bundled shape but differ in their longest context, from ``models/variants.csv``."""

from dataclasses import dataclass
from functools import cache

from perfmodel.reading import data_folder, read_rows
from perfmodel.specs.boundary import files
from perfmodel.specs.models.model import ModelSpec
from perfmodel.specs.models.names import base_name, with_sizes


@dataclass(frozen=True, slots=True)
class Variant:
    """One row of ``models/variants.csv``: another model with the shape of a bundled model.

    A variant has its own longest context. The acceptance that was measured for the bundled model does not
    apply to it.

    - name: name of the model without owner and tuning suffix.
    """

    name: str
    max_position_embeddings: int
    source: str


@cache
def _variants() -> dict[str, Variant]:
    """The listed variants by name."""
    return {row.name: row for row in read_rows(data_folder("models") / "variants.csv", Variant)}


def variant(name: str) -> Variant | None:
    """The variant that a name means. The result is None for the bundled model itself."""
    plain = base_name(name)
    if plain in files.bundled_names("models"):
        return None
    return _variants().get(with_sizes(plain) or plain)


def name_of(name: str, model: ModelSpec) -> str:
    """The name of the model that the user means. It is the name of the variant, or else that of the bundled
    model.
    """
    other = variant(name)
    return model.name if other is None else other.name
