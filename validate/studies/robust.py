"""Fits constants to the logarithms of measurements by robust least squares. Rows of one kind have correlated
errors, and outliers count less (`error_parts`).

The prior of each parameter counts as one more row. Every round linearises the errors in the logarithms of the
parameters, so a fit without some rows is cheap.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from perfmodel.operations import Array
from perfmodel.validate.solving import Estimate, Parameter, Values, estimate
from perfmodel.validate.studies.error_parts import Parts
from perfmodel.validate.studies.parameters import PlacedConstant

LOG_STEP = 1e-3
"""Change of the logarithm of a parameter for a finite difference."""
FIT_ROUNDS = 5
"""Number of rounds of a fit that starts from the expected values."""

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
