"""Refuses keys that no reader knows and that may change the cost. The patterns of such keys are in
``models/unread.csv``.
"""

import re
from dataclasses import dataclass

from perfmodel.reading import data_folder, read_rows
from perfmodel.specs.huggingface.keys import Keys


@dataclass(frozen=True)
class Pattern:
    """One row of ``models/unread.csv``: whether keys that match a pattern change the cost of a model.

    - pattern: a regular expression that matches a part of the key.
    - changes_cost: yes for keys that may change bytes or FLOPs, such as widths and counts of heads, experts,
      states and caches. It is no for keys that change neither. A matching row with the value no takes
      precedence.
    - seen_in: an example of such a key, with a `model_type` that has it. It is blank if transformers has no
      such code.
    """

    pattern: str
    changes_cost: bool
    seen_in: str


PATTERNS = read_rows(data_folder("models") / "unread.csv", Pattern)


def _any_of(changes_cost: bool) -> re.Pattern[str]:
    """An expression for the keys of all rows with this effect."""
    return re.compile("|".join(row.pattern for row in PATTERNS if row.changes_cost == changes_cost))


_COSTS = _any_of(changes_cost=True)
_FREE = _any_of(changes_cost=False)


def refuse_unread(keys: Keys) -> None:
    """Raises InputError if a key that may change the cost has a value but was not read. The message names the
    first such key.
    """
    for key, value in keys.data.items():
        silent = value in (None, False, 0, "", [], {}) or key in keys.read
        if not silent and _COSTS.search(key) and not _FREE.search(key):
            model_type = keys.data["model_type"]
            raise keys.bad(key, f"absent for model_type {model_type}: its effect is not modelled")
