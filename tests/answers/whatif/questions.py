"""Questions of several of these tests, and what holds of every answer."""

import json

import pytest

from perfmodel.answers.point.whatif import whatif
from perfmodel.answers.question import Query
from perfmodel.costs.pass_time import LIMITERS

README = Query(
    "llama-3.1-8b", "a100-sxm-80gb", 64, 32_000, gamma=2, tp=8, draft_kv="streamingllm:512", alpha=0.8
)
"""A sparse self-draft at 32k on eight A100."""
OPEN = {"model": "llama-3.1-8b", "hardware": "h100", "batch": 4, "context": 32_000, "alpha": 0.8}
"""A stated acceptance, and no stated draft length."""
UNKNOWN = Query("qwen2.5-7b", "h100", 13, 16_384, draft="eagle3", task=None)
"""A draft whose acceptance nobody has published."""


def checked(a: dict) -> dict:
    """What holds of every answer: plain JSON, and numbers that agree with each other."""
    assert json.loads(json.dumps(a, allow_nan=False)) == a
    for step in ("target_step", "verify_step"):
        assert 0 < a[step]["lower_s"] <= a[step]["predicted_s"] * (1 + 1e-12)
        assert a[step]["limiter"] in LIMITERS
    _check_times(a)
    _check_memory(a)
    return a


def _check_times(a: dict) -> None:
    """Speedup, TPOT and throughput follow from the times of the steps and from the acceptance."""
    q = a["query"]
    ratios = a["cost_ratios"]
    gained = a["acceptance"]["tokens_per_iteration"]
    target = a["target_step"]["predicted_s"]
    drafting = q["gamma"] * ratios["draft_to_target"] * target
    iteration = drafting + a["verify_step"]["predicted_s"] + a["overhead_s"]
    assert a["speedup"] == pytest.approx(gained * target / iteration, rel=1e-9)
    assert a["tpot_s"] == pytest.approx(iteration / gained, rel=1e-9)
    assert a["ar_tpot_s"] == pytest.approx(target, rel=1e-12)
    assert a["throughput_tokens_per_s"] == pytest.approx(q["batch"] / a["tpot_s"], rel=1e-12)
    assert a["ar_throughput_tokens_per_s"] == pytest.approx(q["batch"] / target, rel=1e-12)
    assert ratios["verify_to_target"] == pytest.approx(a["verify_step"]["predicted_s"] / target, rel=1e-9)
    tried = a["speedup"] if q["gamma"] <= q["max_gamma"] else 0
    assert a["speedup_at_gamma_optimal"] >= max(1, tried) * (1 - 1e-12)
    if a["speedup_interval"] is None:
        assert a["interval_coverage"] is None
    else:
        low, high = a["speedup_interval"]
        assert low <= a["speedup"] <= high
        assert 0 < a["interval_coverage"] < 1


def _check_memory(a: dict) -> None:
    """Weights and caches add up, and a batch fits if it is at most the largest that does."""
    q = a["query"]
    m = a["memory"]
    used = m["weight_bytes"] + m["kv_bytes"] + m["draft_weight_bytes"] + m["draft_kv_bytes"]
    assert m["fits"] == (used <= m["available_bytes"])
    assert m["fits"] == (q["batch"] <= m["max_batch"]) == (a["verdict"] != "does_not_fit")


def ask(**flags) -> dict:
    """The answer to the README's question with these arguments changed, as JSON, checked."""
    return checked(whatif(README, **flags).as_dict())
