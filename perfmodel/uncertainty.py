"""How sure a predicted speedup is."""

import math
from dataclasses import dataclass

from perfmodel.speculative import Scenario

COVERAGE = 0.90
Z = 1.6448536269514722
"""Two-sided normal quantile of COVERAGE."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A speedup interval that should hold the measured value in `coverage` of cases."""

    low: float
    high: float
    coverage: float


def speedup_interval(scenario: Scenario, batch: float, context: float, gamma: int, speedup: float) -> Interval | None:
    """Interval from the calibration's residual scatter; None where the calibration states none (ideal)."""
    scatter = scenario.machine.calibration.speedup_log_stderr
    if gamma == 0:
        return Interval(1.0, 1.0, COVERAGE)
    if scatter is None:
        return None
    factor = math.exp(Z * scatter)
    return Interval(speedup / factor, speedup * factor, COVERAGE)
