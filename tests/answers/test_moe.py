"""Mixtures of experts: what passes touch, what verification costs, and where speculation peaks."""

import numpy as np
import pytest

from perfmodel.answers.question import Query, resolve
from perfmodel.speculation import Scenario, Workload, predict


def scenario(hardware: str = "h100", **given: object) -> Scenario:
    question = {"alpha": 0.8, "calibration": "ideal"} | given
    return resolve(Query("qwen3-30b-a3b", hardware, 1, 1024, **question))  # type: ignore[arg-type]


def test_experts_touched_by_a_simulation() -> None:
    """Those of Qwen3-30B-A3B, 8 of 128, on the ideal roofline: 16 tokens, such as batch 4 at gamma 3, routed
    independently; and the fullest of four groups.
    """
    experts = scenario().target_shard.experts
    assert experts is not None
    rng = np.random.default_rng(3)
    seen = [{e for _ in range(16) for e in rng.choice(128, 8, replace=False)} for _ in range(2000)]
    touched = np.mean([len(s) for s in seen])
    fullest = np.mean([np.bincount([e // 32 for e in s]).max() for s in seen])
    assert experts.touched(16) == pytest.approx(touched, rel=5e-3)
    assert experts.touched(1) == pytest.approx(8.0)
    assert experts.replace(groups=4).fullest(16) == pytest.approx(fullest, rel=1e-2)


def test_verification_costs_2_5_then_1_0_then_1_1_baseline_steps() -> None:
    """gamma 3, 4,000 tokens, ideal: the ratio falls to 1 where every expert is read anyway."""
    p = predict(scenario("a100"), Workload.of([1, 64, 256], 4000, 3))
    assert p.verify_to_target == pytest.approx([2.48, 1.06, 1.13], abs=0.02)


def test_speculation_peaks_at_a_middle_batch_unlike_a_dense_model() -> None:
    speedup = predict(scenario(draft="eagle"), Workload.of(np.arange(1, 257), 1024, 3)).speedup
    assert 16 <= np.argmax(speedup) + 1 <= 200
    assert speedup.max() > 1.1 * max(speedup[0], speedup[-1])
