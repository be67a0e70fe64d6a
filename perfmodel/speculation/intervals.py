"""Computes intervals around predicted speedups and times, from the errors of their logarithms
(`uncertainty`).
"""

import math

import numpy as np

from perfmodel.operations import Array, Floats
from perfmodel.specs import Z, source_errors
from perfmodel.specs.engines.source_errors import extra_share
from perfmodel.speculation.evidence import speedup_class
from perfmodel.speculation.iteration import Passes
from perfmodel.speculation.scenario import Scenario
from perfmodel.speculation.uncertainty import acceptance_log_error, ratio_log_error

Interval = tuple[float, float]
"""Ends of an interval that should contain the measured value in `COVERAGE` of cases, the lower one first."""


def speedup_interval(
    scenario: Scenario, batch: float, context: float, gamma: int, speedup: float
) -> Interval | None:
    """The interval around a predicted speedup. The result is None if the calibration has no observed error,
    as for an ideal calibration.
    """
    passes = Passes(scenario, batch, context, np.array([gamma]))
    error = ratio_log_error(scenario, passes, float(passes.ratios()[0]))
    return interval_of_speedup(scenario, gamma, float(passes.gained[0]), speedup, error)


def interval_of_timed(
    scenario: Scenario, batch: float, context: float, gamma: int, gained: float, speedup: float
) -> Interval | None:
    """The interval around the speedup of a point whose speedup was computed before (see `speedup_interval`).

    - gained: tokens per iteration at this point.
    """
    passes = Passes(scenario, batch, context, np.array([gamma]))
    error = ratio_log_error(scenario, passes, gained / speedup)
    return interval_of_speedup(scenario, gamma, gained, speedup, error)


def interval_of_speedup(
    scenario: Scenario, gamma: int, most: float, speedup: float, ratio_error: float | None
) -> Interval | None:
    """The interval around the speedup of one point, from its `ratio_log_error`. Both ends are exactly 1 at
    gamma 0.

    - most: the tokens per iteration. The interval does not go beyond this number, because no engine verifies
      in less time than a baseline step.
    """
    if not gamma:
        return 1.0, 1.0
    if ratio_error is None:
        return None
    error = math.hypot(ratio_error, float(acceptance_log_error(scenario, gamma)))
    low, high = interval_ends(speedup, error, most, log_middle(scenario))
    return float(low), float(high)


def interval_ends(speedup: Floats, error: Floats, most: Floats, middle: float = 0.0) -> tuple[Array, Array]:
    """The ends of the intervals around speedups, from the error of their logarithm. Each interval contains
    the speedup. The upper end of an interval is at most `most` (the tokens per iteration), unless the speedup
    itself is above `most`. Without an error, both ends equal the speedup.

    - middle: see `log_middle`.
    """
    shift = np.where(np.equal(error, 0.0), 0.0, middle * extra_share(np.divide(most, speedup)))
    around = speedup * np.exp(shift)
    factor = np.exp(Z * np.asarray(error))
    low = np.minimum(around / factor, speedup)
    return np.asarray(low), np.maximum(np.minimum(around * factor, most), speedup)


def log_middle(scenario: Scenario) -> float:
    """ln(middle of an interval / speedup), per unit of `extra_share`. The value is below 0 for a class whose
    iterations are more often predicted too short than too long. For several nodes, it is 0, because their
    errors come from other measurements.
    """
    class_name = speedup_class(scenario)
    if class_name is None or scenario.machine.fabric is not None:
        return 0.0
    return source_errors().speedups[class_name].log_middle_on(scenario.machine.gpu)


def chance_above_one(interval: Interval) -> float:
    """The chance that the measured speedup is above 1, between 0 and 1.

    - interval: the interval of the speedup. Its logarithm is taken as normal, so the measured value is below
      the interval as often as above it.
    """
    low, high = map(math.log, interval)
    middle = (low + high) / 2.0
    error = (high - low) / (2.0 * Z)
    if error == 0.0:
        return float(middle > 0.0)
    return math.erfc(-middle / error / math.sqrt(2.0)) / 2.0


def interval_of(predicted: float, *log_errors: float) -> Interval:
    """The interval around a prediction whose logarithm has the given independent errors."""
    factor = math.exp(Z * math.hypot(*log_errors))
    return predicted / factor, predicted * factor
