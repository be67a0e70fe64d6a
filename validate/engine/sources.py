"""Makes a calibration from benchmark files, for ``perfmodel validate engine --from`` and for Python
callers.
"""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from perfmodel.answers.question import Query, resolve_costs
from perfmodel.errors import InputError, in_names, refuse
from perfmodel.reading import read_text
from perfmodel.specs import Calibration, calibration_of, files, load_calibration, load_gpu
from perfmodel.validate.engine.calibrate import EngineCalibration, calibrate, record_text
from perfmodel.validate.engine.formats import RECORD, read
from perfmodel.validate.engine.record import EngineSubject, read_engine_record
from perfmodel.validate.engine.text import parse_objects
from perfmodel.validate.engine.timing import GivenFacts, Timing
from perfmodel.validate.harness.micro.write import destination_of, write_yaml

MOST_GIVEN = 1e9
"""Upper limit of the numbers that a user gives about a file."""


@dataclass(frozen=True)
class BenchFile:
    """A benchmark file.

    - facts: the values that the user gave after the file's name, such as ``batch=4``.
    """

    path: Path
    facts: GivenFacts

    @classmethod
    def parse(cls, text: str) -> "list[BenchFile]":
        """Parses ``FILE[,batch=N,input=N,...]``. A pattern such as ``K*.json`` means every matching file.
        Raises InputError.
        """
        name, *pairs = text.split(",")
        facts = _given_facts(name, pairs)
        path = Path(name)
        if "*" not in path.name or path.exists():
            return [cls(path, facts)]
        paths = sorted(path.parent.glob(path.name))
        if not paths:
            raise refuse("--from", None, "a file, or a pattern that matches files", name)
        return [cls(file, facts) for file in paths]


def _given_facts(name: str, pairs: Sequence[str]) -> GivenFacts:
    """The facts after the name of a file, such as ``batch=4``. Raises InputError."""
    known = tuple(GivenFacts.__dataclass_fields__)
    values: dict[str, float] = {}
    for pair in pairs:
        key, _, text = pair.partition("=")
        value = _number(text)
        if key not in known or value is None or not 0 <= value < MOST_GIVEN:
            allowed = ", ".join(f"{key}=NUMBER" for key in known)
            raise refuse("--from", name, f"followed by {allowed} only", pair)
        values[key] = value
    gamma = values.pop("gamma", None)
    if gamma is not None and not gamma.is_integer():
        raise refuse("--from", f"{name}: gamma", "a whole number", gamma)
    return GivenFacts(**values, gamma=None if gamma is None else int(gamma))


def _number(text: str) -> float | None:
    """The number that a text states; None if it states none."""
    try:
        return float(text)
    except ValueError:
        return None


def sources_of(texts: Iterable[str]) -> list[BenchFile]:
    """The files that ``--from`` names, without duplicates. Raises InputError."""
    return list(dict.fromkeys(source for text in texts for source in BenchFile.parse(text)))


def read_sources(sources: Sequence[BenchFile], gamma: int | None = None) -> list[Timing]:
    """The timed steps in the files. Raises InputError, also if there are no steps.

    - gamma: the draft length of files that do not state it.
    """
    timings = [t for s in sources for t in read(s.path, s.facts.over(GivenFacts(gamma=gamma)))]
    if not timings:
        raise InputError(
            f"--from: {', '.join(str(s.path) for s in sources)}: must hold decode steps, and none is there"
        )
    return timings


def served(
    query: Query,
    sources: Sequence[BenchFile],
    timings: Sequence[Timing],
    draft: str | None,
    engine: str | None,
    version: str | None,
) -> EngineSubject:
    """The served configuration. It comes from the question, and from the records among the files, which have
    the engine, its version and the draft. Raises InputError if timings have drafted tokens and no draft is
    known, or if the draft differs from that of a record.

    - draft: replaces the draft of the query.
    - engine, version: the values that replace those of the records.
    """
    for source in sources:
        text = read_text(source.path)
        if source.path.suffix == ".json" and all(map(RECORD.has, parse_objects(str(source.path), text))):
            subject = read_engine_record(source.path).subject
            engine = engine or subject.engine
            version = version or subject.engine_version
            is_other = draft is not None and Path(draft).name != Path(subject.draft).name
            if is_other and any(t.gamma for t in timings):
                raise refuse("--draft", None, f"{subject.draft}, which {source.path} was served with", draft)
            draft = draft or subject.draft
    drafting = next((t for t in timings if t.gamma), None)
    if drafting and draft is None:
        raise InputError(f"--draft: must be given: {drafting.where} times {drafting.gamma} drafted tokens")
    return EngineSubject.of(replace(query, draft=draft or "ngram"), engine or "vllm", version or "unknown")


def bases_of(query: Query) -> list[Calibration]:
    """The base calibrations to try: the one that the question names, or by default the device's own, all
    bundled ones of the device, and ``ideal``.
    """
    if query.calibration is not None:
        return [resolve_costs(query).machine.calibration]
    # any other fault of the question is reported first
    resolve_costs(replace(query, calibration="ideal"))
    device = load_gpu(query.hardware)
    bundled = [name for name in files.bundled_names("calibrations") if name.startswith(f"{device.name}.")]
    bases: dict[str, Calibration] = {}
    for name in (device.calibration, *bundled, "ideal"):
        try:
            base = load_calibration(name)
        except InputError:  # a user's device file can name a calibration that is not on this machine
            continue
        bases.setdefault(base.name, base)
    return list(bases.values())


def _previous(query: Query, subject: EngineSubject) -> Calibration | None:
    """The calibration that answers a question about this engine and device at present; None if it is not a
    fitted one.
    """
    engine = None if query.calibration else subject.engine
    try:
        known = calibration_of(load_gpu(query.hardware), engine, query.calibration)
    except InputError:  # no calibration of this engine or device
        return None
    return None if known.kind == "ideal" else known


@in_names
def calibrate_engine(
    sources: Iterable[str],
    query: Query,
    *,
    draft: str | None = None,
    engine: str | None = None,
    version: str | None = None,
    gamma: int | None = None,
    machine: str = "local-1",
    out: Path | str | None = None,
) -> EngineCalibration:
    """Fits a calibration of a serving engine to the files of its benchmarks. Raises InputError.

    - sources: names or patterns of files, as for ``--from``.
    - query: a question with model, hardware, formats and tensor-parallel degree. If it names a calibration,
      that is the base.
    - draft: the draft of the server; needed if files have iterations with drafts.
    - engine, version: the engine and version of the server, if no record among the files has them.
    - gamma: the draft length of files that do not state it.
    - out: path of the calibration file; its record is written next to it.
    """
    files_of = sources_of(sources)
    timings = read_sources(files_of, gamma)
    subject = served(query, files_of, timings, draft, engine, version)
    query = replace(query, draft=subject.draft)
    names = tuple(dict.fromkeys(file.path.name for file in files_of))
    calibrated = calibrate(timings, query, bases_of(query), subject, names)
    calibrated = replace(calibrated, previous=_previous(query, subject))
    if out is not None:
        write_calibration(calibrated, machine, Path(out))
    return calibrated


def write_calibration(calibrated: EngineCalibration, machine: str, path: Path) -> Path:
    """Writes the calibration, and next to it the record of its rows. Returns the path of the record. Raises
    InputError.

    Paths in the record are relative to its folder, so the files can be moved together.
    """
    destination_of(path)
    sources = calibrated.calibration.fitted_on
    record = path.with_suffix(".json")
    relative = {}
    for name in ("model", "hardware", "draft"):
        value = getattr(calibrated.subject, name)
        if files.looks_like_path(value) and Path(value).exists():
            relative[name] = os.path.relpath(value, path.parent)
    text = record_text(calibrated, machine, calibrated.subject.replace(**relative), sources)
    comment = f"Written by perfmodel validate engine from {', '.join(sources)}"
    write_yaml(calibrated.calibration, path, comment, (record, text))
    return record
