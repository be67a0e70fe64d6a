"""The results of clients that load a server: its requests in flight, and the chunks of its answers."""

import json
from pathlib import Path

import pytest

from perfmodel.validate.engine.formats import FORMATS, read
from perfmodel.validate.engine.timing import GivenFacts
from tests.refusals import refused
from tests.validate.engine.runs_by_hand import RUNS, step

FILES = Path(__file__).parent / "files"


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
            "trtllm_bench",
            {},
            {},
            step(seconds=0.0073, batch=3.9, prompt=512, output=256, prefill_share=2.9 * 0.035 / 1.9038),
        ),
        (
            "trtllm_bench",
            {"decoding_stats": {"acceptance_length_percentiles": {"average": 2.5}}},
            {"gamma": 3, "batch": 4},
            step(
                seconds=2.5 * 0.0073,
                batch=4,
                gamma=3,
                tokens_per_iteration=2.5,
                prompt=512,
                output=256,
                prefill_share=3 * 0.035 / 1.9038,
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
