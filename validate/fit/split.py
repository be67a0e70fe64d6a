"""A fit to chosen rows judged on others, and both kinds of calibration report in words."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfmodel.errors import InputError, unknown_name
from perfmodel.specs.fits import square
from perfmodel.specs.published import MeasuredPoint
from perfmodel.validate.fit.calibrate import Report
from perfmodel.validate.fit.counted import Array
from perfmodel.validate.fit.errors import errors_by_quantity
from perfmodel.validate.fit.fitting import Fit, fit, points_of, start_of
from perfmodel.validate.fit.recipes import Recipe

FIELDS: dict[str, Callable[[MeasuredPoint], str]] = {
    "set": lambda p: p.set_name,
    "table": lambda p: p.row_id.partition("-")[0],
    "row": lambda p: p.row_id,
    "model": lambda p: p.target,
    "draft": lambda p: p.draft or "",
    "kv": lambda p: p.draft_kv or "",
    "batch": lambda p: str(p.batch),
    "context": lambda p: str(p.context),
    "tp": lambda p: str(p.tp),
    "weights": lambda p: p.weights,
}


def chosen(points: tuple[MeasuredPoint, ...], conditions: tuple[str, ...], flag: str) -> NDArray[np.bool_]:
    """Rows that meet any of the FIELD=VALUE conditions. Raises InputError for one that no row meets."""
    rows = np.zeros(len(points), dtype=bool)
    for condition in conditions:
        name, equals, value = condition.partition("=")
        if name not in FIELDS or not equals:
            raise unknown_name(flag, "FIELD of FIELD=VALUE", name, FIELDS)
        met = np.array([FIELDS[name](p) == value for p in points])
        if not met.any():
            known = ", ".join(sorted({FIELDS[name](p) for p in points}))
            raise InputError(f"{flag}: {name} must be one of {known}, given {value!r}")
        rows |= met
    return rows


def judge(recipe: Recipe, fit_on: tuple[str, ...], hold_out: tuple[str, ...]) -> dict[str, Any]:
    """Fit a recipe to the rows of `fit_on` (or all not held out) and report errors on both sides.

    Rows whose plain decoding time is also a held-out row's are not fitted to either. Raises InputError where nothing is
    left to fit or to judge.
    """
    points = points_of(recipe)
    held = chosen(points.points, hold_out, "--hold-out")
    train = chosen(points.points, fit_on, "--fit") if fit_on else np.ones(len(points.points), dtype=bool)
    held = held if hold_out else ~train
    shared = {_decoding(p) for p, out in zip(points.points, held, strict=True) if out}
    train &= ~held & np.array([_decoding(p) not in shared for p in points.points])
    if not train.any() or not held.any():
        raise InputError(f"--fit, --hold-out: must leave rows of {recipe.name} on both sides")
    made = fit(points, start_of(recipe), recipe.free, train)
    times = points.predict(made.calibration)
    return {
        **_head(recipe, made),
        "rows": int(train.sum()),
        "in_sample": _errors(points, times, train),
        "held_out": {"chosen": _errors(points, times, held)},
    }


def split_report(made: Report) -> dict[str, Any]:
    """A report of the whole fit in plain JSON types."""
    return {
        **_head(made.recipe, made.fit),
        "rows": len(points_of(made.recipe).points),
        "in_sample": {name: asdict(e) for name, e in made.in_sample.items()},
        "held_out": {by: {name: asdict(e) for name, e in found.items()} for by, found in made.held_out.items()},
    }


def report_lines(found: dict[str, Any]) -> list[str]:
    """A report in words."""
    lines = [f"{found['calibration']}: {found['rows']} rows of {found['set']}"]
    for name, value in found["values"].items():
        error = found["stderr"].get(name)
        lines.append(f"  {name:34} {value:<11.4g} {'at its bound' if error is None else f'+- {error:.2g}'}")
    strong = [f"{a} and {b} {r:+.2f}" for a, b, r in found["strong_correlations"]]
    lines.append(f"  correlated above 0.8: {'; '.join(strong) or 'none'}")
    for words, errors_of in (
        ("in sample", found["in_sample"]),
        *((f"held out by {k}", v) for k, v in found["held_out"].items()),
    ):
        parts = (f"{n} {100 * e['mape']:.1f} ({100 * e['worst']:+.1f})" for n, e in errors_of.items())
        lines.append(f"  {words:20} mean (worst) error %: {', '.join(parts)}")
    return [*lines, ""]


def _head(recipe: Recipe, made: Fit) -> dict[str, Any]:
    fitted = made.calibration.fit
    assert fitted is not None
    names, correlation = fitted.parameters, square(fitted.correlation)
    strong = [
        (names[i], names[j], value)
        for i, row in enumerate(fitted.correlation)
        for j, value in enumerate(row[:-1])
        if abs(value) > 0.8
    ]
    return {
        "calibration": recipe.name,
        "set": recipe.set_name,
        "values": made.values,
        "stderr": made.stderr,
        "at_bound": list(made.at_bound),
        "parameters": list(names),
        "correlation": correlation.tolist(),
        "strong_correlations": strong,
        "pinned": {name: value for name, (value, _) in recipe.pinned.items()},
    }


def _errors(points: Any, times: dict[str, Array], rows: NDArray[np.bool_]) -> dict[str, Any]:
    only = {name: np.where(rows, seconds, np.nan) for name, seconds in times.items()}
    return {name: asdict(e) for name, e in errors_by_quantity(points, only).items()}


def _decoding(p: MeasuredPoint) -> tuple[object, ...]:
    return p.target, p.tp, p.weights, p.batch, p.context
