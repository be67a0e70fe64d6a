"""Percentiles from three moments, against distributions whose own are known."""

import math
from dataclasses import astuple

import numpy as np
import pytest

from perfmodel.queueing.moments import NORMAL, Moments, mixed, normal_share, shares_of, sometimes, uniform


def figures(time: Moments) -> tuple[float, ...]:
    return tuple(map(float, astuple(time)))


def quantile(time: Moments, share: float) -> float:
    return float(time.quantiles(share)[0])


def below(time: Moments, limit: float) -> float:
    return float(time.below(limit))


def test_normal_quantiles_and_shares():
    time = Moments(10.0, 4.0)
    assert quantile(time, 0.99) == pytest.approx(10 + 2 * 2.3263, rel=2e-4)
    assert below(time, 10.0) == pytest.approx(0.5, abs=1e-3)
    for z in (-3.0, -1.5, -0.5, 0.0, 0.2, 1.0, 2.0, 4.0):
        exact = 0.5 * math.erfc(-z / math.sqrt(2))
        assert normal_share(z) == pytest.approx(exact, abs=1e-7)


@pytest.mark.parametrize("share", [0.5, 0.9, 0.99])
def test_an_exponential_in_its_upper_half(share: float):
    exact = -3 * math.log(1 - share)
    assert quantile(sometimes(1.0, 3.0), share) == pytest.approx(exact, rel=0.03)


@pytest.mark.parametrize(
    ("skew", "taken"), [(-1.0, -1.0), (0.002, 0.002), (0.5, 0.5), (2.0, 2.0), (5.0, 2.0)]
)
def test_a_quantile_of_wilson_and_hilferty_has_its_share_below(skew, taken):
    """2/g (1 + g/6 (z - g/6))^3 - 2/g deviations above the mean; a skew of 2 at most."""
    time = Moments(10.0, 4.0, 8.0 * skew)
    for share, z in NORMAL.items():
        cubed = (1 + taken / 6 * (z - taken / 6)) ** 3
        expected = 10 + 2 * 2 / taken * (cubed - 1)
        assert quantile(time, share) == pytest.approx(expected, rel=1e-9)
        assert below(time, expected) == pytest.approx(share, abs=1e-6)
    assert below(time, -200.0) == pytest.approx(0.0, abs=1e-6)
    assert below(time, 300.0) == pytest.approx(1.0, abs=1e-6)


def test_parts_add_by_hand():
    """Of exponentials p m, 2 p m^2 and 6 p m^3 are the moments about 0."""
    assert figures(uniform(6.0)) == (3, 3, 0, 0)
    variance = 1.35 - 0.45**2
    third = 6.075 - 3 * 0.45 * 1.35 + 2 * 0.45**3
    rare = sometimes(0.3, 1.5)
    assert figures(rare) == pytest.approx((0.45, variance, third, 0))
    both = figures(uniform(6.0) + rare)
    assert both == pytest.approx((3.45, 3 + variance, third, 0))
    time = Moments(2.0, 5.0, 7.0, 1.0)
    added = time + Moments(1.0, 2.0, 3.0, 4.0)
    assert figures(added) == (3, 7, 10, 5)
    assert figures(time.times(3.0)) == (6, 45, 189, 3)


def test_parts_mix_by_hand():
    """A quarter is 3 below the mean of 4, the rest 1 above it."""
    shares = np.array([0.25, 0.75])
    parts = Moments(
        mean=np.array([1.0, 5.0]),
        variance=np.array([0.5, 0.1]),
        third=np.array([2.0, -1.0]),
        least=np.array([0.7, 0.2]),
    )
    variances = np.array([0.5 + 9, 0.1 + 1])
    first_third = 2 - 3 * (3 * 0.5 + 9)
    second_third = -1 + 3 * 0.1 + 1
    thirds = np.array([first_third, second_third])
    expected = (4.0, shares @ variances, shares @ thirds, 0.2)
    assert figures(mixed(shares, parts)) == pytest.approx(expected)


@pytest.mark.parametrize("far", [0.0, 5000.0, -5000.0])
def test_shares_of_numbers_of_any_size(far: float):
    """One to three, times e^5000 too."""
    logs = far + np.log([1.0, 3.0])
    assert shares_of(logs) == pytest.approx([0.25, 0.75])


def test_what_never_varies_is_itself_at_every_share():
    time = Moments(2.0).times(3.0)
    assert figures(Moments(2.0)) == (2, 0, 0, 0)
    assert quantile(time, 0.99) == 6.0
    assert below(time, 5.9) == 0
    assert below(time, 6.0) == 1
    assert below(time, 6.1) == 1


def test_a_time_that_varies_by_less_than_a_second_may_be_shorter_than_its_mean():
    assert below(Moments(1.0, 0.04), 0.9) == pytest.approx(0.3086, abs=1e-3)  # half a deviation


def test_nothing_is_below_the_least():
    time = Moments(10.0, 4.0, 0.0, 9.0)
    assert quantile(Moments(10.0, 4.0, 0.0, 11.0), 0.5) == 11
    assert below(time, 8.99) == 0.0
    assert below(time, 9.0) == pytest.approx(0.3085, abs=1e-3)
