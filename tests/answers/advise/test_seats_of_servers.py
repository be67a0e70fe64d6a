"""How many requests a server of `advise` runs at once."""

import shlex

import pytest

import perfmodel as pm
from perfmodel.answers.advice.advise import advise
from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.candidates import find_candidates
from perfmodel.answers.advice.served import _seats_for
from perfmodel.answers.advice.servers_needed import fitting_seats


@pytest.mark.parametrize(
    ("server", "load"),
    [
        ({"model": "llama-3.1-8b", "hardware": "2xrtx-4090"}, {"request_rate": 0.1, "input_len": 24_000}),
        (
            {"model": "qwen3-8b", "hardware": "2xh100", "slo": "tpot:40"},
            {"request_rate": 2, "input_len": 4000},
        ),
    ],
)
def test_at_a_rate_the_printed_line_and_the_traffic_command_have_the_same_seats(server, load) -> None:
    answer = pm.advise(**server, **load, output_len=500)
    line = shlex.split(answer.serve.lines["vllm"])
    command = shlex.split(answer.traffic_command)
    seats = [words[words.index("--max-num-seqs") + 1] for words in (line, command)]
    assert seats[0] == seats[1]


def test_a_shared_prefix_is_in_memory_once() -> None:
    """The memory holds P + n (C - h P) tokens: prefixes of P tokens, n requests with contexts of C tokens, of
    which the share h begins with the prefix.
    """
    held = []
    for hits in (1.0, 0.5, 0.1):
        load = {"clients": 8, "input_len": 30_000, "output_len": 500, "prefix_len": 24_000}
        asked = AdviseQuery("qwen3-8b", "h100", tp=1, context=30_250, prefix_hits=hits, **load)
        seats = fitting_seats(asked, find_candidates(asked).baselines[0], 0)
        held.append(seats * (30_250 - hits * 24_000))
    assert held == pytest.approx([held[0]] * 3, rel=0.06)


@pytest.mark.parametrize(("groups", "replicas", "seats"), [(1, 1, 10), (1, 2, 13), (2, 1, 14)])
def test_clients_that_a_router_divides_have_a_quarter_more_seats(
    groups: int, replicas: int, seats: int
) -> None:
    assert _seats_for(10, groups, replicas) == seats


def test_clients_wait_for_the_seats_that_the_question_states() -> None:
    load = {"clients": 256, "input_len": 1000, "output_len": 500, "max_num_seqs": 16}
    answer = advise("llama-3.1-8b", "2xh100", **load)
    assert answer.serve is not None
    assert "--max-num-seqs 16 " in answer.serve.lines["vllm"] + " "


def test_a_job_has_the_default_seats_where_more_of_them_gain_nothing() -> None:
    """Prompts take most of the time, so few of the 485 requests that fit in memory ever decode together."""
    job = {"hardware": "l40s", "weights": "fp8", "input_len": 500, "output_len": 10}
    answer = pm.advise("llama-3.1-8b", **job)
    assert "--max-num-seqs 256" in answer.serve.lines["vllm"]
    assert not any("more than the engine's default" in note for note in answer.warnings)
    more = pm.advise("llama-3.1-8b", **job, max_num_seqs=485)
    assert "--max-num-seqs 485" in more.serve.lines["vllm"]
    gained = more.chosen.throughput_tokens_per_s / answer.chosen.throughput_tokens_per_s
    assert gained < 1.01


def test_a_job_has_more_seats_than_the_default_where_they_gain() -> None:
    job = {"hardware": "l40s", "weights": "fp8", "input_len": 100, "output_len": 300, "draft": []}
    answer = pm.advise("qwen3-8b", **job)
    (note,) = (note for note in answer.warnings if "more than the engine's default of 256" in note)
    seats = note.partition(" ")[0]
    assert f"--max-num-seqs {seats} " in answer.serve.lines["vllm"] + " "
    default = pm.advise("qwen3-8b", **job, max_num_seqs=256)
    assert answer.chosen.throughput_tokens_per_s > 1.1 * default.chosen.throughput_tokens_per_s


def test_a_job_has_fewer_seats_where_a_full_server_preempts_requests() -> None:
    job = {"hardware": "l40s", "input_len": 1000, "output_len": 1000}
    answer = pm.advise("llama-3.1-8b", **job)
    assert not any("preemption" in note for note in answer.warnings)
    seats = answer.chosen.batch
    full = pm.advise("llama-3.1-8b", **job, max_num_seqs=2 * seats)
    assert any("preemption" in note for note in full.warnings)
    assert answer.chosen.throughput_tokens_per_s > full.chosen.throughput_tokens_per_s


def test_servers_without_a_draft_have_the_seats_that_the_warning_names() -> None:
    """A step of 10 sequences takes much longer than one of 8."""
    load = {"clients": 10, "input_len": 20_000, "output_len": 1000}
    answer = advise("gpt-oss-120b", "1xrtx-pro-6000", **load)
    assert any("a batch of 8 serves more without a draft than 10 " in note for note in answer.warnings)
    assert "--max-num-seqs 8" in answer.serve_option.lines["vllm"]
    more = advise("gpt-oss-120b", "1xrtx-pro-6000", **load, max_num_seqs=10)
    assert "--max-num-seqs 10" in more.serve_option.lines["vllm"]
    assert answer.baseline.throughput_tokens_per_s > 1.03 * more.baseline.throughput_tokens_per_s


def test_short_memory_has_a_seat_for_each_client_and_no_more() -> None:
    """The logits of the default of 1024 seats would leave memory for 16 requests."""
    load = {"clients": 24, "input_len": 3072, "output_len": 800}
    answer = advise("gpt-oss-120b", "1xh100", **load)
    assert answer.traffic_command.endswith(" --max-num-seqs 24")
    assert "--max-num-seqs 24 " in answer.serve.lines["vllm"]
    default = advise("gpt-oss-120b", "1xh100", **load, max_num_seqs=1024)
    assert answer.chosen.throughput_tokens_per_s > 1.4 * default.chosen.throughput_tokens_per_s
