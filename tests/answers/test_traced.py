"""What a trace leaves to say, and a replay that nobody asked for."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from perfmodel.answers.load.requests import left_out_note, replayed_trace
from perfmodel.answers.load.traced import trace_values
from perfmodel.answers.load.traffic import traffic
from perfmodel.answers.load.traffic_rows import Percentiles
from perfmodel.queueing.arrivals import Arrivals
from tests.refusals import refused

ASKED = {"model": "llama-3.1-8b", "hardware": "h100", "gamma": 0}


def trace(folder: Path, *rows: tuple[float, int, int]) -> str:
    """A file of requests: seconds, prompt and output tokens."""
    where = folder / "trace.csv"
    lines = ["arrival_s,prompt_tokens,output_tokens", *(",".join(map(str, row)) for row in rows)]
    where.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(where)


def test_a_trace_says_lengths_and_rate(tmp_path: Path) -> None:
    """Three requests over 4 s are 2 gaps: 0.5 a second; prompts 1000 on average."""
    path = trace(tmp_path, (1, 500, 90), (2, 1500, 110), (5, 1000, 100))
    alone = traffic(trace=path, **ASKED)
    stated = traffic(
        trace=path,
        input_len=1000,
        output_len=100,
        request_rate=0.5,
        input_std=408.25,
        output_std=8.165,
        **ASKED,
    )
    assert alone.rows[0].request_rate == 0.5
    assert alone.rows[0].tpot_s.mean == pytest.approx(stated.rows[0].tpot_s.mean, rel=1e-4)
    assert alone.replay == stated.replay


def test_a_burst_is_answered_by_as_many_clients(tmp_path: Path) -> None:
    (row,) = traffic(trace=trace(tmp_path, (7, 500, 1), (7, 1500, 1)), **ASKED).rows
    assert row.concurrency == 2
    assert row.request_rate is None
    assert row.output_tokens_per_s == pytest.approx(row.requests_per_s), "a token each"


def values_of(path: str, **stated: Any) -> dict[str, Any]:
    """What a question takes from its trace."""
    return trace_values(traffic.question(trace=path, **stated, **ASKED))


def test_what_a_question_states_is_not_taken_from_its_trace(tmp_path: Path) -> None:
    path = trace(tmp_path, (0, 500, 90), (2, 1500, 110))
    lengths = {"input_len": 1000, "input_std": 500, "output_len": 100, "output_std": 10}
    assert values_of(path) == {**lengths, "request_rate": (0.5,)}
    assert values_of(path, output_len=64).keys() == {"input_len", "input_std", "request_rate"}
    assert values_of(path, input_len=64).keys() == {"output_len", "output_std", "request_rate"}
    assert values_of(path, request_rate=3) == lengths
    assert values_of(path, max_concurrency=7) == lengths
    assert values_of(path, rollout=64) == lengths


def test_lengths_of_a_trace_are_spread_at_most_as_if_uniform(tmp_path: Path) -> None:
    """One prompt in ten is long: its deviation of 3000 around 1100 is cut at 1100 / sqrt(3). An output has
    two tokens or more, or it would have no TPOT.
    """
    rows = [(second, 100, 1) for second in range(9)]
    values = values_of(trace(tmp_path, *rows, (9, 10_100, 1)))
    assert values["input_len"] == 1100
    assert values["input_std"] == pytest.approx(1100 / 3**0.5)
    assert values["output_len"] == 2


def test_a_rate_of_a_trace_has_four_digits_and_a_file_that_changed_is_read_again(tmp_path: Path) -> None:
    path = trace(tmp_path, (0, 100, 10), (3, 100, 10))
    assert values_of(path)["request_rate"] == (0.3333,)
    assert trace(tmp_path, (0, 100, 10), (1, 100, 10), (2, 100, 10)) == path
    os.utime(path, (1, 1))
    assert values_of(path)["request_rate"] == (1.0,)


def test_a_request_of_a_trace_may_fill_all_positions_of_the_model(tmp_path: Path) -> None:
    fits = trace(tmp_path, (0, 100, 10), (1, 131_062, 10))
    assert traffic(trace=fits, max_concurrency=1, **ASKED).rows
    one_more = trace(tmp_path, (0, 100, 10), (1, 131_063, 10))
    refused("1 of 2 requests: .* given 'up to 131073'", traffic, trace=one_more, **ASKED)


def test_a_trace_that_cannot_be_served(tmp_path: Path) -> None:
    path = trace(tmp_path, (0, 100, 10), (1, 131_000, 100))
    refused(r"1 of 2 requests: .* at most llama-3.1-8b's 131072 positions", traffic, trace=path, **ASKED)
    refused(
        r"csv: requests per second: must be 1e-06 to 1e\+06, given 1e-07",
        traffic,
        trace=trace(tmp_path, (0, 100, 10), (1e7, 100, 10)),
        **ASKED,
    )
    at_once = trace(tmp_path, *((i / 1000, 4000, 20) for i in range(200)))
    crowd = traffic(trace=at_once, **ASKED).replay
    assert crowd is not None
    assert "requests come at 1e+03/s, but only 8.41/s can be served" in crowd[0].warnings[-1]
    refused("output_len: must be given, or trace", traffic, input_len=10, request_rate=1, **ASKED)


def test_the_replay_of_a_long_trace_is_its_beginning(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    calm = "0,100,10\n" * 200_000
    path.write_text(f"arrival_s,prompt_tokens,output_tokens\n{calm}1,9000,900\n", encoding="utf-8")
    beginning = replayed_trace(traffic.question(trace=str(path), **ASKED))
    assert beginning.at_s.size == 200_000
    assert beginning.output_tokens.max() == 10


def test_a_replay_says_that_it_leaves_out_requests_of_a_trace() -> None:
    tokens = np.ones(200_001, np.int64)
    whole = Arrivals(np.zeros(200_001), tokens, tokens)
    assert left_out_note(whole) == "the first 200,000 of the trace's 200,001 requests are replayed"
    assert left_out_note(whole.first(200_000)) is None


def test_percentiles_of_no_request_are_zero() -> None:
    assert Percentiles.of(np.zeros(0)) == Percentiles(0, 0, 0, 0)


@pytest.mark.slow
def test_a_row_of_a_long_trace_says_that_it_is_of_the_first_requests(tmp_path: Path) -> None:
    path = trace(tmp_path, *((i, 1, 1) for i in range(200_001)))
    (row,) = traffic(trace=path, max_concurrency=4096, **ASKED).rows
    assert row.warnings == ("the first 200,000 of the trace's 200,001 requests are replayed",)


def test_a_load_that_the_closed_form_doubts_has_the_row_of_a_replay() -> None:
    question = ASKED | {"input_len": 4000, "output_len": 200, "num_prompts": 300}
    answer = traffic(request_rate=(1, 4), **question)
    assert [row.made_by for row in answer.rows] == ["closed form", "replay"]
    assert answer.replay is None, "nobody asked for one"


def test_a_trace_comes_at_its_own_times_or_at_a_rate_that_is_asked_for(tmp_path: Path) -> None:
    path = trace(tmp_path, *((i, 100, 10) for i in range(50)))
    recorded, faster = (traffic(trace=path, **ASKED, **more).rows[0] for more in ({}, {"request_rate": 4}))
    assert recorded.request_rate == 1
    assert faster.request_rate == 4
    assert faster.requests_per_s == pytest.approx(4 * recorded.requests_per_s, rel=0.03)
    (clients,) = traffic(trace=path, **ASKED, max_concurrency=2).rows
    assert clients.concurrency == 2
    assert clients.made_by == "replay"
    assert 1 < clients.running_mean <= 2


def test_a_request_of_one_token_has_no_time_per_token(tmp_path: Path) -> None:
    several = [(2 * i, 100, 50) for i in range(20)]
    single = [(2 * i + 1, 100, 1) for i in range(20)]
    (alone,) = traffic(trace=trace(tmp_path, *several), request_rate=0.5, **ASKED).rows
    (mixed,) = traffic(trace=trace(tmp_path, *sorted(several + single)), request_rate=1, **ASKED).rows
    assert mixed.tpot_s.mean == pytest.approx(alone.tpot_s.mean, rel=0.05)
    assert mixed.tpot_s.p50 > 0


def test_the_interval_is_around_the_mean_of_all_requests_not_of_the_first_ones(tmp_path: Path) -> None:
    """After 500 requests that meet nobody, 300 come close together and decode in large batches."""
    calm = [(i, 100, 20) for i in range(500)]
    busy = [(500 + i / 40, 4000, 200) for i in range(300)]
    (row,) = traffic(trace=trace(tmp_path, *calm, *busy), **ASKED).rows
    assert row.tpot_interval is not None
    low_s, high_s = row.tpot_interval
    assert low_s < row.tpot_s.mean < high_s


def test_a_replayed_request_is_in_time_if_it_keeps_every_limit() -> None:
    ask = ASKED | {"input_len": 1000, "output_len": 100, "request_rate": 1, "num_prompts": 100}
    for slo, share in (("ttft:100000,tpot:0.1", 0), ("ttft:0.1,tpot:1000", 0), ("ttft:100000,tpot:1000", 1)):
        (row,) = traffic(**ask, slo=slo, replay=True).rows
        assert row.slo_share == share
