"""Shared parts of all fits and comparisons: the least-squares solver, rounding, groups of rows.

scipy is imported on use.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
Row = TypeVar("Row")
Key = TypeVar("Key")
AT_BOUND = 1e-6
"""Distance from a bound, in the solver's own units, at which a value counts as on the bound."""


@dataclass(frozen=True)
class Solution:
    """The end of a search. x: [parameters]. residuals: [rows], before any loss. slopes: [rows,
    parameters].
    """

    x: Array
    residuals: Array
    slopes: Array
    cost: float
    at_bound: NDArray[np.bool_]

    @property
    def covariance(self) -> Array:
        """Covariance of `x`, [parameters, parameters], for residuals in standard deviations."""
        return np.asarray(np.linalg.pinv(self.slopes.T @ self.slopes))


NOTHING = Solution(np.zeros(0), np.zeros(0), np.zeros((0, 0)), 0.0, np.zeros(0, dtype=bool))
"""The solution without parameters."""


def least_squares(
    residuals: Callable[[Array], Array],
    start: ArrayLike,
    low: ArrayLike = -np.inf,
    high: ArrayLike = np.inf,
    *,
    soft: float | None = None,
    **settings: Any,
) -> Solution:
    """The x between `low` and `high` with the least sum of squared residuals, searched from `start`.

    soft: size from which a residual counts linearly (soft L1). settings: of scipy.optimize.least_squares.
    """
    from scipy.optimize import least_squares as search

    loss: dict[str, Any] = {} if soft is None else {"loss": "soft_l1", "f_scale": soft}
    end = search(residuals, np.asarray(start, float), bounds=(low, high), **loss, **settings)
    edge = np.minimum(end.x - np.asarray(low), np.asarray(high) - end.x) < AT_BOUND
    return Solution(end.x, end.fun, end.jac, float(end.cost), edge)


@dataclass(frozen=True, slots=True)
class Parameter:
    """One number that a fit searches: around `expected`, between `low` and `high`.

    log: whether it is searched by its logarithm, otherwise in steps of `unit` from `origin`. spread: standard
    deviation around `expected`, of the logarithm or of the value, if the expectation counts as a row of the
    fit; None if it is only where the search starts.
    """

    name: str
    expected: float
    low: float = -np.inf
    high: float = np.inf
    log: bool = False
    unit: float = 1.0
    origin: float = 0.0
    spread: float | None = None

    def coordinate(self, value: float) -> float:
        """The place of a value on the axis of the search."""
        if self.log:
            return float(np.log(value)) if value > 0 else -np.inf
        return (value - self.origin) / self.unit

    def value(self, coordinate: float) -> float:
        """The value at a place on the axis, within its bounds."""
        value = float(np.exp(coordinate)) if self.log else self.origin + coordinate * self.unit
        return min(max(value, self.low), self.high)

    @property
    def prior_width(self) -> float:
        """The spread on the axis of the search. Only with a spread."""
        assert self.spread is not None
        return self.spread if self.log else self.spread / self.unit

    def per_coordinate(self, value: float) -> float:
        """Change of the value per step on the axis."""
        return value if self.log else self.unit


Values = Mapping[str, float]
"""Value of each parameter by name."""


@dataclass(frozen=True)
class Estimate:
    """The end of a fit. covariance: of the coordinates (`Parameter.coordinate`), [parameters, parameters],
    for residuals in standard deviations.

    solution: in coordinates. Its residuals end with those of the expectations. at_bound: names of the
    parameters on a bound.
    """

    parameters: tuple[Parameter, ...]
    values: dict[str, float]
    solution: Solution
    covariance: Array
    at_bound: tuple[str, ...]

    @property
    def stderr(self) -> dict[str, float]:
        """Standard error of each value, in its own unit."""
        deviations = np.sqrt(np.abs(np.diag(self.covariance))).tolist()
        scales = [p.per_coordinate(self.values[p.name]) for p in self.parameters]
        return {p.name: d * s for p, d, s in zip(self.parameters, deviations, scales, strict=True)}

    def holding_bounds(self) -> "Estimate":
        """The estimate of the parameters inside their bounds, as if the others were known."""
        inner = ~self.solution.at_bound
        parameters = tuple(p for p, keep in zip(self.parameters, inner, strict=True) if keep)
        slopes = self.solution.slopes[:, inner]
        covariance = np.asarray(np.linalg.pinv(slopes.T @ slopes))
        return replace(self, parameters=parameters, covariance=covariance)

    @property
    def correlation(self) -> Array:
        """[parameters, parameters]."""
        deviations = np.sqrt(np.diag(self.covariance))
        return np.asarray(np.clip(self.covariance / np.outer(deviations, deviations), -1.0, 1.0))

    def scaled(self, deviation: float) -> "Estimate":
        """The same for residuals whose standard deviation is this, and not 1."""
        return replace(self, covariance=self.covariance * deviation**2)


def estimate(
    parameters: Sequence[Parameter],
    residuals: Callable[[Values], Array],
    start: Values | None = None,
    *,
    inside: float = 0.0,
    slopes: Callable[[Values], Array] | None = None,
    soft: float | None = None,
    **settings: Any,
) -> Estimate:
    """The values with the least sum of squared residuals, and of squared deviations from expectations.

    residuals: of the rows, [rows], at values by name; a loss other than `soft`, and which rows count, is
    theirs. start: values at which the search starts; by default the expectations. inside: least distance of
    the start from the bounds, in coordinates. slopes: of the residuals by the coordinates, [rows,
    parameters]; by default finite differences. soft, settings: see `least_squares`.
    """
    if not parameters:
        return Estimate((), {}, NOTHING, NOTHING.slopes, ())
    low = np.array([p.coordinate(p.low) for p in parameters])
    high = np.array([p.coordinate(p.high) for p in parameters])
    begin = start or {}
    first = np.array([p.coordinate(begin.get(p.name, p.expected)) for p in parameters])
    prior = [i for i, p in enumerate(parameters) if p.spread is not None]
    expected = np.array([parameters[i].coordinate(parameters[i].expected) for i in prior])
    spread = np.array([parameters[i].prior_width for i in prior], float)
    of_prior = np.eye(len(parameters))[prior] / spread[:, None]

    def values(x: Array) -> dict[str, float]:
        return {p.name: p.value(at) for p, at in zip(parameters, x.tolist(), strict=True)}

    def with_prior(x: Array) -> Array:
        return np.concatenate([residuals(values(x)), (x[prior] - expected) / spread])

    if slopes is not None:
        settings["jac"] = lambda x: np.concatenate([slopes(values(x)), of_prior])
    first = np.clip(first, low + inside, high - inside)
    optimum = least_squares(with_prior, first, low, high, soft=soft, **settings)
    at_bound = tuple(p.name for p, at in zip(parameters, optimum.at_bound, strict=True) if at)
    return Estimate(tuple(parameters), values(optimum.x), optimum, optimum.covariance, at_bound)


class NonnegativeSolution(NamedTuple):
    """Values of 0 or more, and their standard errors."""

    values: Array
    stderr: Array


def nonnegative(matrix: Array, wanted: Array) -> NonnegativeSolution:
    """The values with which `matrix` [rows, columns] is closest to `wanted` [rows]."""
    from scipy.optimize import nnls

    x = nnls(matrix, wanted)[0]
    freedom = max(1, len(wanted) - matrix.shape[1])
    spread = float(np.sum((matrix @ x - wanted) ** 2) / freedom)
    variances = np.diag(np.linalg.pinv(matrix.T @ matrix)) * spread
    return NonnegativeSolution(x, np.sqrt(variances))


def grouped(rows: Iterable[Row], key: Callable[[Row], Key]) -> dict[Key, list[Row]]:
    """Rows by their key, both in the order of appearance."""
    groups: dict[Key, list[Row]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups


def significant(value: float, digits: int) -> float:
    """A number rounded to `digits` significant digits."""
    return float(f"{value:.{digits}g}")


def shortened(value: Any, digits: int) -> Any:
    """The value with all its floats rounded in that way."""
    if isinstance(value, dict):
        return {key: shortened(inner, digits) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [shortened(inner, digits) for inner in value]
    return significant(value, digits) if isinstance(value, float) else value
