"""Measured points with their operations counted once, so that many calibrations can be tried on them in little time.

The scenarios are those that `perfmodel whatif` would build, so what is predicted here is what a user is told.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from perfmodel.answers.query import Query, resolve
from perfmodel.costs.roofline import Machine, PassTime
from perfmodel.operations import Op
from perfmodel.specs.calibration import Calibration
from perfmodel.specs.published import MeasuredPoint
from perfmodel.speculation.scenario import Scenario
from perfmodel.speculation.uncertainty import with_calibration

Array = NDArray[np.float64]
TIMES = ("target_s", "draft_s", "verify_s", "overhead_s")
"""What is fitted: the three passes and the time of an iteration outside them."""


@dataclass(frozen=True)
class Group:
    """The points that differ in batch, context and gamma alone. `index`: their places among all points."""

    scenario: Scenario
    index: NDArray[np.intp]
    batch: Array
    context: Array
    query: Array
    passes: dict[str, list[Op]]

    def machine(self, quantity: str) -> Machine:
        """The devices that a pass runs on."""
        return self.scenario.draft_machine if quantity == "draft_s" else self.scenario.machine

    def tokens(self, quantity: str) -> Array:
        """Tokens of one pass over all sequences."""
        return self.batch * self.query if quantity == "verify_s" else self.batch

    def predict(self, calibration: Calibration) -> dict[str, Array]:
        """Calibrated seconds by quantity; only those that the points have a use for."""
        times = {}
        for name, ops in self.passes.items():
            machine = replace(self.machine(name), calibration=calibration)
            times[name] = np.asarray(machine.predicted_s(ops, self.tokens(name)))
        if "verify_s" in self.passes:
            scenario = with_calibration(self.scenario, calibration)
            times["overhead_s"] = np.asarray(scenario.overhead_s(self.batch, self.context))
        return times

    def pass_time(self, quantity: str) -> PassTime:
        """All times of one pass under the scenario's own calibration."""
        return self.machine(quantity).time(self.passes[quantity], self.tokens(quantity))


class PointSet:
    """Points in a fixed order, counted under the layout (`shards_lm_head`) of one calibration."""

    def __init__(self, points: tuple[MeasuredPoint, ...], layout: Calibration) -> None:
        self.points = points
        self.layout = layout
        by_kind: dict[tuple[str | int | None, ...], list[int]] = {}
        for i, p in enumerate(points):
            key = (p.hardware, p.tp, p.target, p.weights, p.kv_dtype, p.draft, p.draft_kv, p.gamma is None)
            by_kind.setdefault(key, []).append(i)
        self.groups = [_group(points, np.array(index), layout) for index in by_kind.values()]

    def measured(self, quantity: str) -> Array:
        """Seconds, NaN where the source does not say."""
        values = (getattr(p, quantity) for p in self.points)
        return np.array([np.nan if v is None else v for v in values], dtype=float)

    def predict(self, calibration: Calibration) -> dict[str, Array]:
        """Calibrated seconds by quantity, NaN where a point has no such pass."""
        if calibration.shards_lm_head != self.layout.shards_lm_head:
            raise ValueError("counted under another layout of the LM head")
        out = {name: np.full(len(self.points), np.nan) for name in TIMES}
        for group in self.groups:
            for name, seconds in group.predict(calibration).items():
                out[name][group.index] = seconds
        return out

    def iteration_s(self, times: dict[str, Array]) -> Array:
        """A whole speculative iteration from predicted times."""
        gamma = np.array([p.gamma or 0 for p in self.points])
        iteration: Array = gamma * times["draft_s"] + times["verify_s"] + times["overhead_s"]
        return iteration

    def speedup(self, times: dict[str, Array]) -> Array:
        """Speedup from predicted times and the measured tokens per iteration; NaN without those."""
        gained = np.array([p.tokens_per_iteration or np.nan for p in self.points])
        return gained * times["target_s"] / self.iteration_s(times)


def scenario_of(p: MeasuredPoint, calibration: Calibration) -> Scenario:
    """The question that a measured row answers. Its acceptance is the row's where it prints one."""
    gained = p.tokens_per_iteration if p.gamma else None
    query = Query(
        model=p.target,
        hardware=p.hardware,
        batch=p.batch,
        context=p.context,
        gamma=p.gamma or 1,
        tp=p.tp,
        draft=p.draft or "self",
        draft_kv=p.draft_kv or "full",
        alpha=(0.8 if p.alpha is None else p.alpha) if gained is None else None,
        tokens_per_iteration=gained,
        weights=p.weights,
        kv_dtype=p.kv_dtype,
        calibration="ideal",  # the device's own may be what is being made
    )
    return with_calibration(resolve(query), calibration)


def _group(points: tuple[MeasuredPoint, ...], index: NDArray[np.intp], layout: Calibration) -> Group:
    first = points[index[0]]
    scenario = scenario_of(first, layout)
    batch = np.array([points[i].batch for i in index], dtype=float)
    context = np.array([points[i].context for i in index], dtype=float)
    query = np.array([(points[i].gamma or 0) + 1 for i in index], dtype=float)
    passes = {"target_s": scenario.target_ops(batch, context)}
    if first.draft is not None:
        passes["draft_s"] = scenario.draft_ops(batch, context)
    if first.gamma is not None:
        passes["verify_s"] = scenario.target_ops(batch, context, query)
    return Group(scenario, index, batch, context, query, passes)
