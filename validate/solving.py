"""Shared parts of all fits and comparisons: the least-squares solver, rounding, groups of rows.

scipy is imported on use.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

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


def nonnegative(matrix: Array, wanted: Array) -> tuple[Array, Array]:
    """The x >= 0 for which `matrix` [rows, columns] times x is closest to `wanted` [rows], and standard
    errors of x.
    """
    from scipy.optimize import nnls

    x = nnls(matrix, wanted)[0]
    freedom = max(1, len(wanted) - matrix.shape[1])
    spread = float(np.sum((matrix @ x - wanted) ** 2) / freedom)
    return x, np.sqrt(np.diag(np.linalg.pinv(matrix.T @ matrix)) * spread)


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
