"""Computes the accuracy record, ``results/accuracy.json``: the errors of all predictions of published
measurements.

Every published set is predicted with the bundled calibrations. If a calibration was fitted to the set, each
row is also predicted with a fit that left out the row's fold. The record is deterministic and needs no GPU.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from perfmodel.specs import Calibration, Scatter, load_calibration
from perfmodel.specs.published import MeasuredPoint, published_points
from perfmodel.speculation import Acceptance, Workload, predict, speedup_interval, speedups
from perfmodel.validate.accuracy.cells import Cell
from perfmodel.validate.accuracy.compare import Mode, calibration_for, compare
from perfmodel.validate.accuracy.partitions import correct_verdicts, error, partitions
from perfmodel.validate.accuracy.sets import gated_sets
from perfmodel.validate.fit.calibrate import other_error, report
from perfmodel.validate.fit.counted_points import Array, scenario_of
from perfmodel.validate.fit.errors import Errors
from perfmodel.validate.fit.fitting import points_of
from perfmodel.validate.fit.folds import FOLDS, HeldOut, has_folds, held_out
from perfmodel.validate.fit.recipes import RECIPES, Recipe
from perfmodel.validate.records import BUNDLED
from perfmodel.validate.solving import shortened
from perfmodel.validate.studies import engine_figures, memory, source_figures, traffic_figures
from perfmodel.validate.studies.gate import SCHEMA_VERSION
from perfmodel.validate.studies.inputs import inputs

PATH = BUNDLED / "accuracy.json"
RECORD_DIGITS = 6
"""Significant digits of the record."""
MODES: tuple[Mode, ...] = ("held-out", "shipped")
OVERALL = ("target_s", "draft_s", "verify_s", "speedup")
"""Quantities that count in the overall error: the times of the three passes, and the speedup."""
NOT_RECORDED = "ar_tpot_s"
"""A quantity that is not recorded. The records of this project time the baseline twice: as the pass time T_T,
which is recorded, and end to end.
"""

CONSTANT_GAMMAS = (1, 2, 3, 4, 5)
"""Draft lengths of baselines that always draft the same number of tokens."""

MAGICDEC = [recipe for recipe in RECIPES.values() if recipe.stack == "magicdec"]
"""The calibrations that are fitted to MagicDec's published rows."""


def record() -> dict[str, Any]:
    """The whole record for the present code, in JSON types, with `RECORD_DIGITS` significant digits."""
    cells = {mode: _recorded_cells(mode) for mode in MODES}
    figures: dict[str, Any] = {"schema_version": SCHEMA_VERSION, "inputs": inputs()}
    figures["replays"] = {mode: replay(cells[mode]) for mode in MODES}
    figures["bounds"] = bounds(cells["shipped"])
    figures["gamma_optimal"] = {mode: best_gamma(mode) for mode in MODES}
    figures["calibrations"] = {name: calibration_figures(recipe) for name, recipe in RECIPES.items()}
    figures["coverage"] = {recipe.name: coverage(recipe) for recipe in MAGICDEC}
    figures["elsewhere"] = elsewhere()
    figures["sources"] = source_figures.figures()
    figures["engines"] = engine_figures.figures()
    figures["traffic"] = traffic_figures.figures()
    figures["memory"] = memory.figures()
    return shortened(figures, RECORD_DIGITS)


def _recorded_cells(mode: Mode) -> list[Cell]:
    """The measured figures of the gated sets with their predictions, except `NOT_RECORDED`."""
    cells = compare(gated_sets(BUNDLED), mode, results=BUNDLED)
    return [cell for cell in cells if cell.quantity != NOT_RECORDED]


def replay(cells: list[Cell]) -> dict[str, Any]:
    """The errors overall and by partition, the number of correct verdicts (speedup above or below 1), and the
    names of the predicted figures.
    """
    fitted = [c for c in cells if c.fitted]
    right, judged = correct_verdicts(fitted)
    speedups_of_fitted = [c for c in fitted if c.quantity == "speedup"]
    wrong = {}
    for c in speedups_of_fitted:
        if correct_verdicts([c])[0] == 0:
            wrong[c.point.row_id] = [c.measured, c.predicted]
    overall = [c for c in fitted if c.quantity in OVERALL]
    by_partition = {name: _summary(rows) for name, rows in partitions(cells).items()}
    return {
        "overall": _summary(overall),
        "side_of_one": {"right": right, "rows": judged, "wrong": wrong},
        "partitions": by_partition,
        "predicted": sorted(c.name for c in cells),
    }


def _summary(rows: Sequence[Cell]) -> dict[str, Any]:
    errors = error(rows)
    worst = max(rows, key=lambda row: abs(row.error))
    return {
        "rows": errors.rows,
        "mape": errors.mape,
        "bias": errors.bias,
        "worst": errors.worst,
        "worst_row": worst.point.row_id,
    }


def bounds(cells: Iterable[Cell]) -> dict[str, Any]:
    """Compares measured times with their physical lower bounds, for working sets that exceed the last-level
    cache.
    """
    binding = [c for c in cells if c.binding]
    return {
        "checked": len(binding),
        "closest": max(c.lower / c.measured for c in binding),  # type: ignore[operator]
        "violations": [c.name for c in binding if c.below_bound],
    }


def calibration_figures(recipe: Recipe) -> dict[str, Any]:
    """The constants of a new fit and of the bundled file, and the errors on held-out rows by kind of fold."""
    refit = report(recipe)
    shipped = load_calibration(recipe.name)
    held_out_by = {by: _by_quantity(errors) for by, errors in refit.held_out.items()}
    return {
        "rows": len(points_of(recipe).points),
        "fitted": refit.fit.values,
        "stderr": refit.fit.stderr,
        "at_bound": list(refit.fit.at_bound),
        "shipped": {name: getattr(shipped, name).value for name in recipe.free},
        "in_sample": _by_quantity(refit.in_sample),
        "held_out_by": held_out_by,
    }


def _by_quantity(errors: dict[str, Errors]) -> dict[str, Any]:
    figures = {}
    for quantity, e in errors.items():
        figures[quantity] = {"mape": e.mape, "bias": e.bias, "worst": e.worst, "log_rms": e.log_rms}
    return figures


def coverage(recipe: Recipe) -> dict[str, Any]:
    """The number of held-out speedups inside their interval, by kind of fold.

    The interval of a row comes from the fit without the row's fold. It uses the covariance of that fit and
    the scatter of the rows of other folds.
    """
    counts = {}
    for by in FOLDS:
        if has_folds(recipe, by):
            inside = covered(held_out(recipe, by))
            counts[by] = {"inside": int(inside.sum()), "rows": len(inside)}
    return counts


def covered(out: HeldOut) -> Array:
    """1 if the interval of a held-out row contains its measured speedup, else 0."""
    measured = np.array([p.speedup for p in out.points.points], dtype=float)
    predicted = out.points.speedup(out.times)
    off = np.log(predicted / measured)
    inside = np.zeros(len(measured))
    for i, p in enumerate(out.points.points):
        fold = out.fold[i]
        off_others = off[out.fold != fold]
        scatter = Scatter(
            log_rms=float(np.sqrt(np.mean(off_others**2))),
            rows=len(off_others),
            source="rows of the other folds",
        )
        calibration = out.fits[fold].calibration.replace(observed_error={"speedup": scatter})
        scenario = scenario_of(p, calibration)
        interval = speedup_interval(scenario, p.batch, p.context, p.gamma or 0, float(predicted[i]))
        assert interval is not None
        low, high = interval
        inside[i] = low <= measured[i] <= high
    return inside


def elsewhere() -> dict[str, Any]:
    """The errors of two calibrations that were not fitted to these rows: ``literature`` and ``ideal``."""
    figures = {}
    for recipe in MAGICDEC:
        ideal = other_error(recipe, load_calibration("ideal"))
        literature = other_error(recipe, load_calibration(recipe.base))
        figures[recipe.name] = {"ideal": _by_quantity(ideal), "literature": _by_quantity(literature)}
    return figures


def render(figures: dict[str, Any]) -> str:
    """The text of ``results/accuracy.json``."""
    return json.dumps(figures, indent=1, allow_nan=False) + "\n"


def best_gamma(mode: Mode) -> dict[str, Any]:
    """The errors of the speedup at the measured best gamma, the predicted best gamma, and the loss from a
    wrong choice of gamma.

    The held-out mode predicts each row with a fit that used no time of the row's model, batch and context.

    - regret: the predicted best speedup over the predicted speedup at the measured gamma, minus 1.
    - constant_regret: the same for each gamma of `CONSTANT_GAMMAS` instead of the measured gamma.
    """
    off = []
    regrets = []
    constant_regrets = []
    choices = {}
    for p in published_points("gamma_optimal"):
        assert p.gamma is not None
        assert p.speedup is not None
        assert p.alpha is not None
        calibration = _gamma_calibration(p, mode)
        acceptance = Acceptance.from_alpha(p.alpha)
        scenario = replace(scenario_of(p, calibration), acceptance=acceptance)
        predicted = predict(scenario, Workload.of(p.batch, p.context, p.gamma))
        speedup = float(predicted.speedup)
        best_speedup = float(predicted.speedup_at_gamma_optimal)
        off.append(speedup / p.speedup - 1.0)
        regrets.append(best_speedup / speedup - 1.0)
        at_constant_gammas = speedups(scenario, p.batch, p.context, np.array(CONSTANT_GAMMAS))
        constant_regrets.append(best_speedup / at_constant_gammas - 1.0)
        choices[p.row_id] = [p.gamma, int(predicted.gamma_optimal)]
    lengths = map(str, CONSTANT_GAMMAS)
    constant_means = np.mean(constant_regrets, axis=0).tolist()
    within_one = sum(abs(predicted - measured) <= 1 for measured, predicted in choices.values())
    return {
        "rows": len(choices),
        "speedup_mape": float(np.mean(np.abs(off))),
        "speedup_worst": max(off, key=abs),
        "within_one": within_one,
        "regret_mean": float(np.mean(regrets)),
        "regret_worst": max(regrets),
        "constant_regret_mean": dict(zip(lengths, constant_means, strict=True)),
        "choices": choices,
    }


def _gamma_calibration(p: MeasuredPoint, mode: Mode) -> Calibration:
    shipped = calibration_for(p)
    if mode == "shipped" or shipped.name not in RECIPES:
        return shipped
    out = held_out(RECIPES[shipped.name])
    place = (p.target, p.batch, p.context)
    for point, fold in zip(out.points.points, out.fold, strict=True):
        if (point.target, point.batch, point.context) == place:
            return out.fits[fold].calibration
    return shipped
