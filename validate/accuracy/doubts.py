"""Reasons not to rely on a run: the machine was busy, or its calibration does not explain its times."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from perfmodel.specs.calibrations.calibration import Calibration
from perfmodel.validate.accuracy.compare import Cell, calibration_of, compare_record, error
from perfmodel.validate.accuracy.folder import own_paths
from perfmodel.validate.records.store import Record, read_record
from perfmodel.validate.records.summary import is_quiet, quiet_line

TRUSTED = 0.25
"""Largest mean error of the speedup on whole iterations with which a calibration is usable."""


def doubts(runs: Mapping[str, Record], fitted: Calibration, compared: Sequence[Cell]) -> Iterator[str]:
    """Reasons not to rely on a calibration, one line each.

    runs: the records, by name. compared: predictions of whole passes and iterations next to their times.
    """
    for name, run in runs.items():
        if not is_quiet(run):
            yield f"{name}: {quiet_line(run)}"
    if "WARNING" in fitted.notes:
        yield fitted.notes.partition("WARNING: ")[2]
    speedups = [c for c in compared if c.quantity == "speedup"]
    if speedups and (off := error(speedups).mape) > TRUSTED:
        yield f"its speedups are {off:.0%} off the measured ones on average (above {TRUSTED:.0%})"


def doubted(folder: Path, calibration: str | None = None) -> list[str]:
    """Doubts about every record of own measurements in a folder, each with the record's name.

    calibration: for all records; by default each record's own.
    """
    found = []
    for record in map(read_record, own_paths(folder)):
        used = calibration_of(record, None, calibration)
        found += [
            f"{record.name}: {doubt}"
            for doubt in doubts({"passes": record}, used, compare_record(record, used))
        ]
    return found
