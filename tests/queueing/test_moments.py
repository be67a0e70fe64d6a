"""Percentiles from three moments, against distributions whose own are known."""

import math

import numpy as np
import pytest

from perfmodel.queueing.moments import Moments, mixed, normal_share, sometimes, uniform


def test_normal_quantiles_and_shares():
    time = Moments(10.0, 4.0)
    assert float(time.quantile(0.99)) == pytest.approx(10 + 2 * 2.3263, rel=1e-3)
    assert float(time.below(10.0)) == pytest.approx(0.5, abs=1e-3)
    for z in (-3.0, -0.5, 0.0, 1.0, 4.0):
        assert float(normal_share(z)) == pytest.approx(0.5 * math.erfc(-z / math.sqrt(2)), abs=2e-7)


def test_an_exponential_in_its_upper_half():
    time = sometimes(1.0, 3.0)
    for share in (0.5, 0.9, 0.99):
        assert float(time.quantile(share)) == pytest.approx(-3 * math.log(1 - share), rel=0.03)
        assert float(time.below(-3 * math.log(1 - share))) == pytest.approx(share, abs=0.02)


def test_parts_add_and_mix_as_samples_do():
    draw = np.random.default_rng(0)
    first, second = draw.uniform(0, 2, 200_000), draw.exponential(1.5, 200_000) * (draw.random(200_000) < 0.3)
    both = first + second
    total = uniform(2.0) + sometimes(0.3, 1.5)
    assert float(total.mean) == pytest.approx(both.mean(), rel=0.01)
    assert float(total.variance) == pytest.approx(both.var(), rel=0.02)
    assert float(total.third) == pytest.approx(((both - both.mean()) ** 3).mean(), rel=0.05)
    mixture = mixed(np.array([0.25, 0.75]), Moments(np.array([1.0, 5.0]), np.array([0.5, 0.1])))
    assert float(mixture.mean) == pytest.approx(4.0)
    assert float(mixture.variance) == pytest.approx(0.25 * 0.5 + 0.75 * 0.1 + 0.25 * 9 + 0.75 * 1)


def test_what_never_varies_is_itself_at_every_share():
    time = Moments(2.0).times(3.0)
    assert float(time.quantile(0.99)) == 6.0
    assert [bool(time.below(limit)) for limit in (5.9, 6.0)] == [False, True]
