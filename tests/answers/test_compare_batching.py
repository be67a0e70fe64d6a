"""Speculation or batching: the textbook cases, in closed form and through the engine's own counts."""

from functools import partial

import pytest

import perfmodel as pm
from perfmodel.answers.point.compare import both_ways, crossover_cache_bytes
from perfmodel.speculation import Acceptance
from tests.speculation.scenarios import scenario as llama, with_constants

ALPHA = float(Acceptance.from_tokens_per_iteration(4.0, 9).alpha)
"""Of 4 tokens an iteration at gamma 9."""
scenario = partial(llama, hardware="h100-sxm-80gb", alpha=ALPHA)


def test_llama_8b_crosses_at_22_9_k_tokens() -> None:
    """m = 10, Omega = 4, W = 2 x 7,504,924,672 bytes, kappa = 131,072: W (10 - 4) / (kappa x 10 x 3)."""
    weights = 2 * 7_504_924_672
    assert crossover_cache_bytes(weights, 10, 4.0, weights) / 131_072 == pytest.approx(22_903, abs=1)
    comparison = both_ways(scenario(), 23_000, 10)
    assert comparison.kv_ratio == pytest.approx(10.0, rel=1e-12)
    assert comparison.batching.weight_bytes == comparison.speculating.weight_bytes
    cache = 23_000 * 131_072
    bytes_per_pass_ratio = (weights + 10 * cache) / (weights + cache)
    assert comparison.bytes_per_pass_ratio == pytest.approx(bytes_per_pass_ratio, rel=1e-3)
    assert comparison.speculating.tokens == pytest.approx(4.0)
    assert comparison.crossover_context == pytest.approx(22_900, rel=2e-3)  # norms are not projections
    at = both_ways(scenario(), comparison.crossover_context, 10)
    assert at.bytes_per_token_ratio == pytest.approx(1.0, rel=1e-9)


@pytest.mark.parametrize(
    "model", ["gemma-3-27b", "gpt-oss-20b", "phi-3-mini-4k", "deepseek-v2-lite", "mixtral-8x7b"]
)
def test_the_crossover_is_one_of_the_counted_bytes(model: str) -> None:
    """Also where layers slide, whose cache stops growing; None where all do, before there is enough of it."""
    s = scenario(model=model)
    crossover = both_ways(s, 2048, 10).crossover_context
    if crossover is None:
        assert model == "phi-3-mini-4k"
        assert both_ways(s, 10**9, 10).bytes_per_token_ratio > 1
    else:
        assert both_ways(s, crossover, 10).bytes_per_token_ratio == pytest.approx(1.0, rel=1e-6)
    # tokens of one sequence that route alike may read fewer experts
    assert both_ways(with_constants(s, routing_independence=1.0), 100, 2).bytes_per_token_ratio > 1


def test_a_token_of_speculation_takes_drafting_and_a_verification_over_the_tokens_that_they_yield() -> None:
    """Four tokens of an iteration of ten, beside ten sequences that decode one token each."""
    s = scenario(draft="llama-3.2-1b")
    comparison = both_ways(s, 8192, 10)
    drafting_s = comparison.speculating.draft_s
    assert drafting_s > 9 * float(s.draft_step_at(1.0, 8192, 1.0).predicted_s)
    token_s = (comparison.speculating.predicted_s + drafting_s) / 4.0
    batched_token_s = comparison.batching.predicted_s / 10
    assert comparison.seconds_per_token_ratio == pytest.approx(token_s / batched_token_s)


def test_requests_that_do_not_fit_side_by_side_are_said() -> None:
    """The weights take 16 of 24 GB: there is room for one of the ten requests."""
    answer = pm.compare("llama-3.1-8b", "rtx-3090", context=32_768, gamma=9, draft="self", alpha=0.7)
    assert any(warning.startswith("batch 10 does not fit") for warning in answer.warnings)
    short = pm.compare("llama-3.1-8b", "rtx-3090", context=1024, gamma=3, draft="self", alpha=0.7)
    assert not any("does not fit" in warning for warning in short.warnings)
