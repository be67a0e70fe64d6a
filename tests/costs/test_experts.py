"""Routed experts: how many the tokens of a pass touch, and how many a device holds."""

import numpy as np
import pytest

from perfmodel.costs import Degrees, RackLayout, shard
from perfmodel.costs.experts import Experts, deviations_of_largest, touched
from perfmodel.specs import WEIGHT_FORMATS, load_model
from tests.costs.machines import BF16


def experts(popularity: float) -> Experts:
    return Experts(WEIGHT_FORMATS["bf16"], 1, 2, 128, 4, 0.0, 0.0, 0.0, 0.0, 0.0, popularity, 1)


def test_popular_experts_are_touched_less() -> None:
    """4 of 128: at a = 1 the b is 1/31, so that t tokens touch 128 t / (31 + t); even ones 128 (1 -
    (31/32)^t).
    """
    tokens = np.array([1.0, 31.0, 93.0])
    evenly = 128 * (1 - (31 / 32) ** tokens)
    b = 1 / ((32 / 31) ** 0.5 - 1)
    assert experts(1.0).touched(tokens) == pytest.approx([4, 64, 96])
    expected = 128 * (1 - (1 + tokens / b) ** -2)
    assert experts(2.0).touched(tokens) == pytest.approx(expected)
    assert experts(0.0).touched(tokens) == pytest.approx(evenly)
    assert experts(1e9).touched(tokens) == pytest.approx(evenly, rel=1e-6)
    assert experts(1e9).touched(tokens) == pytest.approx(experts(0.0).touched(tokens), rel=1e-6)


def test_the_fullest_group_touches_at_most_the_experts_that_it_holds() -> None:
    """4 groups hold 32 experts each; the largest of 4 normal numbers is 1.05 deviations above the mean
    (Blom's rank 3.625 / 4.25, Tukey's lambda)."""
    groups = experts(0.0).replace(groups=4)
    mean = float(groups.touched(8.0)) / 4
    deviation = (mean * (1 - mean / 32)) ** 0.5
    assert groups.fullest(8.0) == pytest.approx(mean + 1.048 * deviation, rel=1e-3)
    assert groups.fullest(150.0) == groups.fullest(1e6) == 32


def test_redundant_experts_are_held_and_chosen_among() -> None:
    """Qwen3-30B-A3B has 128 experts of 3 x 2048 x 768 weights in 48 layers."""
    layout = RackLayout(redundant_experts=32)
    held = shard(load_model("qwen3-30b-a3b"), Degrees(8, expert_groups=8), BF16, layout=layout).experts
    assert held
    assert held.num_experts == 160
    assert held.held_bytes == 160 / 8 * 48 * 3 * 2048 * 768 * 2


@pytest.mark.parametrize(("numbers", "expected"), [(8, 1.4236), (64, 2.3439), (256, 2.8269)])
def test_the_largest_of_normal_numbers_is_near_its_exact_expectation(numbers: int, expected: float) -> None:
    """The integral of x d(Phi(x)^n), which Blom's formula approximates. A single number is its own mean."""
    assert deviations_of_largest(numbers) == pytest.approx(expected, rel=0.015)
    assert deviations_of_largest(1) == pytest.approx(0.0, abs=1e-9)


def test_a_token_that_uses_every_expert_touches_all() -> None:
    for popularity in (0.0, 1.0):
        assert touched(8, 8, 1.0, popularity) == 8.0
        assert touched(8, 8, 40.0, popularity) == 8.0
