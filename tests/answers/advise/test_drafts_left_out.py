"""Why a draft is not chosen, and the change that would admit it."""

import pytest

from perfmodel.answers.advice.advise import advise
from perfmodel.answers.advice.advise_query import AdviseQuery


def test_a_draft_that_breaks_the_bound_or_does_not_fit_is_not_called_unsupported() -> None:
    slow = {"tp": (8,), "batch": (8,), "rate": {"ngram": "0.2"}, "max_tpot_ms": 8}
    bound = advise(AdviseQuery("qwen3-next-80b-a3b", "h200", context=4096, **slow))
    assert "no draft with a known acceptance meets the bound on time per token" in bound.reason
    memory = advise(AdviseQuery("qwen3-32b", "h100", context=4096, batch=(1,), rate={"qwen3-8b": "0.6"}))
    assert "no draft with a known acceptance fits in memory" in memory.reason


@pytest.mark.parametrize("load", [{}, {"clients": 4, "gpus": 4, "input_len": 1024, "output_len": 100}])
def test_a_named_draft_that_cannot_run_comes_with_the_reason(load: dict[str, int]) -> None:
    """Qwen2.5-72B has 128 more entries in its vocabulary than Qwen2.5-1.5B, and vLLM wants the same ones."""
    answer = advise("qwen2.5-72b", "a100-sxm-80gb", rate={"qwen2.5-1.5b": 0.75}, **({"tp": 4} | load))
    assert answer.verdict == "do_not_speculate"
    assert "no acceptance" not in answer.reason
    assert answer.warnings[0].startswith("qwen2.5-1.5b was not searched: draft: must be a model with")


def test_a_draft_without_room_comes_with_the_cache_that_makes_room() -> None:
    """Qwen2.5-Coder-32B in Q4_K_M fills an RTX 3090 at 16k; a cache in Q8_0 leaves room for a draft model."""
    question = {"engine": "llamacpp", "weights": "q4_k_m", "context": 16384}
    question["rate"] = {"qwen2.5-coder-0.5b": 0.7}
    full = advise("qwen2.5-coder-32b", "rtx-3090", **question)
    assert full.chosen.gamma == 0
    (remedy,) = full.remedies
    assert remedy.switch == "--kv-dtype q8_0"
    smaller = advise("qwen2.5-coder-32b", "rtx-3090", kv_dtype="q8_0", **question)
    assert smaller.chosen.gamma == remedy.gamma
    assert full.chosen.tpot_s / smaller.chosen.tpot_s == pytest.approx(remedy.speedup)
