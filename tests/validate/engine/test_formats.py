"""Benchmark files: those that programs wrote, those in the formats of their sources (files/README.md), runs
by hand.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from perfmodel.validate.engine.formats import FORMATS, read
from perfmodel.validate.engine.pastes.serving_block import BLOCK_TITLE, ServingBlock
from perfmodel.validate.engine.timing import GivenFacts, Timing
from tests.refusals import refused

FILES = Path(__file__).parent / "files"


@pytest.mark.parametrize(
    ("name", "given", "steps"),
    [
        # batch, context, K, tokens per iteration, seconds: by hand from the files
        ("vllm-serve-plain-1.json", {}, [(1, 512 + 32, 0, 1.0, 0.00802)]),
        ("vllm-serve-plain-2.json", {}, [(2, 512 + 32, 0, 1.0, 0.00799)]),
        ("vllm-serve-plain-4.json", {}, [(4, 512 + 32, 0, 1.0, 0.0078)]),
        ("vllm-serve-draft3-1.json", {}, [(1, 512 + 64, 3, 508 / 168, 0.01621)]),
        (
            "vllm-serve-draft3-4.json",
            {},
            [(4, 512 + 64, 3, 2032 / 677, 0.02352)],
        ),  # 0.0325 by its TPOT: prefill is in it
        ("vllm-serve-ngram4-1.json", {}, [(1, 256 + 64, 4, 508 / 114, 0.0073)]),
        ("vllm-forward.json", {}, [(32, 8192, 0, 1.0, 0.0062105), (32, 8192, 3, 1.0, 0.006905)]),
        (
            "sglang-serving.jsonl",
            {},
            [(8, 1024 + 128, 0, 1.0, 0.0175), (8, 1024 + 128, 3, 2.42, 2.42 * 0.0098)],
        ),
        ("llama-bench.json", {}, [(1, 4096 + 64, 0, 1.0, 0.013)]),
        ("llama-batched-bench.jsonl", {}, [(1, 512 + 64, 0, 1.0, 0.0125), (8, 512 + 64, 0, 1.0, 0.01875)]),
        ("llama-server.jsonl", {"gamma": 3}, [(1, 612, 3, 2.0, 0.019), (1, 562, 3, 2.0, 0.0186)]),
        (
            "guidellm.json",
            {"gamma": 3, "accepted": 1.0},
            [(1, 152, 3, 1.0, 0.02101), (2, 152, 3, 1.0, 0.02519)],
        ),
        ("aiperf.json", {"gamma": 3}, [(2, 152, 3, 2.9147, 0.08897)]),
        ("printed.txt", {}, [(8, 1024 + 128, 3, 2.5, 2.5 * 0.02)]),
        ("llmd-report.yaml", {}, [(16, 2048 + 128, 0, 1.0, 0.0125)]),
        # 121 of 180 drafted tokens accepted, so 79 iterations for 200 tokens
        ("lm-studio.json", {"gamma": 3}, [(1, 24 + 100, 3, 200 / 79, 200 / 79 / 51.43)]),
        ("ollama.json", {}, [(1, 26 + 145, 0, 1.0, 4.709213 / 290)]),
    ],
)
def test_what_a_file_times(name, given, steps) -> None:
    read_steps = read(FILES / name, GivenFacts(**given))
    step_figures = [(t.batch, t.context, t.gamma, t.tokens_per_iteration, t.seconds) for t in read_steps]
    assert step_figures == [pytest.approx(step, rel=2e-3) for step in steps]


SERVED = json.loads((FILES / "vllm-serve-draft3-1.json").read_text())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        "[1]",
        "{",
        "[" * 100_000,
        '{"kind": "engine", "points": []}',
        json.dumps(SERVED | {"median_tpot_ms": "x"}),
        json.dumps(SERVED | {"itls": None, "output_lens": 7}),
        json.dumps(SERVED | {"spec_decode_per_position_acceptance_rates": [0.5, 0.9]}),
    ],
)
def test_what_is_no_benchmark_is_refused(tmp_path, text) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    refused(r"x\.json", read, path, GivenFacts())
    refused("no file of this name", read, tmp_path / "none.json", GivenFacts())


def test_two_printed_blocks_are_two_runs_and_a_cut_one_is_refused(tmp_path) -> None:
    text = (FILES / "printed.txt").read_text()
    path = tmp_path / "log.txt"
    other = text.replace("Maximum request concurrency:             8", "Max request concurrency: 4")
    path.write_text(text + other.replace("21.50", "43.00"))
    assert [t.batch for t in read(path, GivenFacts())] == [8, 4]
    path.write_text(text[: text.index("Median TPOT")])
    refused(r"log\.txt: median_tpot_ms: must be a number", read, path, GivenFacts())


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("vllm-serve-plain-4.json", {"max_concurrency": 4000}),
        ("vllm-serve-plain-4.json", {"max_concurrency": 1}),
        ("vllm-serve-plain-4.json", {"output_lens": [640] * 16, "total_output_tokens": 10240}),
        ("sglang-serving.jsonl", {"total_output_tokens": 61440}),
        ("sglang-serving.jsonl", {"max_concurrency": 2}),
    ],
)
def test_a_load_that_the_times_contradict_is_refused(tmp_path, name, change) -> None:
    """1000 times the clients, ten times the tokens: 4 were in flight by their times, whatever is stated."""
    run = json.loads((FILES / name).read_text().splitlines()[0])
    path = tmp_path / name
    path.write_text(json.dumps(run))
    assert read(path, GivenFacts())
    path.write_text(json.dumps(run | change))
    refused(
        "concurrency: must agree with the times: .* in flight on average, given", read, path, GivenFacts()
    )


def test_an_answer_is_in_flight_for_its_first_token_and_the_gaps_after_it(tmp_path) -> None:
    """10 answers of 3 tokens in 2 s: 10 x (400 + 2 x 200) ms / 2 s are 4 in flight."""
    run = json.loads((FILES / "vllm-serve-plain-4.json").read_text())
    times = {"duration": 2.0, "mean_ttft_ms": 400.0, "mean_tpot_ms": 200.0}
    answers = {"completed": 10, "output_lens": [3] * 10, "total_output_tokens": 30, "max_concurrency": 9}
    path = tmp_path / "run.json"
    path.write_text(json.dumps(run | times | answers))
    refused("10 answers of 3 tokens in 2 s are 4 in flight on average, given 9", read, path, GivenFacts())


GOOD: dict[str, Any] = {"where": "x.json", "seconds": 0.01, "batch": 4.0, "context": 1000.0, "gamma": 3}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("seconds", 0.0),
        ("seconds", float("nan")),
        ("seconds", 1e6),
        ("batch", 0.0),
        ("batch", float("inf")),
        ("context", -1.0),
        ("gamma", 4097),
        ("tokens_per_iteration", 0.5),
        ("prompt", 1e10),
        ("ttft_s", float("nan")),
        ("prefill_share", 1.1),
        ("samples", (0.1, float("nan"))),
    ],
)
def test_an_impossible_step_is_one_line(name, value) -> None:
    refused(rf"x.json: {name}(\.1)?: must be", Timing.checked, **GOOD | {name: value})


RUNS: dict[str, dict[str, Any]] = {
    "vllm_serve": {
        "max_concurrency": 8,
        "endpoint_type": "openai",
        "duration": 2.0,
        "completed": 4,
        "median_tpot_ms": 20,
        "total_input_tokens": 400,
        "total_output_tokens": 204,
    },
    "sglang": {
        "accept_length": None,
        "median_tpot_ms": 20.0,
        "median_ttft_ms": 100.0,
        "completed": 4,
        "total_input_tokens": 400,
        "total_output_tokens": 200,
        "concurrency": 2.5,
    },
    "sglang_costs": {"sample_batch_tokens": [8, 64], "sample_steps_per_sec": [100, 50]},
    "sglang_speculative": {
        "batch_size": 2,
        "steps": 3,
        "topk": 1,
        "num_draft_tokens": 4,
        "acc_length": 2.5,
        "step_time": 0.01,
    },
    "vllm_forward": {"median_us": 5000, "requests": [{"query_len": 1, "kv_len": 2, "num_draft_tokens": 0}]},
    "llama_bench": {"n_gen": 100, "avg_ns": 2e9, "n_prompt": 0},
    "llama_server": {"predicted_n": 101, "predicted_ms": 930.0, "prompt_n": 512},
    "aiperf": {
        "inter_token_latency": {"unit": "s", "p50": 0.02},
        "input_config": {"concurrency": 1},
        "time_to_first_token": {"unit": "sec", "p50": 0.5},
        "input_sequence_length": {"avg": 100},
        "output_sequence_length": {"avg": 50},
        "request_count": {"avg": 9},
    },
    "guidellm": {"metadata": {}, "benchmarks": []},
    "llmd": {"scenario": {}, "run": {}, "results": {}},
}


def test_a_format_is_told_by_all_of_its_keys() -> None:
    for name, run in RUNS.items():
        assert [known for known, form in FORMATS.items() if form.has(run)] == [name]
        told_by = [keys for keys in FORMATS[name].keys if keys <= run.keys()]
        for key in set().union(*told_by):
            without = {other: value for other, value in run.items() if other != key}
            assert not FORMATS[name].has(without), (name, key)


def one(*at: int, drafted: int = 0) -> dict[str, Any]:
    query, kv = at
    return {"query_len": query, "kv_len": kv, "num_draft_tokens": drafted}


def step(**figures: object) -> dict[str, object]:
    """What a run says of its step; figures that are not named have their usual values."""
    usual = {
        "gamma": 0,
        "tokens_per_iteration": 1,
        "seconds": 0.02,
        "prompt": 100,
        "output": 50,
        "prefill_share": 0,
    }
    return usual | figures


@pytest.mark.parametrize(
    ("name", "change", "given", "expected"),
    [
        ("vllm_serve", {}, {}, step(batch=4, context=125.5, output=51)),
        (
            "vllm_serve",
            {"max_concurrency": 3, "median_ttft_ms": 1000, "duration": 3},
            {},
            step(batch=3, context=125.5, output=51, prefill_share=2 / 2.02),
        ),
        (
            "vllm_serve",
            {"max_concurrency": None, "latencies": [1.0, 2.0]},
            {},
            step(batch=1.5, context=125.5, output=51),
        ),
        ("vllm_serve", {"max_concurrency": None}, {"batch": 2}, step(batch=2, context=125.5, output=51)),
        (
            "vllm_serve",
            {"input_lens": [10, 30], "output_lens": [60, 40]},
            {},
            step(batch=4, context=45, prompt=20),
        ),
        ("sglang", {}, {}, step(batch=2.5, context=125, prefill_share=1.5 * 0.1 / 1.1)),
        ("sglang", {"max_concurrency": 5}, {"batch": 3}, step(batch=4, context=125)),
        ("sglang", {}, {"batch": 4}, step(batch=4, context=125)),
        (
            "sglang",
            {"accept_length": 2.0, "max_concurrency": 4},
            {"gamma": 1},
            step(batch=4, context=125, gamma=1, tokens_per_iteration=2, seconds=0.04),
        ),
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
        ("aiperf", {}, {}, step(batch=1, context=125)),
        (
            "aiperf",
            {"input_config": {"concurrency": 0, "a": [{}, {"b": {"concurrency": 3}}]}},
            {},
            step(batch=3, context=125, prefill_share=1.0 / 1.5),
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


FAILED = {
    "vllm-serve-plain-1.json": ('"failed":0', '"failed":1'),
    "vllm-serve-plain-2.json": ('"failed":0', '"failed":0,"errors":["","503"]'),
    "printed.txt": ("Failed requests:                         0", "Failed requests:     1"),
    "guidellm.json": ('"metrics": {', '"metrics": {"request_totals": {"errored": 1},'),
    "aiperf.json": ('"request_count": {', '"error_request_count": {"avg": 1.0},"request_count": {'),
    "llmd-report.yaml": ("failures: 0", "failures: 1"),
    "sglang-serving.jsonl": ('"completed": 24', '"errors": ["refused"], "completed": 24'),
}


@pytest.mark.parametrize("name", FAILED)
def test_a_run_with_failed_requests_is_refused(name: str, tmp_path: Path) -> None:
    text = (FILES / name).read_text(encoding="utf-8")
    path = tmp_path / name
    before, after = FAILED[name]
    assert before in text
    path.write_text(text.replace(before, after, 1), encoding="utf-8")
    refused(
        "must be 0 failed requests .the others shared a smaller batch., given 1", read, path, GivenFacts()
    )


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
    ("name", "change", "says"),
    [
        ("llama_server", {"predicted_n": 1}, "below predicted_n"),
        ("guidellm", {"benchmarks": {}}, "one or more benchmarks"),
    ],
)
def test_a_run_without_a_step_is_refused(name, change, says) -> None:
    given = GivenFacts(batch=1, input=1, output=1)
    refused(says, FORMATS[name].read, "x", RUNS[name] | change, given)


@pytest.mark.parametrize(
    ("tokens", "gaps", "seconds"),
    [
        (94, [0.01], 0.02),
        (96, [0.01], 0.01),
        (104, [0.01], 0.01),
        (106, [0.01], 0.02),
        (100, [0.0, 0.01], 0.02),  # a client without a processor finds two chunks at a time
    ],
)
def test_chunks_within_five_percent_of_what_an_iteration_gains_are_one_each(tokens, gaps, seconds) -> None:
    chunks = gaps * (100 // len(gaps))
    run = RUNS["vllm_serve"] | {"itls": [chunks], "output_lens": [tokens, 1, 1, 2]}
    (t,) = FORMATS["vllm_serve"].read("x", run, GivenFacts())
    assert t.seconds == seconds
    assert t.tokens_per_iteration == 1.0


def test_accepted_tokens_of_a_printed_block_need_a_draft_length() -> None:
    """Stated, or tokens over drafts."""
    printed = {
        "Successful requests": 2,
        "Max request concurrency": 2,
        "Benchmark duration (s)": 3,
        "Median TPOT (ms)": 20,
        "Total input tokens": 20,
        "Total generated tokens": 20,
        "Accept length": 2.5,
    }

    def step(gamma: int | None = None, **more: float) -> tuple[float, ...]:
        lines = [f"\n{name}:  {value}" for name, value in (printed | more).items()]
        text = BLOCK_TITLE + "".join(lines)
        (t,) = ServingBlock().read("x", text, GivenFacts(gamma=gamma))
        return t.gamma, t.tokens_per_iteration, t.seconds

    refused("x: gamma: must be stated, as in --from x,gamma=N", step)
    assert step(**{"Accept length": 1.0}) == (0, 1.0, 0.02)
    assert step(3) == (3, 2.5, 0.05)
    assert step(None, **{"Drafts": 10, "Draft tokens": 38}) == (4, 2.5, 0.05)
    twice = step(3, **{"Peak requests": 9, "median TPOT (ms)": 50})
    assert twice == (3, 2.5, 0.05), "of a line that is there twice the first"
