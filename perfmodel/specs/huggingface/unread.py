"""Keys that may change the cost and that nobody read: a model that has one is refused, not counted wrong."""

import re
from dataclasses import dataclass

from perfmodel.reading import read_rows
from perfmodel.specs import data_folder
from perfmodel.specs.huggingface.keys import Keys


@dataclass(frozen=True)
class Pattern:
    """A row of ``models/unread.csv``: what keys of one kind do.

    pattern: a regular expression for a part of the key. changes_cost: yes for widths and counts of heads,
    experts, states and caches, which make a layer cost other than its family's; no for keys that move no
    byte and no FLOP, whatever other rows say of them. seen_in: such a key, and a `model_type` that has it;
    blank where only files have one whose code is not in transformers.
    """

    pattern: str
    changes_cost: bool
    seen_in: str


PATTERNS = read_rows(data_folder("models") / "unread.csv", Pattern)
_COSTS, _FREE = (
    re.compile("|".join(row.pattern for row in PATTERNS if row.changes_cost == costs))
    for costs in (True, False)
)


def refuse_unread(keys: Keys) -> None:
    """Raise InputError naming the first key that may change the cost, says something, and was not read."""
    for key, value in keys.data.items():
        silent = value in (None, False, 0, "", [], {}) or key in keys.read
        if not silent and _COSTS.search(key) and not _FREE.search(key):
            raise keys.bad(
                key, f"absent for model_type {keys.data['model_type']}: what it changes is not modelled"
            )
