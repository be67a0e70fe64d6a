"""Computes the part of the accuracy record about public runs: errors on sources that were left out, coverage
of intervals, and verdicts.

Each error has two means. One is over all rows. The other (``macro``) is over sources, so a source with
hundreds of rows counts once.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from perfmodel.specs import LLAMACPP, files
from perfmodel.validate.solving import grouped
from perfmodel.validate.studies import choices, mlx
from perfmodel.validate.studies.decisions import best_length_loss, chance_counts, side_counts
from perfmodel.validate.studies.judged_runs import JudgedRun, judged
from perfmodel.validate.studies.parameters import ENGINES
from perfmodel.validate.studies.public_answers import TITLES, of_figure, refusals
from perfmodel.validate.studies.run_groups import groups_of, sources_by_name
from perfmodel.validate.studies.sources_file import recorded_sources

ROUNDING = 1e-9
"""Relative tolerance at the ends of an interval. A width is the error of one of the rows, so this row lies
exactly on an end.
"""


def figures() -> dict[str, Any]:
    """The part of the accuracy record about public runs. It has the errors by group of rows, the verdicts on
    speedups, the coverage, and the throughput lost with the predicted draft length.
    """
    errors: dict[str, Any] = {}
    sources_of = sources_by_name(judged("step"))
    for figure in ("step", "ratio", "speedup"):
        groups = groups_of(judged(figure), sources_of)
        errors[figure] = {name: group_errors(rows) for name, rows in groups if rows}
    answered = of_figure("speedup")
    of_engines = [a for a in answered if a.run.engine != LLAMACPP]
    of_llamacpp = [a for a in answered if a.run.engine == LLAMACPP]
    best_length = {"engines": best_length_loss(of_engines), LLAMACPP: best_length_loss(of_llamacpp)}
    return errors | {
        "sides": _sides(judged("speedup")),
        "chances": chance_counts([r for r in judged("speedup") if r.interval and not r.slowed]),
        "refused": refusals(),
        "coverage": _coverage(),
        "choices": choices.recorded(),
        "best_length": best_length,
    }


def _sides(speedups: list[JudgedRun]) -> dict[str, dict[str, int]]:
    """Counts of verdicts on sources that were left out, for all serving engines together and for each engine.
    Drafts that a known defect slows also count here.
    """
    by_engine = grouped(speedups, lambda r: TITLES[r.engine])
    of_engines = [r for r in speedups if r.engine in ENGINES]
    counts = {name: side_counts(rows) for name, rows in by_engine.items()}
    return {"all": side_counts(of_engines)} | counts


def _coverage() -> dict[str, Any]:
    """Figure -> class -> coverage. The classes of MLX are included; their rows are in a separate file."""
    of_mlx = files.read_mapping(mlx.ERRORS_PATH)["coverage"]
    of_sources = recorded_sources()["coverage"]
    return {figure: classes | of_mlx[figure] for figure, classes in of_sources.items()}


def group_errors(rows: list[JudgedRun]) -> dict[str, Any]:
    """The errors of a group: over its rows, over the means of its sources, and of the worst source. An error
    is exp(mean |log error|) - 1.
    """
    by_source = grouped(rows, lambda r: r.source)
    sources = {name: _mean(of_source) for name, of_source in by_source.items()}
    worst = max(sources, key=lambda name: sources[name])
    macro = np.mean([*sources.values()])
    bias = np.mean([r.off for r in rows])
    shipped = np.mean([abs(r.shipped) for r in rows])
    figures = {
        "rows": len(rows),
        "sources": len(sources),
        "error": math.expm1(_mean(rows)),
        "macro": math.expm1(macro),
        "bias": math.expm1(bias),
        "worst": {"source": worst, "error": math.expm1(sources[worst])},
        "shipped": math.expm1(shipped),
    }
    stated = [r for r in rows if r.interval]
    if stated:
        figures["inside"] = _share_inside([r.interval_left_out for r in stated])
        figures["inside_shipped"] = _share_inside([r.interval for r in stated if r.interval])
        figures["width"] = float(np.median([r.half_width for r in stated]))
    return figures


def _share_inside(intervals: Sequence[tuple[float, float]]) -> float:
    """The share of intervals that contain the measured value. The intervals are relative to the measured
    value, so they must contain 1.
    """
    inside = [low <= 1.0 + ROUNDING and high >= 1.0 - ROUNDING for low, high in intervals]
    return float(np.mean(inside))


def _mean(rows: Sequence[JudgedRun]) -> float:
    """The mean absolute log error."""
    return float(np.mean([abs(r.off) for r in rows]))
