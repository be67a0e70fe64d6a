"""Shared parts of all fits and comparisons: the least-squares solver, rounding, and grouping of rows. scipy
is imported only when it is used.
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
"""Distance from a bound, in the solver's own units, below which a value counts as being on the bound."""


@dataclass(frozen=True)
class Solution:
    """The result of a search.

    - x: the coordinates of the solution, [parameters].
    - residuals: [rows], before the loss function.
    - slopes: derivatives of the residuals, [rows, parameters].
    - cost: half the sum of squared residuals, after the loss function.
    - at_bound: whether each parameter is on a bound.
    """

    x: Array
    residuals: Array
    slopes: Array
    cost: float
    at_bound: NDArray[np.bool_]

    @property
    def covariance(self) -> Array:
        """The covariance of `x`, [parameters, parameters], if residuals are in units of their standard
        deviation.
        """
        return np.asarray(np.linalg.pinv(self.slopes.T @ self.slopes))


NOTHING = Solution(np.zeros(0), np.zeros(0), np.zeros((0, 0)), 0.0, np.zeros(0, dtype=bool))
"""The solution of a problem without parameters."""


def least_squares(
    residuals: Callable[[Array], Array],
    start: ArrayLike,
    low: ArrayLike = -np.inf,
    high: ArrayLike = np.inf,
    *,
    soft: float | None = None,
    **settings: Any,
) -> Solution:
    """The x between `low` and `high` with the smallest sum of squared residuals. The search begins at
    `start`.

    - soft: size above which a residual counts linearly (soft L1); None for no such limit.
    - settings: further arguments of scipy.optimize.least_squares.
    """
    from scipy.optimize import least_squares as search

    loss: dict[str, Any] = {} if soft is None else {"loss": "soft_l1", "f_scale": soft}
    end = search(residuals, np.asarray(start, float), bounds=(low, high), **loss, **settings)
    edge = np.minimum(end.x - np.asarray(low), np.asarray(high) - end.x) < AT_BOUND
    return Solution(end.x, end.fun, end.jac, float(end.cost), edge)


@dataclass(frozen=True, slots=True)
class Parameter:
    """A fitted number. Its search starts at `expected` and stays between `low` and `high`.

    - log: whether the search uses its logarithm; otherwise it uses steps of `unit` from `origin`.
    - spread: the standard deviation of a prior around `expected`, of the logarithm or of the value. None if
      there is no prior, and `expected` is only the start.
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
        """The coordinate of a value in the search."""
        if self.log:
            return float(np.log(value)) if value > 0 else -np.inf
        return (value - self.origin) / self.unit

    def value(self, coordinate: float) -> float:
        """The value at a coordinate of the search, limited to the bounds."""
        value = float(np.exp(coordinate)) if self.log else self.origin + coordinate * self.unit
        return min(max(value, self.low), self.high)

    @property
    def prior_width(self) -> float:
        """The spread in coordinates of the search. The parameter must have a spread."""
        assert self.spread is not None
        return self.spread if self.log else self.spread / self.unit

    def per_coordinate(self, value: float) -> float:
        """The change of the value per unit of the coordinate."""
        return value if self.log else self.unit


Values = Mapping[str, float]
"""Name of a parameter -> its value."""


@dataclass(frozen=True)
class Estimate:
    """The result of a fit.

    - covariance: that of the coordinates (`Parameter.coordinate`), [parameters, parameters], if residuals are
      in units of their standard deviation.
    - solution: the solution in coordinates. The last of its residuals are those of the priors.
    - at_bound: names of the parameters on a bound.
    """

    parameters: tuple[Parameter, ...]
    values: dict[str, float]
    solution: Solution
    covariance: Array
    at_bound: tuple[str, ...]

    @property
    def stderr(self) -> dict[str, float]:
        """Name of a parameter -> standard error of its value, in the unit of the value."""
        deviations = np.sqrt(np.abs(np.diag(self.covariance))).tolist()
        scales = [p.per_coordinate(self.values[p.name]) for p in self.parameters]
        return {p.name: d * s for p, d, s in zip(self.parameters, deviations, scales, strict=True)}

    def holding_bounds(self) -> "Estimate":
        """The estimate without the parameters that are at a bound. Their values count as known."""
        inner = ~self.solution.at_bound
        parameters = tuple(p for p, keep in zip(self.parameters, inner, strict=True) if keep)
        slopes = self.solution.slopes[:, inner]
        covariance = np.asarray(np.linalg.pinv(slopes.T @ slopes))
        return replace(self, parameters=parameters, covariance=covariance)

    @property
    def correlation(self) -> Array:
        """The correlation of the coordinates, [parameters, parameters]."""
        deviations = np.sqrt(np.diag(self.covariance))
        return np.asarray(np.clip(self.covariance / np.outer(deviations, deviations), -1.0, 1.0))

    def scaled(self, deviation: float) -> "Estimate":
        """The same estimate for residuals with this standard deviation instead of 1."""
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
    """The values with the smallest sum of squared residuals and squared deviations from priors.

    - residuals: a function that returns the residuals of the rows, [rows], for values by name.
    - start: values at which the search starts; by default the expected ones.
    - inside: smallest distance of the start from the bounds, in coordinates.
    - slopes: a function that returns the derivatives of the residuals by the coordinates, [rows, parameters];
      by default finite differences are used.
    - soft, settings: see `least_squares`.
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
    """Non-negative values, and their standard errors."""

    values: Array
    stderr: Array


def nonnegative(matrix: Array, wanted: Array) -> NonnegativeSolution:
    """The non-negative values x [columns] with which matrix @ x is closest to `wanted` [rows]. The matrix is
    [rows, columns].
    """
    from scipy.optimize import nnls

    x = nnls(matrix, wanted)[0]
    freedom = max(1, len(wanted) - matrix.shape[1])
    spread = float(np.sum((matrix @ x - wanted) ** 2) / freedom)
    variances = np.diag(np.linalg.pinv(matrix.T @ matrix)) * spread
    return NonnegativeSolution(x, np.sqrt(variances))


def grouped(rows: Iterable[Row], key: Callable[[Row], Key]) -> dict[Key, list[Row]]:
    """Key -> its rows. Keys and rows are in the order of appearance."""
    groups: dict[Key, list[Row]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups


def significant(value: float, digits: int) -> float:
    """A number rounded to `digits` significant digits."""
    return float(f"{value:.{digits}g}")


def shortened(value: Any, digits: int) -> Any:
    """The value with all floats in it rounded to `digits` significant digits."""
    if isinstance(value, dict):
        return {key: shortened(inner, digits) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [shortened(inner, digits) for inner in value]
    return significant(value, digits) if isinstance(value, float) else value
