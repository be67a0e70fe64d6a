"""Computes the part of the accuracy record about serving engines: held-out errors, their intervals, and
correct verdicts (speedup above or below 1).
"""

from typing import Any

import numpy as np

from perfmodel.validate.fit.errors import errors_of
from perfmodel.validate.solving import grouped
from perfmodel.validate.studies.decisions import count_sides
from perfmodel.validate.studies.engines import (
    RATIO_FOLDS,
    STEP_FOLDS,
    HeldOutReplay,
    RatioFold,
    recorded,
    replayed_as_recorded,
    step_errors,
)
from perfmodel.validate.studies.held_out import (
    TOO_FEW_GROUPS,
    HeldOutErrors,
    covered,
    name_of,
    of_groups,
    rows_of,
)
from perfmodel.validate.studies.parameters import ENGINES
from perfmodel.validate.studies.robust import Array


def figures() -> dict[str, Any]:
    """The part of the accuracy record about serving engines."""
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
    """Errors of steps by relation. No interval is narrower than that of a less novel relation, as in answers
    (`HeldOutReplay.stated`).
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
    """Errors by engine, with the number of rows inside the interval that follows from the other groups, and
    its median half-width as a share.

    - least: smallest half-width of each engine's intervals.
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
    """Errors over rows, and the mean over groups, in which each group counts once."""
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
    """Errors by engine, device and model, over all degrees. Each degree is predicted without its rows."""
    cells = grouped(range(len(errors.groups)), lambda i: name_of(errors.groups[i][:3]))
    return {name: _errors(errors.part(index)) for name, index in cells.items()}


def _sides(errors: HeldOutReplay) -> dict[str, Any]:
    """Verdicts on speedups at the measured tokens per iteration (`count_sides`), by kind of fold: draft
    length or task, version, the whole study, ...
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
    """The same of the rows at `index`.

    - width: the half-width of their intervals, of log errors.
    """
    rows = [errors.rows[i] for i in index]
    measured = np.array([row.gained / row.ratio for row in rows])  # type: ignore[operator]
    predicted = measured * np.exp(-errors.ratios[by].off[index])
    return count_sides(predicted, measured, sure=np.abs(np.log(predicted)) > width)
