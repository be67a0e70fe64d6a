"""Fits of kernel tables: an outlier hardly counts, and which fits are used."""

import numpy as np
import pytest

from perfmodel.operations import Array
from perfmodel.validate.fit.kernel_tables.fits import (
    MemoryConstants,
    RooflineConstants,
    TableFit,
    is_credible,
    table_fit,
)
from perfmodel.validate.solving import Values


def test_one_slow_call_of_ten_moves_a_constant_by_one_per_cent() -> None:
    seconds = np.array([2e-5] * 9 + [2e-4])

    def predict(values: Values) -> Array:
        return np.full(10, values["fixed_s"] * values["bandwidth_fraction"])

    first = {"fixed_s": 1e-5, "bandwidth_fraction": 1.0}
    fitted = table_fit(predict, seconds, first, MemoryConstants, "vllm 1")
    product = fitted.constants.fixed_s * fitted.constants.bandwidth_fraction
    assert product == pytest.approx(2e-5, rel=0.02)
    assert fitted.median_error < 0.02
    assert (fitted.rows, fitted.source) == (10, "vllm 1")


@pytest.mark.parametrize(
    ("median_error", "bandwidth_fraction", "used"),
    [(0.25, 0.3, True), (0.26, 0.3, False), (0.25, 0.29, False)],
)
def test_a_fit_is_used_up_to_a_quarter_off_and_from_three_tenths_of_the_bandwidth_on(
    median_error: float, bandwidth_fraction: float, used: bool
) -> None:
    constants = RooflineConstants(1e-6, bandwidth_fraction, 0.5)
    assert is_credible(TableFit(constants, median_error, 100, "vllm 1")) is used
