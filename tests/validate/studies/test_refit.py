"""Constants of public runs, fitted to some of these runs: what they are without rows, and how rows weigh."""

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from perfmodel.operations import Array
from perfmodel.validate.studies.measured_steps import FREE
from perfmodel.validate.studies.parameters import PlacedConstant
from perfmodel.validate.studies.refit import LATER_VERSION, neutral, refit


def test_a_constant_without_rows_is_a_factor_of_one_a_tenth_of_its_time_or_as_versions_are() -> None:
    factor = PlacedConstant("a.expert_factor", expected=3.0, spread=1.0)
    assert neutral(factor) == pytest.approx(-math.log(3))
    multiple = PlacedConstant("a.small_kernel_s", expected=2.0, spread=1.0, times=True)
    assert neutral(multiple) == pytest.approx(-math.log(2))
    time = PlacedConstant("a.pass_fixed_s", expected=1e-3, spread=1.0)
    assert neutral(time) == pytest.approx(math.log(0.1))
    of_a_version = PlacedConstant("a@2.0.small_kernel_s", expected=0.8, spread=1.0, times=True)
    assert neutral(of_a_version) == pytest.approx(math.log(LATER_VERSION / 0.8))
    measured = PlacedConstant("a.gemm_factor", expected=0.4, spread=1.0, times=True, elsewhere=0.5)
    assert neutral(measured) == pytest.approx(math.log(0.5 / 0.4))


def test_constants_are_refitted_by_generalised_least_squares() -> None:
    """Errors near 0 weigh (4 + 1) / 4; one far off, of a server of its own, hardly weighs at all."""
    time = "vllm.pass_fixed_s"
    factor = "gddr.gemm_factor"
    places = (time, factor)
    slopes = np.array([[1.0, 0.0], [0.5, 0.2], [0.0, 0.7], [0.3, 0.3]])
    expected = np.array([neutral(FREE[place]) for place in places])
    spread = np.array([2.0, 0.7])
    left = np.array([1e-3, -2e-3, 3e-3])
    off = np.append(left, 100.0) - slopes @ expected

    def step(source: str, server: str, own: Array, error: float) -> Any:
        return SimpleNamespace(
            source=source,
            server=server,
            places=[place for place, slope in zip(places, own, strict=True) if slope],
            off=error,
            moved=lambda by: float(own @ [by[time], by[factor]]),
        )

    steps = [step(*each) for each in zip("aabc", "sstu", slopes, off.tolist(), strict=True)]
    covariance = np.diag([0.0015 + 0.0236 + 0.0142] * 3)
    covariance[0, 1] = covariance[1, 0] = 0.0015 + 0.0236
    weights = 1.25 * np.linalg.inv(covariance)
    near = slopes[:3]
    precision = near.T @ weights @ near + np.diag(spread**-2)
    pull = near.T @ weights @ left
    refitted = refit(steps, [time, factor])
    by_hand = expected - np.linalg.solve(precision, pull)
    assert [refitted[time], refitted[factor]] == pytest.approx(by_hand, abs=2e-3)


def test_a_constant_of_which_rows_say_little_stays_near_its_neutral_value() -> None:
    """A row that hardly depends on a factor, next to an expectation whose spread is 0.7."""
    factor = "gddr.gemm_factor"
    slope = 0.1
    error = 0.01
    expected = neutral(FREE[factor])
    step: Any = SimpleNamespace(
        source="a",
        server="a",
        places=[factor],
        off=error - slope * expected,
        moved=lambda by: slope * by[factor],
    )
    weight = 1.25 / (0.0015 + 0.0236 + 0.0142)
    change = -slope * weight * error / (slope**2 * weight + 0.7**-2)
    assert refit([step], [factor])[factor] - expected == pytest.approx(change, rel=1e-2)
    assert refit([], []) == {}
