"""Errors on sources that were left out. This study writes the widths of intervals, ``hardware/sources.yaml``,
and the errors, ``results/sources.json``.

- Data: public runs, each with the answer to its own question, and the ratios in the tables of engines.
- Folds: whole sources (`left_out`, `llamacpp`, `engines`).
- Result: the error of each row, and the interval width of each class of questions with its coverage
  (`widths`).

No number is set by hand.
"""

import datetime
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from perfmodel.errors import InputError
from perfmodel.specs import ENGINES as KNOWN_ENGINES, LLAMACPP, files, load_gpu
from perfmodel.specs.engines.source_errors import SourceError, SourceErrors, SpeedupClass, StepClass
from perfmodel.validate.records import BUNDLED
from perfmodel.validate.solving import shortened
from perfmodel.validate.studies import choices, llamacpp, other_engines, widths
from perfmodel.validate.studies.answered_runs import Answered, answers, spelled_kind
from perfmodel.validate.studies.engines import replayed_as_recorded
from perfmodel.validate.studies.left_out import left_out
from perfmodel.validate.studies.log_errors import of_reciprocal
from perfmodel.validate.studies.other_engines import ErrorsByLender, errors_of_lenders
from perfmodel.validate.studies.parameters import ENGINES
from perfmodel.validate.studies.public_runs import public_runs
from perfmodel.validate.studies.widths import LeftOutError, MeasuredDraft, fitted_speedups

WIDTHS_PATH = files.data_directory("") / "sources.yaml"
ERRORS_PATH = BUNDLED / "sources.json"
"""``errors``: figure -> id of a run -> its log error without its source. ``other_engines``: the same by the
constants of each other engine (`other_engines.ErrorsByLender`). ``coverage``: figure -> class ->
`widths.covered`.
"""
HEADER = (
    "# Written by `perfmodel validate calibrate sources --write` from results/published/public_runs.csv.\n"
)
TITLES = ENGINES | {LLAMACPP: KNOWN_ENGINES[LLAMACPP]}
"""Headings of the judged engines."""
ErrorsByRun = dict[str, dict[str, float]]
"""Figure -> id of a run -> its log error without its source."""
CLASSES_OF = {"step": StepClass, "speedup": SpeedupClass}
"""Figure -> its classes of questions."""


class AskedRuns(NamedTuple):
    """The answers for public runs.

    - refused: id of a run without an answer -> the reason.
    """

    answered: tuple[Answered, ...]
    refused: dict[str, str]


@cache
def _asked() -> AskedRuns:
    answered: list[Answered] = []
    refused: dict[str, str] = {}
    for run in public_runs():
        if run.engine in TITLES and run.counts_as_inside and run.is_complete:
            try:
                answered += answers(run)
            except InputError as refusal:
                refused[run.id] = str(refusal)
    return AskedRuns(tuple(answered), refused)


def answered() -> tuple[Answered, ...]:
    """All rows that count or that are left out by judgement, with their answers."""
    return _asked().answered


def refusals() -> dict[str, str]:
    """Id of a run without an answer -> the reason."""
    return _asked().refused


def of_figure(figure: str) -> list[Answered]:
    """The answers about one figure, of the runs that are included in the errors."""
    return [a for a in answered() if a.figure == figure and a.run.counts]


def refitted_files(date: datetime.date) -> dict[Path, str]:
    """Path -> text of every file that this study writes. The constants are fitted again without each source
    and without each engine, which takes some minutes.
    """
    before = choices.recorded() if choices.PATH.exists() else None
    chosen = choices.text(before, choices.present())  # refused before the work
    lent = shortened(errors_of_lenders(_of_engines()), 4)
    return {**files_of(errors_without_source(), lent, date), choices.PATH: chosen}


def _of_engines() -> list[Answered]:
    """The steps and speedups of serving engines, answered with the constants of the engine itself."""
    return [a for a in answered() if a.run.engine in ENGINES and a.figure in ("step", "speedup")]


def errors_without_source() -> ErrorsByRun:
    """Figure -> id of a run -> its log error with constants that were fitted without its source.

    The errors of llama.cpp come from its own study, see `llamacpp_errors`.
    """
    rows = _of_engines()
    errors = llamacpp_errors([a for a in answered() if a.run.engine == LLAMACPP])
    for a, off in zip(rows, left_out(rows).tolist(), strict=True):
        errors[a.figure][a.run.id] = off
    return shortened(errors, 4)


def llamacpp_errors(rows: Iterable[Answered]) -> ErrorsByRun:
    """The same for the rows of llama.cpp, from its own study (``results/llamacpp.json``). For a row that is
    not in this file, the error is that of the answer, because no constant was fitted to the row.
    """
    left_out_errors = json.loads(llamacpp.ERRORS_PATH.read_text(encoding="utf-8"))
    errors: ErrorsByRun = {"step": {}, "speedup": {}}
    for a in rows:
        id = a.run.id
        if a.figure == "step":
            errors["step"][id] = left_out_errors["step"].get(id, a.off)
        if a.figure == "speedup":
            of_ratio = left_out_errors["ratio"].get(id)
            errors["speedup"][id] = a.off if of_ratio is None else of_reciprocal(of_ratio)
    return errors


def files_of(errors: ErrorsByRun, lent: ErrorsByLender, date: datetime.date) -> dict[Path, str]:
    """Path -> text of the file of widths and of the file of errors.

    - lent: the errors with the constants of other engines.
    """
    ratios = replayed_as_recorded()
    measured = widths.measured_drafts((a.run for a in of_figure("speedup")), ratios)
    speedups = errors_by_class(
        answered(), "speedup", errors["speedup"], lambda a: _class_of_speedup(a, measured)
    )
    for name, of_tables in widths.of_tables(ratios, measured).items():
        speedups[name] += of_tables
    steps = errors_by_class(answered(), "step", errors["step"], lambda a: widths.class_of_step(a.run))
    of_lenders = other_engines.left_out_errors(lent)
    lent_steps = {widths.OTHER_ENGINE: of_lenders["step"]}
    lent_speedups = {widths.OTHER_ENGINE: of_lenders["speedup"]}
    devices = {load_gpu(a.run.hardware).name for a in of_figure("step") if a.run.engine in ENGINES}
    data = {
        "fitted_on": ["public_runs.csv", "engine_speculation.csv", "served.csv", "step_laws.csv"],
        "date": date,
        "steps": _stated(steps, widths.fitted) | _stated(lent_steps, widths.fitted),
        "speedups": _stated(speedups, fitted_speedups) | _stated(lent_speedups, fitted_speedups),
        "devices": sorted(devices),
        "speculating": _speculating(measured),
    }
    short = shortened(data, 3)
    SourceErrors.of_mapping(short)
    coverage = {
        "step": _coverage(steps) | _coverage(lent_steps),
        "speedup": _coverage(speedups, of_speedups=True) | _coverage(lent_speedups, of_speedups=True),
    }
    record = {"errors": errors, "other_engines": lent, "coverage": shortened(coverage, 4)}
    stated = HEADER + yaml.safe_dump(short, sort_keys=False, width=110)
    return {WIDTHS_PATH: stated, ERRORS_PATH: json.dumps(record, indent=1) + "\n"}


def _stated(by_class: widths.ByClass, fitted: Callable[[widths.ByClass, str], SourceError]) -> dict[str, Any]:
    """Class -> the error to state."""
    return {name: fitted(by_class, name).as_mapping() for name in by_class}


def _coverage(by_class: widths.ByClass, of_speedups: bool = False) -> dict[str, Any]:
    """Class -> the coverage of its intervals."""
    return {name: widths.covered(by_class, name, of_speedups) for name in by_class}


def errors_by_class(
    rows: Iterable[Answered],
    figure: str,
    errors: Mapping[str, float],
    class_of: Callable[[Answered], str],
) -> dict[str, list[LeftOutError]]:
    """Class of questions -> the errors of a figure's rows, in the order of the rows.

    - errors: id of a run -> the log error.
    """
    by_class: dict[str, list[LeftOutError]] = {name: [] for name in widths.own_classes(CLASSES_OF[figure])}
    for a in rows:
        if a.figure == figure:
            error = LeftOutError.of_run(a.run, figure, errors[a.run.id])
            by_class[class_of(a)].append(error)
    return by_class


def _class_of_speedup(a: Answered, measured: Sequence[MeasuredDraft]) -> SpeedupClass:
    return widths.class_of_speedup(a.run.engine, spelled_kind(a.run), a.run.source_id, measured)


def _speculating(measured: Sequence[MeasuredDraft]) -> dict[str, dict[str, list[str]]]:
    """Engine -> kind of draft -> classes of devices, sorted."""
    by_engine: dict[str, dict[str, list[str]]] = {}
    for m in sorted(measured, key=lambda m: (m.engine, m.draft, m.device)):
        devices = by_engine.setdefault(m.engine, {}).setdefault(m.draft, [])
        if m.device not in devices:
            devices.append(m.device)
    return by_engine


def recorded_sources() -> dict[str, Any]:
    """``results/sources.json``. Raises InputError if it is missing or malformed."""
    return files.read_mapping(ERRORS_PATH)
