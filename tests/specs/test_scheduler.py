"""How prompts and decoding share the passes of an engine, by its version."""

import pytest

import perfmodel as pm
from perfmodel.answers.load.closed_form_range import Doubt
from perfmodel.answers.load.traffic_query import TrafficQuery

QUESTION = {"model": "llama-3.1-8b", "hardware": "a100-sxm-80gb", "input_len": 500, "output_len": 300}


@pytest.mark.parametrize(
    ("engine", "first"), [("vllm@0.7.3", True), ("vllm@0.8", False), ("vllm", False), ("sglang", False)]
)
def test_vllm_before_v1_answers_prompts_before_it_decodes(engine, first) -> None:
    (row,) = pm.traffic(**QUESTION, engine=engine, request_rate=1, gamma=0, output_std=100).rows
    assert (Doubt.PROMPTS_FIRST in row.doubts) == first
    assert (row.made_by == "replay") == first


def test_prompts_first_is_slower_per_token() -> None:
    question = QUESTION | {"request_rate": 5, "gamma": 0, "output_std": 100, "replay": True}
    mixed, first = (
        pm.traffic(**question, engine="vllm", schedule=order).rows[0] for order in ("mixed", "prompts_first")
    )
    assert first.tpot_s.mean > 1.03 * mixed.tpot_s.mean


@pytest.mark.parametrize(
    ("engine", "hardware", "tokens"),
    [
        ("vllm", "a100-sxm-80gb", 2048),
        ("vllm", "h100", 8192),
        ("sglang", "l40s", 4096),
        ("sglang", "h100", 8192),
        ("sglang", "b200", 16384),
        ("trtllm", "h100", 8192),
    ],
)
def test_a_pass_has_the_budget_of_the_engine_and_the_device(engine, hardware, tokens) -> None:
    question = QUESTION | {"hardware": hardware, "request_rate": 1, "engine": engine}
    assert TrafficQuery(**question).limits.max_num_batched_tokens == tokens
    assert TrafficQuery(**question, max_num_batched_tokens=512).limits.max_num_batched_tokens == 512
