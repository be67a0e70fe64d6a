"""Published drafting heads by their target: what ``--draft eagle3`` is where makers print the shape of their
head.
"""

from dataclasses import dataclass
from functools import cache

from perfmodel.reading import read_rows
from perfmodel.specs import data_folder


@dataclass(frozen=True, slots=True)
class PublishedHead:
    """A dense head. vocab: tokens that it drafts. features: hidden states of the target that go in."""

    target: str
    kind: str
    head: str
    layers: int
    hidden_size: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    intermediate_size: int
    vocab: int
    features: int
    source: str

    @property
    def shape(self) -> dict[str, int]:
        """Fields of `ModelSpec`."""
        names = ("hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim", "intermediate_size")
        return {name: getattr(self, name) for name in names}


@cache
def published_heads() -> tuple[PublishedHead, ...]:
    """The rows of the bundled ``models/heads.csv``."""
    return read_rows(data_folder("models") / "heads.csv", PublishedHead)


def published_head(target: str, kind: str) -> PublishedHead | None:
    """The head of a bundled target; None where the table has none."""
    return next((row for row in published_heads() if (row.target, row.kind) == (target, kind)), None)
