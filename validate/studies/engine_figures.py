"""Computes the part of the accuracy record about the steps and ratios to which the constants of serving
engines are fitted. It has held-out errors, the coverage of intervals, and verdicts.
"""

from typing import Any

import numpy as np

from perfmodel.operations import Array
from perfmodel.validate.fit.errors import errors_of
from perfmodel.validate.solving import grouped
from perfmodel.validate.studies.decisions import count_sides
from perfmodel.validate.studies.engine_folds import RATIO_FOLDS, STEP_FOLDS, RatioFold
from perfmodel.validate.studies.engine_replay import (
    TOO_FEW_GROUPS,
    HeldOutReplay,
    recorded,
    replayed_as_recorded,
    step_errors,
)
from perfmodel.validate.studies.held_out import name_of, rows_of
from perfmodel.validate.studies.held_out_errors import HeldOutErrors, of_groups
from perfmodel.validate.studies.held_out_intervals import covered
from perfmodel.validate.studies.parameters import ENGINES


def figures() -> dict[str, Any]:
    """The part of the accuracy record about these rows."""
    errors = replayed_as_recorded()
    folds = recorded()["step_folds"]["seen"]
    of_degrees = step_errors(rows_of("seen"), STEP_FOLDS["seen"].key, folds)
    return {
        "steps": _steps(errors),
        "cells": _cells(of_degrees),
        "ratios": {by: _by_engine(errors.ratios[by], {}) for by in RATIO_FOLDS},
        "sides": _sides(errors),
    }


def _steps(errors: HeldOutReplay) -> dict[str, Any]:
    """The errors of steps by relation and engine. As in answers (`HeldOutReplay.stated`), no interval is
    narrower than that of a less novel relation.
    """
    by_relation: dict[str, Any] = {}
    least: dict[str, float] = {}
    for relation in STEP_FOLDS:
        by_engine = _by_engine(errors.steps[relation], least)
        by_relation[relation] = by_engine
        for engine, figures_of_engine in by_engine.items():
            if "width" in figures_of_engine:
                least[engine] = float(np.log1p(figures_of_engine["width"]))
    return by_relation


def _by_engine(errors: HeldOutErrors, least: dict[str, float]) -> dict[str, Any]:
    """The errors by engine, with the coverage of intervals. The interval of a row follows from the errors of
    the other groups, so there is none if there are only a few groups (`TOO_FEW_GROUPS`).

    - least: engine -> smallest half-width of its intervals, in logarithms.
    """
    if len(set(errors.groups)) <= TOO_FEW_GROUPS:
        return {errors.engines[0]: _errors(errors)}
    inside, width = covered(errors, least)
    by_engine = {}
    for engine in ("all", *ENGINES):
        index = [i for i, name in enumerate(errors.engines) if engine in ("all", name)]
        if index:
            half_width = float(np.expm1(np.median(width[index])))
            coverage = {"inside": int(inside[index].sum()), "width": half_width}
            by_engine[engine] = _errors(errors.part(index)) | coverage
    return by_engine


def _errors(errors: HeldOutErrors) -> dict[str, Any]:
    """The errors over rows, and the mean error over groups, in which each group counts once."""
    over_rows = errors_of(np.exp(errors.off), np.ones(len(errors.off)))
    of_each_group = of_groups(errors.off, errors.groups)
    assert over_rows is not None
    return {
        "rows": over_rows.rows,
        "groups": len(of_each_group),
        "mape": over_rows.mape,
        "groups_mape": float(of_each_group.mean()),
        "bias": over_rows.bias,
        "worst": over_rows.worst,
    }


def _cells(errors: HeldOutErrors) -> dict[str, Any]:
    """The errors by engine, device and model, over all tensor-parallel degrees. Each degree is predicted with
    a fit without its rows.
    """
    cells = grouped(range(len(errors.groups)), lambda i: name_of(errors.groups[i][:3]))
    return {name: _errors(errors.part(index)) for name, index in cells.items()}


def _sides(errors: HeldOutReplay) -> dict[str, Any]:
    """Counts of verdicts on speedups at the measured tokens per iteration (`count_sides`), by kind of fold
    (`RATIO_FOLDS`) and engine.
    """
    counts: dict[str, Any] = {}
    with_speedup = [i for i, row in enumerate(errors.rows) if row.gained]
    for by in RATIO_FOLDS:
        _, half_width = covered(errors.ratios[by], {})
        width = errors.widened(by, half_width)
        counts[by] = {}
        for engine in ("all", *ENGINES):
            index = [i for i in with_speedup if engine in ("all", errors.rows[i].engine)]
            if index:
                counts[by][engine] = _side(errors, by, index, width[index])
    return counts


def _side(errors: HeldOutReplay, by: RatioFold, index: list[int], width: Array) -> dict[str, int]:
    """The counts of verdicts on some rows.

    - index: the indices of these rows.
    - width: the half-widths of their intervals, in logarithms.
    """
    rows = [errors.rows[i] for i in index]
    measured = np.array([row.gained / row.ratio for row in rows])  # type: ignore[operator]
    predicted = measured * np.exp(-errors.ratios[by].off[index])
    return count_sides(predicted, measured, sure=np.abs(np.log(predicted)) > width)
