"""Makes the fitted calibrations ``hardware/calibrations/<gpu>.<stack>.yaml``: fits them, computes their
errors on held-out rows, and writes them.
"""

import datetime
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from perfmodel.specs import Calibration, Constant, Scatter, StatedFit, load_calibration, square
from perfmodel.specs.boundary.files import data_directory
from perfmodel.validate.fit.errors import Errors, errors_by_quantity
from perfmodel.validate.fit.fitting import Fit, points_of
from perfmodel.validate.fit.folds import FOLDS, has_folds, held_out, whole_fit
from perfmodel.validate.fit.recipes import RECIPES, Recipe
from perfmodel.validate.harness.micro.write import as_yaml
from perfmodel.validate.solving import significant

HELD_OUT = ("point", "batch", "draft", "model")
"""The kinds of folds for the observed error of a calibration, which is the largest of their errors."""
PASSES = ("target_s", "draft_s", "verify_s")
"""The quantities that are times of passes."""
STRONG = 0.8
"""Absolute correlation above which a pair of constants is reported."""
COMMENT = (
    "Written by `perfmodel validate calibrate --write` from validate/fit/recipes.yaml and "
    "published measurements."
)


@dataclass(frozen=True, slots=True)
class Report:
    """A fit and its errors.

    - in_sample: quantity -> errors on the fitted rows.
    - held_out: kind of fold -> quantity -> errors on held-out rows.
    """

    recipe: Recipe
    fit: Fit
    in_sample: dict[str, Errors]
    held_out: dict[str, dict[str, Errors]]


def report(recipe: Recipe) -> Report:
    """Fits the constants of a recipe to all its rows, and computes the errors of the fit."""
    points = points_of(recipe)
    whole = whole_fit(recipe)
    in_sample = errors_by_quantity(points, points.predict(whole.calibration))
    judged = {}
    for by in FOLDS:
        if has_folds(recipe, by):
            judged[by] = errors_by_quantity(points, held_out(recipe, by).times)
    return Report(recipe, whole, in_sample, judged)


def as_dict(fit_report: Report) -> dict[str, Any]:
    """A report in JSON types."""
    recipe = fit_report.recipe
    return {
        "calibration": recipe.name,
        "set": recipe.set_name,
        **_constants_as_dict(fit_report.fit),
        "pinned": {name: value for name, (value, _) in recipe.pinned.items()},
        "rows": len(points_of(recipe).points),
        "in_sample": _as_dicts(fit_report.in_sample),
        "held_out": {by: _as_dicts(errors) for by, errors in fit_report.held_out.items()},
    }


def _constants_as_dict(fitted: Fit) -> dict[str, Any]:
    """The constants of a fit with their standard errors and correlations."""
    stated = fitted.calibration.fit
    assert stated is not None
    return {
        "values": fitted.values,
        "stderr": fitted.stderr,
        "at_bound": list(fitted.at_bound),
        "parameters": list(stated.parameters),
        "correlation": square(stated.correlation).tolist(),
        "strong_correlations": correlated(stated),
    }


def _as_dicts(errors: dict[str, Errors]) -> dict[str, dict[str, Any]]:
    return {quantity: asdict(e) for quantity, e in errors.items()}


class CorrelatedPair(NamedTuple):
    """Two constants of a fit and their correlation, from -1 to 1."""

    first: str
    second: str
    correlation: float


def correlated(fitted: StatedFit) -> list[CorrelatedPair]:
    """The pairs of strongly correlated constants. The rows can hardly separate the effects of such a pair."""
    pairs = []
    for name, row in zip(fitted.parameters, fitted.correlation, strict=True):
        for other, correlation in zip(fitted.parameters, row[:-1], strict=False):
            if abs(correlation) > STRONG:
                pairs.append(CorrelatedPair(name, other, correlation))
    return pairs


def report_lines(fields: dict[str, Any]) -> list[str]:
    """The printed lines of a report.

    - fields: the result of `as_dict`.
    """
    lines = [f"{fields['calibration']}: {fields['rows']} rows of {fields['set']}"]
    stderrs = fields["stderr"]
    for name, value in fields["values"].items():
        stderr = stderrs.get(name)
        uncertainty = "at its bound" if stderr is None else f"+- {stderr:.2g}"
        lines.append(f"  {name:34} {value:<11.4g} {uncertainty}")
    pairs = [f"{a} and {b} {r:+.2f}" for a, b, r in fields["strong_correlations"]]
    lines.append(f"  correlated above {STRONG}: {'; '.join(pairs) or 'none'}")
    lines.append(_error_line("in sample", fields["in_sample"]))
    for by, errors in fields["held_out"].items():
        lines.append(_error_line(f"held out by {by}", errors))
    return [*lines, ""]


def _error_line(rows: str, errors: dict[str, dict[str, float]]) -> str:
    percents = []
    for quantity, e in errors.items():
        percents.append(f"{quantity} {100 * e['mape']:.1f} ({100 * e['worst']:+.1f})")
    return f"  {rows:20} mean (worst) error %: {', '.join(percents)}"


def other_error(recipe: Recipe, calibration: Calibration) -> dict[str, Errors]:
    """Quantity -> errors of a calibration on the rows of a recipe. The calibration was not fitted to these
    rows.
    """
    calibration = calibration.replace(shards_lm_head=recipe.shards_lm_head)
    points = points_of(recipe)
    return errors_by_quantity(points, points.predict(calibration))


class TransferError(NamedTuple):
    """The speedup errors of a calibration on the rows of another device.

    - recipe: the recipe of these rows.
    """

    errors: Errors
    recipe: Recipe


def transfer_error(recipe: Recipe) -> TransferError | None:
    """The speedup errors of a fitted calibration on the rows of the same stack on another device; None if
    there are no such rows.
    """
    for other in _on_other_devices(recipe):
        errors = other_error(other, whole_fit(recipe).calibration)
        return TransferError(errors["speedup"], other)
    return None


def _on_other_devices(recipe: Recipe) -> list[Recipe]:
    """The recipes of the same stack on other devices."""
    return [other for other in RECIPES.values() if other.stack == recipe.stack and other.gpu != recipe.gpu]


def observed(fit_report: Report) -> dict[str, Scatter]:
    """Quantity -> the observed error that the calibration file states. It is the largest error over the kinds
    of folds (`HELD_OUT`).

    If all rows have the same model, there is no fold by model. For passes, the fold by model on another
    device of the stack then counts instead.
    """
    judged = [by for by in HELD_OUT if by in fit_report.held_out]
    folds = {
        f"rows held out by {by} (the worst of {', '.join(judged)})": fit_report.held_out[by] for by in judged
    }
    other_models = {} if "model" in judged else _of_other_models(fit_report.recipe)
    scatters = {}
    for quantity in fit_report.in_sample:
        by_source = folds | other_models if quantity in PASSES else folds
        log_rms = {source: errors[quantity].log_rms for source, errors in by_source.items()}
        worst = max(log_rms, key=lambda source: log_rms[source])
        scatters[quantity] = by_source[worst][quantity].scatter(worst)
    return scatters


def _of_other_models(recipe: Recipe) -> dict[str, dict[str, Errors]]:
    """Description -> the errors on another device of the same stack if each model is held out. The mapping is
    empty if no other device has two models.
    """
    for other in _on_other_devices(recipe):
        if has_folds(other, "model"):
            out = held_out(other, "model")
            words = f"{recipe.gpu} has one model: held out by model on {other.gpu}"
            return {words: errors_by_quantity(out.points, out.times)}
    return {}


def as_shipped(fit_report: Report, date: datetime.date) -> Calibration:
    """The content of the file of a fitted calibration. Constants are rounded. The stated errors are those on
    held-out rows and on another device.
    """
    recipe = fit_report.recipe
    fitted = fit_report.fit
    rows = f"fitted to the {len(points_of(recipe).points)} rows of {recipe.set_name} on {recipe.gpu}"
    constants = {name: _constant(fitted, name, rows) for name in fitted.values}
    assert fitted.calibration.fit is not None
    file_fields = {
        "name": recipe.name,
        "gpu": recipe.gpu,
        "stack": recipe.stack,
        "kind": "fitted",
        "fitted_on": (recipe.set_name,),
        "date": date,
        "notes": recipe.notes,
        "fit": _rounded(fitted.calibration.fit),
        "observed_error": observed(fit_report),
        "transfer_error": _transfer_scatter(recipe),
    }
    return fitted.calibration.replace(**constants | file_fields)


def _constant(fitted: Fit, name: str, rows: str) -> Constant:
    stderr = fitted.stderr.get(name)
    return Constant(
        value=significant(fitted.values[name], 4),
        stderr=None if stderr is None else significant(stderr, 2),
        source=f"{rows}; at its bound" if name in fitted.at_bound else rows,
    )


def _rounded(fitted: StatedFit) -> StatedFit:
    correlation = []
    for row in fitted.correlation:
        off_diagonal = [round(value, 2) + 0.0 for value in row[:-1]]
        correlation.append((*off_diagonal, 1.0))
    return StatedFit(parameters=fitted.parameters, correlation=tuple(correlation))


def _transfer_scatter(recipe: Recipe) -> Scatter | None:
    transferred = transfer_error(recipe)
    if transferred is None:
        return None
    other = transferred.recipe
    return transferred.errors.scatter(f"speedup on the rows of {other.set_name} on {other.gpu}")


def path_of(name: str) -> Path:
    """The path of the file of a calibration."""
    return data_directory("calibrations") / f"{name}.yaml"


def refreshed(recipe: Recipe, today: datetime.date) -> str:
    """The new text of the calibration file of a recipe. Its date is `today` if anything else in the file has
    changed; otherwise the date stays the same.
    """
    fit_report = report(recipe)
    path = path_of(recipe.name)
    before = load_calibration(str(path)) if path.is_file() else None
    if before is not None and as_shipped(fit_report, before.date) == before:
        today = before.date
    return as_yaml(as_shipped(fit_report, today), COMMENT)
