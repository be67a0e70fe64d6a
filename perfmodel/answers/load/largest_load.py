"""Finds the largest load that one server can serve within latency limits."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from perfmodel.answers.load.closed_rows import closed_rows
from perfmodel.answers.load.ladder import Ladder
from perfmodel.answers.load.rows_by_load import Priced
from perfmodel.answers.load.traffic_query import TrafficQuery
from perfmodel.answers.load.traffic_rows import TrafficRow, load_of
from perfmodel.operations import Array
from perfmodel.queueing.policies import Choice
from perfmodel.queueing.saturation import capacity

STEPS = 16
"""Number of loads that are computed at once. A first search covers the whole range. A second one covers the
range between the highest load within the limits and the next load.
"""
LEAST = 1.0 / 256.0
"""The smallest load that is tried, as a share of the largest."""
Keeps = Callable[[TrafficRow], bool]
"""A function that says whether a row is within the limits."""


@dataclass(frozen=True, slots=True)
class Largest:
    """The largest load within the limits.

    - row: the prediction at this load; None if no tried load is within the limits.
    - above: the prediction at the next higher load that was tried, which is outside the limits. None means
      that the highest tried load is within the limits.
    """

    row: TrafficRow | None
    above: TrafficRow | None

    @property
    def load(self) -> float:
        """The largest load within the limits, in requests per second or as a number of clients. If no tried
        load is within the limits, the result is 0.
        """
        return 0.0 if self.row is None else load_of(self.row)


@dataclass(frozen=True, slots=True)
class OneServer:
    """Predicts one server at any load, with or without a draft. Predictions at different loads share
    replays.
    """

    priced: Priced
    drafts: bool
    ladders: dict[int | str, Ladder] = field(default_factory=dict)

    @classmethod
    def of(cls, question: TrafficQuery, drafts: bool) -> "OneServer":
        """The server of a question.

        - drafts: whether it uses its draft.

        Raises InputError for wrong input.
        """
        return cls(Priced.of(question), drafts)

    def row(self, load: float, rough: bool = False) -> TrafficRow | None:
        """The prediction at a load, with a replay if the closed form is not accurate. The result is None if
        the server uses a draft but its best draft length is 0.

        - rough: as in `Ladder.replayed`.
        """
        found = self._closed(np.array([load]))
        if not found:
            return None
        ((row, choice),) = found
        if not choice.steps.seats:
            return row
        ladder = self.ladders.get(row.gamma)
        if ladder is None:
            question = self.priced.question
            ladder = self.ladders[row.gamma] = Ladder(question, self.priced.replica, choice, None)
        if row.doubts:
            row = ladder.replayed(load, row, rough)
        return ladder.bounded(load, row)

    def largest(self, most: float, keeps: Keeps) -> Largest:
        """The largest load within the limits, according to the closed form.

        - most: the highest load to try.
        - keeps: a function that says whether a prediction is within the limits.
        """
        question = self.priced.question
        if question.opens:
            passes = self.priced.replica.passes.values()
            most = min(
                most,
                max(capacity(steps, question.lengths, question.limits).requests_per_s for steps in passes),
            )
        if most <= 0:
            return Largest(None, None)
        found = self._highest(self._between(LEAST * most, most), keeps)
        if found.row is None or found.above is None:
            return found
        return self._highest(self._between(found.load, load_of(found.above)), keeps)

    def _between(self, least: float, most: float) -> Array:
        """Loads from `least` to `most`, evenly spaced on a logarithmic scale. Numbers of clients are whole
        numbers.
        """
        loads = np.geomspace(least, most, STEPS)
        return loads if self.priced.question.opens else np.unique(np.maximum(np.round(loads), 1.0))

    def _highest(self, loads: Array, keeps: Keeps) -> Largest:
        """The highest of these loads that is within the limits, and the next one."""
        above = None
        for row, _ in reversed(self._closed(loads)):
            if keeps(row):
                return Largest(row, above)
            above = row
        return Largest(None, above)

    def _closed(self, loads: Array) -> list[tuple[TrafficRow, Choice]]:
        """The rows of the closed form, each with its draft length (a `Choice`). The result is empty if the
        server has a draft but should not use it.
        """
        priced = self.priced.at(loads)
        if self.drafts and priced.draft_is_slowed:
            return []
        found = []
        for choice in priced.choices:
            if (choice.gamma != 0) is not self.drafts:
                continue
            rows = closed_rows(priced.question, choice, None, loads[choice.at], bounds=True)
            found += [(row, choice) for row in rows]
        return sorted(found, key=lambda each: load_of(each[0]))
