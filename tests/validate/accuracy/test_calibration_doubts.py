"""Doubts about a calibration: its own warning, and speedups that are far off. Passes do not count."""

import pytest

from perfmodel.specs import load_calibration
from perfmodel.specs.published import published_points
from perfmodel.validate.accuracy.cells import Cell
from perfmodel.validate.accuracy.doubts import calibration_doubts

POINT = published_points("magicdec")[0]
IDEAL = load_calibration("ideal")


def cell(quantity: str, predicted: float) -> Cell:
    return Cell(POINT, quantity, measured=1.0, predicted=predicted, calibration="ideal")


@pytest.mark.parametrize(("predicted", "is_doubted"), [(1.24, False), (1.26, True), (0.74, True)])
def test_speedups_more_than_a_quarter_off_are_a_doubt(predicted: float, is_doubted: bool) -> None:
    compared = [cell("speedup", predicted), cell("target_s", 3.0)]
    doubts = [*calibration_doubts(IDEAL, compared)]
    said = ["its speedups are 26% off the measured ones on average (above 25%)"]
    assert doubts == (said if is_doubted else [])


def test_a_warning_in_the_notes_is_a_doubt() -> None:
    warned = IDEAL.replace(notes="Made here. WARNING: two of nine timings scatter")
    assert [*calibration_doubts(warned, [])] == ["two of nine timings scatter"]
