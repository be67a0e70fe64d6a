"""Speculative systems of other papers: which rows state enough to be predicted with nothing free, and how
that fares.

A row states enough where batch, accepted length, tree or draft length and device are printed and whatever
else it leaves open moves its predicted speedup by `SLACK` at most. Accepted lengths are the same study's. The
stack is stated too, by step times: those that the study prints, or a published law fitted to that stack; what
a verification adds to a baseline step is then the engine's (trees) or the law's (vLLM). `by_calibration` is
the speedup from the device's default calibration, which knows nothing of the stack.
"""

from dataclasses import dataclass, replace
from math import sqrt
from typing import Any

import numpy as np

from perfmodel.answers.question.query import Query, resolve
from perfmodel.specs.calibrations.calibration import load_calibration
from perfmodel.specs.calibrations.stacks import calibration_of
from perfmodel.specs.devices.gpu import load_gpu
from perfmodel.specs.published import MeasuredPoint, published_points
from perfmodel.speculation.chain import predict
from perfmodel.speculation.scenario import Scenario
from perfmodel.speculation.uncertainty import interval_of, log_error, with_calibration
from perfmodel.speculation.workload import Workload
from perfmodel.validate.studies.published_engines import ServedRow, served, step_law

SLACK = 0.05
"""Largest effect of a row's unstated inputs on its prediction, between their ends."""
CONTEXTS = (0.0, 2048.0)
"""Cached tokens per sequence between which a context that is only a data set's name is taken to be."""
NAMED_CONTEXT = 512
"""The context of questions about such rows."""
WITHOUT_OWN, STACKS = "a100-pcie-80gb", ("vllm", "magicdec", "gpt-fast", "literature")
"""A device with measured trees and no calibration of its own, and whose it could take over."""
HEADS = {"eagle:features=3": "EAGLE-3", "eagle": "EAGLE", "ngram": "n-gram"}


@dataclass(frozen=True, slots=True)
class SystemRow:
    """One published speedup. `low` and `high`: predicted over everything that the row leaves open."""

    row: str
    study: str
    target: str
    draft: str
    task: str
    batch: int
    drafted: str
    tokens_per_iteration: float
    measured: float
    low: float
    high: float
    by_calibration: float

    @property
    def predicted(self) -> float:
        """The middle of the range that the row leaves open."""
        return sqrt(self.low * self.high)

    @property
    def error(self) -> float:
        """Signed relative error."""
        return self.predicted / self.measured - 1.0

    @property
    def states_enough(self) -> bool:
        """Whether nothing that is left open matters."""
        return self.high / self.low - 1.0 <= SLACK


def systems() -> list[SystemRow]:
    """All rows of other papers that print batch, device, draft and accepted length."""
    return [*map(_tree_row, published_points("speculation_other")), *(_served_row(row) for row in served())]


def tree_speedup(p: MeasuredPoint, scenario: Scenario, own_steps: bool) -> float:
    """A tree row's speedup; from the step times that the study prints, or from the scenario's calibration
    alone.

    With own steps only what `n` tokens of a verification take beyond one is predicted.
    """
    assert p.tree is not None
    assert p.tokens_per_iteration is not None
    assert p.target_s is not None
    assert p.draft_s is not None
    size, levels = p.tree
    batch, context = float(p.batch), float(p.context)
    plain, verify = (float(scenario.target_pass_s(batch, context, n)) for n in (1.0, float(size)))
    if own_steps:
        iteration = p.target_s + (verify - plain) + (levels - 1) * p.draft_s
        return p.tokens_per_iteration * p.target_s / iteration
    # the shape is not printed node by node: levels of equal width
    draft = float(scenario.draft_pass_s(batch, context, (size - 1) / (levels - 1)))
    iteration = verify + (levels - 1) * draft + float(scenario.overhead_s(batch, context))
    return p.tokens_per_iteration * plain / iteration


def _tree_scenario(p: MeasuredPoint) -> Scenario:
    own = load_gpu(p.hardware).calibration  # no serving engine ran these
    query = Query(p.target, p.hardware, p.batch, p.context, 1, p.tp, draft=p.draft or "", alpha=0.0)
    return resolve(replace(query, weights=p.weights, calibration=own))


def _tree_row(p: MeasuredPoint) -> SystemRow:
    assert p.tree is not None
    scenario, chains = _tree_scenario(p), p.notes.startswith("SpecInfer")
    study, drafted = (
        "Sequoia, SpecInfer's trees" if chains else "Sequoia",
        f"{p.tree[0]} nodes, {p.tree[1]} levels",
    )
    ends, alone = [tree_speedup(p, scenario, own_steps=True)], tree_speedup(p, scenario, own_steps=False)
    return _row(p, p.row_id, study, drafted, ends, alone)


def _served_row(row: ServedRow) -> SystemRow:
    law = step_law()
    # an n-gram draft proposes nothing where it finds no match; at least every first token that is right was
    # found
    matches = (row.conditional[0], 1.0) if row.draft == "ngram" else (1.0,)
    ends = [law.speedup(row, context, match) for context in CONTEXTS for match in matches]
    sizes, gained = (row.batch, NAMED_CONTEXT, row.gamma), row.tokens_per_iteration
    asked = Query(
        row.target, row.hardware, *sizes, row.tensor_parallel, draft=row.draft, tokens_per_iteration=gained
    )
    alone = predict(resolve(asked), Workload.of(*sizes), row.gamma)
    return _row(
        row, row.id, f"SpecDecode-Bench, {HEADS[row.draft]}", str(row.gamma), ends, float(alone.speedup)
    )


def _row(
    of: MeasuredPoint | ServedRow,
    name: str,
    study: str,
    drafted: str,
    ends: list[float],
    by_calibration: float,
) -> SystemRow:
    assert of.tokens_per_iteration is not None
    assert of.speedup is not None
    return SystemRow(
        name,
        study,
        of.target,
        of.draft or "",
        of.task,
        of.batch,
        drafted,
        of.tokens_per_iteration,
        of.speedup,
        low=min(ends),
        high=max(ends),
        by_calibration=by_calibration,
    )


def transferred() -> list[dict[str, Any]]:
    """Calibrations that a device without one of its own could take over, on the rows measured on it.

    Mean errors over the tree rows, signed. ratio: of T_D/T_T. speedup: from the calibration alone;
    with_own_steps: mean absolute error where the study's plain and draft step are given. inside: rows whose
    stated interval holds the measured speedup.
    """
    default = calibration_of(load_gpu(WITHOUT_OWN)).name
    names = [f"{default.partition('.')[0]}.{stack}" for stack in STACKS]
    return [{"calibration": name, "chosen": name == default, **_transferred(name)} for name in names]


def _transferred(calibration: str) -> dict[str, Any]:
    points = [p for p in published_points("speculation_other") if p.hardware == WITHOUT_OWN]
    found, inside = [], 0
    for p in points:
        scenario, context = (
            with_calibration(_tree_scenario(p), load_calibration(calibration)),
            float(p.context),
        )
        assert p.speedup is not None
        target = float(scenario.target_pass_s(1.0, context)) / p.target_s  # type: ignore[operator]
        draft = float(scenario.draft_pass_s(1.0, context)) / p.draft_s  # type: ignore[operator]
        alone, stepped = (tree_speedup(p, scenario, own) for own in (False, True))
        found.append((target, draft, draft / target, alone / p.speedup, stepped / p.speedup))
        off = log_error(scenario, np.asarray(1.0), np.asarray(context), np.array([p.drafts]))
        interval = None if off is None else interval_of(alone, float(off[..., 0]))  # acceptance is the row's
        inside += interval is not None and interval[0] <= p.speedup <= interval[1]
    errors = np.array(found) - 1.0
    means = dict(zip(("target", "draft", "ratio", "speedup"), errors.mean(axis=0).tolist(), strict=False))
    own_steps = float(np.abs(errors[:, -1]).mean())
    return {**means, "with_own_steps": own_steps, "inside": inside, "rows": len(points)}
