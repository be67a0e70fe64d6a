"""Shares of the roofline whose times never fall with rows: pooled by hand, untouched where they need not
be.
"""

import numpy as np
import pytest
from hypothesis import given, strategies as st

from perfmodel.costs.monotone import monotone_shares
from perfmodel.specs import interpolated


def test_a_fall_is_pooled_to_its_geometric_mean() -> None:
    """Times of 2, 4 and 1 rows: 1/.5, 1/.25 and 1/.8 of an ideal row; the fall from 4 to 1.25 becomes sqrt(5)
    twice.
    """
    loaded, computed = monotone_shares(((1.0, 0.5), (8.0, 0.25), (16.0, 0.8)), 1e6)
    assert [share for _, share in loaded] == pytest.approx([0.5, 5**-0.5, 5**-0.5], rel=1e-6)
    assert [at for at, _ in loaded] == [1, 8, 16]
    assert computed == (loaded[-1],)


def test_beyond_the_ridge_the_share_of_the_flops_is_what_counts() -> None:
    """Ridge 4, shares .8 at 1 and 16 rows: times 1.25 and 5; at the ridge 1.25, and .8 of either peak
    there.
    """
    loaded, computed = monotone_shares(((1.0, 0.8), (16.0, 0.8)), 4.0)
    np.testing.assert_allclose(loaded, [(1.0, 0.8), (4.0, 0.8)], rtol=1e-6)
    np.testing.assert_allclose(computed, [(4.0, 0.8), (16.0, 0.8)], rtol=1e-6)


@given(
    shares=st.lists(st.floats(0.05, 1.0), min_size=2, max_size=9),
    ridge=st.floats(0.5, 2000.0),
    moved=st.floats(0.0, 0.05),
)
def test_no_gemm_is_faster_with_more_rows(shares: list[float], ridge: float, moved: float) -> None:
    knots = tuple((2.0**i, share) for i, share in enumerate(shares))
    rows = np.arange(1.0, 400.0)
    loaded, computed = (interpolated(curve, rows) for curve in monotone_shares(knots, ridge))
    seconds = np.maximum((1.0 + moved * rows) / loaded, rows / ridge / computed)
    assert np.all(np.diff(seconds) >= -1e-15 * seconds[1:])
