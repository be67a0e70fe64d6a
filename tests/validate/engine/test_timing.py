"""A step that no engine makes is refused where it is read, whatever format it came in."""

from typing import Any

import pytest

from perfmodel.answers.query import Query
from perfmodel.errors import InputError
from perfmodel.validate.engine.acceptance import sglang, vllm
from perfmodel.validate.engine.formats import aiperf, vllm_forward, vllm_serve
from perfmodel.validate.engine.record import EngineSubject
from perfmodel.validate.engine.timing import Said, Timing

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
def test_an_impossible_step_is_one_line(name: str, value: object) -> None:
    with pytest.raises(InputError, match=f"x.json: {name}: must be from"):
        Timing(**GOOD | {name: value})


@pytest.mark.parametrize("itls", [5, "abc", {"a": 1}])
def test_vllm_serve_gaps_are_a_list(itls: object) -> None:
    run = {"completed": 4, "total_input_tokens": 40, "total_output_tokens": 40, "median_tpot_ms": 10.0, "itls": itls}
    with pytest.raises(InputError, match="itls: must be a list"):
        vllm_serve.read("x.json", [run | {"max_concurrency": 4}], Said(gamma=0))


def test_vllm_forward_ranks_are_a_list() -> None:
    requests = [{"query_len": 1, "kv_len": 100, "num_draft_tokens": 0}]
    with pytest.raises(InputError, match="ranks: must be a list"):
        vllm_forward.read("x.json", [{"median_us": 5.0, "requests": requests, "ranks": {"0": 1}}], Said())


def test_aiperf_units_and_depth() -> None:
    deep: Any = {"concurrency": 4}
    for _ in range(900):
        deep = {"a": deep}
    run = {"input_sequence_length": {"avg": 10}, "output_sequence_length": {"avg": 10}, "inter_token_latency": "x"}
    with pytest.raises(InputError, match=r"inter_token_latency\.unit: must be ms or s, given None"):
        aiperf.read("x.json", [run], Said())
    latency = {"unit": "ms", "p50": 10.0, "avg": 10.0}
    with pytest.raises(InputError, match="batch: must be stated"):
        aiperf.read("x.json", [run | {"inter_token_latency": latency, "input_config": deep}], Said())


@pytest.mark.parametrize("rates", ["0.5.5", "1.5, 0.2", ", ,", "."])
def test_a_log_line_of_vllm_states_rates(rates: str) -> None:
    line = f"SpecDecoding metrics: Accepted: 10 tokens, Drafted: 20 tokens, Per-position acceptance rate: {rates}, Avg"
    with pytest.raises(InputError, match="SpecDecoding metrics"):
        vllm.read("x.txt", line)


@pytest.mark.parametrize("length", ["1.2.3", "9" * 400])
def test_a_log_line_of_sglang_states_a_length(length: str) -> None:
    line = f"Decode batch, #running-req: 4, accept len: {length}, accept rate: 0.5, "
    with pytest.raises(InputError, match="accept len"):
        sglang.read("x.txt", line, 3)


@pytest.mark.parametrize("version", ["../../x", "", "1.0\n", "a b", "-1", "x" * 100])
def test_an_engines_version_names_a_file(version: str) -> None:
    query = Query("llama-3.1-8b", "h100", 1, 1000, alpha=0.5)
    assert EngineSubject.of(query, "vllm", "0.32.0.dev12+gabc").engine_version == "0.32.0.dev12+gabc"
    with pytest.raises(InputError, match="--engine, --version: engine_version"):
        EngineSubject.of(query, "vllm", version)
