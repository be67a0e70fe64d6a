"""Judges a fit on held-out rows: refits without a fold, and the errors on that fold."""

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
"""Keys of folds. ``point`` is the rule of the gate: device, target, batch and context, so that no baseline
time is in both parts.
"""


@dataclass(frozen=True)
class HeldOut:
    """Times of every point, predicted by a fit without its fold.

    times: name of a time -> seconds ``[point]``. fold: number of the fold, ``[point]``. fits: one per
    fold.
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
    """Refits a recipe once without each of its folds (two or more, see `has_folds`) and predicts that
    fold.
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
    """Whether a recipe's rows differ in the key of the folds; baseline rows have no draft."""
    points = points_of(recipe).points
    if by == "draft" and not any(p.draft for p in points):
        return False
    return bool(folds_of(points, by).any())
