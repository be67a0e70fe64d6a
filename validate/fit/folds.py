"""Judges a fit on held-out rows. The rows are divided into folds, and each fold is predicted by a refit
without it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from perfmodel.specs.published import MeasuredPoint
from perfmodel.validate.fit.counted_points import TIMES, Array, PointSet
from perfmodel.validate.fit.fitting import Fit, fit, points_of, start_of
from perfmodel.validate.fit.recipes import Recipe

Key = Callable[[MeasuredPoint], tuple[object, ...]]


def _context(p: MeasuredPoint) -> int:
    """The context of the plan, where sequences grew while they were timed."""
    return p.context if p.asked_context is None else p.asked_context


FOLDS: dict[str, Key] = {
    "point": lambda p: (
        p.hardware,
        p.target,
        p.weights if p.gamma is None else "",
        p.tp,
        p.batch,
        _context(p),
    ),
    "batch": lambda p: (p.batch,),
    "draft": lambda p: (p.target, p.draft, p.draft_kv),
    "model": lambda p: (p.target,),
    "context": lambda p: (_context(p),),
    "tp": lambda p: (p.tp,),
}
"""Kind of fold -> the key of a point; points with the same key are in the same fold. The accuracy check uses
``point``, with which no baseline time is in both the fitted and the judged rows.
"""


@dataclass(frozen=True)
class HeldOut:
    """The times of every point, predicted by a fit without its fold.

    - times: quantity -> seconds ``[point]``.
    - fold: number of the fold of each point, ``[point]``.
    - fits: the fit without each fold.
    """

    points: PointSet
    times: dict[str, Array]
    fold: NDArray[np.intp]
    fits: tuple[Fit, ...]


@cache
def whole_fit(recipe: Recipe) -> Fit:
    """The fit to all rows of a recipe."""
    points = points_of(recipe)
    return fit(points, start_of(recipe), recipe.free, np.ones(len(points.points), dtype=bool))


def folds_of(points: tuple[MeasuredPoint, ...], by: str) -> NDArray[np.intp]:
    """The fold of each point, numbered by first appearance."""
    numbers: dict[tuple[object, ...], int] = {}
    return np.array([numbers.setdefault(FOLDS[by](p), len(numbers)) for p in points])


@cache
def held_out(recipe: Recipe, by: str = "point") -> HeldOut:
    """Fits a recipe once without each of its folds and predicts this fold. There must be two folds or more,
    see `has_folds`.
    """
    points = points_of(recipe)
    fold = folds_of(points.points, by)
    times = {name: np.full(len(points.points), np.nan) for name in TIMES}
    fits = []
    for number in np.unique(fold):
        in_fold = fold == number
        refit = fit(points, start_of(recipe), recipe.free, ~in_fold, whole_fit(recipe).values)
        for name, seconds in points.predict(refit.calibration).items():
            times[name][in_fold] = seconds[in_fold]
        fits.append(refit)
    return HeldOut(points, times, fold, tuple(fits))


def has_folds(recipe: Recipe, by: str) -> bool:
    """Whether the rows of a recipe are in more than one fold of this kind. Rows without drafts have no folds
    by draft.
    """
    points = points_of(recipe).points
    if by == "draft" and not any(p.draft for p in points):
        return False
    return bool(folds_of(points, by).any())
