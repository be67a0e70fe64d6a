"""Benchmarks that time passes alone, without clients: those of vLLM, SGLang and llama.cpp."""

import pytest

from perfmodel.validate.engine.formats import FORMATS
from perfmodel.validate.engine.timing import GivenFacts
from tests.validate.engine.runs_by_hand import RUNS, one, step


def test_a_verified_pass_says_whether_the_draft_is_in_it() -> None:
    """By rank 0, which may say its samples too."""
    timed = {"timing_scope": "target_and_drafter", "latency_us": {"samples_us": [4e6, 6e6]}}
    run = RUNS["vllm_forward"] | {"requests": [one(3, 10, drafted=2)], "ranks": [timed, {}]}
    (t,) = FORMATS["vllm_forward"].read("x", run, GivenFacts())
    assert t.kind == "pass_with_draft"
    assert t.gamma == 2
    assert t.context == 7
    assert t.samples == (4.0, 6.0)
    run = RUNS["llama_bench"] | {"samples_ns": [1e9, 3e9]}
    (t,) = FORMATS["llama_bench"].read("x", run, GivenFacts())
    assert t.samples == (0.01, 0.03)


@pytest.mark.parametrize(
    ("name", "change", "given", "expected"),
    [
        (
            "sglang_speculative",
            {},
            {"input": 100},
            step(batch=2, context=100.5, gamma=3, tokens_per_iteration=2.5, seconds=0.01, output=1),
        ),
        (
            "sglang_speculative",
            {"steps": 0, "topk": 0, "num_draft_tokens": 0, "acc_length": 1.0},
            {"input": 100},
            step(batch=2, context=100.5, seconds=0.01, output=1),
        ),
        ("vllm_forward", {}, {}, step(batch=1, context=1, seconds=0.005, prompt=None, output=None)),
        (
            "vllm_forward",
            {"requests": [one(1, 5), one(1, 9)], "ranks": []},
            {},
            step(batch=2, context=6, seconds=0.005, prompt=None, output=None),
        ),
        (
            "sglang_costs",
            {"sample_batch_tokens": [32], "sample_steps_per_sec": [50]},
            {"gamma": 7, "input": 100},
            step(batch=4, context=100, gamma=7, output=0),
        ),
        ("llama_bench", {}, {}, step(batch=1, context=50, prompt=0, output=100)),
        ("llama_server", {}, {}, step(batch=1, context=562, seconds=0.0093, prompt=512, output=101)),
        (
            "llama_server",
            {"cache_n": 88},
            {"batch": 4},
            step(batch=4, context=650, seconds=0.0093, prompt=600, output=101),
        ),
        (
            "llama_server",
            {"draft_n": 99, "draft_n_accepted": 99},
            {"gamma": 99},
            step(
                batch=1, context=562, gamma=99, tokens_per_iteration=100, seconds=0.93, prompt=512, output=101
            ),
        ),
    ],
)
def test_a_run_by_hand(name, change, given, expected) -> None:
    (timing,) = FORMATS[name].read("x", RUNS[name] | change, GivenFacts(**given))
    assert {figure: getattr(timing, figure) for figure in expected} == pytest.approx(expected)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("llama_bench", {"n_gen": 0}),
        ("llama_bench", {"n_prompt": 1}),
        ("llama_bench", {"pl": 1, "t_tg": 1.0, "tg": 0, "pp": 1}),
        ("vllm_forward", {"requests": [one(1, 1)]}),
        ("vllm_forward", {"requests": [one(2, 9)]}),
        ("vllm_forward", {"requests": [one(1, 9), one(2, 9)]}),
        ("vllm_forward", {"requests": [one(1, 9), one(2, 9, drafted=1)]}),
    ],
)
def test_what_is_no_decoding_step_is_passed_over(name, change) -> None:
    run = RUNS[name] | change
    assert FORMATS[name].read("x", run, GivenFacts()) == []
