"""From timings to the file of a calibration, to the record of what it was fitted to, and to what is said of both."""

import datetime
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from perfmodel.answers.query import Query
from perfmodel.errors import InputError, refuse
from perfmodel.specs.calibration import CONSTANTS, Calibration
from perfmodel.specs.fits import MAX_LOG_RMS, Scatter, StatedFit
from perfmodel.specs.gpu import load_gpu
from perfmodel.validate.engine import fit as fitting
from perfmodel.validate.engine.fit import Fitted, Rows, log_rms, small_sample
from perfmodel.validate.engine.record import EnginePoint, Subject, header
from perfmodel.validate.engine.timing import MAX_PREFILL_SHARE, Timing
from perfmodel.validate.harness.journal import as_record, encode
from perfmodel.validate.solving import significant

UNREACHABLE = 0.5
"""Held-out error (rms of logs) beyond which the rows are of something else than what was asked about."""
FEW = 5
"""Speedups that rows give themselves from which on their own errors say how sure one is."""
SAME_PLACE = 0.1
"""Contexts within this share of each other count as one place, where a speedup can be formed."""


@dataclass(frozen=True)
class Made:
    """A calibration with what it rests on. aside: rows that were not used, for the prefill in them."""

    calibration: Calibration
    rows: Rows
    fitted: Fitted
    aside: tuple[Timing, ...]


def calibrate(timings: list[Timing], query: Query, base: Calibration, subject: Subject, seen: tuple[str, ...]) -> Made:
    """Fit the rows and judge them held out one by one. seen: the names that `fitted_on` lists. Raises InputError."""
    kept, aside = fitting.usable(differences(timings))
    rows = fitting.rows_of(kept, query, base)
    fitted = fitting.fit(rows, base)
    off = log_rms(fitted.held_out, rows.measured)
    if off > UNREACHABLE:
        raise InputError(
            f"--calibration: must be a base from which these steps can be reached: from {base.name} they stay "
            f"{np.exp(off):.1f} times off when held out; another device, model or draft was served, or try ideal"
        )
    name = f"{load_gpu(subject.hardware).name}.{subject.engine}-{subject.engine_version}"
    return Made(_stated(fitted, rows, base, name, subject, seen), rows, fitted, tuple(aside))


def differences(timings: list[Timing]) -> list[Timing]:
    """Whole runs replaced by the steps between two that differ in output length alone. Raises InputError."""
    totals = [t for t in timings if t.kind == "total"]
    made = [t for t in timings if t.kind != "total"]
    by_place: dict[tuple[float, ...], list[Timing]] = {}
    for t in totals:
        by_place.setdefault((t.batch, t.prompt or 0.0, float(t.gamma)), []).append(t)
    for runs in by_place.values():
        runs.sort(key=lambda t: t.output or 0.0)
        if len(runs) < 2 or runs[0].output == runs[-1].output:
            raise refuse(
                runs[0].where, None, "beside a run of another output length, so that the prompt cancels out", None
            )
        made += [_step_between(one, two) for one, two in itertools.pairwise(runs) if one.output != two.output]
    return made


def _step_between(one: Timing, two: Timing) -> Timing:
    tokens = (two.output or 0.0) - (one.output or 0.0)
    seconds = (two.seconds - one.seconds) / tokens * one.tokens_per_iteration
    if seconds <= 0:
        raise refuse(two.where, "latencies", f"longer than those of {one.where}", two.seconds)
    context = (one.prompt or 0.0) + ((one.output or 0.0) + (two.output or 0.0)) / 2
    return Timing(
        where=f"{two.where} less {one.where}", seconds=seconds, batch=one.batch, context=context, gamma=one.gamma,
        tokens_per_iteration=one.tokens_per_iteration, prompt=one.prompt, output=two.output,
        how="difference of whole runs over that of their tokens",
    )  # fmt: skip


def _stated(
    fitted: Fitted, rows: Rows, base: Calibration, name: str, subject: Subject, seen: tuple[str, ...]
) -> Calibration:
    count = len(rows.timings)
    source = f"fitted to {count} timed steps of {subject.engine} {subject.engine_version}"
    values = {
        n: getattr(fitted.calibration, n).model_copy(
            update={"stderr": min(significant(e, 3), CONSTANTS[n].widest), "source": source}
        )
        for n, e in zip(fitted.free, fitted.stderr, strict=True)
    }
    values = {n: v.model_copy(update={"value": significant(v.value, 6)}) for n, v in values.items()}
    pinned = ", ".join(fitted.pinned) or "none"
    correlation = tuple(
        tuple(round(float(v), 3) if j < i else 1.0 for j, v in enumerate(row[: i + 1]))
        for i, row in enumerate(fitted.correlation)
    )
    return fitted.calibration.model_copy(
        update={
            **values,
            "name": name,
            "gpu": load_gpu(subject.hardware).name,
            "stack": f"{subject.engine}-{subject.engine_version}",
            "kind": "fitted",
            "fitted_on": seen,
            "date": datetime.datetime.now(datetime.UTC).date(),
            "notes": (
                f"{subject.engine} {subject.engine_version} serving {Path(subject.model).stem} on {subject.tp} x "
                f"{load_gpu(subject.hardware).name}; all else from {base.name}. Not determined by these rows: {pinned}."
            ),
            "fit": StatedFit(parameters=fitted.free, correlation=correlation) if fitted.free else None,
            "observed_error": _errors(fitted, rows),
            "transfer_error": None,
            "errors": {},
            "measured_models": (),
            "speculating_models": (),
        }
    )


def _errors(fitted: Fitted, rows: Rows) -> dict[str, Scatter]:
    """Of predictions by refits without the row; few rows widen it (Student's t)."""
    found = {}
    plain = np.array([t.gamma == 0 for t in rows.timings])
    for name, chosen in (("target_s", plain), ("speedup", None)):
        if chosen is None:
            logs = speedup_logs(rows, fitted.held_out)
            if len(logs) < FEW:  # too few baseline steps beside speculative ones: both steps of a speedup as any two
                logs = [np.sqrt(2.0) * log_rms(fitted.held_out, rows.measured)] * len(rows.timings)
        else:
            logs = np.log(fitted.held_out[chosen] / rows.measured[chosen]).tolist()
        if len(logs) > 1:
            rms = min(small_sample(float(np.sqrt(np.mean(np.square(logs)))), len(logs)), MAX_LOG_RMS)
            source = "rows held out one by one, widened for their number (Student's t)"
            found[name] = Scatter(log_rms=significant(max(rms, 1e-4), 3), rows=len(logs), source=source)
    return found


def speedup_logs(rows: Rows, seconds: np.ndarray) -> list[float]:
    """Log of predicted over measured speedup for every speculative row with a plain one at its batch and context."""
    measured = rows.measured
    pairs = speedup_pairs(rows.timings)
    return [float(np.log(seconds[j] / measured[j]) - np.log(seconds[i] / measured[i])) for i, j in pairs]


def speedup_pairs(timings: Sequence[Timing]) -> list[tuple[int, int]]:
    """Places of every speculative row and of a plain one at its batch and context."""
    pairs = []
    for i, row in enumerate(timings):
        for j, plain in enumerate(timings):
            near = abs(row.context - plain.context) <= SAME_PLACE * max(row.context, plain.context)
            if row.gamma and not plain.gamma and row.kind == plain.kind and row.batch == plain.batch and near:
                pairs.append((i, j))
                break
    return pairs


def record_text(made: Made, machine: str, subject: Subject, sources: tuple[str, ...]) -> str:
    """The record of the rows that were used."""
    points = [EnginePoint.of(f"{n:03d} {t.name}", t) for n, t in enumerate(made.rows.timings)]
    rows = [point.model_dump_json(exclude_defaults=True) for point in points]
    return as_record(encode(header(machine, subject, sources)), rows)


def lines(made: Made) -> list[str]:
    """The table of rows, predicted held out beside measured, and what was fitted, pinned and set aside."""
    told = [f"{'step':<28}{'measured':>11}{'held out':>11}{'error':>8}"]
    for t, seconds in zip(made.rows.timings, made.fitted.held_out, strict=True):
        told.append(f"{t.name:<28}{t.seconds * 1e3:>9.2f}ms{seconds * 1e3:>9.2f}ms{seconds / t.seconds - 1:>+8.1%}")
    for t in made.aside:
        told.append(f"set aside: {t.where} ({t.name}): {t.prefill_share:.0%} of its time is other requests' prefill")
    if made.aside:
        told.append(f"  (above {MAX_PREFILL_SHARE:.0%}; --save-detailed, or fewer prompts than places, avoids it)")
    values = (f"{n} {getattr(made.calibration, n).value:.4g}" for n in made.fitted.free)
    told.append("fitted: " + (", ".join(values) or "nothing: the rows do not say more than the base"))
    if all(t.gamma for t in made.rows.timings):
        told.append("no baseline step among these rows: a weak prior alone tells it apart from what drafting costs")
    if made.fitted.pinned:
        told.append("not determined by these rows, left as in the base: " + ", ".join(made.fitted.pinned))
    steps = log_rms(made.fitted.held_out, made.rows.measured)
    speed = speedup_logs(made.rows, made.fitted.held_out)
    said = f"; speedup {np.sqrt(np.mean(np.square(speed))):.1%} over {len(speed)}" if speed else ""
    told.append(f"held-out error (rms): steps {steps:.1%} over {len(made.rows.timings)}{said}")
    return told
