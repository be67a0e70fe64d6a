"""Predicts measured points by refits without them. The points of a recipe are divided into folds, and each
fold is predicted by a refit without the fold.
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
"""A function that returns the key of a point. Points with the same key are in the same fold."""


def _context(p: MeasuredPoint) -> int:
    """The context in the plan of the measurement. Sequences can grow while they are timed."""
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
"""Kind of fold -> its key. The accuracy check uses ``point``, with which a baseline time is never in both the
fitted and the predicted points.
"""


@dataclass(frozen=True)
class HeldOut:
    """The times of every point, predicted by a fit without the point's fold.

    - times: quantity -> predicted seconds, ``[point]``.
    - fold: the number of the fold of each point, ``[point]``.
    - fits: the fit without each fold, by number.
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
    """The number of the fold of each point. Folds are numbered in the order of their first points.

    - by: the kind of fold.
    """
    numbers: dict[tuple[object, ...], int] = {}
    return np.array([numbers.setdefault(FOLDS[by](p), len(numbers)) for p in points])


@cache
def held_out(recipe: Recipe, by: str = "point") -> HeldOut:
    """Fits a recipe once without each of its folds, and predicts this fold with the fit. There must be at
    least two folds (`has_folds`).

    - by: the kind of fold.
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
    """Whether the points of a recipe are in more than one fold of this kind. Points without drafts have no
    folds by draft.
    """
    points = points_of(recipe).points
    if by == "draft" and not any(p.draft for p in points):
        return False
    return bool(folds_of(points, by).any())
