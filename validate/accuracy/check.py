"""Implements ``perfmodel validate check``. A check fails if an error exceeds a limit or that of a baseline,
or if predictions or measurements have changed since the baseline.
"""

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal, Self

import numpy as np
from msgspec import Meta, field

from perfmodel.errors import InputError, in_names, one_line, refuse, unknown_name
from perfmodel.specs import FINITE, Calibration, Frozen, files
from perfmodel.validate.accuracy.doubts import doubted
from perfmodel.validate.accuracy.figure import Figure, quantity_of
from perfmodel.validate.accuracy.folder import figures
from perfmodel.validate.accuracy.partitions import error
from perfmodel.validate.accuracy.served_figures import engine_calibrations
from perfmodel.validate.fit.errors import Errors
from perfmodel.validate.records import version
from perfmodel.validate.solving import grouped, significant
from perfmodel.writing import destination, write as write_file

DEFAULT_MAX_ERROR = 0.10
"""Limit of the mean error if the user states neither a limit nor a baseline."""
TOLERANCE = 0.01
"""Largest allowed increase of a mean error since the baseline, and largest allowed mean change of
predictions.
"""
MAX_DRIFT = 0.03
"""Default of `max_drift`, the largest allowed mean change of the measurements of a part since the baseline.
Repeated runs on a quiet GPU differ by less than this (`STEADY_RATIO`).
"""
SINGLE_POINT = 3.0
"""Factor on `max_drift` for the measurement of a single point."""
BASELINE_DIGITS = 6
"""Significant digits in a baseline."""
Finite = Annotated[float, Meta(le=FINITE)]
"""An error, which can be negative."""
Above = Annotated[float, Meta(ge=1e-12, le=1e12)]
"""A time in seconds, or a speedup. The quotient of two such values is finite and above 0."""


class PartErrors(Frozen):
    """The errors of one part in a baseline file."""

    rows: Annotated[int, Meta(ge=1)]
    mape: Annotated[float, Meta(ge=0, le=FINITE)]
    bias: Finite
    worst: Finite


class Baseline(Frozen):
    """The result with which later checks are compared.

    - parts: part -> its errors.
    - predicted: figure -> its prediction.
    - rows: part -> row -> its latest measurement.
    - calibrations: served configuration (`served_by`) -> the calibration of its engine. Later checks use
      these calibrations. A calibration that is fitted again to a slower engine would hide the slowdown.
    """

    schema_version: Literal[1]
    kind: Literal["check"]
    perfmodel_version: str
    parts: dict[str, PartErrors]
    predicted: dict[str, Above]
    rows: dict[str, dict[str, Above]] = field(default_factory=dict)
    calibrations: dict[str, Calibration] = field(default_factory=dict)

    def of(self, quantities: Collection[str]) -> Self:
        """This baseline with only the parts of the given quantities."""
        parts = {name: errors for name, errors in self.parts.items() if quantity_of(name) in quantities}
        return self.replace(parts=parts)


@dataclass(frozen=True)
class CheckedPart:
    """The figures of one part (`Figure.part`), and their errors."""

    name: str
    figures: tuple[Figure, ...]
    errors: Errors

    @property
    def calibration(self) -> str:
        """The name of the calibration. A ``*`` marks a calibration that was fitted to the same records."""
        names = [f"{f.calibration}*" if f.fitted else f.calibration for f in self.figures]
        return ", ".join(dict.fromkeys(names))

    @property
    def worst(self) -> Figure:
        """The figure with the largest error."""
        return max(self.figures, key=lambda f: abs(f.error))

    @property
    def measured(self) -> dict[str, float]:
        """Row -> its latest measurement, in seconds or as a speedup."""
        return {f.row: f.measured for f in self.figures}


def parts_of(all_figures: list[Figure]) -> list[CheckedPart]:
    """The parts of some figures, in the order of their first figures."""
    by_part = grouped(all_figures, lambda f: f.part)
    return [CheckedPart(name, tuple(rows), error(rows)) for name, rows in by_part.items()]


@dataclass(frozen=True)
class Checked:
    """The result of a check.

    - parts: the errors of each part.
    - faults: a line for each fault; empty if the check passes.
    - limit: the limit of mean errors; None for no limit.
    - before: the baseline with which the records were compared; None for none.
    - doubts: reasons not to rely on the records of a new baseline.
    """

    parts: tuple[CheckedPart, ...]
    faults: tuple[str, ...]
    limit: float | None
    before: Baseline | None
    doubts: tuple[str, ...] = ()

    @property
    def passes(self) -> bool:
        """Whether the check found no fault."""
        return not self.faults


@in_names
def check(
    results: Path | str,
    *,
    max_error: float | None = None,
    baseline: Path | str | None = None,
    max_drift: float = MAX_DRIFT,
    calibration: str | None = None,
    figure: Collection[str] = (),
    write: bool = False,
) -> Checked:
    """Compares the records of a folder with predictions, as ``perfmodel validate check`` does.

    - max_error: the largest allowed mean error, as a fraction. By default, it is `DEFAULT_MAX_ERROR` without
      a baseline, and there is no limit with one.
    - baseline: the file of a baseline. A larger error, a changed prediction, a changed measurement and a
      missing figure are then faults.
    - max_drift: the largest allowed mean change of the measurements of a part since the baseline, as a
      fraction. A single point can change by `SINGLE_POINT` times this fraction.
    - calibration: the calibration for all records; by default each record has its own (`folder.figures`).
    - figure: the quantities to check; by default all.
    - write: whether to write the baseline instead of comparing with it.

    Raises InputError for invalid arguments or records.
    """
    if write and baseline is None:
        raise InputError("--write: needs --baseline FILE, which it writes")
    limit = max_error or None
    if limit is None and baseline is None:
        limit = DEFAULT_MAX_ERROR
    folder = Path(results)
    new_baseline = None
    if write and baseline is not None:
        new_baseline = destination(Path(baseline), flag="--baseline")
    if not folder.is_dir():
        raise refuse("--results", None, "a folder with records", str(folder))
    before = None
    if not write and baseline is not None:
        before = read_baseline(Path(baseline))
    all_figures = figures(folder, calibration, before.calibrations if before else None)
    wanted = _wanted(all_figures, figure)
    now = parts_of([f for f in all_figures if quantity_of(f.part) in wanted])
    if before is not None:
        before = before.of(wanted)
    doubts: list[str] = []
    if new_baseline is not None:
        doubts = doubted(folder, calibration)
        calibrations = {} if calibration else engine_calibrations(folder)
        write_file(new_baseline, baseline_text(now, calibrations), "--baseline")
    failed = faults(now, limit, before, max_drift)
    return Checked(tuple(now), tuple(failed), limit, before, tuple(doubts))


def _wanted(all_figures: Collection[Figure], names: Collection[str]) -> Collection[str]:
    """The quantities to check: those named, or else all quantities of the figures. Raises InputError for a
    name without figures.
    """
    known = dict.fromkeys(quantity_of(f.part) for f in all_figures)
    for name in names:
        if name not in known:
            raise unknown_name("--figure", "figure", name, known)
    return names or known


def faults(
    now: list[CheckedPart], limit: float | None, before: Baseline | None, max_drift: float = MAX_DRIFT
) -> list[str]:
    """A line for each fault; empty if the check passes. The arguments are those of `Checked` and `check`."""
    lines = [] if limit is None else [*_above(now, limit)]
    if before is not None:
        lines += [*_grown(now, before), *_moved(now, before), *_drifted(now, before, max_drift)]
    return lines


def _above(now: list[CheckedPart], limit: float) -> Iterator[str]:
    for part in now:
        errors = part.errors
        if not errors.mape <= limit:
            mean = f"mean error {errors.mape:.1%} of {errors.rows} figures, limit {limit:.1%}"
            worst = f"worst {errors.worst:+.1%} at {part.worst.row}"
            yield f"above the limit: {part.name}: {mean}; {worst}"


def _grown(now: list[CheckedPart], before: Baseline) -> Iterator[str]:
    errors_now = {part.name: part.errors for part in now}
    for name, old in before.parts.items():
        if name not in errors_now:
            yield f"lost: {name}: is in the baseline and is no longer measured"
            continue
        mape = errors_now[name].mape
        if not mape <= old.mape + TOLERANCE:
            points = 100 * (mape - old.mape)
            yield f"grown: {name}: mean error {old.mape:.1%} -> {mape:.1%}, by {points:.1f} points"
    for part in now:
        measured_before = set(before.rows.get(part.name, ()))
        lost = sorted(measured_before - {figure.row for figure in part.figures})
        if lost:
            points_lost = f"{len(lost)} points of the baseline are no longer measured, such as {lost[0]}"
            yield f"lost: {part.name}: {points_lost}"


def _moved(now: list[CheckedPart], before: Baseline) -> Iterator[str]:
    """The parts whose predictions for the records of the baseline have changed. The cause is a change of the
    model or of the calibration, because the records are the same.
    """
    for part in now:
        of_baseline = [f for f in part.figures if f.name in before.predicted]
        if not of_baseline:
            continue
        changes = np.log([f.predicted / before.predicted[f.name] for f in of_baseline])
        if not np.mean(np.abs(changes)) <= TOLERANCE:
            mean = np.exp(np.mean(changes)) - 1.0
            change = f"{mean:+.1%} on average over {len(of_baseline)} figures"
            yield f"moved: {part.name}: predictions by {change} of the baseline"


def _drifted(now: list[CheckedPart], before: Baseline, most: float) -> Iterator[str]:
    """The parts whose measurements have changed for the points of the baseline. The cause is a change of the
    machine or of the engine.
    """
    for part in now:
        old = before.rows.get(part.name, {})
        changes = {row: np.log(figure / old[row]) for row, figure in part.measured.items() if row in old}
        if not changes:
            continue
        mean = float(np.mean([*changes.values()]))
        row = max(changes, key=lambda name: abs(changes[name]))
        largest = changes[row]
        if abs(mean) > np.log1p(most) or abs(largest) > np.log1p(SINGLE_POINT * most):
            average = f"{np.expm1(mean):+.1%} on average over {len(changes)} points of the baseline"
            yield f"drifted: {part.name}: measured {average}; most at {row}, {np.expm1(largest):+.1%}"


def read_baseline(path: Path) -> Baseline:
    """The baseline in a file. Raises InputError, with the file and the key, if it is missing or invalid."""
    if not path.exists():
        raise InputError(one_line(f"--baseline: {path} must exist; write it with --write"))
    return files.parse(Baseline, files.read_mapping(path, infinity=True), str(path))


def baseline_text(now: list[CheckedPart], calibrations: Mapping[str, Calibration]) -> str:
    """The text of a new baseline file.

    - calibrations: see `Baseline`.
    """
    errors = {}
    predicted = {}
    measured = {}
    for part in now:
        errors[part.name] = _rounded(part.errors)
        for f in part.figures:
            predicted[f.name] = significant(f.predicted, BASELINE_DIGITS)
        rows = sorted(part.measured.items())
        measured[part.name] = {row: significant(figure, BASELINE_DIGITS) for row, figure in rows}
    of_engines = {name: c.as_mapping(exclude_defaults=True) for name, c in sorted(calibrations.items())}
    content = {
        "schema_version": 1,
        "kind": "check",
        "perfmodel_version": version(),
        "parts": dict(sorted(errors.items())),
        "predicted": dict(sorted(predicted.items())),
        "rows": measured,
        "calibrations": of_engines,
    }
    return json.dumps(content, indent=1) + "\n"


def _rounded(errors: Errors) -> dict[str, float]:
    """The errors in a baseline, rounded to `BASELINE_DIGITS` decimals."""
    values = asdict(errors)
    return {name: round(values[name], BASELINE_DIGITS) for name in PartErrors.__struct_fields__}
