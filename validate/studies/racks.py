"""``python -m perfmodel.validate.studies.racks``: compares predictions for several nodes, racks and pools
with published measurements. Each row is predicted without its source.

- Data: the rows of `rack_rows`. The column ``left_out`` says why a row does not count.
- Model: two constants of engines on more than one node (`RackConstants`).
- Folds: whole sources. A row is predicted with constants that were fitted to the steps of all other sources.
- Result: ``results/racks.json``, with the interval widths that contain nine of ten rows.
"""

import argparse
import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from perfmodel.specs import COVERAGE, Z, source_errors
from perfmodel.specs.engines.source_errors import extra_share
from perfmodel.speculation import Passes, Scenario, Workload, predict
from perfmodel.speculation.evidence import speedup_class
from perfmodel.validate.records import BUNDLED
from perfmodel.validate.solving import grouped, shortened
from perfmodel.validate.studies.rack_pools import prefill_error, ratio_error, throughput_error
from perfmodel.validate.studies.rack_rows import (
    USUAL,
    FoldConstants,
    RackError,
    RackRow,
    row_of,
    rows,
    scenario_of,
    width_of_steps,
)
from perfmodel.writing import write_all

PATH = BUNDLED / "racks.json"
RECORD_DIGITS = 4
"""Significant digits of the record."""
WAITING = (1.0, 1.05, 1.1, 1.15, 1.2, 1.25, 1.3, 1.4, 1.5, 1.7, 2.0)
OVERLAP = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
"""Values of the constants that a fit tries."""
SPREAD = {"waiting": 0.3, "overlap": 0.3}
"""How far values are usually from these: of the logarithm of `waiting`, and of `overlap`."""
STEP_ERROR = 0.2
"""Standard deviation of the logarithm of a step, against which these spreads count."""
WITHOUT_INTERVAL = ("prefill", "ratio")
"""Figures of which no answer states an interval."""


class PredictedIteration(NamedTuple):
    """A predicted iteration, or a step without a draft: the seconds, and the tokens that a sequence gains."""

    seconds: float
    tokens: float


def predicted_iteration(row: RackRow, constants: FoldConstants) -> PredictedIteration:
    """The iteration of a row with the constants of a fold."""
    overlap = constants.overlap.get(row.engine)
    return _predicted_iteration(row, constants.waiting, overlap)


@cache
def _predicted_iteration(row: RackRow, waiting: float, overlap: float | None) -> PredictedIteration:
    constants = FoldConstants(waiting, {} if overlap is None else {row.engine: overlap})
    scenario = constants.of(scenario_of(row.row_id), row.engine)
    workload = Workload.of(float(row.batch or 1), float(row.context or 0), row.gamma or 0)
    predicted = predict(scenario, workload)
    seconds = predicted.verify_s if row.draft == "simulated" else predicted.iteration_s
    return PredictedIteration(float(seconds), float(predicted.tokens_per_iteration))


def _penalty(constants: FoldConstants) -> float:
    """The penalty for the distance of the constants from their usual values. At the distance `SPREAD`, a
    constant costs as much as one source whose steps have the error `STEP_ERROR`.
    """
    off_waiting = math.log(constants.waiting) - math.log(USUAL["waiting"])
    penalty = (off_waiting / SPREAD["waiting"]) ** 2 * STEP_ERROR**2
    for overlap in constants.overlap.values():
        off_overlap = overlap - USUAL["overlap"]
        penalty += (off_overlap / SPREAD["overlap"]) ** 2 * STEP_ERROR**2
    return penalty


def _misfit(steps: Sequence[RackRow], constants: FoldConstants) -> float:
    """The sum over sources of the mean squared log error of their steps."""
    by_source: dict[str, list[float]] = {}
    for row in steps:
        seconds = predicted_iteration(row, constants).seconds
        log_error = math.log(seconds * 1e3 / row.measured_step_ms)
        by_source.setdefault(row.source_id, []).append(log_error**2)
    return sum(float(np.mean(squares)) for squares in by_source.values())


def fit(rows_to_fit: Sequence[RackRow]) -> FoldConstants:
    """The constants with the smallest squared log errors of these steps. Each source has the same weight."""
    steps = [r for r in rows_to_fit if r.kind == "step" and scenario_of(r.row_id).layout.exchanges]
    engines = sorted({r.engine for r in steps if r.overlap})

    def loss(constants: FoldConstants) -> float:
        return _misfit(steps, constants) + _penalty(constants)

    tried = []
    for waiting in WAITING:
        for shares in product(OVERLAP, repeat=len(engines)):
            tried.append(FoldConstants(waiting, dict(zip(engines, shares, strict=True))))
    return min(tried, key=loss)


def step_error(row: RackRow, constants: FoldConstants) -> RackError:
    """The error of a step or an iteration, in milliseconds."""
    seconds = predicted_iteration(row, constants).seconds
    scenario = constants.of(scenario_of(row.row_id), row.engine)
    fabric = scenario.machine.fabric
    links = 0.0
    if fabric is not None:
        tokens = (row.gamma or 0) + 1.0
        step = scenario.target_step(float(row.batch or 1), float(row.context or 0), tokens)
        share_of_exchanges = float(step.comm_s / step.predicted_s)
        links = fabric.log_error(scenario.layout.exchanges) * share_of_exchanges
    return RackError(
        row.row_id,
        row.source_id,
        "step",
        measured=row.measured_step_ms,
        predicted=seconds * 1e3,
        links=links,
        box_width=width_of_steps(scenario),
        beyond_box=fabric is not None,
    )


def speedup_error(row: RackRow, constants: FoldConstants) -> RackError:
    """The error of the speedup over the row without a draft under the same load. The acceptance is the
    printed or published one.
    """
    plain = row_of(row.baseline)
    measured = row.speedup or (plain.tpot_ms or math.nan) / (row.tpot_ms or math.nan)
    iteration = predicted_iteration(row, constants)
    baseline_s = predicted_iteration(plain, constants).seconds
    scenario = scenario_of(row.row_id)
    return RackError(
        row.row_id,
        row.source_id,
        "speedup",
        measured=measured,
        predicted=baseline_s * iteration.tokens / iteration.seconds,
        box_width=_width_of_speedups(row, scenario),
        beyond_box=scenario.machine.fabric is not None,
    )


def _width_of_speedups(row: RackRow, scenario: Scenario) -> float:
    """The half-width of the interval of a speedup within one node, in logarithms; 0 for a calibration that
    states its own error.
    """
    kind = speedup_class(scenario)
    if kind is None:
        return 0.0
    gammas = np.array([row.gamma or 0])
    passes = Passes(scenario, float(row.batch or 1), float(row.context or 0), gammas)
    share = float(extra_share(passes.ratios().item()))
    return source_errors().speedups[kind].log_within_on(scenario.machine.gpu) * share


class SourcesLeftOut(NamedTuple):
    """The errors of rows, and the constants of each fold.

    - errors: each row is predicted with constants that were fitted without its source.
    - constants: source -> the constants that were fitted without it.
    """

    errors: list[RackError]
    constants: dict[str, FoldConstants]


def left_out() -> SourcesLeftOut:
    """Leaves out each source in turn, among the rows that count."""
    counted = [r for r in rows() if r.counts]
    constants = {}
    for source in dict.fromkeys(r.source_id for r in counted):
        constants[source] = fit([r for r in counted if r.source_id != source])
    errors: list[RackError] = []
    for row in counted:
        errors += _errors(row, constants[row.source_id])
    return SourcesLeftOut(errors, constants)


def _errors(row: RackRow, constants: FoldConstants) -> Iterator[RackError]:
    """The errors of all figures that a row states.

    - constants: the constants that were fitted without the row's source.
    """
    if row.kind == "step":
        yield step_error(row, constants)
    if row.kind == "prefill":
        yield prefill_error(row, constants)
    if row.prompts_by:
        yield ratio_error(row, constants)
    if row.has_pools:
        yield throughput_error(row)
    if row.baseline:
        yield speedup_error(row, constants)


def width(errors: Iterable[RackError], figure: str, without: str = "") -> float:
    """The half-width, in logarithms, that contains the share `COVERAGE` of the rows of other sources on more
    than one node. Each source has the same weight. The errors of the link tables are not part of it.
    """
    beyond_box = [error for error in errors if error.figure == figure and error.beyond_box]
    others = [error for error in beyond_box if error.source_id != without]
    rows_of = Counter(error.source_id for error in others)
    covered = 0.0
    for error in sorted(others, key=lambda error: error.unexplained):
        covered += 1.0 / (rows_of[error.source_id] * len(rows_of))
        if covered >= COVERAGE:
            return error.unexplained
    raise ValueError(f"{figure}: no row")


def figures() -> dict[str, Any]:
    """The record ``results/racks.json``."""
    errors, constants = left_out()
    lines = [_in_json(error, errors) for error in errors]
    summary = {}
    by_source = {}
    for figure in sorted({error.figure for error in errors}):
        of_figure = [line for line in lines if line["figure"] == figure]
        summary[figure] = _summary(of_figure)
        sources = grouped(of_figure, lambda line: line["source"])
        by_source[figure] = {source: _summary(of_source) for source, of_source in sources.items()}
    shipped = fit([r for r in rows() if r.counts])
    return {
        "constants": _constants_in_json(shipped),
        "folds": {source: _constants_in_json(of_fold) for source, of_fold in constants.items()},
        "widths": {figure: width(errors, figure) for figure in ("step", "speedup")},
        "summary": summary,
        "by_source": by_source,
        "rows": lines,
        "left_out": dict(Counter(r.left_out for r in rows() if r.left_out)),
    }


def _in_json(error: RackError, errors: Sequence[RackError]) -> dict[str, Any]:
    """A row of the record."""
    return {
        "row": error.row_id,
        "source": error.source_id,
        "figure": error.figure,
        "measured": error.measured,
        "predicted": error.predicted,
        "inside": _is_inside(error, errors),
    }


def _is_inside(error: RackError, errors: Sequence[RackError]) -> bool | None:
    """Whether the interval of `whatif` contains the row; None for a figure without an interval. The width
    follows from the errors on sources that were left out, from the errors of other racks for more than one
    node, and from the errors of the link tables.
    """
    if error.figure in WITHOUT_INTERVAL:
        return None
    half_width = error.box_width
    if error.beyond_box:
        half_width = max(half_width, width(errors, error.figure, error.source_id))
    return abs(error.log_error) <= math.hypot(half_width, Z * error.links)


def _constants_in_json(constants: FoldConstants) -> dict[str, Any]:
    return {"waiting": constants.waiting, "overlap": dict(constants.overlap)}


def _summary(lines: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Errors and coverage of some rows of a figure."""
    inside = [line["inside"] for line in lines]
    errors = [abs(line["predicted"] / line["measured"] - 1.0) for line in lines]
    return {
        "rows": len(lines),
        "sources": len({line["source"] for line in lines}),
        "error": float(np.mean(errors)),
        "worst": max(errors),
        "inside": None if None in inside else sum(inside),
    }


def text() -> str:
    """The record as text."""
    return json.dumps(shortened(figures(), RECORD_DIGITS), indent=1) + "\n"


def main(argv: list[str] | None = None) -> None:
    """Writes the record."""
    argparse.ArgumentParser(description=__doc__).parse_args(argv)
    write_all({PATH: text()})


if __name__ == "__main__":
    main()
