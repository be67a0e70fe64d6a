"""Runs of every benchmark by hand: what is left out, what stands at a limit, and what is no run of theirs."""

from typing import Any

import pytest

from perfmodel.errors import InputError
from perfmodel.validate.engine.formats import modules, printed_block
from perfmodel.validate.engine.formats.fields import bunched, interference, of_client, thinned
from perfmodel.validate.engine.text import floats, is_count
from perfmodel.validate.engine.timing import Said, Timing, speculation

RUNS: dict[str, dict[str, Any]] = {
    "vllm_serve": {"max_concurrency": 8, "endpoint_type": "openai", "duration": 2.0, "completed": 4,
                   "median_tpot_ms": 20, "total_input_tokens": 400, "total_output_tokens": 204},
    "sglang_serving": {"accept_length": None, "median_tpot_ms": 20.0, "median_ttft_ms": 100.0, "completed": 4,
                       "total_input_tokens": 400, "total_output_tokens": 200, "concurrency": 2.5},
    "vllm_forward": {"median_us": 5000, "requests": [{"query_len": 1, "kv_len": 2, "num_draft_tokens": 0}]},
    "llama_bench": {"n_gen": 100, "avg_ns": 2e9, "n_prompt": 0},
    "llama_server": {"predicted_n": 101, "predicted_ms": 930.0, "prompt_n": 512},
    "inferencex": {"conc": 4, "median_tpot": 0.02, "isl": 100, "osl": 50},
    "aiperf": {"inter_token_latency": {"unit": "s", "p50": 0.02}, "input_config": {"concurrency": 1},
               "time_to_first_token": {"unit": "sec", "p50": 0.5}, "input_sequence_length": {"avg": 100},
               "output_sequence_length": {"avg": 50}, "request_count": {"avg": 9}},
    "vllm_latency": {"avg_latency": 1.0, "latencies": [1.0, 2.0, 4.0]},
    "guidellm": {"metadata": {}, "benchmarks": []},
    "llmd_report": {"scenario": {}, "run": {}, "results": {}},
}  # fmt: skip
TOLD = {
    "vllm_serve": ("max_concurrency", "endpoint_type", "duration"),
    "sglang_serving": ("accept_length", "median_tpot_ms"),
    "vllm_forward": ("median_us", "requests"),
    "llama_bench": ("n_gen", "avg_ns"),
    "llama_server": ("predicted_ms",),
    "inferencex": ("conc", "median_tpot"),
    "aiperf": ("inter_token_latency", "input_config"),
    "vllm_latency": ("avg_latency", "latencies"),
    "guidellm": ("metadata", "benchmarks"),
    "llmd_report": ("scenario", "run", "results"),
}
"""Format -> the keys that tell it, all of them."""


def test_a_format_is_told_by_all_of_its_keys() -> None:
    known = modules()
    for name, run in RUNS.items():
        assert known[name].is_format(run), name
        for key in TOLD[name]:
            assert not known[name].is_format({k: v for k, v in run.items() if k != key}), (name, key)
    for key in ("t_tg", "pl"):
        assert not known["llama_bench"].is_format({key: 1})


def one(*at: int, drafted: int = 0) -> dict[str, Any]:
    query, kv = at
    return {"query_len": query, "kv_len": kv, "num_draft_tokens": drafted}


@pytest.mark.parametrize(("name", "change", "said", "step"), [
    # batch, context, K, tokens per iteration, seconds, prompt, output, share of prefill
    ("vllm_serve", {}, {}, (4, 125.5, 0, 1, 0.02, 100, 51, 0)),
    ("vllm_serve", {"max_concurrency": 3, "median_ttft_ms": 1000}, {}, (3, 125.5, 0, 1, 0.02, 100, 51, 2 / 2.02)),
    ("vllm_serve", {"max_concurrency": None, "latencies": [1.0, 2.0]}, {}, (1.5, 125.5, 0, 1, 0.02, 100, 51, 0)),
    ("vllm_serve", {"max_concurrency": None}, {"batch": 2}, (2, 125.5, 0, 1, 0.02, 100, 51, 0)),
    ("vllm_serve", {"input_lens": [10, 30], "output_lens": [60, 40]}, {}, (4, 45, 0, 1, 0.02, 20, 50, 0)),
    ("sglang_serving", {}, {}, (2.5, 125, 0, 1, 0.02, 100, 50, 1.5 * 0.1 / 1.1)),
    ("sglang_serving", {"max_concurrency": 5}, {"batch": 3}, (4, 125, 0, 1, 0.02, 100, 50, 0)),
    ("sglang_serving", {}, {"batch": 4}, (4, 125, 0, 1, 0.02, 100, 50, 0)),
    ("sglang_serving", {"accept_length": 2.0, "max_concurrency": 4}, {"gamma": 1}, (4, 125, 1, 2, 0.04, 100, 50, 0)),
    ("vllm_forward", {}, {}, (1, 1, 0, 1, 0.005, None, None, 0)),
    ("vllm_forward", {"requests": [one(1, 5), one(1, 9)], "ranks": []}, {}, (2, 6, 0, 1, 0.005, None, None, 0)),
    ("llama_bench", {}, {}, (1, 50, 0, 1, 0.02, 0, 100, 0)),
    ("llama_server", {}, {}, (1, 562, 0, 1, 0.0093, 512, 101, 0)),
    ("llama_server", {"cache_n": 88}, {"batch": 4}, (4, 650, 0, 1, 0.0093, 600, 101, 0)),
    ("llama_server", {"draft_n": 99, "draft_n_accepted": 99}, {"gamma": 99}, (1, 562, 99, 100, 0.93, 512, 101, 0)),
    ("inferencex", {}, {}, (4, 125, 0, 1, 0.02, 100, 50, 0)),
    ("inferencex", {"isl": None, "osl": None, "median_ttft": 1.0}, {"input": 20, "output": 10}, (4, 25, 0, 1, 0.02, 20,
     10, 1)),
    ("aiperf", {}, {}, (1, 125, 0, 1, 0.02, 100, 50, 0)),
    ("aiperf", {"input_config": {"concurrency": 0, "a": [{}, {"b": {"concurrency": 3}}]}}, {}, (3, 125, 0, 1, 0.02, 100,
     50, 1.0 / 1.5)),
    ("vllm_latency", {}, {"batch": 8, "input": 100, "output": 50}, (8, 125, 0, 1, 2.0, 100, 50, 0)),
])  # fmt: skip
def test_a_run_by_hand(name: str, change: dict[str, Any], said: dict[str, Any], step: tuple[float, ...]) -> None:
    (t,) = modules()[name].read("x", RUNS[name] | change, Said(**said))
    found = t.batch, t.context, t.gamma, t.tokens_per_iteration, t.seconds, t.prompt, t.output, t.prefill_share
    assert found == pytest.approx(step)


@pytest.mark.parametrize(("name", "change"), [
    ("llama_bench", {"n_gen": 0}), ("llama_bench", {"n_prompt": 1}),
    ("llama_bench", {"pl": 1, "t_tg": 1.0, "tg": 0, "pp": 1}),
    ("vllm_forward", {"requests": [one(1, 1)]}), ("vllm_forward", {"requests": [one(2, 9)]}),
    ("vllm_forward", {"requests": [one(1, 9), one(2, 9, drafted=1)]}),
])  # fmt: skip
def test_what_is_no_decoding_step_is_passed_over(name: str, change: dict[str, Any]) -> None:
    assert modules()[name].read("x", RUNS[name] | change, Said()) == []


def test_a_verified_pass_says_whether_the_draft_is_in_it() -> None:
    """By rank 0, which may say its samples too."""
    ranks = [{"timing_scope": "target_and_drafter", "latency_us": {"samples_us": [4e6, 6e6]}}, {}]
    run = RUNS["vllm_forward"] | {"requests": [one(3, 10, drafted=2)], "ranks": ranks}
    (t,) = modules()["vllm_forward"].read("x", run, Said())
    assert (t.kind, t.gamma, t.context, t.samples) == ("pass_with_draft", 2, 7, (4.0, 6.0))


@pytest.mark.parametrize(("tokens", "chunked"), [(94, False), (96, True), (104, True), (106, False)])
def test_chunks_within_five_percent_of_what_an_iteration_gains_are_one_each(tokens: int, chunked: bool) -> None:
    run = RUNS["vllm_serve"] | {"itls": [[0.01] * 100], "output_lens": [tokens, 1, 1, 2]}
    (t,) = modules()["vllm_serve"].read("x", run, Said())
    assert (t.seconds, t.tokens_per_iteration) == (0.01 if chunked else 0.02, 1.0)


def test_accepted_tokens_of_a_printed_block_need_a_draft_length() -> None:
    """Stated, or tokens over drafts."""
    printed = {"Successful requests": 2, "Max request concurrency": 2, "Benchmark duration (s)": 3,
               "Median TPOT (ms)": 20, "Total input tokens": 20, "Total generated tokens": 20,
               "Accept length": 2.5}  # fmt: skip

    def step(gamma: int | None = None, **more: float) -> tuple[float, ...]:
        text = printed_block.HEAD + "".join(f"\n{name}:  {value}" for name, value in (printed | more).items())
        (t,) = printed_block.read("x", text, Said(gamma=gamma))
        return t.gamma, t.tokens_per_iteration, t.seconds

    assert step() == (0, 1.0, 0.02)
    assert step(3) == (3, 2.5, 0.05)
    assert step(None, **{"Drafts": 10, "Draft tokens": 38}) == (4, 2.5, 0.05)


@pytest.mark.parametrize(("said", "accepted", "gamma", "found"), [
    ({}, 1.0, None, (0, 1.0)), ({"gamma": 3}, 4.0, None, (3, 4.0)), ({"gamma": 3}, 1.0, None, (3, 1.0)),
    ({"gamma": 3, "accepted": 2.0}, None, 3, (3, 2.0)), ({"gamma": 1}, None, 0, "gamma: must be 0"),
    ({}, 1.01, None, "gamma: must be stated"), ({"gamma": 3}, 4.01, None, r"from 1 to gamma \+ 1 = 4"),
    ({"gamma": 3}, 0.99, None, r"from 1 to gamma \+ 1 = 4"),
])  # fmt: skip
def test_draft_length_and_tokens_per_iteration(said: dict, accepted: float, gamma: int, found: Any) -> None:
    if isinstance(found, tuple):
        assert speculation("x", Said(**said), accepted, gamma) == found
    else:
        with pytest.raises(InputError, match=found):
            speculation("x", Said(**said), accepted, gamma)


def test_figures_at_their_limits() -> None:
    assert [is_count(value) for value in (0, 1e18, 1.1e18, -1, True, "1")] == [True, True, False, False, False, False]
    assert str(floats(["1", "x"])) == "[nan, nan]"
    assert thinned(range(200)) == tuple(range(200))
    many = thinned(range(399))
    assert (len(many), many[:3], many[-1]) == (200, (0, 2, 4), 398)
    assert not bunched([0.0] + [1.0] * 19), "a twentieth"
    assert bunched([0.0] * 2 + [1.0] * 19)
    assert bunched([0.02] * 20 + [1.0] * 10 + [1.1] * 11), "2 % of the median are no gap, 2.9 % of the mean are one"
    assert interference(2, 3, 0.0, 0.01, 0.0, 1.0) == interference(0.5, 3, 0.1, 0.01, 9, 1.0) == 0.0
    assert of_client("x", 0.01, (0, 1.0), 2.0, (8, 8), None, 9.0).prefill_share == 0.0
    place: dict[str, Any] = {"where": "x", "seconds": 0.5, "batch": 2.0, "context": 10.0}
    assert Timing(**place, gamma=0, samples=(0.0, 1e5)).name == "B=2 S=10 baseline"
    assert Timing(**place, gamma=3, tokens_per_iteration=2.5).tpot_s == 0.2
    assert Timing(**place, gamma=3).name == "B=2 S=10 K=3"
