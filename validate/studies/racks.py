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
from functools import cache
from itertools import product
from typing import Any

import numpy as np

from perfmodel.specs import COVERAGE, Z, source_errors
from perfmodel.specs.engines.source_errors import extra_share
from perfmodel.speculation import Passes, Workload, predict
from perfmodel.speculation.evidence import speedup_class
from perfmodel.validate.records import BUNDLED
from perfmodel.validate.solving import shortened
from perfmodel.validate.studies.rack_pools import has_pools, judged_prefill, judged_ratio, judged_throughput
from perfmodel.validate.studies.rack_rows import (
    USUAL,
    Constants,
    Judged,
    RackRow,
    row_of,
    rows,
    scenario_of,
    width_of_steps,
)
from perfmodel.writing import write_all

PATH = BUNDLED / "racks.json"
DIGITS = 4
"""Significant digits of the record."""
WAITING = (1.0, 1.05, 1.1, 1.15, 1.2, 1.25, 1.3, 1.4, 1.5, 1.7, 2.0)
OVERLAP = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
"""Values of the constants that a fit tries."""
SPREAD = {"waiting": 0.3, "overlap": 0.3}
"""How far values are usually from these: of the logarithm of `waiting`, and of `overlap`."""
ERROR = 0.2
"""Standard deviation of the logarithm of a step, against which these spreads count."""
WITHOUT_INTERVAL = ("prefill", "ratio")
"""Figures of which no answer states an interval."""


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
    own = width_of_steps(scenario)
    return Judged(row.row_id, row.source_id, "step", measured, seconds * 1e3, links, own, fabric is not None)


def judged_speedup(row: RackRow, constants: Constants) -> Judged:
    """The speedup over the row without a draft under the same load; acceptance as printed or published."""
    plain = row_of(row.baseline)
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
        if row.kind == "prefill":
            found.append(judged_prefill(row, constants[row.source_id]))
        if row.prompts_by:
            found.append(judged_ratio(row, constants[row.source_id]))
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


def _inside(each: Judged, found: Sequence[Judged]) -> bool | None:
    """Whether the interval of `whatif` holds the row: the errors of sources left out, those of other racks
    beyond a box, and those of the links' tables. None where no interval is stated.
    """
    if each.figure in WITHOUT_INTERVAL:
        return None
    half = each.own
    if each.beyond:
        half = max(half, width(found, each.figure, each.source_id))
    return abs(each.log_error) <= math.hypot(half, Z * each.links)


def _in_json(constants: Constants) -> dict[str, Any]:
    return {"waiting": constants.waiting, "overlap": dict(constants.overlap)}


def _summary(listed: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Errors and coverage of some rows of a figure."""
    held = [row["inside"] for row in listed]
    errors = [abs(row["predicted"] / row["measured"] - 1.0) for row in listed]
    return {
        "rows": len(listed),
        "sources": len({row["source"] for row in listed}),
        "error": float(np.mean(errors)),
        "worst": max(errors),
        "inside": None if None in held else sum(held),
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
