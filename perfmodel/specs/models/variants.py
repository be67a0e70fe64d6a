"""Models that share a bundled shape but differ in their longest context, from ``models/variants.csv``."""

import re
from dataclasses import dataclass
from functools import cache

from perfmodel.reading import data_folder, exists, read_rows
from perfmodel.specs.boundary import files
from perfmodel.specs.models.format_in_name import format_in_name
from perfmodel.specs.models.gguf_names import gguf_repository
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


def asked_name(name: str, model: ModelSpec) -> str:
    """The name that an answer gives to the model of a question. It is the name in the question if another
    model has this name. It is the name of `model` for a file, and for a name that differs only in its owner,
    its format, its tuning suffix and its punctuation.

    - name: the name in the question.
    - model: the bundled model with the shape of this model, or the model in the file.
    """
    if name == model.name or exists(name) or _letters(name) == _letters(model.name):
        return model.name
    return name


def _letters(name: str) -> str:
    """The letters and digits of a name without owner, format and tuning suffix."""
    repository = gguf_repository(name)
    plain = base_name(name if repository is None else repository.model)
    checkpoint = format_in_name(plain)
    return re.sub("[^a-z0-9]", "", plain if checkpoint is None else base_name(checkpoint.model))
