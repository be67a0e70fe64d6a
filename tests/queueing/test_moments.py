"""Percentiles from three moments, against distributions whose own are known."""

import math
from dataclasses import astuple

import numpy as np
import pytest

from perfmodel.queueing.moments import NORMAL, Moments, mixed, normal_share, sometimes, uniform


def figures(time: Moments) -> tuple[float, ...]:
    return tuple(map(float, astuple(time)))


def test_normal_quantiles_and_shares():
    time = Moments(10.0, 4.0)
    assert float(time.quantiles(0.99)[0]) == pytest.approx(10 + 2 * 2.3263, rel=2e-4)
    assert float(time.below(10.0)) == pytest.approx(0.5, abs=1e-3)
    for z in (-3.0, -1.5, -0.5, 0.0, 0.2, 1.0, 2.0, 4.0):
        assert float(normal_share(z)) == pytest.approx(0.5 * math.erfc(-z / math.sqrt(2)), abs=1e-7)


def test_an_exponential_in_its_upper_half():
    for share in (0.5, 0.9, 0.99):
        assert float(sometimes(1.0, 3.0).quantiles(share)[0]) == pytest.approx(
            -3 * math.log(1 - share), rel=0.03
        )


@pytest.mark.parametrize(
    ("skew", "taken"), [(-1.0, -1.0), (0.002, 0.002), (0.5, 0.5), (2.0, 2.0), (5.0, 2.0)]
)
def test_a_quantile_of_wilson_and_hilferty_has_its_share_below(skew, taken):
    """2/g (1 + g/6 (z - g/6))^3 - 2/g deviations above the mean; a skew of 2 at most."""
    time = Moments(10.0, 4.0, 8.0 * skew)
    for share, z in NORMAL.items():
        away = 2 / taken * ((1 + taken / 6 * (z - taken / 6)) ** 3 - 1)
        assert float(time.quantiles(share)[0]) == pytest.approx(10 + 2 * away, rel=1e-9)
        assert float(time.below(10 + 2 * away)) == pytest.approx(share, abs=1e-6)
    assert [float(time.below(far)) for far in (-200.0, 300.0)] == pytest.approx([0.0, 1.0], abs=1e-6)


def test_parts_add_and_mix_by_hand():
    """Of exponentials p m, 2 p m^2 and 6 p m^3 are the moments about 0."""
    assert figures(uniform(6.0)) == (3, 3, 0, 0)
    rare = 0.45, 1.35 - 0.45**2, 6.075 - 3 * 0.45 * 1.35 + 2 * 0.45**3
    assert figures(sometimes(0.3, 1.5)) == pytest.approx((*rare, 0))
    assert figures(uniform(6.0) + sometimes(0.3, 1.5)) == pytest.approx((3.45, 3 + rare[1], rare[2], 0))
    assert figures(Moments(2.0, 5.0, 7.0, 1.0) + Moments(1.0, 2.0, 3.0, 4.0)) == (3, 7, 10, 5)
    assert figures(Moments(2.0, 5.0, 7.0, 1.0).times(3.0)) == (6, 45, 189, 3)
    parts = Moments(np.array([1.0, 5.0]), np.array([0.5, 0.1]), np.array([2.0, -1.0]), np.array([0.7, 0.2]))
    third = 0.25 * (2 - 3 * (3 * 0.5 + 9)) + 0.75 * (-1 + 3 * 0.1 + 1)
    variance = 0.25 * 0.5 + 0.75 * 0.1 + 0.25 * 9 + 0.75 * 1
    assert figures(mixed(np.array([0.25, 0.75]), parts)) == pytest.approx((4.0, variance, third, 0.2))


def test_what_never_varies_is_itself_at_every_share():
    time = Moments(2.0).times(3.0)
    assert figures(Moments(2.0)) == (2, 0, 0, 0)
    assert float(time.quantiles(0.99)[0]) == 6.0
    assert [float(time.below(limit)) for limit in (5.9, 6.0, 6.1)] == [0, 1, 1]


def test_a_time_that_varies_by_less_than_a_second_may_be_shorter_than_its_mean():
    assert float(Moments(1.0, 0.04).below(0.9)) == pytest.approx(0.3086, abs=1e-3)  # half a deviation


def test_nothing_is_below_the_least():
    time = Moments(10.0, 4.0, 0.0, 9.0)
    assert float(Moments(10.0, 4.0, 0.0, 11.0).quantiles(0.5)[0]) == 11
    assert [float(time.below(limit)) for limit in (8.99, 9.0)] == pytest.approx([0.0, 0.3085], abs=1e-3)
