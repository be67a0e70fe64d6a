"""The engines' part of the accuracy record: held-out errors, their intervals, and correct verdicts (speedup
above or below 1).
"""

from typing import Any

import numpy as np

from perfmodel.validate.fit.errors import errors_of, same_side
from perfmodel.validate.solving import grouped
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
    """The engines' part of the accuracy record."""
    record = recorded()
    errors = replayed_as_recorded()
    return {
        "steps": _steps(errors),
        "cells": _cells(step_errors(rows_of("seen"), STEP_FOLDS["seen"].key, record["step_folds"]["seen"])),
        "ratios": {by: _by_engine(errors.ratios[by], {}) for by in RATIO_FOLDS},
        "sides": _sides(errors),
    }


def _steps(errors: HeldOutReplay) -> dict[str, Any]:
    """Errors of steps by relation. No interval is narrower than that of a less novel relation, as in answers
    (`HeldOutReplay.stated`).
    """
    found: dict[str, Any] = {}
    least: dict[str, float] = {}
    for relation in STEP_FOLDS:
        found[relation] = _by_engine(errors.steps[relation], least)
        for engine, e in found[relation].items():
            if "width" in e:
                least[engine] = float(np.log1p(e["width"]))
    return found


def _by_engine(errors: HeldOutErrors, least: dict[str, float]) -> dict[str, Any]:
    """Errors by engine, with the number of rows inside the interval that follows from the other groups, and
    its median half-width as a share.

    least: smallest half-width of each engine's intervals.
    """
    if len(set(errors.groups)) <= TOO_FEW_GROUPS:
        return {errors.engines[0]: _errors(errors)}
    inside, width = covered(errors, least)
    found = {}
    for engine in ("all", *ENGINES):
        mine = [i for i, name in enumerate(errors.engines) if engine in ("all", name)]
        if mine:
            half_width = float(np.expm1(np.median(width[mine])))
            share = {"inside": int(inside[mine].sum()), "width": half_width}
            found[engine] = _errors(errors.part(mine)) | share
    return found


def _errors(errors: HeldOutErrors) -> dict[str, Any]:
    """Errors over rows, and the mean over groups, in which each group counts once."""
    found = errors_of(np.exp(errors.off), np.ones(len(errors.off)))
    groups = of_groups(errors.off, errors.groups)
    assert found is not None
    return {
        "rows": found.rows,
        "groups": len(groups),
        "mape": found.mape,
        "groups_mape": float(groups.mean()),
        "bias": found.bias,
        "worst": found.worst,
    }


def _cells(errors: HeldOutErrors) -> dict[str, Any]:
    """Errors by engine, device and model, over all degrees. Each degree is predicted without its rows."""
    cells = grouped(range(len(errors.groups)), lambda i: name_of(errors.groups[i][:3]))
    return {name: _errors(errors.part(index)) for name, index in cells.items()}


def _sides(errors: HeldOutReplay) -> dict[str, Any]:
    """Speedups at the measured tokens per iteration: how many are predicted on the correct side of 1, and how
    many verdicts are certain. Each held-out group has its own: draft length or task, version, the whole
    study, ...
    """
    counts: dict[str, Any] = {}
    for by in RATIO_FOLDS:
        width = errors.widened(by, covered(errors.ratios[by], {})[1])
        counts[by] = {}
        for engine in ("all", *ENGINES):
            chosen = [i for i, r in enumerate(errors.rows) if r.gained and engine in ("all", r.engine)]
            if chosen:
                counts[by][engine] = _side(errors, by, chosen, width[chosen])
    return counts


def _side(errors: HeldOutReplay, by: RatioFold, chosen: list[int], width: Array) -> dict[str, int]:
    """The same of the rows `chosen`. width: of their intervals, of logarithms."""
    rows = [errors.rows[i] for i in chosen]
    measured = np.array([row.gained / row.ratio for row in rows])  # type: ignore[operator]
    predicted = measured * np.exp(-errors.ratios[by].off[chosen])
    right = same_side(predicted, measured)
    sure = np.abs(np.log(predicted)) > width
    return {
        "rows": len(chosen),
        "right": int(right.sum()),
        "sure": int(sure.sum()),
        "sure_and_wrong": int((sure & ~right).sum()),
    }
