"""Computes the error statistics of predictions that all tables, checks and calibrations use."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from perfmodel.specs import Scatter
from perfmodel.validate.fit.counted_points import TIMES, Array, PointSet
from perfmodel.validate.solving import significant

ERROR_DIGITS = 3
"""Significant digits of an error in a file."""


@dataclass(frozen=True, slots=True)
class Errors:
    """Errors over some rows. The relative error is predicted / measured - 1, and the log error is
    log(predicted / measured).

    - mape: the mean absolute relative error.
    - bias: the mean signed relative error.
    - worst: the signed relative error with the largest absolute value.
    - log_rms: the root mean square of the log error.
    """

    rows: int
    mape: float
    bias: float
    worst: float
    log_rms: float

    def scatter(self, source: str) -> Scatter:
        """The error as a calibration file states it."""
        return Scatter(log_rms=significant(self.log_rms, ERROR_DIGITS), rows=self.rows, source=source)


def errors_of(predicted: Array, measured: Array) -> Errors | None:
    """The errors over the rows that have both values; None if there are no such rows. Rows with a prediction
    of 0 are left out, because the calibration ``ideal`` predicts no overhead.
    """
    has_both = ~np.isnan(predicted) & ~np.isnan(measured) & (predicted > 0)
    if not has_both.any():
        return None
    ratio = predicted[has_both] / measured[has_both]
    relative = ratio - 1.0
    size = np.abs(relative)
    worst = relative[np.argmax(size)]
    log_rms = np.sqrt(np.mean(np.log(ratio) ** 2))
    return Errors(
        rows=int(has_both.sum()),
        mape=float(size.mean()),
        bias=float(relative.mean()),
        worst=float(worst),
        log_rms=float(log_rms),
    )


def same_side(predicted: Any, measured: Any) -> Any:
    """Whether speedups are predicted on the measured side of 1. A speedup of exactly 1 counts as above 1."""
    return (predicted >= 1.0) == (measured >= 1.0)


def errors_by_quantity(points: PointSet, times: dict[str, Array]) -> dict[str, Errors]:
    """Quantity -> errors, for every measured quantity of the points. The predicted speedup uses the measured
    tokens per iteration.

    - times: the predicted seconds (`PointSet.predict`).
    """
    by_quantity = {name: errors_of(times[name], points.measured(name)) for name in TIMES}
    by_quantity["speedup"] = errors_of(points.speedup(times), points.measured("speedup"))
    return {name: errors for name, errors in by_quantity.items() if errors is not None}
