"""Predicts the figures of all records in a folder. The records are those of this project's decoder and of
serving engines.
"""

from collections.abc import Mapping
from pathlib import Path

from perfmodel.errors import InputError, one_line
from perfmodel.specs import Calibration
from perfmodel.validate.accuracy.compare import calibration_of, compare_record
from perfmodel.validate.accuracy.figure import Figure
from perfmodel.validate.accuracy.record_files import records_in
from perfmodel.validate.accuracy.served_figures import served_figures
from perfmodel.validate.records import read_record

NOT_CHECKED = ("overhead_s", "speedup_alpha")
"""Quantities that are not checked. ``overhead_s`` is a small part of ``sd_tpot_s``, and ``speedup_alpha``
needs a published acceptance.
"""


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
            all_figures += served_figures(path, calibration, pinned or {})
        else:
            all_figures += _figures_of(path, calibration)
    if not all_figures:
        raise InputError(
            one_line(f"--results: {folder} must hold records of measurements, and it holds none")
        )
    return all_figures


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
