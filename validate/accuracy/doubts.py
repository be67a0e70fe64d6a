"""Lists reasons not to rely on a calibration or a record, which are called doubts."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from perfmodel.specs import Calibration
from perfmodel.validate.accuracy.cells import Cell
from perfmodel.validate.accuracy.compare import calibration_of, compare_record
from perfmodel.validate.accuracy.partitions import error
from perfmodel.validate.accuracy.record_files import records_in
from perfmodel.validate.records import Record, is_quiet, quiet_line, read_record

TRUSTED = 0.25
"""Largest mean error of speedups that is no reason for doubts about a calibration."""


def doubts(runs: Mapping[str, Record], fitted: Calibration, compared: Sequence[Cell]) -> Iterator[str]:
    """Reasons not to rely on a calibration or on the records to which it was fitted, one line each.

    - runs: name -> record.
    - compared: the predicted figures of these records. Only the speedups count.
    """
    for name, run in runs.items():
        if not is_quiet(run):
            yield f"{name}: {quiet_line(run)}"
    yield from calibration_doubts(fitted, compared)


def calibration_doubts(fitted: Calibration, compared: Sequence[Cell]) -> Iterator[str]:
    """Reasons not to rely on the calibration itself, one line each. The noise of the machine is not a
    reason.
    """
    if "WARNING" in fitted.notes:
        yield fitted.notes.partition("WARNING: ")[2]
    speedups = [c for c in compared if c.quantity == "speedup"]
    mean_error = error(speedups).mape if speedups else 0.0
    if mean_error > TRUSTED:
        yield f"its speedups are {mean_error:.0%} off the measured ones on average (above {TRUSTED:.0%})"


def doubted(folder: Path, calibration: str | None = None) -> list[str]:
    """Reasons not to rely on the decoder's records in a folder, each with the name of its record.

    - calibration: the calibration for all records; by default each record has its own.
    """
    lines = []
    for path, kind in records_in(folder):
        if kind != "measure":
            continue
        record = read_record(path)
        used = calibration_of(record, None, calibration)
        cells = compare_record(record, used)
        lines += [f"{record.name}: {doubt}" for doubt in doubts({"passes": record}, used, cells)]
    return lines
