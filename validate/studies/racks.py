"""``python -m perfmodel.validate.studies.racks``: predictions of several nodes, racks and pools next to what
was published, each source left out whole.

The constants of engines beyond a box (`RackConstants`) are fitted to the steps of all other sources. Rows are
``results/published/racks.csv``; ``left_out`` says why a row does not count.
"""

import argparse
import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from typing import Any

import numpy as np

from perfmodel.answers.load.pools import pools_of
from perfmodel.answers.load.traffic_query import TrafficQuery
from perfmodel.answers.question import Query, resolve
from perfmodel.specs import COVERAGE, Z, source_errors
from perfmodel.specs.engines.source_errors import extra_share
from perfmodel.specs.published import read_published
from perfmodel.speculation import Passes, Scenario, Workload, predict
from perfmodel.speculation.evidence import speedup_class, step_class
from perfmodel.validate.records import BUNDLED
from perfmodel.validate.solving import shortened
from perfmodel.writing import write_all

PATH = BUNDLED / "racks.json"
DIGITS = 4
"""Significant digits of the record."""
WAITING = (1.0, 1.05, 1.1, 1.15, 1.2, 1.25, 1.3, 1.4, 1.5, 1.7, 2.0)
OVERLAP = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
"""Values of the constants that a fit tries."""
USUAL = {"waiting": 1.25, "overlap": 0.5}
"""Values without any row, towards which a fit is drawn."""
SPREAD = {"waiting": 0.3, "overlap": 0.3}
"""How far values are usually from these: of the logarithm of `waiting`, and of `overlap`."""
ERROR = 0.2
"""Standard deviation of the logarithm of a step, against which these spreads count."""


@dataclass(frozen=True, slots=True)
class RackRow:
    """One row of the file. batch: of a decode instance in all; tp: its devices. step_ms: of an iteration if
    gamma > 0. baseline: the row without a draft under the same load. prefill: instances x devices.
    """

    row_id: str
    source_id: str
    source: str
    locator: str
    date: str
    kind: str
    engine: str
    model: str
    weights: str
    hardware: str
    nodes: str
    tp: int | None
    ep: int | None
    dp: int | None
    redundant_experts: int | None
    moe_imbalance: float | None
    overlap: str
    batch: int | None
    context: int | None
    draft: str
    gamma: int | None
    tokens_per_iteration: float | None
    step_ms: float | None
    measured_as: str
    baseline: str
    speedup: float | None
    prefill: str
    prefill_ep: int | None
    prefill_dp: int | None
    decode_instances: int | None
    clients: int | None
    input_len: int | None
    output_len: int | None
    tpot_ms: float | None
    ttft_ms: float | None
    ttft_stat: str
    tokens_per_s_gpu: float | None
    throughput_of: str
    left_out: str
    notes: str

    @property
    def counts(self) -> bool:
        """Whether the row is judged."""
        return not self.left_out

    def question(self) -> dict[str, Any]:
        """The arguments of `whatif` for this row."""
        asked = {
            "model": self.model,
            "hardware": self.hardware,
            "engine": self.engine,
            "weights": self.weights or None,
            "nodes": self.nodes or None,
            "tp": self.tp,
            "ep": self.ep or 1,
            "dp": self.dp or 1,
            "redundant_experts": self.redundant_experts or 0,
            "moe_imbalance": self.moe_imbalance,
            "overlap": self.overlap or "auto",
            "batch": self.batch,
            "context": self.context,
            "gamma": self.gamma,
        }
        if self.gamma:
            asked |= {"draft": "mtp", "tokens_per_iteration": self.tokens_per_iteration}
        return {name: value for name, value in asked.items() if value is not None}


@cache
def rows() -> tuple[RackRow, ...]:
    """All rows of the file."""
    return tuple(read_published("racks", RackRow))


@dataclass(frozen=True, slots=True)
class Constants:
    """The fitted constants of one fold. overlap: by engine."""

    waiting: float
    overlap: Mapping[str, float]

    def of(self, scenario: Scenario, engine: str) -> Scenario:
        """The scenario with these constants."""
        fabric = scenario.machine.fabric
        if fabric is None:
            return scenario
        overlap = self.overlap.get(engine, USUAL["overlap"]) if fabric.overlap else 0.0
        changed = replace(fabric, waiting=self.waiting, overlap=overlap)
        return replace(scenario, machine=replace(scenario.machine, fabric=changed))


@cache
def scenario_of(row_id: str) -> Scenario:
    """The scenario of a row under the bundled constants."""
    row = next(r for r in rows() if r.row_id == row_id)
    return resolve(Query(**row.question()))


def iteration_s(row: RackRow, constants: Constants) -> tuple[float, float]:
    """Predicted seconds of an iteration (a step without a draft), and its tokens."""
    overlap = constants.overlap.get(row.engine)
    return _iteration_s(row, constants.waiting, overlap)


@cache
def _iteration_s(row: RackRow, waiting: float, overlap: float | None) -> tuple[float, float]:
    constants = Constants(waiting, {} if overlap is None else {row.engine: overlap})
    scenario = constants.of(scenario_of(row.row_id), row.engine)
    found = predict(scenario, Workload.of(float(row.batch or 1), float(row.context or 0), row.gamma or 0))
    seconds = found.verify_s if row.draft == "simulated" else found.iteration_s
    return float(seconds), float(found.tokens_per_iteration)


def _gap(value: float, usual: float, spread: float) -> float:
    """Squared distance of a constant from its usual value, in rows of typical error."""
    return ((value - usual) / spread) ** 2 * ERROR**2


def fit(seen: Sequence[RackRow]) -> Constants:
    """The constants of the smallest squared log errors of these steps, each source with the same weight."""
    steps = [r for r in seen if r.kind == "step" and scenario_of(r.row_id).layout.exchanges]
    engines = sorted({r.engine for r in steps if r.overlap})

    def loss(tried: Constants) -> float:
        by_source: dict[str, list[float]] = {}
        for r in steps:
            error = math.log(iteration_s(r, tried)[0] * 1e3 / (r.step_ms or math.nan))
            by_source.setdefault(r.source_id, []).append(error**2)
        gaps = _gap(math.log(tried.waiting), math.log(USUAL["waiting"]), SPREAD["waiting"])
        for value in tried.overlap.values():
            gaps += _gap(value, USUAL["overlap"], SPREAD["overlap"])
        return sum(float(np.mean(errors)) for errors in by_source.values()) + gaps

    tried = [
        Constants(waiting, dict(zip(engines, shares, strict=True)))
        for waiting in WAITING
        for shares in product(OVERLAP, repeat=len(engines))
    ]
    return min(tried, key=loss)


@dataclass(frozen=True, slots=True)
class Judged:
    """One row next to its prediction, without its source.

    links: deviation of the logarithm of a step that the tables of its links add. own: half-width of the
    interval in logarithms, by sources left out of runs in boxes (`source_errors`). beyond: whether the
    instance is more than a box, so that the errors of other racks count too.
    """

    row_id: str
    source_id: str
    figure: str
    measured: float
    predicted: float
    links: float = 0.0
    own: float = 0.0
    beyond: bool = True

    @property
    def log_error(self) -> float:
        """Logarithm of predicted over measured."""
        return math.log(self.predicted / self.measured)

    @property
    def unexplained(self) -> float:
        """Half-width that holds the row in addition to the error of the tables of its links."""
        return math.sqrt(max(self.log_error**2 - (Z * self.links) ** 2, 0.0))


def judged_steps(row: RackRow, constants: Constants) -> Judged:
    """A step, or an iteration, in milliseconds."""
    seconds, _ = iteration_s(row, constants)
    scenario = constants.of(scenario_of(row.row_id), row.engine)
    links = 0.0
    fabric = scenario.machine.fabric
    if fabric is not None:
        step = scenario.target_step(float(row.batch or 1), float(row.context or 0), (row.gamma or 0) + 1.0)
        links = fabric.log_error(scenario.layout.exchanges) * float(step.comm_s / step.predicted_s)
    measured = row.step_ms or math.nan
    own = _of_steps(scenario)
    return Judged(row.row_id, row.source_id, "step", measured, seconds * 1e3, links, own, fabric is not None)


def _of_steps(scenario: Scenario) -> float:
    """Half-width of steps in boxes; 0 for a calibration that states its own error."""
    kind = step_class(scenario)
    return source_errors().steps[kind].log_within_on(scenario.machine.gpu) if kind else 0.0


def judged_speedup(row: RackRow, constants: Constants) -> Judged:
    """The speedup over the row without a draft under the same load; acceptance as printed or published."""
    plain = next(r for r in rows() if r.row_id == row.baseline)
    measured = row.speedup or (plain.tpot_ms or math.nan) / (row.tpot_ms or math.nan)
    iteration, tokens = iteration_s(row, constants)
    predicted = iteration_s(plain, constants)[0] * tokens / iteration
    scenario = scenario_of(row.row_id)
    own = 0.0
    if (kind := speedup_class(scenario)) is not None:
        gammas = np.array([row.gamma or 0])
        passes = Passes(scenario, float(row.batch or 1), float(row.context or 0), gammas)
        width = source_errors().speedups[kind].log_within_on(scenario.machine.gpu)
        own = width * float(extra_share(passes.ratios().item()))
    beyond = scenario.machine.fabric is not None
    return Judged(row.row_id, row.source_id, "speedup", measured, predicted, own=own, beyond=beyond)


def judged_throughput(row: RackRow) -> Judged:
    """Output tokens per second of a device under closed-loop clients, from the two pools.

    Its acceptance is as printed or published. Nothing of the pools is fitted to such rows; the interval is
    that of a step.
    """
    asked = row.question()
    groups = f":dp{row.prefill_dp},ep{row.prefill_ep}"
    pooled: dict[str, Any] = {
        "prefill": row.prefill + groups,
        "decode": f"{row.decode_instances}x{row.tp}:dp{row.dp},ep{row.ep}",
        "max_concurrency": row.clients,
        "input_len": row.input_len,
        "output_len": row.output_len,
        "draft": row.draft or "mtp",
    }
    kept = ("model", "hardware", "engine", "weights", "gamma", "tokens_per_iteration", "moe_imbalance")
    question = TrafficQuery(**pooled, **{name: asked[name] for name in kept if name in asked})
    pools = pools_of(question)
    found = next(each for each in pools.rows if each.gamma == row.gamma)
    devices = pools.decode_gpus
    if row.throughput_of == "total GPU":
        devices += pools.prefill_gpus
    predicted = found.output_tokens_per_s / devices
    measured = row.tokens_per_s_gpu or math.nan
    own = _of_steps(scenario_of(row.row_id))
    return Judged(row.row_id, row.source_id, "throughput", measured, predicted, own=own, beyond=False)


def has_pools(row: RackRow) -> bool:
    """Whether the row states both pools, its clients and its lengths."""
    stated = (row.prefill, row.clients, row.input_len, row.output_len, row.tokens_per_s_gpu, row.tp)
    return row.kind in ("step", "served") and all(stated)


def judged() -> tuple[list[Judged], dict[str, Constants]]:
    """All rows that count, each with constants that were fitted without its source; and these constants."""
    counted = [r for r in rows() if r.counts]
    constants = {
        source: fit([r for r in counted if r.source_id != source])
        for source in dict.fromkeys(r.source_id for r in counted)
    }
    found = []
    for row in counted:
        if row.kind == "step":
            found.append(judged_steps(row, constants[row.source_id]))
        if has_pools(row):
            found.append(judged_throughput(row))
        if row.baseline:
            found.append(judged_speedup(row, constants[row.source_id]))
    return found, constants


def width(found: Iterable[Judged], figure: str, without: str = "") -> float:
    """Half-width in logarithms that holds `COVERAGE` of rows beyond a box of other sources, each source with
    the same weight, in addition to the errors of the tables of their links.
    """
    beyond = [each for each in found if each.figure == figure and each.beyond]
    others = [each for each in beyond if each.source_id != without]
    rows_of = Counter(each.source_id for each in others)
    held = 0.0
    for each in sorted(others, key=lambda one: one.unexplained):
        held += 1.0 / (rows_of[each.source_id] * len(rows_of))
        if held >= COVERAGE:
            return each.unexplained
    raise ValueError(f"{figure}: no row")


def figures() -> dict[str, Any]:
    """The record ``results/racks.json``."""
    found, constants = judged()
    named = sorted({each.figure for each in found})
    listed = [
        {
            "row": each.row_id,
            "source": each.source_id,
            "figure": each.figure,
            "measured": each.measured,
            "predicted": each.predicted,
            "inside": _inside(each, found),
        }
        for each in found
    ]
    shipped = fit([r for r in rows() if r.counts])
    return {
        "constants": _in_json(shipped),
        "folds": {source: _in_json(each) for source, each in constants.items()},
        "widths": {figure: width(found, figure) for figure in ("step", "speedup")},
        "summary": {figure: _summary([r for r in listed if r["figure"] == figure]) for figure in named},
        "by_source": {figure: _by_source(listed, figure) for figure in named},
        "rows": listed,
        "left_out": dict(Counter(r.left_out for r in rows() if r.left_out)),
    }


def _by_source(listed: list[dict[str, Any]], figure: str) -> dict[str, Any]:
    """Source -> the summary of its rows of a figure."""
    of_source: dict[str, list[dict[str, Any]]] = {}
    for row in listed:
        if row["figure"] == figure:
            of_source.setdefault(row["source"], []).append(row)
    return {source: _summary(rows_of_it) for source, rows_of_it in of_source.items()}


def _inside(each: Judged, found: Sequence[Judged]) -> bool:
    """Whether the interval of `whatif` holds the row: the errors of sources left out, those of other racks
    beyond a box, and those of the links' tables.
    """
    half = each.own
    if each.beyond:
        half = max(half, width(found, each.figure, each.source_id))
    return abs(each.log_error) <= math.hypot(half, Z * each.links)


def _in_json(constants: Constants) -> dict[str, Any]:
    return {"waiting": constants.waiting, "overlap": dict(constants.overlap)}


def _summary(listed: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Errors and coverage of some rows."""
    errors = [abs(row["predicted"] / row["measured"] - 1.0) for row in listed]
    return {
        "rows": len(listed),
        "sources": len({row["source"] for row in listed}),
        "error": float(np.mean(errors)),
        "worst": max(errors),
        "inside": sum(row["inside"] for row in listed),
    }


def text() -> str:
    """The record as text."""
    return json.dumps(shortened(figures(), DIGITS), indent=1) + "\n"


def main(argv: list[str] | None = None) -> None:
    """Writes the record."""
    argparse.ArgumentParser(description=__doc__).parse_args(argv)
    write_all({PATH: text()})


if __name__ == "__main__":
    main()
