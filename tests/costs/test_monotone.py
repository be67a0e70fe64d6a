"""Shares of the roofline where times of a GEMM would fall with rows."""

import numpy as np
from hypothesis import given, strategies as st

from perfmodel.costs.monotone import monotone_shares
from perfmodel.specs import interpolated
from tests.costs.machines import never_falls


def gemm_s(rows, shares, ridge, moved: float = 0.0):
    """Time of a GEMM in units of one load of its weights; it moves `moved` of their bytes more per row."""
    loaded, computed = (interpolated(curve, rows) for curve in monotone_shares(shares, ridge))
    loaded_s = (1.0 + moved * rows) / loaded
    computed_s = rows / ridge / computed
    return np.maximum(loaded_s, computed_s)


def test_a_fall_becomes_the_geometric_mean_of_the_highest_before_and_the_lowest_after() -> None:
    """Times of 1, 8 and 16 rows: 2, 4 and 1.25."""
    rows = np.array([1.0, 8.0, 16.0])
    shares = ((1.0, 0.5), (8.0, 0.25), (16.0, 0.8))
    seconds = gemm_s(rows, shares, 1e6)
    np.testing.assert_allclose(seconds, [2.5**0.5, 5**0.5, 5**0.5], rtol=1e-12)


def test_measured_times_that_rise_stay() -> None:
    """Ridge 4, shares .8 at 1 and 16 rows: one load up to 4 rows, and 1 / (.8 x 4) of one per row beyond."""
    rows = np.array([1.0, 2.0, 4.0, 8.0, 16.0, 64.0])
    seconds = gemm_s(rows, ((1.0, 0.8), (16.0, 0.8)), 4.0)
    np.testing.assert_allclose(seconds, [1.25, 1.25, 1.25, 2.5, 5.0, 20.0], rtol=1e-12)


def test_a_share_that_falls_beyond_the_ridge_moves_no_time_below_it() -> None:
    """At 129 rows a second tile begins, and the share falls to a third."""
    shares = ((1.0, 0.8), (128.0, 0.75), (129.0, 0.25), (1024.0, 0.7))
    rows = np.asarray(100.0)
    seconds = [float(gemm_s(rows, shares, ridge)) for ridge in (128.0, 129.0, 140.0)]
    np.testing.assert_allclose(seconds, [seconds[0]] * 3, rtol=1e-2)


SHARES = st.lists(st.floats(0.05, 1.0), min_size=2, max_size=9)


def at_powers_of_two(shares: list[float]) -> tuple[tuple[float, float], ...]:
    """(rows, share): the first at one row."""
    return tuple((2.0**i, share) for i, share in enumerate(shares))


@given(shares=SHARES, ridge=st.floats(0.5, 2000.0), moved=st.floats(0.0, 0.5))
def test_no_gemm_is_faster_with_more_rows(shares: list[float], ridge: float, moved: float) -> None:
    knots = at_powers_of_two(shares)
    seconds = gemm_s(np.arange(1.0, 400.0), knots, ridge, moved)
    assert never_falls(seconds)


@given(shares=SHARES, ridge=st.floats(0.5, 2000.0), faster=st.floats(1.0, 4.0), moved=st.floats(0.0, 0.5))
def test_no_gemm_is_slower_on_a_better_device(
    shares: list[float], ridge: float, faster: float, moved: float
) -> None:
    """A higher peak raises the ridge; a higher bandwidth lowers it, and one load takes less time."""
    knots = at_powers_of_two(shares)
    rows = np.arange(1.0, 400.0)
    seconds = gemm_s(rows, knots, ridge, moved)
    longest_s = seconds * (1 + 1e-12)
    higher_peak_s = gemm_s(rows, knots, ridge * faster, moved)
    assert np.all(higher_peak_s <= longest_s)
    higher_bandwidth_s = gemm_s(rows, knots, ridge / faster, moved) / faster
    assert np.all(higher_bandwidth_s <= longest_s)
