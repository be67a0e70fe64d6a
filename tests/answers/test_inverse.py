"""Answers to the question turned round reach the target speedup when put back, and a little less does not."""

from dataclasses import replace

import numpy as np
import pytest

from perfmodel.answers.point.break_even import smallest_alpha, speedup_at
from perfmodel.answers.point.inverse import inverse
from perfmodel.answers.question import Query, resolve
from perfmodel.speculation import Acceptance, Workload, predict, speedups

BASE = Query(
    "llama-3.1-8b", "a100-sxm-80gb", 64, 32_000, gamma=3, tp=8, draft_kv="streamingllm:512", alpha=0.85
)
QUESTIONS = [
    BASE,
    replace(BASE, calibration="ideal", batch=256),
    replace(BASE, draft="llama-3.2-1b", draft_tp=4, gamma=5),
    replace(BASE, model="qwen3-30b-a3b", tp=4, hardware="h200-sxm-141gb", gamma=2),
    replace(BASE, draft_kv="retrieval:4096,every=8", hardware="h100-sxm-80gb"),
]
TARGETS = [0.8, 1.0, 1.3, 2.6]


def speedup(query: Query, scenario=None, context: float | None = None) -> float:
    scenario = scenario or resolve(query)
    gammas = np.array([query.gamma])
    return float(speedups(scenario, query.batch, context or query.context, gammas)[..., 0])


@pytest.mark.parametrize("query", QUESTIONS)
@pytest.mark.parametrize("target", TARGETS)
def test_answers_put_back_reach_what_was_wanted(query, target):
    r = inverse(query, speedup=target)
    s = resolve(query)
    assert (r.target_speedup, r.gamma) == (target, query.gamma)
    assert r.speedup == pytest.approx(speedup(query), rel=1e-12)

    def at_alpha(alpha: float) -> float:
        return speedup(query, replace(s, acceptance=Acceptance.from_alpha(alpha)))

    if r.smallest_alpha is None:
        assert at_alpha(1.0) < target
    else:
        assert at_alpha(r.smallest_alpha) >= target * (1 - 1e-12)
        assert r.smallest_alpha == 0 or at_alpha(r.smallest_alpha - 1e-9) < target

    p = predict(s, Workload.of(query.batch, query.context, query.gamma))
    gained = float(p.tokens_per_iteration)
    rest = float(p.verify_to_target + p.overhead_s / p.target_s)
    if r.largest_draft_to_target is None:
        assert gained / rest <= target
    else:
        assert gained / (query.gamma * r.largest_draft_to_target + rest) == pytest.approx(target, rel=1e-12)
        assert (r.largest_draft_to_target >= p.draft_to_target) == (r.speedup >= target)

    def at_reread(factor: float) -> float:
        return speedup(query, replace(s, machine=replace(s.machine, kv_reread=factor)))

    if r.largest_kv_reread is None:
        assert at_reread(1.0) < target
    else:
        assert 1 <= r.largest_kv_reread <= query.gamma + 1
        assert at_reread(r.largest_kv_reread) >= target
        assert r.largest_kv_reread == query.gamma + 1 or at_reread(r.largest_kv_reread + 1e-6) < target

    if r.smallest_context is None:
        assert max(speedup(query, context=c) for c in np.geomspace(1, 1e7, 50)) < target
    else:
        assert speedup(query, context=r.smallest_context) >= target
        assert r.smallest_context == 1 or speedup(query, context=0.9999 * r.smallest_context) < target


def test_worked_alpha():
    # ideal, B=64, S=32000, gamma 1: T_T 139.0117 ms, T_D 9.4675 ms; T_V: 128 tokens still load, as T_T.
    # 1 + alpha >= (9.4675 + 139.0117) / 139.0117 = 1.068106; activation traffic adds a little
    assert 0.0681 < inverse(BASE, tp=1, gamma=1, calibration="ideal").smallest_alpha < 0.075
    s, at = resolve(BASE), (64, 32_000, 3)
    most = speedup_at(replace(s, acceptance=Acceptance.from_alpha(1.0)), *at)
    assert smallest_alpha(s, *at, most) == pytest.approx(1.0), "which reaches just that"
    assert smallest_alpha(s, *at, most * 1.001) is None
