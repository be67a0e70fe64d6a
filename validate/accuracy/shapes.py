"""Published figures that cannot be predicted, compared as shapes: orders of configurations and ratios of costs.

Each shape names what the source leaves unstated. Where that is a whole number (TriForce's inner draft length) every
plausible one must give the shape; where it is a context or a batch, the range it spans is shown.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from perfmodel.answers.moe import peak
from perfmodel.answers.query import Query, resolve
from perfmodel.specs.published_systems import ShapeRow, shapes, step_law
from perfmodel.speculation.acceptance import Acceptance
from perfmodel.speculation.chain import speedups
from perfmodel.speculation.scenario import Scenario
from perfmodel.speculation.two_levels import predict_two_levels
from perfmodel.validate.accuracy.systems import CONTEXTS, SystemRow, systems

INNER = (1, 2, 3)
"""TriForce's draft lengths of the small model that are tried: the paper does not print it."""
OUTER = 6
"""Its draft length of the sparse target: the README's."""
TRIFORCE_CONTEXT = 122 * 1024.0
MOE_CONTEXT, MOE_BATCHES = 400.0, np.arange(1, 129)


@dataclass(frozen=True, slots=True)
class Shape:
    """One comparison in words. alike: whether both put things in the same order; None where there is no order."""

    name: str
    source: str
    unstated: str
    measured: str
    predicted: str
    alike: bool | None


def found() -> list[Shape]:
    """All shapes."""
    return [*_triforce(), *_moe(), *_breakdown(), *_served(systems())]


def _triforce() -> Iterator[Shape]:
    rows = shapes("triforce")
    at = {row.configuration: row for row in rows if row.temperature == 0.6}
    order = sorted(at, key=lambda name: -(at[name].speedup or 0.0))
    predicted = {inner: _configurations(at, inner) for inner in INNER}
    same = all(sorted(p, key=lambda name: -p[name]) == order for p in predicted.values())
    yield Shape(
        name="TriForce at T = 0.6: order of four configurations",
        source=rows[0].source,
        unstated="the small model's draft length (1 to 3 tried), its acceptance by the sparse target",
        measured=" > ".join(f"{name} {at[name].speedup:.2f}" for name in order),
        predicted=" > ".join(f"{name} {_span([p[name] for p in predicted.values()])}" for name in order),
        alike=same,
    )
    for name in ("retrieval with hierarchy", "small draft alone"):
        steps = sorted((row for row in rows if row.configuration == name), key=lambda row: row.temperature or 0.0)
        first, last = steps[0], steps[-1]
        falls = [_falls(steps, name, inner) for inner in INNER]
        measured = (last.speedup or 0.0) / (first.speedup or 1.0)
        yield Shape(
            name=f"TriForce, {name}: speedup at T = 1.2 over T = 0",
            source=rows[0].source,
            unstated="as above",
            measured=f"{measured:.2f}",
            predicted=_span(falls),
            alike=(measured < 1) == (max(falls) < 1) == (min(falls) < 1),
        )


def _falls(steps: list[ShapeRow], name: str, inner: int) -> float:
    """Predicted speedup at the last of the temperatures over that at the first."""
    naive = {row.temperature: row for row in shapes("triforce") if row.configuration == "small draft alone"}
    ends = [
        _configurations({"small draft alone": naive[row.temperature], name: row}, inner)[name]
        for row in (steps[0], steps[-1])
    ]
    return ends[1] / ends[0]


def _configurations(at: dict[str, ShapeRow], inner: int) -> dict[str, float]:
    """Predicted speedups of TriForce's configurations; the small model's acceptance is that by the full target."""
    small = _triforce_scenario("llama-68m", "streamingllm:1024", at["small draft alone"].alpha or 0.0)
    within = _triforce_scenario("llama-68m", "streamingllm:256", at["small draft alone"].alpha or 0.0)
    out = {}
    for name, row in at.items():
        if name == "small draft alone":
            out[name] = float(speedups(small, 1.0, TRIFORCE_CONTEXT, np.array([inner]))[..., 0])
            continue
        kv = "retrieval:4096,every=1000" if name.startswith("retrieval") else "streamingllm:4096"
        middle = _triforce_scenario("self", kv, row.alpha or 0.0)
        if name.endswith("alone"):
            out[name] = float(speedups(middle, 1.0, TRIFORCE_CONTEXT, np.array([OUTER]))[..., 0])
        else:
            out[name] = float(predict_two_levels(within, middle, 1.0, TRIFORCE_CONTEXT, inner, OUTER).speedup)
    return out


def _triforce_scenario(draft: str, kv: str, alpha: float) -> Scenario:
    return resolve(
        Query("llama-2-7b-32k", "a100-sxm-80gb", 1, TRIFORCE_CONTEXT, OUTER, draft=draft, draft_kv=kv, alpha=alpha)
    )


def _moe() -> Iterator[Shape]:
    rows = shapes("moesd")
    asked = Query("mixtral-8x7b", "a100-sxm-80gb", 1, MOE_CONTEXT, 2, tp=2, draft="eagle", alpha=0.5)
    scenario = resolve(asked)
    measured: dict[int, list[float]] = {}
    predicted: dict[int, list[float]] = {}
    for row in rows:
        assert row.gamma is not None
        assert row.sigma is not None
        assert row.speedup is not None
        tokens = row.sigma * (row.gamma + 1)
        measured.setdefault(row.gamma, []).append(tokens / row.speedup)
        accepted = Acceptance.from_tokens_per_iteration(tokens, row.gamma)
        best = peak(replace(scenario, acceptance=accepted), MOE_CONTEXT, row.gamma, MOE_BATCHES)
        predicted.setdefault(row.gamma, []).append(best.round_cost)
    means = [{gamma: float(np.mean(costs)) for gamma, costs in of.items()} for of in (measured, predicted)]
    words = [_rise([of[gamma] for gamma in sorted(of)]) for of in means]
    yield Shape(
        name="MoESD, Mixtral-8x7B with EAGLE on two A800: round cost over T_T at gamma 2, 3, 4 (rise)",
        source=rows[0].source,
        unstated="the batch of the peak; A800 is counted as A100",
        measured=words[0],
        predicted=words[1],
        alike=all(_orderly([of[gamma] for gamma in sorted(of)]) for of in means),
    )


def _breakdown() -> Iterator[Shape]:
    law, rows = step_law(), shapes("bench")
    measured, spans = [], []
    for row in rows:
        assert row.batch is not None
        assert row.gamma is not None
        measured.append((row.draft_share or 0.0) / (row.verify_share or 1.0))
        drafted, verified = row.batch * row.gamma, row.batch * (row.gamma + 1)
        each = [law.drafting_s(drafted, row.batch * s) / law.pass_s(verified, row.batch * s) for s in CONTEXTS]
        spans.append(each)
    yield Shape(
        name="SpecDecode-Bench, EAGLE: drafting over verification at batch 1, 64, 128, 512",
        source=rows[0].source,
        unstated="the context (0 to 2,048 tokens); from the published step law",
        measured=", ".join(f"{m:.2f}" for m in measured),
        predicted=", ".join(_span(each) for each in spans),
        alike=_orderly(measured[::-1]) and _orderly([min(each) for each in spans][::-1]),
    )


def _served(rows: list[SystemRow]) -> Iterator[Shape]:
    """The rows that leave too much open: how many lie within what they leave open, and the fall with the batch."""
    opened = [row for row in rows if not row.states_enough]
    inside = sum(row.low <= row.measured <= row.high for row in opened)
    yield Shape(
        name="SpecDecode-Bench at batch 64 and 128, n-gram from 16: measured inside the predicted range",
        source="arXiv:2601.11580v2, Figure 1 (vector figure)",
        unstated="the context (0 to 2,048 tokens), how often an n-gram draft finds a match (a_1 to always)",
        measured=f"{len(opened)} rows",
        predicted=f"{inside} inside",
        alike=None,
    )
    series: dict[tuple[str, str, str], list[SystemRow]] = {}
    for row in rows:
        if row.study.startswith("SpecDecode"):
            series.setdefault((row.study, row.task, row.drafted), []).append(row)
    falling = [
        (_orderly([r.measured for r in of][::-1]), _orderly([r.low for r in of][::-1])) for of in series.values()
    ]
    yield Shape(
        name="SpecDecode-Bench: speedup falls with the batch from 1 to 128",
        source="arXiv:2601.11580v2, Figure 1 (vector figure)",
        unstated="as above",
        measured=f"in {sum(clock for clock, _ in falling)} of {len(falling)} series",
        predicted=f"in {sum(model for _, model in falling)} of {len(falling)} series",
        alike=all(clock == model for clock, model in falling),
    )


def _orderly(values: Sequence[float]) -> bool:
    """Whether each is larger than the one before."""
    return all(b > a for a, b in pairwise(values))


def _rise(values: Sequence[float]) -> str:
    return ", ".join(f"{v:.2f}" for v in values) + f" ({values[-1] / values[0] - 1:+.0%})"


def _span(values: list[float]) -> str:
    low, high = f"{min(values):.2f}", f"{max(values):.2f}"
    return low if low == high else f"{low} to {high}"
