"""Fits constants to the logarithms of measurements by robust least squares. Rows of one kind have correlated
errors, and outliers count less.

The log error of a row is the sum of three parts. One part is common to its kind (a model on an engine and an
architecture, measured by one source). One is common to its group within the kind (device, tensor-parallel
degree, version). The last part belongs to the row alone. `Parts` separates these parts.

Each part has a Cauchy loss. An engine version that was slow on one model therefore does not distort the
constants of all models. The prior of each parameter counts as one more row. Every round linearises the errors
in the logarithms of the parameters, so a fit without some rows is cheap.
"""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from perfmodel.validate.solving import Estimate, Parameter, Values, estimate, grouped
from perfmodel.validate.studies.parameters import PlacedConstant

Array = NDArray[np.float64]
LOG_STEP = 1e-3
"""Change of the logarithm of a parameter for a finite difference."""
FIT_ROUNDS = 5
"""Number of rounds of a fit that starts from the expected values."""
LOCATION_ROUNDS = 10
"""Number of rounds of the search for a common error. In 99 of 100 random cases with one outlier, one more
round would change the result by less than 0.1 %.
"""
MOST_ROWS = 10
"""Upper limit of the number of independent rows of a group. Larger groups count as this many rows."""


@dataclass(frozen=True)
class Parts:
    """Separates the errors of rows into their parts.

    - matrix: the linear map from the errors to the parts in standard deviations, [parts, rows].
    - soft: the size of each part above which the part counts less, [parts].
    """

    matrix: Array
    soft: Array

    def residuals(self, parts: Array) -> Array:
        """The square root of the Cauchy loss of each part, with the sign of the part."""
        loss = np.log1p((parts / self.soft) ** 2)
        return np.asarray(np.sign(parts) * self.soft * np.sqrt(loss))

    def slopes(self, parts: Array) -> Array:
        """The derivatives of the residuals by the parts."""
        softened = self.residuals(parts)
        share = np.divide(parts, softened, out=np.ones_like(parts), where=softened != 0)
        return np.asarray(share / (1.0 + (parts / self.soft) ** 2))


@dataclass(frozen=True)
class ErrorSpread:
    """Standard deviations of the three parts of an error.

    - row, group, kind: the standard deviations.
    - soft: the number of standard deviations above which the part of a kind or group counts less.
    - soft_row: the same number for the part of a row.
    """

    row: float = 0.02
    group: float = 0.02
    kind: float = 0.02
    soft: float = 2.0
    soft_row: float = 3.0


def parts_of(
    groups: Sequence[Hashable],
    kinds: Sequence[Hashable],
    train: NDArray[np.bool_],
    spreads: Sequence[ErrorSpread],
    off: Array | None = None,
) -> Parts:
    """The parts of the errors of the rows to which constants are fitted.

    - groups, kinds, spreads: the group, the kind and the spread of each row.
    - train: mask of the rows of the fit.
    - off: the errors of all rows near the solution. With these errors, an outlying group counts less in the
      common error of its kind (`shares_of_common`). Without them, all groups count fully.
    """
    lines: list[Array] = []
    soft: list[float] = []
    rows_of_kinds = grouped(np.flatnonzero(train).tolist(), lambda i: kinds[i])
    for rows_of_kind in rows_of_kinds.values():
        means = []
        deviations = []
        rows_of_groups = grouped(rows_of_kind, lambda i: groups[i])
        for index in rows_of_groups.values():
            spread = spreads[index[0]]
            mean = np.zeros(len(train))
            mean[index] = 1.0 / len(index)
            means.append(mean)
            of_mean = spread.row / min(len(index), MOST_ROWS) ** 0.5
            deviations.append(np.hypot(spread.group, of_mean))
            share = min(1.0, MOST_ROWS / len(index)) ** 0.5 / spread.row
            for i in index:
                row_part = -mean * share
                row_part[i] += share
                lines.append(row_part)
                soft.append(spread.soft_row)
        weights = np.array(deviations) ** -2.0
        if off is not None:
            weights *= shares_of_common(np.array(means) @ off, np.array(deviations), spread.soft)
        kind_mean = np.average(means, axis=0, weights=weights)
        lines.append(kind_mean / np.hypot(spread.kind, weights.sum() ** -0.5))
        soft.append(spread.soft)
        for mean, deviation in zip(means, deviations, strict=True):
            lines.append((mean - kind_mean) / deviation)
            soft.append(spread.soft)
    return Parts(np.array(lines), np.array(soft))


def shares_of_common(errors: Array, deviations: Array, soft: float) -> Array:
    """The weight of each group in the common error of its kind, from 0 to 1.

    The part of a group has a Cauchy loss. The common error with the smallest loss is a weighted mean, in
    which a group has the weight 1 / (1 + (distance / soft)^2). The distance is that of its error from the
    common error, in standard deviations. The search begins at the median.

    - errors, deviations: the mean error of each group and its standard deviation.
    """
    common = float(np.median(errors))
    for _ in range(LOCATION_ROUNDS):
        shares = 1.0 / (1.0 + ((errors - common) / (soft * deviations)) ** 2)
        common = float(np.average(errors, weights=shares / deviations**2))
    return np.asarray(shares)


Row = TypeVar("Row")


class FitWithSlopes(NamedTuple):
    """A fit.

    - slopes: the derivatives of the errors by the logarithms of the parameters, [rows, parameters], as the
      last round used them.
    """

    estimate: Estimate
    slopes: Array


class FittedRows(ABC, Generic[Row]):
    """Measured rows in a fixed order, with their errors as functions of the parameters.

    - logs: the logarithms of the measurements.
    - groups: the rows in groups that are predicted together (`steps.StepGroup`).
    """

    rows: tuple[Row, ...]
    parameters: Sequence[PlacedConstant]
    logs: Array
    groups: Sequence[Any]

    def predict(self, values: Values) -> Array:
        """The predicted logarithm of each row's measurement."""
        logs = np.empty(len(self.rows))
        for group in self.groups:
            logs[group.index] = np.log(group.predicted(values))
        return logs

    def off(self, values: Values) -> Array:
        """The log error of each row: log(predicted / measured)."""
        return self.predict(values) - self.logs

    @abstractmethod
    def parts(self, train: NDArray[np.bool_]) -> Parts:
        """The parts of the errors of the rows in the mask `train`."""

    def slopes(self, values: Values, off: Array) -> Array:
        """The derivatives of the errors by the logarithm of each parameter, [rows, parameters].

        - off: the errors with these values (`off`). The derivatives are finite differences to them.
        """
        columns = []
        for p in self.parameters:
            moved_off = self.off({**values, p.place: values[p.place] * np.exp(LOG_STEP)})
            columns.append((moved_off - off) / LOG_STEP)
        return np.stack(columns, axis=1)

    def fit(
        self,
        start: Values | None = None,
        rounds: int = FIT_ROUNDS,
        train: NDArray[np.bool_] | None = None,
        slopes: Array | None = None,
    ) -> FitWithSlopes:
        """Fits the values to the rows.

        - start: the values at which the search begins; by default the expected ones.
        - train: mask of the rows of the fit; by default all.
        - slopes: the derivatives to use in every round; by default each round computes them. A fit without
          some rows can use those of the fit to all rows, because its result is close.
        """
        every_row = np.ones(len(self.rows), dtype=bool)
        parts = self.parts(every_row if train is None else train)
        values: Values = dict(start or {p.place: p.expected for p in self.parameters})
        for _ in range(rounds):
            off = self.off(values)
            near = self.slopes(values, off) if slopes is None else slopes
            solved = solve(self.parameters, parts, values, off, near)
            values = solved.values
        return FitWithSlopes(solved, near)


def searched(parameters: Sequence[PlacedConstant]) -> list[Parameter]:
    """The parameters as the solver needs them. The solver searches their logarithms, with the expected values
    as priors.
    """
    return [Parameter(p.place, p.expected, log=True, spread=p.spread) for p in parameters]


def search_settings(parameters: Sequence[PlacedConstant]) -> dict[str, Any]:
    """The settings of the solver. The unit of a parameter is its spread."""
    return {"x_scale": np.array([p.spread for p in parameters]), "tr_solver": "lsmr"}


def solve(
    parameters: Sequence[PlacedConstant], parts: Parts, near: Values, off: Array, slopes: Array
) -> Estimate:
    """The values with the smallest sum of two losses. One is the loss of the parts of the errors. The other
    is the loss of the deviations of the parameters from their expected values. Both are in standard
    deviations.

    - near: the values around which the errors are linear in the logarithms of the parameters.
    - off, slopes: the errors there, and their derivatives, [rows, parameters].
    """
    near_logs = np.log([near[p.place] for p in parameters])
    parts_near = parts.matrix @ off
    part_slopes = parts.matrix @ slopes

    def parts_at(values: Values) -> Array:
        moved = np.log([*values.values()]) - near_logs
        return np.asarray(parts_near + part_slopes @ moved)

    def residuals(values: Values) -> Array:
        return parts.residuals(parts_at(values))

    def residual_slopes(values: Values) -> Array:
        return np.asarray(parts.slopes(parts_at(values))[:, None] * part_slopes)

    return estimate(
        searched(parameters), residuals, near, slopes=residual_slopes, **search_settings(parameters)
    )
