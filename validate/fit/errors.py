"""Errors of predictions: the statistics that every table, gate and calibration uses."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from perfmodel.specs import Scatter
from perfmodel.validate.fit.counted_points import TIMES, Array, PointSet
from perfmodel.validate.solving import significant

DIGITS = 3
"""Digits of an error in a file."""


@dataclass(frozen=True, slots=True)
class Errors:
    """Errors over rows: mean absolute, mean signed and largest (signed) relative error, and the rms of the
    logarithmic one.

    Relative is predicted / measured - 1, logarithmic log(predicted / measured).
    """

    rows: int
    mape: float
    bias: float
    worst: float
    log_rms: float

    def scatter(self, source: str) -> Scatter:
        """The form that a calibration states."""
        return Scatter(log_rms=significant(self.log_rms, DIGITS), rows=self.rows, source=source)


def errors_of(predicted: Array, measured: Array) -> Errors | None:
    """Errors over the rows that have both values; None without rows. A predicted 0 is skipped (ideal has no
    overhead).
    """
    both = ~np.isnan(predicted) & ~np.isnan(measured) & (predicted > 0)
    if not both.any():
        return None
    relative = predicted[both] / measured[both] - 1.0
    logs = np.log(predicted[both] / measured[both])
    return Errors(
        int(both.sum()),
        float(np.abs(relative).mean()),
        float(relative.mean()),
        float(relative[np.argmax(np.abs(relative))]),
        float(np.sqrt(np.mean(logs**2))),
    )


def same_side(predicted: Any, measured: Any) -> Any:
    """Whether speedups are predicted on the measured side of 1; one of exactly 1 loses nothing."""
    return (predicted >= 1.0) == (measured >= 1.0)


def errors_by_quantity(points: PointSet, times: dict[str, Array]) -> dict[str, Errors]:
    """Errors of every quantity that the points measure; the speedup uses the measured tokens per
    iteration.
    """
    found = {name: errors_of(times[name], points.measured(name)) for name in TIMES}
    found["speedup"] = errors_of(points.speedup(times), np.array([p.speedup for p in points.points], float))
    return {name: errors for name, errors in found.items() if errors is not None}
