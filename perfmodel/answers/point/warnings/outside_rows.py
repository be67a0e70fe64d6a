"""Warns about questions outside the measured range, if the calibration was fitted to one server."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from perfmodel.specs import MeasuredRange
from perfmodel.speculation import Scenario, doublings, widening


class _Place(NamedTuple):
    """A quantity of the question and its measured range.

    - tokens: a number that is added to the quantity and to its range before they are compared.
    """

    name: str
    asked: float
    measured: tuple[float, float]
    tokens: float = 0.0

    @property
    def is_outside(self) -> bool:
        """Whether the question lies so far beyond the range that its interval is wider."""
        low, high = self.measured
        return bool(doublings(self.asked + self.tokens, (low + self.tokens, high + self.tokens)) > 0)


def outside_rows(scenario: Scenario, batch: float, context: float, gamma: int) -> Iterator[str]:
    """A warning for each part of the question (model, draft, batch, context, gamma) that is outside the
    range measured for the calibration. The warning states how many times wider the intervals are.
    """
    calibration = scenario.machine.calibration
    measured = calibration.measured
    if measured is None:
        return
    wider = np.ravel(widening(scenario, np.asarray(batch), np.asarray(context), np.array([gamma])))[0]
    for part in _parts_outside(measured, scenario, batch, context, gamma):
        yield f"{calibration.name} was timed {part}: intervals are {wider:.1f} times as wide"


def _parts_outside(
    measured: MeasuredRange, scenario: Scenario, batch: float, context: float, gamma: int
) -> Iterator[str]:
    """The parts of the question that were not measured, in words. Each text has the measured values too.
    Without a draft, the kind and the length of the draft do not matter.
    """
    target = scenario.target.name
    if target != measured.model:
        yield f"serving {measured.model}, not {target}"
    draft = scenario.draft.name
    kv = scenario.draft.kv.label()
    if gamma > 0 and (draft, kv) != (measured.draft, measured.draft_kv):
        yield f"with draft {measured.draft} ({measured.draft_kv}), not {draft} ({kv})"
    places = [_Place("batch", batch, measured.batch), _Place("context", context, measured.context)]
    if gamma > 0:
        places.append(_Place("gamma", float(gamma), measured.gamma, tokens=1.0))
    for place in places:
        if place.is_outside:
            low, high = place.measured
            yield f"at {place.name} {low:g} to {high:g}, not {place.asked:g}"
