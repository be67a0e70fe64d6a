"""Fits the constants of a calibration to measured points, by bounded least squares on log errors."""

from dataclasses import dataclass
from functools import cache

import numpy as np

from perfmodel.operations import Array, Mask
from perfmodel.specs import CONSTANTS, Calibration, Constant, StatedFit, load_calibration
from perfmodel.specs.published import MeasuredPoint, published_points
from perfmodel.speculation import with_values
from perfmodel.validate.fit.counted_points import TIMES, PointSet
from perfmodel.validate.fit.recipes import Recipe
from perfmodel.validate.solving import Parameter, Values, estimate

WEIGHTS = {"target_s": 1.0, "draft_s": 1.0, "verify_s": 1.0, "overhead_s": 0.3}
"""Quantity -> weight of its log errors. The overhead has a lower weight, because it is a difference of
published figures and only about a twentieth of an iteration.
"""
SOFT = 0.05
"""Size above which a residual counts linearly (soft L1), so one outlier does not distort the fit."""
ENOUGH = 1e-8
"""Relative change of parameters or cost below which a fit ends."""
SEARCHED = {name: declared.search for name, declared in CONSTANTS.items() if declared.search}
"""Constant that can be fitted -> its search range."""


@dataclass(frozen=True)
class Fit:
    """A fitted calibration.

    - values: the values of the free constants.
    - stderr: the standard errors of the free constants that are not at a bound.
    - at_bound: the free constants that ended at a bound of their search range.
    """

    calibration: Calibration
    values: dict[str, float]
    stderr: dict[str, float]
    at_bound: tuple[str, ...]


@cache
def points_of(recipe: Recipe) -> PointSet:
    """The published points of a recipe, with counted operations."""
    points = []
    for p in published_points(recipe.set_name):
        if p.hardware == recipe.gpu and p.stack == recipe.stack:
            points.append(p)
    return PointSet(tuple(points), start_of(recipe))


@cache
def start_of(recipe: Recipe) -> Calibration:
    """The calibration from which the fit of a recipe starts: its base with its pinned values."""
    pinned = {name: Constant(value=value, source=why) for name, (value, why) in recipe.pinned.items()}
    return load_calibration(recipe.base).replace(**pinned, shards_lm_head=recipe.shards_lm_head)


def used(points: tuple[MeasuredPoint, ...], train: Mask) -> dict[str, Mask]:
    """Quantity -> mask of the points to which it is fitted. If several rows repeat one baseline time, only
    the first of these rows counts for ``target_s``.

    - train: mask of the points of the fit.
    """
    first = np.zeros(len(points), dtype=bool)
    seen: set[tuple[object, ...]] = set()
    for i in np.flatnonzero(train):
        p = points[i]
        key = (p.hardware, p.stack, p.tp, p.target, p.weights, p.batch, p.context, p.target_s)
        first[i] = key not in seen
        seen.add(key)
    return {name: first if name == "target_s" else train for name in TIMES}


def fit(
    points: PointSet,
    start: Calibration,
    free: tuple[str, ...],
    train: Mask,
    begin: dict[str, float] | None = None,
) -> Fit:
    """Fits the constants in `free` to the points in the mask `train`. The other constants keep the values of
    `start`.

    - begin: the values at which the search begins; by default those of `SEARCHED`.
    """
    parameters = []
    for name in free:
        search = SEARCHED[name]
        parameters.append(Parameter(name, search.start, search.low, search.high, unit=search.scale))
    logs = {name: np.log(points.measured(name)) for name in TIMES}
    rows = used(points.points, train)
    chosen = {name: rows[name] & ~np.isnan(logs[name]) for name in TIMES}

    def residuals(values: Values) -> Array:
        times = points.predict(with_values(start, values))
        return weighted_residuals(times, logs, chosen)

    optimum = estimate(parameters, residuals, begin, soft=SOFT, xtol=ENOUGH, ftol=ENOUGH)
    inner = optimum.holding_bounds()
    freedom = max(len(optimum.solution.residuals) - len(inner.parameters), 1)
    stderr = inner.scaled(np.sqrt(2.0 * optimum.solution.cost / freedom)).stderr
    calibration = with_values(start, optimum.values)
    update: dict[str, object] = {}
    for name, error in stderr.items():
        update[name] = getattr(calibration, name).replace(stderr=error)
    correlation = tuple((*row[:i], 1.0) for i, row in enumerate(inner.correlation.tolist()))
    update["fit"] = StatedFit(parameters=tuple(stderr), correlation=correlation)
    return Fit(calibration.replace(**update), optimum.values, stderr, optimum.at_bound)


def weighted_residuals(times: dict[str, Array], logs: dict[str, Array], rows: dict[str, Mask]) -> Array:
    """The log errors of times, multiplied by the weights of the quantities, and concatenated in the order of
    `rows`.

    - times: the predicted times.
    - logs: the logarithms of the measured times.
    - rows: quantity -> mask of the points that are used for it.
    """
    residuals = []
    for name, mask in rows.items():
        ratios = np.log(times[name][mask]) - logs[name][mask]
        residuals.append(WEIGHTS[name] * ratios)
    return np.concatenate(residuals)
