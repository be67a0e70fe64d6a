"""Routed experts: how many the tokens of a pass touch, and how many a device holds."""

import numpy as np
import pytest

from perfmodel.costs import Degrees, RackLayout, shard
from perfmodel.costs.experts import Experts, deviations_of_largest, touched
from perfmodel.specs import WEIGHT_FORMATS, load_model, weight_format
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


def test_a_group_with_more_tokens_computes_and_moves_more() -> None:
    model = load_model("qwen3-30b-a3b")
    even, uneven = (
        shard(model, Degrees(8, expert_groups=8), BF16, layout=RackLayout(imbalance=imbalance)).experts
        for imbalance in (1.0, 1.5)
    )
    assert even
    assert uneven
    assert uneven.flops_per_token == pytest.approx(1.5 * even.flops_per_token)
    assert uneven.activation_bytes_per_token == pytest.approx(1.5 * even.activation_bytes_per_token)
    assert uneven.expert_weight_bytes == even.expert_weight_bytes


def test_a_group_routes_all_tokens_or_only_those_that_it_was_sent() -> None:
    """8 of 128 experts in 48 layers take in 2,048 values of two bytes."""
    model = load_model("qwen3-30b-a3b")
    routed = [
        shard(model, Degrees(8, groups=8, expert_groups=8, exchanges=exchanges), BF16).experts
        for exchanges in (False, True)
    ]
    assert [each and each.routed_bytes_per_token for each in routed] == [48 * 8 * 2048 * 2, 48 * 2048 * 2]


def test_biases_of_experts_stay_in_16_bits() -> None:
    """GPT-OSS-120B: 36 layers of three matrices (2,880 x 2,880 in MXFP4) and biases (3 x 2,880 in BF16)."""
    mxfp4 = BF16.replace(weights=weight_format("mxfp4"))
    held = shard(load_model("gpt-oss-120b"), Degrees(1), mxfp4).experts
    assert held
    by_hand = 36 * (3 * 2880 * 2880 * held.form.bytes_per_value + 3 * 2880 * 2)
    assert held.expert_weight_bytes == pytest.approx(by_hand)


def test_experts_of_a_latent_compute_at_its_width() -> None:
    """Nemotron-3-Super's experts have two matrices between the latent and their own width."""
    model = load_model("nemotron-3-super-120b-a12b")
    held = shard(model, Degrees(1), BF16).experts
    assert held
    moe = model.moe
    assert moe
    assert moe.latent_size
    assert moe.latent_size < model.hidden_size
    per_expert = 2 * 2 * moe.latent_size * moe.intermediate_size
    by_hand = model.num_moe_layers * moe.experts_per_token * per_expert
    assert held.flops_per_token == pytest.approx(by_hand)
