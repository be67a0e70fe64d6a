"""Fits two constants of engines that run one model on several nodes: `waiting` and `overlap` (see
`Fabric`).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from typing import NamedTuple

import numpy as np

from perfmodel.speculation import Scenario, Workload, predict
from perfmodel.validate.studies.rack_rows import RackRow, scenario_of

USUAL_WAITING = 1.25
USUAL_OVERLAP = 0.5
"""Expected values of the constants. A constant without rows has its expected value."""
WAITING_SPREAD = 0.3
"""Standard deviation of the logarithm of `waiting` around its expected value."""
OVERLAP_SPREAD = 0.3
"""Standard deviation of `overlap` around its expected value."""
STEP_ERROR = 0.2
"""Standard deviation of the log error of a step. It sets the weight of the rows against the expected
values.
"""
WAITING_GRID = (1.0, 1.05, 1.1, 1.15, 1.2, 1.25, 1.3, 1.4, 1.5, 1.7, 2.0)
OVERLAP_GRID = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
"""Values that a fit tries."""


class EngineConstants(NamedTuple):
    """The constants of one engine, with the meanings of `Fabric.waiting` and `Fabric.overlap`."""

    waiting: float
    overlap: float

    def applied_to(self, scenario: Scenario) -> Scenario:
        """The scenario with these constants. A scenario on one node has none, and a scenario without
        micro-batches keeps the overlap 0.
        """
        fabric = scenario.machine.fabric
        if fabric is None:
            return scenario
        overlap = self.overlap if fabric.overlap else 0.0
        changed = replace(fabric, waiting=self.waiting, overlap=overlap)
        return replace(scenario, machine=replace(scenario.machine, fabric=changed))


@dataclass(frozen=True, slots=True)
class RackConstants:
    """The fitted constants of all engines.

    - overlap: engine -> its overlap. Engines that are not listed have `USUAL_OVERLAP`.
    """

    waiting: float
    overlap: Mapping[str, float]

    def of_engine(self, engine: str) -> EngineConstants:
        """The constants of one engine."""
        return EngineConstants(self.waiting, self.overlap.get(engine, USUAL_OVERLAP))

    @property
    def penalty(self) -> float:
        """The penalty for the distance of the constants from their expected values. A constant that is one
        standard deviation away adds as much as one source whose steps have the error `STEP_ERROR`.
        """
        deviations = [math.log(self.waiting / USUAL_WAITING) / WAITING_SPREAD]
        deviations += [(overlap - USUAL_OVERLAP) / OVERLAP_SPREAD for overlap in self.overlap.values()]
        return STEP_ERROR**2 * sum(deviation**2 for deviation in deviations)


class PredictedIteration(NamedTuple):
    """A predicted iteration, or a predicted step for a row without a draft.

    - tokens: the number of tokens that each sequence gains.
    """

    seconds: float
    tokens: float


def predicted_iteration(row: RackRow, constants: RackConstants) -> PredictedIteration:
    """The iteration of a row, predicted with these constants."""
    return _predicted_iteration(row, constants.of_engine(row.engine))


@cache
def _predicted_iteration(row: RackRow, constants: EngineConstants) -> PredictedIteration:
    scenario = constants.applied_to(scenario_of(row.row_id))
    workload = Workload.of(float(row.batch or 1), float(row.context or 0), row.gamma or 0)
    predicted = predict(scenario, workload)
    seconds = predicted.verify_s if row.draft == "simulated" else predicted.iteration_s
    return PredictedIteration(float(seconds), float(predicted.tokens_per_iteration))


def fit(rows: Sequence[RackRow]) -> RackConstants:
    """The constants with the smallest sum of the squared log errors of steps and of the penalty. Each source
    has the same weight. Only steps of layouts that send tokens between devices count.
    """
    steps = [r for r in rows if r.kind == "step" and scenario_of(r.row_id).layout.exchanges]
    engines = sorted({r.engine for r in steps if r.overlap})
    candidates = []
    for waiting in WAITING_GRID:
        for overlaps in product(OVERLAP_GRID, repeat=len(engines)):
            overlap_of = dict(zip(engines, overlaps, strict=True))
            candidates.append(RackConstants(waiting, overlap_of))
    return min(candidates, key=lambda constants: _misfit(steps, constants) + constants.penalty)


def _misfit(steps: Sequence[RackRow], constants: RackConstants) -> float:
    """The sum over sources of the mean squared log error of their steps."""
    by_source: dict[str, list[float]] = {}
    for row in steps:
        seconds = predicted_iteration(row, constants).seconds
        log_error = math.log(seconds * 1e3 / row.measured_step_ms)
        by_source.setdefault(row.source_id, []).append(log_error**2)
    return sum(float(np.mean(squares)) for squares in by_source.values())
