"""GEMMs of made-up tables come out with their knots."""

import numpy as np
import pytest

from perfmodel.validate.fit.kernel_tables.fits import TableFit, table_fit
from perfmodel.validate.fit.kernel_tables.gemms import GemmConstants
from tests.validate.fit.kernel_tables.made_up import (
    BF16,
    EIGHT_BIT_SHARES,
    FP8,
    H100,
    SHARES,
    Rows,
    at_knots,
    distilled,
    gemms,
)


def gemm_fits(rows: Rows) -> dict[str, TableFit[GemmConstants]]:
    return distilled({("gemm", "vllm", "1", "gemm_perf"): rows}).gemm


def test_gemms_of_two_formats_come_out_with_their_knots() -> None:
    slower = [row | {"seconds": 2 * row["seconds"]} for row in BF16]  # another kernel of the same calls
    fits = gemm_fits([*slower, *BF16, *FP8])
    assert list(fits) == ["bf16", "fp8"]
    constants = fits["bf16"].constants
    assert constants.start_s == 6e-6  # the median of the three smallest, at most 16 tokens and 1 MB
    assert constants.fixed_s == pytest.approx(4.5e-6, rel=1e-4)
    assert dict(constants.curve) == pytest.approx(SHARES, rel=1e-4)
    assert fits["bf16"].rows == 491  # 500 less five small and four beyond the ends
    assert fits["bf16"].median_error < 1e-6
    assert fits["bf16"].source == "vllm 1"
    # fp8: the last knot is always there; half the bytes, so that the three edges weigh less than 16 MB
    knots = (1, 16, 17, 64, 4096)
    efficiency = at_knots(EIGHT_BIT_SHARES)
    expected = {knot: efficiency(knot) for knot in knots}
    assert dict(fits["fp8"].constants.curve) == pytest.approx(expected, rel=1e-4)
    assert fits["fp8"].rows == 488  # those of SHAPES


@pytest.mark.parametrize(
    ("changes", "is_fitted"),
    [
        ({}, True),
        ({"count": 499}, False),
        ({"smallest": (30e-6, 30e-6, 30e-6)}, True),
        ({"smallest": (31e-6, 31e-6, 31e-6)}, False),  # not launched from a CUDA graph
        ({"shares": {1: 0.5, 16: 1.2, 4096: 0.9}}, False),
        ({"shares": {1: 0.5, 16: 1.05, 4096: 0.9}}, True),
    ],
)
def test_tables_that_are_short_slow_or_too_good_are_left_out(changes, is_fitted) -> None:
    rows = gemms("bfloat16", 2.0, 2.0, H100.peak_flops("bf16"), **changes)
    assert ("bf16" in gemm_fits(rows)) == is_fitted


def test_a_time_far_off_the_others_counts_less() -> None:
    """A soft L1 loss from 0.1 on: d / sqrt(1 + (d / 0.1)^2) add up to 0 where it is least."""
    seconds = np.array([1.0, 1.1, 0.95, 1.2, 5.0])
    fitted = table_fit(lambda v: np.full(5, v["level"]), seconds, {"level": 0.5}, dict, "")
    off = np.log(fitted.constants["level"] / seconds)
    derivatives = off / np.hypot(1.0, off / 0.1)
    assert np.sum(derivatives) == pytest.approx(0.0, abs=1e-4)
    assert fitted.median_error == pytest.approx(np.median(np.abs(off)))
