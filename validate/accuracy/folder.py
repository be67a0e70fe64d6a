"""Reads all records in a folder, predicts their figures, and lists reasons not to rely on a record. The
records are those of this project's decoder and of serving engines.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from perfmodel.answers.question import Query, resolve_costs
from perfmodel.errors import InputError, as_names, one_line
from perfmodel.reading import read_head
from perfmodel.specs import Calibration, files, load_calibration, load_gpu
from perfmodel.speculation import with_calibration
from perfmodel.validate.accuracy.compare import calibration_of, compare_record
from perfmodel.validate.engine.calibrate import speedup_pairs
from perfmodel.validate.engine.fit import EngineRows
from perfmodel.validate.engine.record import EngineRecord, read_engine_record
from perfmodel.validate.engine.timing import Timing
from perfmodel.validate.records import read_record, withdrawn
from perfmodel.validate.records.store import beside

KIND = re.compile(r'"kind":\s*"(measure|microbench|engine)"')
"""The key of a record with its kind."""
HEAD_BYTES = 1000
"""Number of first bytes in which a record must state its kind. Other JSON files of the folder are ignored."""
NOT_CHECKED = ("overhead_s", "speedup_alpha")
"""Quantities that are not checked. ``overhead_s`` is a small part of ``sd_tpot_s``, and ``speedup_alpha``
needs a published acceptance.
"""
ENGINE_FIGURES = {"pass": "verify_s", "pass_with_draft": "draft_and_verify_s"}
"""Kind of a timing of an engine -> the predicted quantity. All other timings predict the time per token."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured figure and its prediction.

    - part: the row of the error table to which the figure belongs, ``machine/plan/quantity``. Later runs of
      the same plan have the same part.
    - record, row: the name of the record, and that of the point in the record.
    - calibration: the name of the calibration that predicts the figure.
    - fitted: whether this calibration was fitted to the same record.
    """

    part: str
    record: str
    row: str
    measured: float
    predicted: float
    calibration: str
    fitted: bool

    @property
    def name(self) -> str:
        """``record/row/quantity``."""
        return f"{self.record}/{self.row}/{quantity_of(self.part)}"

    @property
    def error(self) -> float:
        """The signed relative error of the prediction."""
        return self.predicted / self.measured - 1.0


def quantity_of(part: str) -> str:
    """The quantity in the name of a part, which is the last word."""
    return part.rpartition("/")[2]


def figures(
    folder: Path, calibration: str | None = None, pinned: Mapping[str, Calibration] | None = None
) -> list[Figure]:
    """The figures of all records in a folder, except withdrawn records. Raises InputError if there are none.

    - calibration: the name or path of the calibration for all records.
    - pinned: served configuration (`served_by`) -> calibration.

    Without `calibration`, a record of the decoder uses the calibration of its run, or else that of its
    device. A record of an engine uses that in `pinned`, or else the calibration file next to the record, or
    else that of its device.
    """
    all_figures: list[Figure] = []
    for path, kind in records_in(folder):
        if kind == "engine":
            all_figures += _engine(path, calibration, pinned or {})
        else:
            all_figures += _figures_of(path, calibration)
    if not all_figures:
        raise InputError(
            one_line(f"--results: {folder} must hold records of measurements, and it holds none")
        )
    return all_figures


def records_in(folder: Path) -> Iterator[tuple[Path, str]]:
    """The paths and kinds of the records in a folder, without withdrawn records and those of kernels."""
    left_out = {root / name for root in (folder, folder.parent) for name in withdrawn(root)}
    for path in sorted({*folder.rglob("*.json")} - left_out):
        kind = _kind(path)
        if kind in ("measure", "engine"):
            yield path, kind


def _kind(path: Path) -> str | None:
    """The kind of the record in a file; None if the file is no record. Raises InputError for an unreadable
    file.
    """
    kind = KIND.search(read_head(path, HEAD_BYTES).decode("utf-8", errors="replace"))
    return kind[1] if kind else None


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


def _figures_of(path: Path, calibration: str | None) -> list[Figure]:
    record = read_record(path)
    used = calibration_of(record, None, calibration)
    part = f"{record.data.machine}/{record.data.plan.name}"
    fitted = record.name in used.fitted_on
    checked = [cell for cell in compare_record(record, used) if cell.quantity not in NOT_CHECKED]
    return [
        Figure(
            part=f"{part}/{cell.quantity}",
            record=record.name,
            row=cell.point.row_id,
            measured=cell.measured,
            predicted=cell.predicted,
            calibration=used.name,
            fitted=fitted,
        )
        for cell in checked
    ]


def _engine(path: Path, calibration: str | None, pinned: Mapping[str, Calibration]) -> list[Figure]:
    """The figures of an engine's record. The arguments are those of `figures`."""
    record = read_engine_record(path)
    sources = [path.parent / source for source in record.sources]
    if sources and all(source.is_file() and _kind(source) == "engine" for source in sources):
        return []  # the record repeats the rows of its sources
    name = f"{record.machine}/{path.stem}"
    part = served_by(record)
    used = load_calibration(calibration) if calibration else pinned.get(part)
    if used is None:
        used = _calibration_of(path, record)
    points = [point for point in record.points if point.status == "ok"]
    if not points:
        return []
    rows = _rows([point.timing(str(path)) for point in points], path, record, used)
    seconds = rows.predict(used)
    fitted = bool({path.name, *record.sources} & {*used.fitted_on})

    def figure(quantity: str, row: str, measured: float, predicted: float) -> Figure:
        return Figure(f"{part}/{quantity}", name, row, float(measured), float(predicted), used.name, fitted)

    engine_figures = []
    for point, timing, predicted_s in zip(points, rows.timings, seconds, strict=True):
        tokens = timing.tokens_per_iteration if timing.kind == "iteration" else 1.0
        measured = timing.seconds / tokens
        engine_figures.append(figure(_quantity(timing), point.key, measured, predicted_s / tokens))
    for speculating, baseline in speedup_pairs(rows.timings):
        tokens = rows.timings[speculating].tokens_per_iteration
        measured = tokens * rows.measured[baseline] / rows.measured[speculating]
        predicted = tokens * seconds[baseline] / seconds[speculating]
        engine_figures.append(figure("speedup", points[speculating].key, measured, predicted))
    return engine_figures


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
