"""Typical values of published acceptance: its decay from position to position, and its spread between
texts.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import pairwise

import numpy as np

from perfmodel.specs.acceptance.library_row import LibraryRow

ENOUGH_RATIOS = 8
"""Number of published ratios from which a kind of draft has its own median."""
DECAYING_POSITIONS = 3
"""Number of first positions over which a decay is measured."""
LEAST_TASKS = 3
"""Smallest number of tasks of a head for which the spread between its tasks is used."""


class TypicalAcceptance:
    """Medians over the published results of acceptance."""

    def __init__(self, rows: Sequence[LibraryRow], enough_ratios: int = ENOUGH_RATIOS) -> None:
        self._rows = rows
        self._enough_ratios = enough_ratios
        self._decays = dict[str, float]()

    def decay(self, draft: str = "") -> float:
        """Median ratio of the conditional acceptance at a position (2 or 3) to the conditional acceptance at
        the position before.

        The median is over one kind of draft. If too few results of that kind exist, the median is over all
        heads.
        """
        if draft not in self._decays:
            rows = [row for row in self._rows if row.draft == draft or not draft]
            ratios = [ratio for row in rows for ratio in _decays(row)]
            enough = len(ratios) >= self._enough_ratios or not draft
            self._decays[draft] = median(ratios) if enough else self.decay()
        return self._decays[draft]

    def first_rates(self, draft: str) -> list[float]:
        """The sorted acceptances of the first drafted token, from all results of a kind of draft that state
        them.
        """
        rates = [_first_rate(row) for row in self._rows if row.draft == draft]
        return sorted(filter(None, rates))

    @cached_property
    def spread_of_data_sets(self) -> float:
        """Median over published rows of the spread between the data sets of a task."""
        return median([row.spread for row in self._rows if row.spread])

    @cached_property
    def spread_of_tasks(self) -> float:
        """Median over heads of the standard deviation of ln(tokens per iteration) between tasks, at the
        longest draft.
        """
        heads: dict[tuple[str, str, str], dict[str, float]] = {}
        for row in self._rows:
            longest = max(row.tokens.items())[1]
            heads.setdefault((row.target, row.draft, row.head), {})[row.task] = math.log(longest)
        return median([deviation([*tasks.values()]) for tasks in heads.values() if len(tasks) >= LEAST_TASKS])

    def between_tasks(self, rows: Iterable[LibraryRow], length: int) -> float:
        """Standard deviation of ln(tokens per iteration) between the tasks of one head, at one draft length.
        `spread_of_tasks` has the weight of one additional task.
        """
        by_task = {row.task: math.log(row.tokens[length]) for row in rows if length in row.tokens}
        logs = list(by_task.values())
        squares = (len(logs) - 1) * deviation(logs) ** 2 if len(logs) > 1 else 0.0
        return math.sqrt((squares + self.spread_of_tasks**2) / len(logs))


def _decays(row: LibraryRow) -> Iterator[float]:
    """Ratios of the conditional acceptance at a position to that at the position before. N-gram drafts are
    left out, because no head drafts them.
    """
    if row.draft == "ngram":
        return
    survival = (1.0, *row.survival[:DECAYING_POSITIONS])
    lengths = range(1, DECAYING_POSITIONS + 1)
    tokens = row.tokens
    if set(lengths) <= set(tokens):
        by_length = (1.0, *(tokens[length] for length in lengths))
        survival = (1.0, *(after - before for before, after in pairwise(by_length)))
    rates = [after / before for before, after in pairwise(survival)]
    for before, after in pairwise(rates):
        yield after / before


def _first_rate(row: LibraryRow) -> float:
    """Acceptance of the first drafted token. The result is 0 if the row does not state it."""
    if row.survival:
        return row.survival[0]
    return row.tokens.get(1, 1.0) - 1.0


def median(values: Sequence[float]) -> float:
    """The median. The functions of `statistics` and numpy are not used, because they load many other
    modules.
    """
    ordered = sorted(values)
    middle = len(ordered) // 2
    return (ordered[middle] + ordered[~middle]) / 2


def mean(values: Sequence[float]) -> float:
    """The arithmetic mean. The sum is rounded only once."""
    return math.fsum(values) / len(values)


def deviation(values: Sequence[float]) -> float:
    """The standard deviation of a sample (with n - 1)."""
    return float(np.std(values, ddof=1))
