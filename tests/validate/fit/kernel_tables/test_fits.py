"""Which fits of kernel tables are used; `test_gemms.py` has the loss of an outlier."""

import pytest

from perfmodel.validate.fit.kernel_tables.fits import RooflineConstants, TableFit, is_credible


@pytest.mark.parametrize(
    ("median_error", "bandwidth_fraction", "used"),
    [(0.25, 0.3, True), (0.26, 0.3, False), (0.25, 0.29, False)],
)
def test_a_fit_is_used_up_to_a_quarter_off_and_from_three_tenths_of_the_bandwidth_on(
    median_error: float, bandwidth_fraction: float, used: bool
) -> None:
    constants = RooflineConstants(1e-6, bandwidth_fraction, 0.5)
    assert is_credible(TableFit(constants, median_error, 100, "vllm 1")) is used
