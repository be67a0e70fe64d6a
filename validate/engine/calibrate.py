"""Makes a calibration from timings, and the record of the timings."""

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from perfmodel.answers.question import Query
from perfmodel.errors import InputError
from perfmodel.specs import (
    CONSTANTS,
    Calibration,
    Constant,
    MeasuredRange,
    StatedFit,
    load_gpu,
)
from perfmodel.validate.engine.calibration_errors import ERROR_DIGITS, stated_errors
from perfmodel.validate.engine.constants import rows_apart
from perfmodel.validate.engine.fit import EngineFit, EngineRows, fit, log_rms, rows_of, usable
from perfmodel.validate.engine.record import EnginePoint, EngineSubject, record_header
from perfmodel.validate.engine.timing import Timing
from perfmodel.validate.harness.journal import as_record, encode
from perfmodel.validate.solving import significant

UNREACHABLE = 0.5
"""Held-out error (median of absolute logs) above which the rows are refused, because they seem to belong to
another configuration than the question's.
"""
VALUE_DIGITS = 6
"""Significant digits of a value."""
RANGE_DIGITS = 4
"""Significant digits of the ends of measured ranges."""


@dataclass(frozen=True)
class EngineCalibration:
    """A calibration and the rows that it was fitted to.

    - aside: rows that were not used, because their times contain prefill.
    - subject: the served configuration.
    - base: name of the calibration that supplies all constants that were not fitted.
    - tried: name of every base -> the held-out error of its fit (root mean square of log errors).
    - previous: the calibration that a question about this engine and device used before; None if there is
      none.
    """

    calibration: Calibration
    rows: EngineRows
    fitted: EngineFit
    aside: tuple[Timing, ...]
    subject: EngineSubject
    base: str
    tried: dict[str, float]
    previous: Calibration | None = None


def calibrate(
    timings: list[Timing],
    query: Query,
    bases: Sequence[Calibration],
    subject: EngineSubject,
    sources: tuple[str, ...],
) -> EngineCalibration:
    """Fits constants to the rows, once for each base calibration, and keeps the fit with the smallest error
    on rows that were held out one by one. On a CPU, it also tries `rows_apart` of an ideal base. Raises
    InputError if there are too few rows, or if no base can explain them.

    - sources: the names that `fitted_on` lists.
    """
    steps, aside = usable(distinct(timings))
    fits: dict[str, tuple[EngineRows, EngineFit]] = {}
    tried: dict[str, float] = {}
    for base in _served_bases(bases, query, subject):
        rows = rows_of(steps, query, base, aside)
        fitted = fit(rows, base)
        fits[base.name] = rows, fitted
        tried[base.name] = log_rms(fitted.held_out, rows.measured)
    best = min(tried, key=lambda name: tried[name])
    rows, fitted = fits[best]
    median_off = np.median(np.abs(np.log(fitted.held_out / rows.measured)))
    if median_off > UNREACHABLE:
        raise InputError(
            f"--from: {', '.join(sources)}: no --calibration explains these steps: with {best} held-out "
            f"rows are {np.exp(median_off):.1f} times off; check --model {subject.model}, --draft "
            f"{subject.draft} and --hardware {subject.hardware}, or try --calibration ideal"
        )
    shipped = _shipped(fitted, rows, best, subject, sources)
    return EngineCalibration(shipped, rows, fitted, tuple(aside), subject, best, tried)


def _served_bases(bases: Sequence[Calibration], query: Query, subject: EngineSubject) -> list[Calibration]:
    """The bases under the name of the served engine; on a CPU, `rows_apart` of an ideal base too."""
    stack = f"{subject.engine} {subject.engine_version}".replace(" ", "-")
    served = [base.replace(stack=stack) for base in bases]
    if load_gpu(query.hardware).kind == "cpu":
        served += [rows_apart(base) for base in served if base.kind == "ideal"]
    return served


def distinct(timings: Sequence[Timing]) -> list[Timing]:
    """The timings without duplicates, which occur if several files have the same row."""
    last_first = {t.replace(where=""): t for t in reversed(timings)}
    return [*last_first.values()][::-1]


def _shipped(
    fitted: EngineFit, rows: EngineRows, base: str, subject: EngineSubject, sources: tuple[str, ...]
) -> Calibration:
    """The calibration with the rounded constants, sources, ranges and errors of its file."""
    served = f"{subject.engine} {subject.engine_version}"
    device = load_gpu(subject.hardware).name
    source = f"fitted to {len(rows.timings)} timed steps of {served}"
    constants = {}
    for name, error in zip(fitted.free, fitted.stderr, strict=True):
        value = getattr(fitted.calibration, name).value
        stderr = min(significant(error, ERROR_DIGITS), CONSTANTS[name].widest)
        constants[name] = Constant(value=significant(value, VALUE_DIGITS), stderr=stderr, source=source)
    model = Path(subject.model).stem
    notes = (
        f"{served} serving {model} on {subject.tp} x {device}; all else from {base}. "
        f"Not determined by these rows: {', '.join(fitted.pinned) or 'none'}."
    )
    file_fields = {
        "name": f"{device}.{fitted.calibration.stack}",
        "gpu": device,
        "kind": "fitted",
        "fitted_on": sources,
        "measured": range_of(rows),
        "date": datetime.datetime.now(datetime.UTC).date(),
        "notes": notes,
        "fit": _stated_fit(fitted),
        "observed_error": stated_errors(fitted, rows),
        "transfer_error": None,
        "errors": {},
        "measured_models": (),
        "speculating_models": (),
    }
    return fitted.calibration.replace(**constants | file_fields)


def _stated_fit(fitted: EngineFit) -> StatedFit | None:
    """The lower triangle of the correlation of the fitted constants; None if nothing was fitted."""
    if not fitted.free:
        return None
    rounded = fitted.correlation.round(ERROR_DIGITS).tolist()
    correlation = tuple((*row[:i], 1.0) for i, row in enumerate(rounded))
    return StatedFit(parameters=fitted.free, correlation=correlation)


def range_of(rows: EngineRows) -> MeasuredRange:
    """The ranges of batch, context and gamma of the rows. Answers outside these ranges have a warning."""

    def ends(name: str) -> tuple[float, float]:
        values = [float(getattr(t, name)) for t in rows.timings]
        return significant(min(values), RANGE_DIGITS), significant(max(values), RANGE_DIGITS)

    draft = rows.scenario.draft
    least_gamma, most_gamma = ends("gamma")
    return MeasuredRange(
        model=rows.scenario.target.name,
        draft=draft.name,
        draft_kv=draft.kv.label(),
        batch=ends("batch"),
        context=ends("context"),
        gamma=(int(least_gamma), int(most_gamma)),
    )


def record_text(
    calibrated: EngineCalibration, machine: str, subject: EngineSubject, sources: tuple[str, ...]
) -> str:
    """The text of the record of the rows that were used."""
    rows = []
    for n, t in enumerate(calibrated.rows.timings):
        point = EnginePoint.of(f"{n:03d} {t.name}", t)
        rows.append(encode(point.as_mapping(exclude_defaults=True)))
    return as_record(encode(record_header(machine, subject, sources)), rows)
