"""Smaller formats of weights and cache beside the choice under a load."""

import re

import pytest

from perfmodel.answers.advice.advise import advise
from tests.answers.advise.loads import alternative

KIMI = {"clients": 64, "input_len": 40_960, "output_len": 1024, "prefix_len": 30_720}


@pytest.mark.slow
def test_the_headline_names_the_format_whose_draft_turns_the_verdict_of_a_load() -> None:
    """As without a load, with the interval of the gain."""
    answer = advise("kimi-k2.5", "8xb200", **KIMI)
    assert answer.verdict == "do_not_speculate"
    said = re.search(
        r"; with --model nvidia/Kimi-K2\.5-NVFP4 (\d\.\d\d) times as good \((.*) to (.*)\): eagle3, gamma \d",
        answer.headline(),
    )
    gain, low, high = map(float, said.groups())
    assert low < gain < high
    assert answer.run_first is None


def test_a_checkpoint_that_a_path_names_has_its_own_cache_format() -> None:
    """nvidia/Kimi-K2.5-NVFP4 declares an FP8 cache, and so does this checkpoint of Qwen3-32B."""
    nvfp4 = advise("kimi-k2.5", "8xb200", **KIMI, weights="nvfp4", model_path="nvidia/Kimi-K2.5-NVFP4")
    assert nvfp4.query.kv_dtype == "fp8"
    question = {"weights": "fp8", "batch": (1,), "draft": ["ngram"]}
    static = "Qwen/Qwen3-32B-FP8-Static-PerTensor"
    other = advise("qwen3-32b", "h100", **question, model_path=static)
    plain = advise("qwen3-32b", "h100", **question, model_path="Qwen/Qwen3-32B-FP8")
    assert other.chosen.kv_cache.kv_tokens > 1.9 * plain.chosen.kv_cache.kv_tokens


def test_smaller_weights_that_add_nothing_to_a_smaller_cache_are_not_named() -> None:
    answer = advise("qwen3-8b", "8xa100", input_len=3072, output_len=300)
    alternative(answer, "with --kv-dtype fp8 ")
    assert not [each.text for each in answer.alternatives if "--weights fp8 --kv-dtype fp8" in each.text]
