"""Fits the costs of a request to simulations of served runs, with a regularised least-squares fit.

Every run is simulated once with the present constants, and once for each constant with only this constant
changed. The fit assumes that the residuals are linear in the constants. A fit that leaves out some runs is
then a small least-squares problem.

The prior of an engine on one GPU architecture is the value of the engine. The prior of an engine is the
common value. The prior of the common value is the present value, so a second fit takes a second step.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from perfmodel.operations import Array
from perfmodel.specs.engines.request_costs import EngineRequests, request_constants
from perfmodel.validate.solving import significant
from perfmodel.validate.studies.served_runs import STUDIES, HeldOutBy, ServedRun, runs
from perfmodel.validate.studies.traffic import Compared, compare

WEIGHED = {"tpot_mean_ms": 0.05, "output_tokens_per_s": 0.05, "ttft_mean_ms": 0.15}
"""Figure that counts in the fit -> the standard deviation of its log error from other causes than these
constants.
"""
FIT_ROUNDS = 10
"""Number of rounds of a fit. Each round computes the weights of runs from the residuals of the round
before.
"""
FAR_RESIDUAL = 3.0
"""Size of a residual, in standard deviations, above which it counts less."""
MOST_RUNS = 30.0
"""Upper limit of the weight of a study. Studies with more runs count as this many runs."""


@dataclass(frozen=True, slots=True)
class Scale:
    """The scale on which a constant is fitted: its logarithm (`log`), or its value from 0 to `most`.

    - step: the change of the constant in a trial simulation.
    - common: the standard deviation of the common value around the present value.
    - engine: the standard deviation of an engine's value around the common value. It is also that of the
      value on one architecture around the engine's value.
    """

    step: float
    common: float
    engine: float
    most: float = math.inf
    log: bool = False

    def moved(self, value: float, by: float) -> float:
        """The constant after a change on its scale, within its limits.

        - value: the constant before the change.
        - by: the change.
        """
        if self.log:
            return value * math.exp(by)
        return min(max(value + by, 0.0), self.most)

    def trial(self, value: float) -> float:
        """The constant after one step up on its scale. If this would exceed the upper limit, it is one step
        down.
        """
        has_room = self.log or value + self.step <= self.most
        return self.moved(value, self.step if has_room else -self.step)

    def ends(self, value: float) -> tuple[float, float]:
        """The smallest and the largest allowed change of a constant on its scale."""
        if self.log:
            return (-math.inf, math.inf)
        return (-value, self.most - value)

    def between(self, before: float, after: float) -> float:
        """The distance between two values on the scale."""
        return math.log(after / before) if self.log else after - before


SCALES = {
    "request_s": Scale(step=5e-3, common=10e-3, engine=10e-3),
    "prompt_token_s": Scale(step=2e-6, common=4e-6, engine=4e-6),
    "prompt_factor": Scale(step=0.1, common=0.3, engine=0.15, log=True),
    "prompt_kernel_s": Scale(step=5e-6, common=2e-5, engine=2e-5),
    "passes_ahead": Scale(step=0.4, common=0.5, engine=0.3, most=1.0),
    "reserved_bytes": Scale(step=0.5, common=0.7, engine=0.3, log=True),
}
"""Cost of a request (a field of `EngineRequests`) -> its scale, in the order of the arrays of a fit."""


@dataclass(frozen=True, slots=True)
class StraightLines:
    """The residuals of a run as linear functions of the constants.

    - off: the residual of each figure of `WEIGHED`, in its standard deviations, ``[figure]``.
    - slopes: their derivatives per unit of each constant's scale, ``[figure, constant]``.
    """

    run: ServedRun
    off: Array
    slopes: Array

    def around(self, costs: EngineRequests) -> "StraightLines":
        """The same linear functions, with the residuals at other constants."""
        move = _between(request_constants().engines[self.run.place], costs)
        return replace(self, off=self.off + self.slopes @ move)


class Replay(Protocol):
    """A function that simulates a run, with the arguments of `compare`."""

    def __call__(
        self, run: ServedRun, by: HeldOutBy, costs: EngineRequests | None = None, measured: bool = False
    ) -> Compared: ...


def straight_lines_of(run: ServedRun, replay: Replay = compare) -> StraightLines:
    """Simulates a run with the present constants, and once for each constant with only this constant changed.
    The simulations use measured pass times.
    """
    known = request_constants().engines[run.place]

    def off(costs: EngineRequests) -> Array:
        ratios = replay(run, HeldOutBy.LENGTH, costs, measured=True).ratios
        residuals = []
        for name, width in WEIGHED.items():
            residuals.append(math.log(ratios[name]) / width if name in ratios else 0.0)
        return np.array(residuals)

    base = off(known)
    slopes = []
    for name, scale in SCALES.items():
        before = getattr(known, name)
        after = scale.trial(before)
        moved = off(known.replace(**{name: after})) - base
        slopes.append(moved / scale.between(before, after))
    return StraightLines(run, base, np.array(slopes).T)


def fitted(lines: Sequence[StraightLines]) -> dict[str, EngineRequests]:
    """Engine, engine on an architecture, or ``common`` -> the constants that are fitted to these runs."""
    common = np.array([scale.common for scale in SCALES.values()])
    engine = np.array([scale.engine for scale in SCALES.values()])
    before = request_constants()
    shared = solved(lines, common, np.zeros(len(SCALES)), before.common)
    after = {"common": _moved(before.common, shared)}
    engines = {line.run.engine for line in lines}
    places = {line.run.place for line in lines}
    for name in sorted(engines | places):  # an engine precedes its architectures
        costs = before.engines[name]
        of_engine = after.get(name.partition(".")[0])
        start = shared if of_engine is None else _between(costs, of_engine)
        of_place = [line for line in lines if name in (line.run.engine, line.run.place)]
        move = solved([line.around(costs) for line in of_place], engine, start, costs)
        after[name] = _moved(costs, move)
    return after


def without(
    lines: Sequence[StraightLines], by: Callable[[ServedRun], str]
) -> dict[str, dict[str, EngineRequests]]:
    """Held-out group -> the constants that were fitted to the other runs.

    - by: a function that returns the group of a run.
    """
    names = dict.fromkeys(by(run) for study in STUDIES for run in runs(study))
    return {name: fitted([line for line in lines if by(line.run) != name]) for name in names}


def solved(lines: Sequence[StraightLines], spreads: Array, start: Array, before: EngineRequests) -> Array:
    """The changes of the constants that fit the residuals best, on the scales of `SCALES`.

    The fit uses iteratively reweighted least squares with Cauchy weights of the scale `FAR_RESIDUAL`, so
    large residuals count less.

    - lines: the residuals at the constants `before`.
    - start, spreads: the expected changes and their standard deviations.
    """
    low, high = np.array([scale.ends(getattr(before, name)) for name, scale in SCALES.items()]).T
    off = np.concatenate([line.off for line in lines])
    slopes = np.concatenate([line.slopes for line in lines])
    runs_of = Counter(line.run.study for line in lines)
    shares = [min(MOST_RUNS / runs_of[line.run.study], 1.0) for line in lines]
    counted = np.repeat(shares, [line.off.size for line in lines])
    weights = np.ones(off.size)
    move = start
    for _ in range(FIT_ROUNDS):
        weighed = (counted * weights)[:, None] * slopes
        normal = weighed.T @ slopes + np.diag(spreads**-2.0)
        right = start / spreads**2 - weighed.T @ off
        move = within(normal, right, low, high)
        residuals = off + slopes @ move
        weights = 1.0 / (1.0 + (residuals / FAR_RESIDUAL) ** 2)
    return np.asarray(move)


def within(normal: Array, right: Array, low: Array, high: Array) -> Array:
    """The solution x of the normal equations `normal` x = `right`. Components that would exceed the limit
    `low` or `high` are fixed at this limit.
    """
    move = np.linalg.solve(normal, right)
    fixed = np.zeros(move.size, bool)
    while True:
        beyond = (move < low) | (move > high)
        beyond &= ~fixed
        if not beyond.any():
            return np.asarray(move)
        fixed |= beyond
        free = ~fixed
        move = np.clip(move, low, high)
        rest = right[free] - normal[np.ix_(free, fixed)] @ move[fixed]
        move[free] = np.linalg.solve(normal[np.ix_(free, free)], rest)


def _between(before: EngineRequests, after: EngineRequests) -> Array:
    return np.array([s.between(getattr(before, n), getattr(after, n)) for n, s in SCALES.items()])


def _moved(before: EngineRequests, move: Array) -> EngineRequests:
    values = {}
    for (name, scale), by in zip(SCALES.items(), move.tolist(), strict=True):
        value = scale.moved(getattr(before, name), by)
        values[name] = significant(value, 3)
    return before.replace(**values)
