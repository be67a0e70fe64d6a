"""Reads and writes the two files of the study `sources`.

- ``hardware/sources.yaml``: the interval width of each class of questions. Answers use these widths.
- ``results/sources.json``: the error of each row, and the coverage of the intervals.
"""

import datetime
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from perfmodel.specs import files, load_gpu
from perfmodel.specs.engines.source_errors import SourceError, SourceErrors, SpeedupClass, StepClass
from perfmodel.validate.records import BUNDLED
from perfmodel.validate.solving import shortened
from perfmodel.validate.studies import other_engines, width_classes
from perfmodel.validate.studies.answered_runs import Answered, spelled_kind
from perfmodel.validate.studies.engine_replay import HeldOutReplay, replayed_as_recorded
from perfmodel.validate.studies.left_out_error import LeftOutError
from perfmodel.validate.studies.other_engines import ErrorsByLender
from perfmodel.validate.studies.parameters import ENGINES
from perfmodel.validate.studies.public_answers import answered, of_figure
from perfmodel.validate.studies.width_classes import OTHER_ENGINE, MeasuredDraft
from perfmodel.validate.studies.widths import ByClass, covered, fitted, fitted_speedups

WIDTHS_PATH = files.data_directory("") / "sources.yaml"
ERRORS_PATH = BUNDLED / "sources.json"
"""The file has three keys:

- ``errors``: figure -> id of a run -> its log error without its source (`ErrorsByRun`).
- ``other_engines``: the log errors with the constants of each other engine (`ErrorsByLender`).
- ``coverage``: figure -> class of questions -> coverage (`widths.covered`).
"""
HEADER = (
    "# Written by `perfmodel validate calibrate sources --write` from results/published/public_runs.csv.\n"
)
FITTED_ON = ("public_runs.csv", "engine_speculation.csv", "served.csv", "step_laws.csv")
"""The published tables to whose rows the widths are fitted."""
WIDTH_DIGITS = 3
"""Significant digits of the widths."""
COVERAGE_DIGITS = 4
"""Significant digits of the coverage."""
CLASSES_OF = {"step": StepClass, "speedup": SpeedupClass}
"""Figure -> its classes of questions."""
ErrorsByRun = dict[str, dict[str, float]]
"""Figure -> id of a run -> its log error, with constants that were fitted without its source."""


def texts(errors: ErrorsByRun, lent: ErrorsByLender, date: datetime.date) -> dict[Path, str]:
    """Path -> new text of both files.

    - lent: the errors with the constants of other engines.
    - date: the date of the fits.
    """
    ratios = replayed_as_recorded()
    measured = width_classes.measured_drafts((a.run for a in of_figure("speedup")), ratios)
    of_lenders = other_engines.left_out_errors(lent)
    # the class of other engines shares no rows with the other classes, so its widths are fitted separately
    steps = (_own_steps(errors["step"]), {OTHER_ENGINE: of_lenders["step"]})
    speedups = (
        _own_speedups(errors["speedup"], ratios, measured),
        {OTHER_ENGINE: of_lenders["speedup"]},
    )
    coverage = {"step": _coverage(steps), "speedup": _coverage(speedups, of_speedups=True)}
    record = {"errors": errors, "other_engines": lent, "coverage": shortened(coverage, COVERAGE_DIGITS)}
    return {
        WIDTHS_PATH: _widths_text(steps, speedups, measured, date),
        ERRORS_PATH: json.dumps(record, indent=1) + "\n",
    }


def recorded_sources() -> dict[str, Any]:
    """The content of ``results/sources.json``. Raises InputError if the file is missing or malformed."""
    return files.read_mapping(ERRORS_PATH)


def errors_by_class(
    rows: Iterable[Answered],
    figure: str,
    errors: Mapping[str, float],
    class_of: Callable[[Answered], str],
) -> dict[str, list[LeftOutError]]:
    """Class of questions -> the errors of one figure, in the order of the rows.

    - errors: id of a run -> its log error.
    """
    by_class: dict[str, list[LeftOutError]] = {
        name: [] for name in width_classes.own_classes(CLASSES_OF[figure])
    }
    for a in rows:
        if a.figure == figure:
            error = LeftOutError.of_run(a.run, figure, errors[a.run.id])
            by_class[class_of(a)].append(error)
    return by_class


def _own_steps(errors: Mapping[str, float]) -> ByClass:
    """Class -> errors of the steps of public runs."""
    return errors_by_class(answered(), "step", errors, lambda a: width_classes.class_of_step(a.run))


def _own_speedups(
    errors: Mapping[str, float], ratios: HeldOutReplay, measured: Sequence[MeasuredDraft]
) -> ByClass:
    """Class -> errors of the speedups of public runs, followed by those of the tables of engines."""

    def class_of(a: Answered) -> SpeedupClass:
        return width_classes.class_of_speedup(a.run.engine, spelled_kind(a.run), a.run.source_id, measured)

    by_class = errors_by_class(answered(), "speedup", errors, class_of)
    for name, of_tables in width_classes.of_tables(ratios, measured).items():
        by_class[name] += of_tables
    return by_class


def _coverage(parts: Iterable[ByClass], of_speedups: bool = False) -> dict[str, Any]:
    """Class -> the coverage of its intervals."""
    coverage: dict[str, Any] = {}
    for by_class in parts:
        coverage |= {name: covered(by_class, name, of_speedups) for name in by_class}
    return coverage


def _widths_text(
    steps: Iterable[ByClass],
    speedups: Iterable[ByClass],
    measured: Sequence[MeasuredDraft],
    date: datetime.date,
) -> str:
    """The text of ``hardware/sources.yaml``, checked against its schema."""
    devices = {load_gpu(a.run.hardware).name for a in of_figure("step") if a.run.engine in ENGINES}
    data = {
        "fitted_on": FITTED_ON,
        "date": date,
        "steps": _widths(steps, fitted),
        "speedups": _widths(speedups, fitted_speedups),
        "devices": sorted(devices),
        "speculating": _devices_by_draft(measured),
    }
    short = shortened(data, WIDTH_DIGITS)
    SourceErrors.of_mapping(short)
    return HEADER + yaml.safe_dump(short, sort_keys=False, width=110)


def _widths(parts: Iterable[ByClass], fitted: Callable[[ByClass, str], SourceError]) -> dict[str, Any]:
    """Class -> its interval width, as the file states it."""
    stated: dict[str, Any] = {}
    for by_class in parts:
        stated |= {name: fitted(by_class, name).as_mapping() for name in by_class}
    return stated


def _devices_by_draft(measured: Iterable[MeasuredDraft]) -> dict[str, dict[str, list[str]]]:
    """Engine -> kind of draft -> the classes of devices on which it was measured, all sorted."""
    by_engine: dict[str, dict[str, list[str]]] = {}
    for m in sorted(measured, key=lambda m: (m.engine, m.draft, m.device)):
        devices = by_engine.setdefault(m.engine, {}).setdefault(m.draft, [])
        if m.device not in devices:
            devices.append(m.device)
    return by_engine
