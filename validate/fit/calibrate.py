"""Makes the fitted calibrations: fit, judge on held-out rows, write
``hardware/calibrations/<gpu>.<stack>.yaml``.
"""

import datetime
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from perfmodel.specs import Calibration, Constant, Scatter, StatedFit, load_calibration, square
from perfmodel.specs.boundary.files import data_directory
from perfmodel.validate.fit.errors import Errors, errors_by_quantity
from perfmodel.validate.fit.fitting import Fit, points_of
from perfmodel.validate.fit.folds import FOLDS, has_folds, held_out, whole_fit
from perfmodel.validate.fit.recipes import RECIPES, Recipe
from perfmodel.validate.harness.micro.write import as_yaml
from perfmodel.validate.solving import significant

HELD_OUT = ("point", "batch", "draft", "model")
"""Kinds of fold for the observed error, which is the largest of theirs."""
PASSES = ("target_s", "draft_s", "verify_s")
STRONG = 0.8
"""Correlation from which two constants are reported together."""
COMMENT = (
    "Written by `perfmodel validate calibrate --write` from validate/fit/recipes.yaml and "
    "published measurements."
)


@dataclass(frozen=True, slots=True)
class Report:
    """One fit, and its errors on held-out rows by kind of fold."""

    recipe: Recipe
    fit: Fit
    in_sample: dict[str, Errors]
    held_out: dict[str, dict[str, Errors]]


def report(recipe: Recipe) -> Report:
    """Fit a recipe to all its rows and judge it."""
    points = points_of(recipe)
    whole = whole_fit(recipe)
    judged = {
        by: errors_by_quantity(points, held_out(recipe, by).times) for by in FOLDS if has_folds(recipe, by)
    }
    return Report(recipe, whole, errors_by_quantity(points, points.predict(whole.calibration)), judged)


def as_dict(made: Report) -> dict[str, Any]:
    """A report in JSON types."""
    fitted = made.fit.calibration.fit
    assert fitted is not None
    return {
        "calibration": made.recipe.name,
        "set": made.recipe.set_name,
        "values": made.fit.values,
        "stderr": made.fit.stderr,
        "at_bound": list(made.fit.at_bound),
        "parameters": list(fitted.parameters),
        "correlation": square(fitted.correlation).tolist(),
        "strong_correlations": correlated(fitted),
        "pinned": {name: value for name, (value, _) in made.recipe.pinned.items()},
        "rows": len(points_of(made.recipe).points),
        "in_sample": {name: asdict(e) for name, e in made.in_sample.items()},
        "held_out": {
            by: {name: asdict(e) for name, e in found.items()} for by, found in made.held_out.items()
        },
    }


def correlated(fitted: StatedFit) -> list[tuple[str, str, float]]:
    """Pairs of strongly correlated constants, which the rows barely separate."""
    names = fitted.parameters
    rows = enumerate(fitted.correlation)
    return [(names[i], names[j], r) for i, row in rows for j, r in enumerate(row[:-1]) if abs(r) > STRONG]


def report_lines(found: dict[str, Any]) -> list[str]:
    """A report in words."""
    lines = [f"{found['calibration']}: {found['rows']} rows of {found['set']}"]
    for name, value in found["values"].items():
        error = found["stderr"].get(name)
        lines.append(f"  {name:34} {value:<11.4g} {'at its bound' if error is None else f'+- {error:.2g}'}")
    pairs = [f"{a} and {b} {r:+.2f}" for a, b, r in found["strong_correlations"]]
    lines.append(f"  correlated above {STRONG}: {'; '.join(pairs) or 'none'}")
    judged = {"in sample": found["in_sample"]} | {
        f"held out by {by}": of for by, of in found["held_out"].items()
    }
    for words, errors in judged.items():
        parts = (f"{n} {100 * e['mape']:.1f} ({100 * e['worst']:+.1f})" for n, e in errors.items())
        lines.append(f"  {words:20} mean (worst) error %: {', '.join(parts)}")
    return [*lines, ""]


def other_error(recipe: Recipe, calibration: Calibration) -> dict[str, Errors]:
    """Errors of a calibration on a recipe's rows to which it was not fitted."""
    calibration = calibration.model_copy(update={"shards_lm_head": recipe.shards_lm_head})
    points = points_of(recipe)
    return errors_by_quantity(points, points.predict(calibration))


def transfer_error(recipe: Recipe) -> tuple[Errors, Recipe] | None:
    """Speedup error of a fitted calibration on the rows of the same stack on another device."""
    for other in _on_other_devices(recipe):
        return other_error(other, whole_fit(recipe).calibration)["speedup"], other
    return None


def _on_other_devices(recipe: Recipe) -> list[Recipe]:
    """The recipes of the same stack on other devices."""
    return [other for other in RECIPES.values() if other.stack == recipe.stack and other.gpu != recipe.gpu]


def observed(made: Report) -> dict[str, Scatter]:
    """For each quantity the kind of fold with the largest error, in the form of the file.

    Rows of one model give no error for another model. Its passes then have the error of the stack's other
    device, by model.
    """
    tried = [by for by in HELD_OUT if by in made.held_out]
    folds = {f"rows held out by {by} (the worst of {', '.join(tried)})": made.held_out[by] for by in tried}
    alone = {} if "model" in tried else _of_other_models(made.recipe)
    errors_by_quantity = {}
    for name in made.in_sample:
        kinds = folds | (alone if name in PASSES else {})
        source, errors = max(
            ((words, of[name]) for words, of in kinds.items()), key=lambda each: each[1].log_rms
        )
        errors_by_quantity[name] = errors.scatter(source)
    return errors_by_quantity


def _of_other_models(recipe: Recipe) -> dict[str, dict[str, Errors]]:
    """Errors, in words, on another device of the same stack with each model held out; empty if no device has
    two models.
    """
    for other in _on_other_devices(recipe):
        if has_folds(other, "model"):
            out = held_out(other, "model")
            words = f"{recipe.gpu} has one model: held out by model on {other.gpu}"
            return {words: errors_by_quantity(out.points, out.times)}
    return {}


def as_shipped(made: Report, date: datetime.date) -> Calibration:
    """The content of a fitted calibration's file: rounded, with its errors on other rows than the fitted
    ones.
    """
    recipe = made.recipe
    fitted = made.fit
    rows = f"fitted to the {len(points_of(recipe).points)} rows of {recipe.set_name} on {recipe.gpu}"
    constants = {
        name: Constant(
            value=significant(value, 4),
            stderr=significant(fitted.stderr[name], 2) if name in fitted.stderr else None,
            source=rows + "; at its bound" * (name in fitted.at_bound),
        )
        for name, value in fitted.values.items()
    }
    assert fitted.calibration.fit is not None
    correlation = tuple(
        (*(round(v, 2) + 0.0 for v in row[:-1]), 1.0) for row in fitted.calibration.fit.correlation
    )
    moved = transfer_error(recipe)
    file_fields = {
        "name": recipe.name,
        "gpu": recipe.gpu,
        "stack": recipe.stack,
        "kind": "fitted",
        "fitted_on": (recipe.set_name,),
        "date": date,
        "notes": recipe.notes,
        "fit": StatedFit(parameters=fitted.calibration.fit.parameters, correlation=correlation),
        "observed_error": observed(made),
        "transfer_error": moved
        and moved[0].scatter(f"speedup on the rows of {moved[1].set_name} on {moved[1].gpu}"),
    }
    return fitted.calibration.model_copy(update=constants | file_fields)


def path_of(name: str) -> Path:
    """The path of a calibration's file."""
    return data_directory("calibrations") / f"{name}.yaml"


def refreshed(recipe: Recipe, today: datetime.date) -> str:
    """The required content of a recipe's file. Its date is `today` only if anything in it has changed."""
    made = report(recipe)
    path = path_of(recipe.name)
    before = load_calibration(str(path)) if path.is_file() else None
    if before is not None and as_shipped(made, before.date) == before:
        today = before.date
    return as_yaml(as_shipped(made, today), COMMENT)
