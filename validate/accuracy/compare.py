"""Predicts the measured figures of published sets and of records, for the accuracy check, reports and
tables.
"""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Literal

from perfmodel.errors import InputError
from perfmodel.specs import Calibration, load_calibration, load_gpu
from perfmodel.specs.published import MeasuredPoint, published_points
from perfmodel.validate.accuracy.cells import Cell, cells_of
from perfmodel.validate.accuracy.sets import SETS, own_records
from perfmodel.validate.fit.counted_points import PointSet
from perfmodel.validate.fit.folds import held_out
from perfmodel.validate.fit.recipes import RECIPES
from perfmodel.validate.records import RESULTS, Record, points as own_points
from perfmodel.validate.solving import grouped

Mode = Literal["shipped", "held-out"]
"""Whether fitted rows are predicted with the bundled calibration or with a refit without them."""


def compare(
    sets: Iterable[str] = SETS,
    mode: Mode = "shipped",
    calibration: str | None = None,
    results: Path = RESULTS,
) -> list[Cell]:
    """The cells of some sets of measurements. In the mode ``held-out``, a row to which a calibration was
    fitted is predicted by a refit without the row's fold.

    - sets: the names of published sets and of records.
    - calibration: the calibration for all rows; by default each row has its own.
    - results: the folder of the records.

    Raises InputError for an unknown set or calibration, and for a calibration in the mode ``held-out``.
    """
    if calibration and mode == "held-out":
        raise InputError("--calibration: must not be given with --held-out, which refits the fitted ones")
    named = load_calibration(calibration) if calibration else None
    cells: list[Cell] = []
    by_name = own_records(results)
    for name in sets:
        record = by_name.get(name)
        measured = published_points(name) if record is None else own_points(record)
        by_stack = grouped(measured, lambda p: f"{p.hardware}.{p.stack}")
        for stack, points in by_stack.items():
            used = named or _default_calibration(record, points[0])
            if mode == "held-out" and used.name == stack:
                refits = held_out(RECIPES[stack])
                cells += cells_of(refits.points, refits.times, used)
            else:
                cells += compare_points(points, used)
    return cells


def calibration_for(p: MeasuredPoint) -> Calibration:
    """The calibration that was fitted to the device and stack of a point, or else the calibration that the
    device names.
    """
    fitted = f"{p.hardware}.{p.stack}"
    return load_calibration(fitted if fitted in RECIPES else load_gpu(p.hardware).calibration)


def calibration_of(
    record: Record, hardware: str | None = None, calibration: str | None = None
) -> Calibration:
    """The calibration that predicts a record: `calibration`, or else that of the run, or else that of the
    device.

    - hardware: another device for which the record is predicted. The calibration of the run is then not used.
    """
    if calibration:
        return load_calibration(calibration)
    where = str(record.path)
    name = None if hardware else record.calibration
    if name is None:
        name = load_gpu(hardware or record.hardware, where).calibration
    return load_calibration(name, where)


def _default_calibration(record: Record | None, p: MeasuredPoint) -> Calibration:
    return calibration_for(p) if record is None else calibration_of(record)


def compare_points(points: Iterable[MeasuredPoint], calibration: Calibration) -> list[Cell]:
    """The cells of some points, predicted with one calibration."""
    counted = PointSet(tuple(points), calibration)
    return cells_of(counted, counted.predict(calibration), calibration)


def compare_record(record: Record, calibration: Calibration, hardware: str | None = None) -> list[Cell]:
    """The cells of a record.

    - hardware: the device of the predictions; by default that of the record.
    """
    points = [replace(p, hardware=hardware or p.hardware) for p in own_points(record)]
    return compare_points(points, calibration)
