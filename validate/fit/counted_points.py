"""Models measured points as functions of a calibration. Operations are counted once, so a fit can quickly try
many calibrations.

The scenarios come from the same code as those of `perfmodel whatif`, so users get the same predictions.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from perfmodel.answers.question import Query, resolve
from perfmodel.costs.operation import Op
from perfmodel.costs.roofline import Machine
from perfmodel.operations import Array
from perfmodel.specs import Calibration, attention_of
from perfmodel.specs.published import MeasuredPoint
from perfmodel.speculation import Scenario, with_calibration

TIMES = ("target_s", "draft_s", "verify_s", "overhead_s")
"""The fitted quantities: the times of the three passes, and the time of an iteration outside the passes."""
ANY_ALPHA = 0.8
"""Acceptance of points without a published acceptance. The value does not affect any time."""


@dataclass(frozen=True)
class PassPart:
    """One kind of pass in a measured quantity.

    - tokens: the number of tokens of all sequences in one pass.
    - times: the number of runs of the pass. For the draft of a tree, each width of a level has its own part,
      and `times` is the share of the levels with this width.
    - levels: whether each pass also selects the nodes of a level of a tree.
    """

    machine: Machine
    ops: list[Op]
    tokens: Array
    times: float = 1.0
    levels: bool = False

    def predict(self, calibration: Calibration) -> Array:
        """The predicted seconds of all `times` passes."""
        machine = replace(self.machine, calibration=calibration)
        pass_s = np.asarray(machine.predicted_s(self.ops, self.tokens))
        if self.levels:
            pass_s = pass_s + calibration.tree_level_s.value
        return self.times * pass_s


@dataclass(frozen=True)
class Group:
    """Points that differ only in batch, context and gamma.

    - index: the indices of these points among all points.
    - passes: quantity -> the passes whose times add up to it.
    """

    scenario: Scenario
    index: NDArray[np.intp]
    batch: Array
    context: Array
    passes: dict[str, list[PassPart]]

    def predict(self, calibration: Calibration) -> dict[str, Array]:
        """Quantity -> the predicted seconds of each point, for the quantities that the points have."""
        times = {}
        for name, parts in self.passes.items():
            times[name] = np.sum([part.predict(calibration) for part in parts], axis=0)
        if "verify_s" in self.passes:
            scenario = with_calibration(self.scenario, calibration)
            times["overhead_s"] = np.asarray(scenario.overhead_s(self.batch, self.context))
        return times

    def lower_s(self, quantity: str) -> Array:
        """The physical lower bound of a quantity for each point, in seconds."""
        lower = [p.times * p.machine.time(p.ops, p.tokens).lower_s for p in self.passes[quantity]]
        return np.broadcast_to(sum(lower), self.batch.shape)

    def bytes_read(self, quantity: str) -> Array:
        """The bytes of weights and cache that one pass of a quantity reads, for each point. If the quantity
        has several parts, it is the smallest of their numbers.
        """
        by_part = []
        for part in self.passes[quantity]:
            read = sum(op.cost.weight_bytes + op.cost.kv_bytes for op in part.ops)
            by_part.append(np.broadcast_to(read, self.batch.shape))
        return np.min(by_part, axis=0)


class PointSet:
    """Points in a fixed order, with their counted operations.

    - layout: a calibration. Its `shards_lm_head` determines the counts, so `predict` needs calibrations with
      the same value.
    """

    def __init__(self, points: tuple[MeasuredPoint, ...], layout: Calibration) -> None:
        self.points = points
        self.layout = layout
        by_kind: dict[tuple[object, ...], list[int]] = {}
        for i, p in enumerate(points):
            drafted = (p.draft, p.draft_kv, p.gamma is None, p.widths)
            served = (p.target, p.weights, p.kv_dtype, p.attention_backend)
            key = (p.hardware, p.tp, *served, *drafted)
            by_kind.setdefault(key, []).append(i)
        self.groups = [_group(points, np.array(index), layout) for index in by_kind.values()]

    def measured(self, quantity: str) -> Array:
        """The measured values of a quantity for each point, in seconds except for the speedup; NaN if the
        source does not state a value.
        """
        return np.array([getattr(p, quantity) for p in self.points], dtype=float)

    def predict(self, calibration: Calibration) -> dict[str, Array]:
        """Quantity -> the predicted seconds of each point; NaN if the point does not have the quantity.

        Raises ValueError if `shards_lm_head` differs from that of `layout`.
        """
        if calibration.shards_lm_head != self.layout.shards_lm_head:
            raise ValueError("counted under another layout of the LM head")
        out = {name: np.full(len(self.points), np.nan) for name in TIMES}
        for group in self.groups:
            for name, seconds in group.predict(calibration).items():
                out[name][group.index] = seconds
        return out

    def iteration_s(self, times: dict[str, Array]) -> Array:
        """The time of a whole speculative iteration of each point, in seconds.

        - times: the result of `predict`.
        """
        drafts = np.array([p.drafts for p in self.points], dtype=float)
        return np.asarray(drafts * times["draft_s"] + times["verify_s"] + times["overhead_s"])

    def speedup(self, times: dict[str, Array]) -> Array:
        """The speedup of each point, from predicted times and the measured tokens per iteration; NaN if these
        tokens were not measured.

        - times: the result of `predict`.
        """
        gained = np.array([p.tokens_per_iteration for p in self.points], dtype=float)
        return gained * times["target_s"] / self.iteration_s(times)


def scenario_of(p: MeasuredPoint, calibration: Calibration) -> Scenario:
    """The scenario of a measured point, with its measured tokens per iteration or acceptance if it states
    one.
    """
    tokens_per_iteration = p.tokens_per_iteration if p.gamma else None
    alpha = None
    if tokens_per_iteration is None:
        alpha = ANY_ALPHA if p.alpha is None else p.alpha
    query = Query(
        model=p.target,
        hardware=p.hardware,
        batch=p.batch,
        context=p.context,
        gamma=p.gamma or 1,
        tp=p.tp,
        draft=p.draft or "self",
        draft_kv=p.draft_kv or "full",
        alpha=alpha,
        tokens_per_iteration=tokens_per_iteration,
        weights=p.weights,
        kv_dtype=p.kv_dtype,
        calibration="ideal",  # the calibration of the device may be the one that is being fitted
    )
    scenario = with_calibration(resolve(query), calibration)
    if attention_of(calibration.stack) is None:
        return scenario
    return replace(scenario, machine=replace(scenario.machine, attention_backend=p.attention_backend))


def _group(points: tuple[MeasuredPoint, ...], index: NDArray[np.intp], layout: Calibration) -> Group:
    first = points[index[0]]
    scenario = scenario_of(first, layout)
    batch = np.array([points[i].batch for i in index], dtype=float)
    context = np.array([points[i].context for i in index], dtype=float)
    query = np.array([points[i].query for i in index])
    target_ops = scenario.target_ops(batch, context)
    passes = {"target_s": [PassPart(scenario.machine, target_ops, batch)]}
    if first.draft is not None:
        passes["draft_s"] = []
        for tokens, times in draft_passes(first):
            draft_ops = scenario.draft_ops(batch, context, tokens)
            draft_pass = PassPart(
                scenario.draft_machine, draft_ops, batch * tokens, times, first.widths is not None
            )
            passes["draft_s"].append(draft_pass)
    if first.gamma is not None or first.widths:
        verify_ops = scenario.target_ops(batch, context, query)
        passes["verify_s"] = [PassPart(scenario.machine, verify_ops, batch * query)]
    return Group(scenario, index, batch, context, passes)


def draft_passes(p: MeasuredPoint) -> list[tuple[float, float]]:
    """The kinds of draft passes of a point. Each kind is a pair of the tokens per sequence in a pass, and the
    share of the draft passes with this number of tokens.
    """
    levels = p.widths[:-1] if p.widths else (1,)
    return [(float(width), levels.count(width) / len(levels)) for width in dict.fromkeys(levels)]
