"""Repositories of quantised checkpoints, by model and format."""

from dataclasses import dataclass
from functools import cache

from perfmodel.reading import data_folder, read_rows

FOUR_BIT_GROUPS = ("int4-g128", "int4-g128-sym", "awq-g128")
"""Formats of 4 bits in groups of 128 weights. They differ only in their zeros, a thousandth of the bytes."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """One repository. weights: its format, as in ``--weights``. source: where it was served."""

    target: str
    weights: str
    repository: str
    source: str


@cache
def checkpoints() -> tuple[Checkpoint, ...]:
    """The rows of the bundled ``models/served.csv``."""
    return read_rows(data_folder("models") / "served.csv", Checkpoint)


def checkpoint(target: str, weights: str) -> Checkpoint | None:
    """A known checkpoint of a model in a format, or in one of the same size; None without one."""
    of_target = {row.weights: row for row in checkpoints() if row.target == target}
    alike = FOUR_BIT_GROUPS if weights in FOUR_BIT_GROUPS else ()
    known = (of_target[name] for name in (weights, *alike) if name in of_target)
    return next(known, None)
