"""Mixtures of experts: activation, target efficiency, the batch where speculation peaks, and published
shapes.
"""

import numpy as np
import pytest

from perfmodel.answers.point.moe import ExpertSpeculation, independence_of, moe, touched
from perfmodel.answers.question.query import Query, resolve
from perfmodel.costs import Experts
from perfmodel.speculation.acceptance import Acceptance


def answer(model: str = "qwen3-30b-a3b", batch: object = "1..256", **given) -> ExpertSpeculation:
    asked = {"hardware": "h100-sxm-80gb", "context": 1024, "gamma": 3, "draft": "eagle", "alpha": 0.8}
    return moe(**asked | {"model": model, "batch": batch, "calibration": "ideal"} | given)


@pytest.fixture
def experts() -> Experts:
    """Those of Qwen3-30B-A3B, 8 of 128, on the ideal roofline."""
    found = resolve(Query("qwen3-30b-a3b", "h100", 1, 1, alpha=0.8, calibration="ideal")).target_shard.experts
    assert found is not None
    return found


def test_experts_touched_by_a_simulation(experts: Experts) -> None:
    """128 experts, 8 a token, batch 4, gamma 3, routed independently: 16 tokens."""
    rng = np.random.default_rng(3)
    seen = [len({e for _ in range(16) for e in rng.choice(128, 8, replace=False)}) for _ in range(2000)]
    assert float(touched(experts, 4, 3)) == pytest.approx(np.mean(seen), rel=5e-3)


def test_tokens_routed_alike_touch_what_one_touches(experts: Experts) -> None:
    assert touched(experts, 4, 3, 0.0) == touched(experts, 4, 0)
    assert touched(experts, 4, 0, 0.3) == touched(experts, 4, 0)
    alike, apart = (answer(batch=1, routing_independence=r).rows[0] for r in (0, 1))
    assert alike.experts_verifying == pytest.approx(8.0)
    assert alike.speedup > apart.speedup


@pytest.mark.parametrize("reduction", [0.20, 0.31])
def test_the_measured_reduction_gives_the_independence_back(experts: Experts, reduction: float) -> None:
    """Cohere report 20 to 31 % fewer unique experts than independence."""
    r = independence_of(experts, 4, 3, reduction)
    assert 0 < r < 1
    assert touched(experts, 4, 3, r) == pytest.approx((1 - reduction) * touched(experts, 4, 3), rel=1e-9)
    row = answer(batch=4, fewer_experts=reduction, fewer_experts_at=4).rows[0]
    assert row.experts_verifying == pytest.approx((1 - reduction) * touched(experts, 4, 3), rel=1e-9)


def test_verification_costs_2_5_then_1_0_then_1_1_baseline_steps() -> None:
    """Qwen3-30B-A3B on A100, gamma 3, 4,000 tokens, ideal: the ratio falls to 1 where every expert is read
    anyway.
    """
    found = answer(hardware="a100-sxm-80gb", context=4000, batch=(1, 64, 256), draft="self")
    assert [1 / row.target_efficiency for row in found.rows] == pytest.approx([2.48, 1.06, 1.13], abs=0.02)


def test_speculation_peaks_at_a_middle_batch_unlike_a_dense_model() -> None:
    found = answer(batch=(1, 8, 2048))
    peak, (one, *_, many) = found.peak, found.rows
    assert 16 <= peak.batch <= 256
    assert peak.speedup > max(one.speedup, many.speedup) * 1.1
    gained = float(Acceptance.from_alpha(0.8).tokens_per_iteration(3))
    assert peak.iteration_to_target == pytest.approx(gained / peak.speedup)
    (at_peak,) = answer(batch=peak.batch).rows
    assert (at_peak.speedup, at_peak.target_efficiency) == pytest.approx(
        (peak.speedup, peak.target_efficiency)
    )
    assert (at_peak.fits, one.fits, many.fits) == (peak.batch <= peak.max_batch, True, False)


def test_the_cost_of_an_iteration_rises_with_gamma_as_published() -> None:
    """MoESD Table 1 (Mixtral-8x7B, EAGLE, two A800, peak over unlisted batches): iterations cost 1.35, 1.44,
    1.53 baseline steps for gamma 2, 3, 4 on average. A shape: our stack's host overhead is not theirs.
    """
    costs = []
    for gamma, sigma in ((2, 0.78), (3, 0.66), (4, 0.58)):
        alpha = float(Acceptance.from_tokens_per_iteration(sigma * (gamma + 1), gamma).alpha)
        device = {"hardware": "a100-sxm-80gb", "tp": 2, "calibration": None}
        peak = answer("mixtral-8x7b", "1..128", context=400, gamma=gamma, alpha=alpha, **device).peak
        assert peak.speedup > 1.5
        costs.append(peak.iteration_to_target)
    assert costs == sorted(costs)
    assert 1 < costs[0] < costs[-1] < 1.6
