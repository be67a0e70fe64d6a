"""The figures of records of serving engines, each with its prediction."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from perfmodel.answers.question import Query, resolve_costs
from perfmodel.errors import InputError, as_names
from perfmodel.operations import Array
from perfmodel.specs import Calibration, files, load_calibration, load_gpu
from perfmodel.speculation import with_calibration
from perfmodel.validate.accuracy.figure import Figure
from perfmodel.validate.accuracy.record_files import kind_of, records_in
from perfmodel.validate.engine.fit import EngineRows
from perfmodel.validate.engine.record import EngineRecord, read_engine_record
from perfmodel.validate.engine.speedup_pairs import speedup_pairs
from perfmodel.validate.engine.timing import Timing
from perfmodel.validate.records.store import beside

ENGINE_FIGURES = {"pass": "verify_s", "pass_with_draft": "draft_and_verify_s"}
"""Kind of a timing of an engine -> the predicted quantity. All other timings predict the time per token."""


def engine_calibrations(folder: Path) -> dict[str, Calibration]:
    """Served configuration (`served_by`) -> the calibration that predicts the engine's record."""
    calibrations = {}
    for path, kind in records_in(folder):
        if kind == "engine":
            record = read_engine_record(path)
            calibrations[served_by(record)] = _calibration_of(path, record)
    return calibrations


def served_by(record: EngineRecord) -> str:
    """The served configuration of a record: machine, engine and model. Repeated runs have the same
    configuration.
    """
    return f"{record.machine}/{record.subject.engine}/{Path(record.subject.model).stem}"


def served_figures(path: Path, calibration: str | None, pinned: Mapping[str, Calibration]) -> list[Figure]:
    """The figures of an engine's record. The result is empty for a record that repeats the rows of its
    sources, and for a record without a successful point.

    - calibration, pinned: see `folder.figures`.
    """
    record = read_engine_record(path)
    if _repeats_its_sources(path, record):
        return []
    used = load_calibration(calibration) if calibration else pinned.get(served_by(record))
    if used is None:
        used = _calibration_of(path, record)
    points = [point for point in record.points if point.status == "ok"]
    if not points:
        return []
    rows = _rows([point.timing(str(path)) for point in points], path, record, used)
    served = _Served(path, record, used, rows, [point.key for point in points])
    return [*served.times(), *served.speedups()]


def _repeats_its_sources(path: Path, record: EngineRecord) -> bool:
    """Whether all sources of a record are records of an engine next to it."""
    sources = [path.parent / source for source in record.sources]
    return bool(sources) and all(source.is_file() and kind_of(source) == "engine" for source in sources)


@dataclass(frozen=True)
class _Served:
    """An engine's record with the calibration that predicts it.

    - rows: the successful points as rows of a fit.
    - keys: the names of these points, in the same order.
    """

    path: Path
    record: EngineRecord
    used: Calibration
    rows: EngineRows
    keys: list[str]

    def times(self) -> Iterator[Figure]:
        """The time per token of each point, or the time of its pass."""
        for key, timing, predicted_s in zip(self.keys, self.rows.timings, self._seconds(), strict=True):
            tokens = timing.tokens_per_iteration if timing.kind == "iteration" else 1.0
            yield self._figure(_quantity(timing), key, timing.seconds / tokens, predicted_s / tokens)

    def speedups(self) -> Iterator[Figure]:
        """The speedup of each point with drafts that has a baseline in the record."""
        seconds = self._seconds()
        for speculating, baseline in speedup_pairs(self.rows.timings):
            tokens = self.rows.timings[speculating].tokens_per_iteration
            measured = tokens * self.rows.measured[baseline] / self.rows.measured[speculating]
            predicted = tokens * seconds[baseline] / seconds[speculating]
            yield self._figure("speedup", self.keys[speculating], measured, predicted)

    def _seconds(self) -> Array:
        """The predicted seconds of each row."""
        return self.rows.predict(self.used)

    def _figure(self, quantity: str, key: str, measured: float, predicted: float) -> Figure:
        return Figure(
            part=f"{served_by(self.record)}/{quantity}",
            record=f"{self.record.machine}/{self.path.stem}",
            row=key,
            measured=float(measured),
            predicted=float(predicted),
            calibration=self.used.name,
            fitted=bool({self.path.name, *self.record.sources} & {*self.used.fitted_on}),
        )


def _quantity(timing: Timing) -> str:
    """The predicted quantity of a timing of an engine."""
    tpot = "sd_tpot_s" if timing.gamma else "ar_tpot_s"
    return ENGINE_FIGURES.get(timing.kind, tpot)


def _rows(timings: list[Timing], path: Path, record: EngineRecord, used: Calibration) -> EngineRows:
    subject = record.subject.as_mapping()
    arguments = {key: value for key, value in subject.items() if not key.startswith("engine")}
    for key in ("model", "hardware", "draft"):
        arguments[key] = beside(path, arguments[key])
    try:
        scenario = resolve_costs(Query(batch=1, context=1, calibration="ideal", **arguments))
    except InputError as error:
        raise InputError(f"{path}: subject: {as_names(error.as_flags)}") from None
    return EngineRows(tuple(timings), with_calibration(scenario, used))


def _calibration_of(path: Path, record: EngineRecord) -> Calibration:
    """The calibration next to an engine's record that was fitted to the record, or else the calibration that
    the device names.
    """
    for file in sorted(path.parent.glob("*.yaml")):
        fitted_on = files.read_mapping(file).get("fitted_on") or ()
        if fitted_on and (file.stem == path.stem or path.name in fitted_on):
            return load_calibration(str(file))
    gpu = load_gpu(beside(path, record.hardware), f"{path}: hardware")
    return load_calibration(gpu.calibration)
