"""From timings to a calibration's file, to the record behind it, and to remarks about both."""

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
"""Held-out error (median of absolute logs) above which the rows belong to another configuration than the
question's.
"""
OUT_OF_LINE = 0.3
"""Held-out log error above which a row is reported as one that does not fit the others."""
CONTRADICTING = 0.2
"""Held-out log error (rms) above which the rows should be measured again; usual ones are `USUAL`."""
USUAL, WEIGHT = {"target_s": 0.06, "speedup": 0.072}, 4
"""Log errors of other users' engines at draft lengths and batches without rows, and the number of groups for
which they count (docs/log.md).
"""
SAME_PLACE = 0.1
"""Share by which two batches or contexts may differ and still form a speedup."""
DIGITS, RANGE_DIGITS, ERROR_DIGITS = 6, 4, 3
"""Significant digits of a value, of the ends of measured ranges, and of errors in words."""


@dataclass(frozen=True)
class EngineCalibration:
    """A calibration and its evidence. aside: unused rows, because they contain prefill.

    subject: the served configuration. base: the calibration that supplies all other constants. tried: name of
    every base -> its held-out error (rms of logs). previous: the calibration that answered such a question
    before; None without one.
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
    seen: tuple[str, ...],
) -> EngineCalibration:
    """Fit the rows from each base and keep the fit that is closest to rows held out one by one; on a CPU,
    `rows_apart` of an ideal base too.

    seen: the names that `fitted_on` lists. Raises InputError where rows are too few or no base comes near
    them.
    """
    kept, aside = usable(distinct(timings))
    fits: dict[str, tuple[EngineRows, EngineFit]] = {}
    stack = f"{subject.engine} {subject.engine_version}".replace(" ", "-")
    served = [base.replace(stack=stack) for base in bases]
    unknown = [base for base in served if base.kind == "ideal" and load_gpu(query.hardware).kind == "cpu"]
    for base in (*served, *map(rows_apart, unknown)):
        rows = rows_of(kept, query, base, aside)
        fits[base.name] = rows, fit(rows, base)
    tried = {name: log_rms(fitted.held_out, rows.measured) for name, (rows, fitted) in fits.items()}
    best = min(tried, key=lambda name: tried[name])
    rows, fitted = fits[best]
    off = float(np.exp(np.median(np.abs(np.log(fitted.held_out / rows.measured)))))
    if off > np.exp(UNREACHABLE):
        raise InputError(
            f"--from: {', '.join(seen)}: no --calibration explains these steps: with {best} held-out "
            f"rows are {off:.1f} times off; check --model {subject.model}, --draft {subject.draft} and "
            f"--hardware {subject.hardware}, or try --calibration ideal"
        )
    return EngineCalibration(
        _shipped(fitted, rows, best, subject, seen), rows, fitted, tuple(aside), subject, best, tried
    )


def distinct(timings: Sequence[Timing]) -> list[Timing]:
    """Every row once, even if several files hold it."""
    last_first = {t.replace(where=""): t for t in reversed(timings)}
    return [*last_first.values()][::-1]


def _shipped(
    fitted: EngineFit, rows: EngineRows, base: str, subject: EngineSubject, seen: tuple[str, ...]
) -> Calibration:
    served = f"{subject.engine} {subject.engine_version}"
    device = load_gpu(subject.hardware).name
    source = f"fitted to {len(rows.timings)} timed steps of {served}"
    constants = {}
    for name, error in zip(fitted.free, fitted.stderr, strict=True):
        value = getattr(fitted.calibration, name).value
        constants[name] = Constant(
            value=significant(value, DIGITS),
            stderr=min(significant(error, ERROR_DIGITS), CONSTANTS[name].widest),
            source=source,
        )
    rounded = fitted.correlation.round(ERROR_DIGITS).tolist()
    correlation = tuple((*row[:i], 1.0) for i, row in enumerate(rounded))
    not_determined = ", ".join(fitted.pinned) or "none"
    stated_fit = StatedFit(parameters=fitted.free, correlation=correlation) if fitted.free else None
    model = Path(subject.model).stem
    notes = (
        f"{served} serving {model} on {subject.tp} x {device}; all else from {base}. "
        f"Not determined by these rows: {not_determined}."
    )
    file_fields = {
        "name": f"{device}.{fitted.calibration.stack}",
        "gpu": device,
        "kind": "fitted",
        "fitted_on": seen,
        "measured": range_of(rows),
        "date": datetime.datetime.now(datetime.UTC).date(),
        "notes": notes,
        "fit": stated_fit,
        "observed_error": _errors(fitted, rows),
        "transfer_error": None,
        "errors": {},
        "measured_models": (),
        "speculating_models": (),
    }
    return fitted.calibration.replace(**constants | file_fields)


def range_of(rows: EngineRows) -> MeasuredRange:
    """The ranges of these rows. An answer to a question outside of them has a warning."""

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


def _errors(fitted: EngineFit, rows: EngineRows) -> dict[str, Scatter]:
    """Errors of a step or iteration, and of a speedup, at a draft length or batch that no row has.

    Each draft length and batch between the ends is left out whole, because the rows of one server are off
    together. Each such group counts once, as do all rows left out one by one, which scatter widely on a busy
    machine. The errors of other servers (`USUAL`) count as `WEIGHT` groups. Few groups widen the mean square
    (Student's t).
    """
    one_by_one = np.ones(len(rows.timings), bool), fitted.held_out
    groups = (*fitted.groups, one_by_one) if fitted.groups else ()
    off = [(left, np.log(seconds / rows.measured)) for left, seconds in groups]
    pairs = speedup_pairs(rows.timings)
    ratios = [[e[i] - e[j] for i, j in pairs if left[i]] for left, e in off]
    own = {"target_s": [e[left] for left, e in off], "speedup": list(filter(None, ratios))}
    source = f"{WEIGHT} groups of other servers"
    if fitted.groups:
        own_rows = f"{len(fitted.groups)} draft lengths and batches left out whole, rows left out one by one"
        source = f"{own_rows}, and {source}"
    errors = {}
    for name, usual in USUAL.items():
        squares = [float(np.mean(np.square(group))) for group in own[name]]
        count = WEIGHT + len(squares)
        mean_square = (WEIGHT * usual**2 + sum(squares)) / count
        rms = small_sample(mean_square**0.5, count + 1)
        rounded = significant(min(rms, MAX_LOG_RMS), ERROR_DIGITS)
        errors[name] = Scatter(log_rms=rounded, rows=len(rows.timings), source=source)
    return errors


def speedup_logs(rows: EngineRows, seconds: np.ndarray) -> list[float]:
    """Log of predicted over measured speedup, for every speculative row with a baseline row at its batch and
    context.
    """
    off = np.log(seconds / rows.measured)
    return [float(off[j] - off[i]) for i, j in speedup_pairs(rows.timings)]


def speedup_pairs(timings: Sequence[Timing]) -> list[tuple[int, int]]:
    """Indices of every speculative row and of a baseline row at its batch and context."""
    rows = [*enumerate(timings)]
    pairs = []
    for i, row in rows:
        baselines = [j for j, plain in rows if _is_baseline_of(row, plain)]
        if baselines:
            pairs.append((i, baselines[0]))
    return pairs


def _is_baseline_of(row: Timing, plain: Timing) -> bool:
    """Whether the second is a baseline step at the batch and context of the first, which speculates."""
    if not row.gamma or plain.gamma or row.kind != plain.kind:
        return False
    places = (row.context, plain.context), (row.batch, plain.batch)
    return all(abs(a - b) <= SAME_PLACE * max(a, b) for a, b in places)


def record_text(
    made: EngineCalibration, machine: str, subject: EngineSubject, sources: tuple[str, ...]
) -> str:
    """The record of the used rows."""
    rows = []
    for n, t in enumerate(made.rows.timings):
        point = EnginePoint.of(f"{n:03d} {t.name}", t)
        rows.append(encode(point.as_mapping(exclude_defaults=True)))
    return as_record(encode(header(machine, subject, sources)), rows)


def lines(made: EngineCalibration) -> list[str]:
    """The table of rows (predicted before, held out, measured), the fitted and pinned constants, and the rows
    set aside.
    """
    timings = made.rows.timings
    before = None if made.previous is None else made.rows.predict(made.previous)
    so_far = f"{'predicted':>11}{'error':>8}" if before is not None else ""
    table = [f"{'step':<28}{'measured':>11}{so_far}{'held out':>11}{'error':>8}"]
    for i, (t, seconds) in enumerate(zip(timings, made.fitted.held_out, strict=True)):
        odd = "  out of line: counts less" if abs(np.log(seconds / t.seconds)) > OUT_OF_LINE else ""
        so_far = "" if before is None else _against(before[i], t)
        table.append(f"{t.name:<28}{t.seconds * 1e3:>9.2f}ms{so_far}{_against(seconds, t)}{odd}")
    for t in made.aside:
        table.append(
            f"set aside: {t.where} ({t.name}): {t.prefill_share:.0%} of its time is other requests' prefill"
        )
    if made.aside:
        table.append(
            f"  (above {MAX_PREFILL_SHARE:.0%}; --save-detailed, or fewer prompts than places, avoids it)"
        )
    values = ", ".join(f"{n} {getattr(made.calibration, n).value:.4g}" for n in made.fitted.free)
    table.append("fitted: " + (values or "nothing: the rows do not say more than the base"))
    if all(t.gamma for t in timings):
        table.append(
            "no baseline step among these rows: a weak prior alone tells it apart from what drafting costs"
        )
    if made.fitted.pinned:
        table.append("not determined by these rows, left as in the base: " + ", ".join(made.fitted.pinned))
    base = f"base: {made.base}"
    others = [f"{name} {off:.1%}" for name, off in made.tried.items() if name != made.base]
    if others:
        base += f", closest to rows held out (others: {', '.join(others)})"
    table.append(base)
    if made.previous is not None and before is not None:
        table.append(
            f"error of {made.previous.name}, which answered so far (rms): {_errors_in_words(made, before)}"
        )
    table.append(f"held-out error (rms): {_errors_in_words(made, made.fitted.held_out)}")
    if log_rms(made.fitted.held_out, made.rows.measured) > CONTRADICTING:
        table.append("the rows contradict each other: measure again on a quiet machine")
    return table


def _against(seconds: float, t: Timing) -> str:
    """A predicted time, and its error."""
    return f"{seconds * 1e3:>9.2f}ms{seconds / t.seconds - 1:>+8.1%}"


def _errors_in_words(made: EngineCalibration, seconds: Array) -> str:
    """Errors of predicted steps, and of speedups if there is a baseline for them."""
    speed = speedup_logs(made.rows, seconds)
    steps = log_rms(seconds, made.rows.measured)
    if speed:
        of_speed = f"; speedup {np.sqrt(np.mean(np.square(speed))):.1%} over {len(speed)}"
    else:
        of_speed = ""
    return f"steps {steps:.1%} over {len(made.rows.timings)}{of_speed}"
