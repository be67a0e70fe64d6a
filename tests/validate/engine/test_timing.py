"""A step that no engine makes is refused where it is read, whatever format it came in."""

from typing import Any

import pytest

from perfmodel.answers.query import Query
from perfmodel.errors import InputError
from perfmodel.validate.engine.acceptance import vllm
from perfmodel.validate.engine.record import EngineSubject
from perfmodel.validate.engine.timing import Timing

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


@pytest.mark.parametrize("rates", ["0.5.5", "1.5, 0.2", ", ,", "."])
def test_a_log_line_of_vllm_states_rates(rates: str) -> None:
    line = f"SpecDecoding metrics: Accepted: 10 tokens, Drafted: 20 tokens, Per-position acceptance rate: {rates}, Avg"
    with pytest.raises(InputError, match="SpecDecoding metrics"):
        vllm.read("x.txt", line)


@pytest.mark.parametrize("version", ["../../x", "", "1.0\n", "a b", "-1", "x" * 100])
def test_an_engines_version_names_a_file(version: str) -> None:
    query = Query("llama-3.1-8b", "h100", 1, 1000, alpha=0.5)
    assert EngineSubject.of(query, "vllm", "0.32.0.dev12+gabc").engine_version == "0.32.0.dev12+gabc"
    with pytest.raises(InputError, match="--engine, --version: engine_version"):
        EngineSubject.of(query, "vllm", version)
