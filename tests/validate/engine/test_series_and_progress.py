"""Figures of a running server: exported time series, and llama.cpp's lines about an unfinished request."""

import pytest

from perfmodel.validate.engine.formats import read_pasted
from perfmodel.validate.engine.pastes import PromptTiming, form_of
from perfmodel.validate.engine.text import plain
from perfmodel.validate.engine.timing import GivenFacts
from tests.refusals import refused
from tests.validate.engine.pasting import sample

ROWS = "1763632800,16,1410\n1763632810,16,1400\n"


@pytest.mark.parametrize(
    "head",
    [
        "timestamp,num_running,gen_tps",
        "Time,vllm:num_requests_running,vllm:generation_tokens_rate",
        "elapsed (s);active requests;output tok/s",
        "Time\trunning\tthroughput",
    ],
)
def test_columns_of_a_time_series_have_several_names(head: str) -> None:
    separator = next(mark for mark in "\t;," if mark in head)
    text = plain(f"{head}\n{ROWS.replace(',', separator)}")
    (timing,) = read_pasted("-", text, GivenFacts(input=500))
    assert (timing.batch, timing.gamma, timing.seconds) == (16, 0, pytest.approx(16 / 1405, rel=1e-3))
    assert "averages over intervals" in form_of(text).note(text, GivenFacts())


def test_a_time_series_of_mean_lengths_and_one_of_an_idle_server() -> None:
    text = plain("ts,running,gen_tps,mean_accept_len\n1,4,400,2.4\n2,4,400,2.6\n")
    (timing,) = read_pasted("-", text, GivenFacts(input=500, gamma=3))
    assert (timing.tokens_per_iteration, timing.seconds) == (2.5, 2.5 * 0.01)
    idle = plain("ts,running,gen_tps\n1,0,0\n2,0,0\n")
    refused("gen_tps: must be above 0 in a row with running requests", read_pasted, "-", idle, GivenFacts())
    rates = plain("ts,gen_tps\n1,100\n2,100\n")
    (timing,) = read_pasted("-", rates, GivenFacts(input=500, batch=2))
    assert timing.seconds == 0.02


def test_progress_of_llama_cpp_gives_the_prompt_too_and_yields_to_the_times_of_a_request() -> None:
    text = sample("llama_progress")
    assert form_of(text).prompts("-", text) == [PromptTiming(4072, 0.0, 3.4)]
    finished = text + sample("llama_server_log")
    assert form_of(finished).title == "log of llama.cpp's server"
    begun = text.splitlines()[0]
    refused("add the lines 'eval time' that the server prints", read_pasted, "-", begun, GivenFacts())
