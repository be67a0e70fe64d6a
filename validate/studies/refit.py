"""Fits the constants that come from public runs to a part of these runs.

The fit is a regularised least-squares problem on the logarithms of step times and of ratios of iterations to
steps. A few Gauss-Newton steps solve the problem. Each error is the sum of three parts: one is common to a
source, one is common to a server, and one belongs to the row alone. Outliers have less weight (Student's t).

A constant without rows returns to its neutral value (`neutral`).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from perfmodel.operations import Array
from perfmodel.specs import VERSION_SEPARATOR
from perfmodel.validate.studies.measured_steps import FREE, MeasuredStep
from perfmodel.validate.studies.parameters import PlacedConstant


@dataclass(frozen=True)
class Variances:
    """Variances of the three parts of a log error.

    - source, server: the parts that are common to a source and to a server.
    - row: the part that belongs to the row alone.
    """

    source: float
    server: float
    row: float

    @property
    def total(self) -> float:
        """The variance of the error of a row."""
        return self.source + self.server + self.row

    def covariance(self, steps: Sequence["MeasuredStep"]) -> Array:
        """The covariance of the errors of these steps, ``[steps, steps]``."""
        same_source = np.array([[a.source == b.source for b in steps] for a in steps])
        same_server = np.array([[a.server == b.server for b in steps] for a in steps])
        same_row = np.eye(len(steps))
        return np.asarray(self.source * same_source + self.server * same_server + self.row * same_row)


VARIANCES = Variances(source=0.0015, server=0.0236, row=0.0142)
"""Variances of a normal fit to the errors of steps on 2026-11-24. They are fixed, so one outlying server does
not change all folds.
"""
TIME_SPREAD = 2.0
"""Spread of the logarithm of a time around its neutral value."""
FACTOR_SPREAD = 0.7
"""Spread of the logarithm of a factor around its neutral value."""
KNOWN_SPREAD = 0.3
"""Spread of the logarithm of a constant that is known from other data."""
DEGREES_OF_FREEDOM = 4.0
"""Degrees of freedom of the t distribution of errors. A small number gives outliers little weight."""
LATER_VERSION = 0.4
"""Neutral value of a version's factor on a time: the median of the 14 factors of this kind in
``engines.yaml``.
"""
SHARE_OF_TIME = 0.1
"""Neutral value of a time, as a share of its present value."""
GAUSS_NEWTON_STEPS = 7
"""Largest number of Gauss-Newton steps of a fit."""
EVEN_STEPS = 2
"""Number of first steps in which outliers have the same weight as other rows."""
LONGEST_STEP = 1.5
"""Largest change of the logarithm of a constant in one step."""
STEPS_WITH_SAME_SLOPES = 3
"""Number of successive steps that use the same slopes. Computing the slopes takes most of the time."""
SMALL_STEP = 1e-3
"""Largest change of a logarithm in a step after which a fit ends early."""
LOG_STEP = 0.02
"""Change of the logarithm of a constant for a finite difference."""


def neutral(parameter: PlacedConstant) -> float:
    """The logarithm of the neutral value of a constant over its present value.

    The neutral value is `PlacedConstant.elsewhere`, which other data determine, if there is such a value.
    Otherwise, it is `LATER_VERSION` for a version's factor on a time, 1 for any other factor, and
    `SHARE_OF_TIME` of the present value for a time.
    """
    if parameter.elsewhere:
        return math.log(parameter.elsewhere / parameter.expected)
    if VERSION_SEPARATOR in parameter.scope and parameter.name.endswith("_s"):
        return math.log(LATER_VERSION / parameter.expected)
    if parameter.times or parameter.name.endswith("factor"):
        return -math.log(parameter.expected)
    return math.log(SHARE_OF_TIME)


def _spread(parameter: PlacedConstant) -> float:
    """The standard deviation of the logarithm of a constant around its neutral value."""
    if parameter.elsewhere:
        return KNOWN_SPREAD
    return TIME_SPREAD if parameter.name.endswith("_s") else FACTOR_SPREAD


def refit(steps: Sequence[MeasuredStep], places: Sequence[str]) -> dict[str, float]:
    """Place of a constant -> the change of its logarithm in a fit to only these steps.

    - places: the constants to fit.
    """
    if not places:
        return {}
    neutral_changes = np.array([neutral(FREE[place]) for place in places])
    spread = np.array([_spread(FREE[place]) for place in places])
    shipped_errors = np.array([s.off for s in steps])
    row_precision = np.linalg.inv(VARIANCES.covariance(steps))
    changes = np.zeros(len(places))
    for done in range(GAUSS_NEWTON_STEPS):
        by_place = dict(zip(places, changes.tolist(), strict=True))
        moved = np.array([s.moved(by_place) for s in steps])
        if done % STEPS_WITH_SAME_SLOPES == 0:
            slopes = _slopes(steps, by_place, moved)
        errors = shipped_errors + moved
        root = _root_weights(errors, even=done < EVEN_STEPS)
        weights = np.outer(root, root) * row_precision
        precision = slopes.T @ weights @ slopes + np.diag(spread**-2)
        to_neutral = (neutral_changes - changes) / spread**2
        pull = -slopes.T @ weights @ errors + to_neutral
        step = np.linalg.solve(precision, pull)
        changes = changes + np.clip(step, -LONGEST_STEP, LONGEST_STEP)
        if done > EVEN_STEPS and np.abs(step).max() < SMALL_STEP:
            break
    return dict(zip(places, changes.tolist(), strict=True))


def _root_weights(errors: Array, even: bool) -> Array:
    """The square roots of the weights of rows, from the t distribution of errors.

    - even: whether all rows have the weight of an error of 0.
    """
    squares = errors**2 / VARIANCES.total
    if even:
        squares = np.zeros(len(errors))
    return np.asarray(np.sqrt((DEGREES_OF_FREEDOM + 1.0) / (DEGREES_OF_FREEDOM + squares)))


def _slopes(steps: Sequence[MeasuredStep], changes: Mapping[str, float], moved: Array) -> Array:
    """The derivatives of the predicted logarithms by the logarithms of the constants, ``[steps, places]``.

    - changes: place -> change of the logarithm at which the derivatives are taken.
    - moved: `MeasuredStep.moved` of each step at these changes.
    """
    slopes = np.zeros((len(steps), len(changes)))
    for row, step in enumerate(steps):
        for column, place in enumerate(changes):
            if place in step.places:
                further = step.moved({**changes, place: changes[place] + LOG_STEP})
                slopes[row, column] = (further - moved[row]) / LOG_STEP
    return slopes
