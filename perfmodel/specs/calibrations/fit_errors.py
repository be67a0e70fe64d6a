"""The correlation between the constants of a fit, and the errors of predictions for rows that were left out
of the fit.
"""

from functools import cache
from typing import Annotated, Literal

import numpy as np
from msgspec import Meta

from perfmodel.operations import Array
from perfmodel.specs.boundary.frozen import Frozen, Text

MAX_LOG_RMS = 10.0
"""An error above this factor (e^10) is meaningless, and its interval is not finite."""
LogError = Annotated[float, Meta(ge=0, le=MAX_LOG_RMS)]
ROUNDED = 0.005
"""Half a unit of the last digit to which the correlations of shipped files are rounded."""
COVERAGE = 0.90
"""The share of cases in which an interval should contain the measured value."""
Z = 1.6448536269514722
"""Two-sided normal quantile of COVERAGE."""
Quantity = Literal["target_s", "draft_s", "verify_s", "overhead_s", "ratio", "speedup"]
"""The predicted quantity to which an error belongs. ``ratio`` is the time of an iteration divided by the time
of a baseline step.
"""
Relation = Literal["seen", "version", "model", "gpu", "transferred", "maker"]
"""The part of the measurements that was left out of the fit. ``seen``: another degree or draft length of a
model that was measured on this engine and device. ``version``: another version of the engine. ``model``:
another model. ``gpu``: all rows of the device. ``transferred``: all rows of the device and its kernels (for a
ratio, all rows of the engine). ``maker``: all devices of the vendor.
"""


class StatedFit(Frozen):
    """The correlation between the fitted constants of a calibration.

    - parameters: names of the fitted constants.
    - correlation: lower triangle of the correlation matrix of the estimates, row by row, with the diagonal.

    The covariance matrix follows from this matrix and from the `stderr` of each constant.
    """

    parameters: Annotated[tuple[str, ...], Meta(min_length=1)]
    correlation: tuple[tuple[float, ...], ...]

    def __post_init__(self) -> None:
        if len(set(self.parameters)) < len(self.parameters):
            raise ValueError("parameters must be given once each")
        sizes = [len(row) for row in self.correlation]
        if sizes != list(range(1, len(self.parameters) + 1)):
            raise ValueError("correlation must have one row per parameter, of 1, 2, 3, ... numbers")
        if any(row[-1] != 1 or any(not -1 <= value <= 1 for value in row) for row in self.correlation):
            raise ValueError("correlation must be 1 on the diagonal and from -1 to 1 elsewhere")
        least = float(np.linalg.eigvalsh(square(self.correlation))[0])
        if least < -ROUNDED * len(sizes):
            raise ValueError(
                f"correlation must be positive semi-definite, given an eigenvalue of {least:.3g}"
            )


@cache
def square(rows: tuple[tuple[float, ...], ...]) -> Array:
    """The symmetric matrix that belongs to a lower triangle. The triangle is given row by row."""
    lower = np.zeros((len(rows), len(rows)))
    for i, row in enumerate(rows):
        lower[i, : i + 1] = row
    return lower + np.tril(lower, -1).T


class MeasuredRange(Frozen):
    """The ranges of the measurements of a user's own engine.

    - batch, context, gamma: the smallest and the largest measured value.

    The answer to a question outside these ranges, or about another model or draft, has a warning and a wider
    interval.
    """

    model: str
    draft: str
    draft_kv: str
    batch: tuple[float, float]
    context: tuple[float, float]
    gamma: tuple[int, int]


class Scatter(Frozen):
    """The observed error of predictions.

    - log_rms: root mean square of ln(predicted / measured) over the rows.
    - log_within: half-width of an interval that contained 90 % of these logarithms. By default it is the
      half-width for a normal distribution.
    - rows: number of measurements.
    """

    log_rms: LogError
    log_within: LogError | None = None
    rows: Annotated[int, Meta(ge=1)]
    source: Text

    @property
    def deviation(self) -> float:
        """Standard deviation of the normal distribution whose 90 % interval has the same width."""
        return self.log_rms if self.log_within is None else self.log_within / Z


FEW_SEQUENCES = 4
"""A step with at most this many sequences is not batched."""
SHORT_TOKENS = 10_000
"""A context with at most this many tokens is not long."""
StepKind = Literal["dense", "experts", "experts_long", "dense_batched", "experts_batched"]
"""A step of a model without or with routed experts, and with a few or more sequences. With experts, steps at
long contexts are a separate kind, because such models read few weights.
"""


def step_kind(experts: bool, batch: float, context: float) -> StepKind:
    """The kind of a baseline step. Errors are stated for each kind."""
    if batch > FEW_SEQUENCES:
        return "experts_batched" if experts else "dense_batched"
    if experts:
        return "experts_long" if context > SHORT_TOKENS else "experts"
    return "dense"
