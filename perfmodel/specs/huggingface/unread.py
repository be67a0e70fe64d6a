"""Refuses models with keys that may change the cost and that no reader read."""

import re
from dataclasses import dataclass

from perfmodel.reading import data_folder, read_rows
from perfmodel.specs.huggingface.keys import Keys


@dataclass(frozen=True)
class Pattern:
    """A row of ``models/unread.csv``: the effect of keys of one kind.

    pattern: a regular expression for a part of the key. changes_cost: yes for widths and counts of heads,
    experts, states and caches, with which a layer costs other than its family's; no for keys that change no
    byte and no FLOP, which overrides other rows. seen_in: such a key, and a `model_type` that has it; blank
    if transformers has no such code.
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
    """Raise InputError naming the first key that may change the cost, has a value, and was not read."""
    for key, value in keys.data.items():
        silent = value in (None, False, 0, "", [], {}) or key in keys.read
        if not silent and _COSTS.search(key) and not _FREE.search(key):
            raise keys.bad(
                key, f"absent for model_type {keys.data['model_type']}: its effect is not modelled"
            )
