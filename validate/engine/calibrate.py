"""Makes a calibration from timings: its file, the record of the timings, and the printed remarks about
both.
"""

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from perfmodel.answers.question import Query
from perfmodel.errors import InputError
from perfmodel.operations import Array
from perfmodel.specs import (
    CONSTANTS,
    MAX_LOG_RMS,
    Calibration,
    Constant,
    MeasuredRange,
    Scatter,
    StatedFit,
    load_gpu,
)
from perfmodel.validate.engine.constants import rows_apart
from perfmodel.validate.engine.fit import EngineFit, EngineRows, fit, log_rms, rows_of, small_sample, usable
from perfmodel.validate.engine.record import EnginePoint, EngineSubject, header
from perfmodel.validate.engine.timing import MAX_PREFILL_SHARE, Timing
from perfmodel.validate.harness.journal import as_record, encode
from perfmodel.validate.solving import significant

UNREACHABLE = 0.5
"""Held-out error (median of absolute logs) above which the rows are refused, because they seem to belong to
another configuration than the question's.
"""
OUT_OF_LINE = 0.3
"""Held-out log error above which a row is reported as one that does not fit the others."""
CONTRADICTING = 0.2
"""Held-out log error (rms) above which the rows should be measured again. `USUAL` has typical errors."""
USUAL = {"target_s": 0.06, "speedup": 0.072}
"""Typical log errors (rms) of calibrated servers at draft lengths and batches without rows (docs/log.md)."""
WEIGHT = 4
"""The number of groups of rows as which the errors in `USUAL` count (docs/log.md)."""
SAME_PLACE = 0.1
"""Largest relative difference of two batches or contexts that form a speedup."""
VALUE_DIGITS = 6
"""Significant digits of a value."""
RANGE_DIGITS = 4
"""Significant digits of the ends of measured ranges."""
ERROR_DIGITS = 3
"""Significant digits of errors in words."""


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


def stated_errors(fitted: EngineFit, rows: EngineRows) -> dict[str, Scatter]:
    """The expected errors of a step or iteration, and of a speedup, at a draft length or batch that no row
    has.

    All rows of a draft length or batch between the smallest and the largest are left out together, because
    the errors of a server's rows are correlated. Each such group counts once. The errors of rows that were
    left out one by one, which scatter widely on a busy machine, also count as one group. The errors of other
    servers (`USUAL`) count as `WEIGHT` groups. If there are few groups, the error is widened (Student's t).
    """
    every_row = np.ones(len(rows.timings), bool)
    groups = (*fitted.groups, (every_row, fitted.held_out)) if fitted.groups else ()
    pairs = speedup_pairs(rows.timings)
    steps: list[Array | list[float]] = []
    ratios: list[Array | list[float]] = []
    for left_out, seconds in groups:
        off = np.log(seconds / rows.measured)
        steps.append(off[left_out])
        of_group = [off[i] - off[j] for i, j in pairs if left_out[i]]
        if of_group:
            ratios.append(of_group)
    source = f"{WEIGHT} groups of other servers"
    if fitted.groups:
        of_server = f"{len(fitted.groups)} draft lengths and batches left out whole, rows left out one by one"
        source = f"{of_server}, and {source}"
    errors = {}
    for name, of_server_errors in (("target_s", steps), ("speedup", ratios)):
        usual = USUAL[name]
        squares = [float(np.mean(np.square(group))) for group in of_server_errors]
        count = WEIGHT + len(squares)
        mean_square = (WEIGHT * usual**2 + sum(squares)) / count
        rms = small_sample(mean_square**0.5, count + 1)
        rounded = significant(min(rms, MAX_LOG_RMS), ERROR_DIGITS)
        errors[name] = Scatter(log_rms=rounded, rows=len(rows.timings), source=source)
    return errors


def speedup_logs(rows: EngineRows, seconds: np.ndarray) -> list[float]:
    """The log of predicted over measured speedup for every speculative row that has a baseline row at its
    batch and context.
    """
    off = np.log(seconds / rows.measured)
    return [float(off[j] - off[i]) for i, j in speedup_pairs(rows.timings)]


def speedup_pairs(timings: Sequence[Timing]) -> list[tuple[int, int]]:
    """Pairs of indices: a speculative row, and a baseline row at its batch and context."""
    rows = [*enumerate(timings)]
    pairs = []
    for i, row in rows:
        baselines = [j for j, plain in rows if _is_baseline_of(row, plain)]
        if baselines:
            pairs.append((i, baselines[0]))
    return pairs


def _is_baseline_of(row: Timing, plain: Timing) -> bool:
    """Whether `plain` is a baseline step at the batch and context of the speculative `row`."""
    if not row.gamma or plain.gamma or row.kind != plain.kind:
        return False
    places = (row.context, plain.context), (row.batch, plain.batch)
    return all(abs(a - b) <= SAME_PLACE * max(a, b) for a, b in places)


def record_text(
    calibrated: EngineCalibration, machine: str, subject: EngineSubject, sources: tuple[str, ...]
) -> str:
    """The text of the record of the rows that were used."""
    rows = []
    for n, t in enumerate(calibrated.rows.timings):
        point = EnginePoint.of(f"{n:03d} {t.name}", t)
        rows.append(encode(point.as_mapping(exclude_defaults=True)))
    return as_record(encode(header(machine, subject, sources)), rows)


def lines(calibrated: EngineCalibration) -> list[str]:
    """The printed lines: a table of rows (measured, predicted before, predicted when held out), the rows that
    were set aside, and the fitted and pinned constants.
    """
    return [*_table(calibrated), *_remarks(calibrated), *_errors_lines(calibrated)]


def _table(calibrated: EngineCalibration) -> list[str]:
    """The measured time, the previous prediction and the held-out prediction of each row, and then the rows
    that are set aside.
    """
    before = None if calibrated.previous is None else calibrated.rows.predict(calibrated.previous)
    before_head = "" if before is None else f"{'predicted':>11}{'error':>8}"
    table = [f"{'step':<28}{'measured':>11}{before_head}{'held out':>11}{'error':>8}"]
    for i, t in enumerate(calibrated.rows.timings):
        seconds = calibrated.fitted.held_out[i]
        line = f"{t.name:<28}{t.seconds * 1e3:>9.2f}ms"
        if before is not None:
            line += _against(before[i], t)
        line += _against(seconds, t)
        if abs(np.log(seconds / t.seconds)) > OUT_OF_LINE:
            line += "  out of line: counts less"
        table.append(line)
    for t in calibrated.aside:
        prefill = f"{t.prefill_share:.0%} of its time is other requests' prefill"
        table.append(f"set aside: {t.where} ({t.name}): {prefill}")
    if calibrated.aside:
        advice = "--save-detailed, or fewer prompts than places, avoids it"
        table.append(f"  (above {MAX_PREFILL_SHARE:.0%}; {advice})")
    return table


def _remarks(calibrated: EngineCalibration) -> list[str]:
    """Lines about the fitted constants, the constants that the rows do not determine, and the base
    calibration.
    """
    values = [f"{name} {getattr(calibrated.calibration, name).value:.4g}" for name in calibrated.fitted.free]
    lines = [f"fitted: {', '.join(values) or 'nothing: the rows do not say more than the base'}"]
    if all(t.gamma for t in calibrated.rows.timings):
        lines.append(
            "no baseline step among these rows: a weak prior alone tells it apart from what drafting costs"
        )
    if calibrated.fitted.pinned:
        lines.append(
            f"not determined by these rows, left as in the base: {', '.join(calibrated.fitted.pinned)}"
        )
    base = f"base: {calibrated.base}"
    others = [f"{name} {off:.1%}" for name, off in calibrated.tried.items() if name != calibrated.base]
    if others:
        base += f", closest to rows held out (others: {', '.join(others)})"
    return [*lines, base]


def _errors_lines(calibrated: EngineCalibration) -> list[str]:
    """Lines about the errors of the previous calibration, and those of the new calibration on held-out
    rows.
    """
    lines = []
    if calibrated.previous is not None:
        errors = _errors_in_words(calibrated, calibrated.rows.predict(calibrated.previous))
        lines.append(f"error of {calibrated.previous.name}, which answered so far (rms): {errors}")
    held_out = calibrated.fitted.held_out
    lines.append(f"held-out error (rms): {_errors_in_words(calibrated, held_out)}")
    if log_rms(held_out, calibrated.rows.measured) > CONTRADICTING:
        lines.append("the rows contradict each other: measure again on a quiet machine")
    return lines


def _against(seconds: float, t: Timing) -> str:
    """A predicted time, and its error."""
    return f"{seconds * 1e3:>9.2f}ms{seconds / t.seconds - 1:>+8.1%}"


def _errors_in_words(calibrated: EngineCalibration, seconds: Array) -> str:
    """Errors of predicted steps, and of speedups if there is a baseline for them."""
    words = f"steps {log_rms(seconds, calibrated.rows.measured):.1%} over {len(calibrated.rows.timings)}"
    of_speedups = speedup_logs(calibrated.rows, seconds)
    if of_speedups:
        rms = np.sqrt(np.mean(np.square(of_speedups)))
        words += f"; speedup {rms:.1%} over {len(of_speedups)}"
    return words
