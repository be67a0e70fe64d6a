"""Computes how much an error grows for a question outside the measurements of a user's own engine."""

import numpy as np

from perfmodel.operations import Floats, Ints
from perfmodel.speculation.scenario import Scenario

ERROR_PER_DOUBLING = 0.5
"""Growth of the error for each doubling beyond the range of the user's measurements.

The value comes from an earlier record of vLLM on a CPU. Steps at batch 8, predicted from batches 1 and 4, had
an error of 5.4 %. Steps at batch 4, predicted from batches 1 and 8, had an error of 3.6 %. In the record in
results/cpu-engine, these errors are 3.5 and 6.9 %.
"""
WITHIN_DOUBLINGS = 0.35
"""Up to this number of doublings beyond the user's measurements, a question counts as within their range."""


def widening(scenario: Scenario, batch: Floats, context: Floats, gammas: Ints | None = None) -> Floats:
    """The factor by which the observed error of a user's own engine grows for a question outside its
    measurements.

    The factor is over ``[batch, context]``, with a trailing axis of gammas if they are given. It is 1 within
    the measured ranges, and if the calibration has no such ranges. Below and above the ranges, it grows by
    `ERROR_PER_DOUBLING` for each doubling of batch, context or verified tokens after the first
    `WITHIN_DOUBLINGS`. Another model and another draft each count as one doubling.
    """
    measured = scenario.machine.calibration.measured
    if measured is None:
        return 1.0
    other_model = float(scenario.target.name != measured.model)
    beyond: Floats = np.asarray(
        other_model + doublings(batch, measured.batch) + doublings(context, measured.context)
    )
    if gammas is not None:
        draft = (scenario.draft.name, scenario.draft.kv.label())
        other_draft = float(draft != (measured.draft, measured.draft_kv))
        shortest, longest = measured.gamma
        tokens = doublings(np.add(gammas, 1), (shortest + 1, longest + 1))
        beyond = np.expand_dims(beyond, -1) + np.where(gammas == 0, 0.0, other_draft + tokens)
    return 1.0 + ERROR_PER_DOUBLING * beyond


def doublings(value: Floats, limits: tuple[float, float]) -> Floats:
    """Number of doublings by which a value is above or below a range, minus `WITHIN_DOUBLINGS`. It is 0
    within the range, and never below 0.
    """
    low, high = limits
    above = np.log2(np.divide(value, high))
    below = np.log2(np.divide(low, value))
    return np.maximum(0.0, np.maximum(above, below) - WITHIN_DOUBLINGS)
