"""What a trace leaves to say, and a replay that nobody asked for."""

from pathlib import Path

import numpy as np
import pytest

from perfmodel.answers.load import replayed_load, replayed_rows, requests as requests_of
from perfmodel.answers.load.traffic import traffic
from perfmodel.answers.load.traffic_rows import Percentiles
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
    assert "requests come at 1e+03/s, but only 8.42/s can be served" in crowd[0].warnings[-1]
    refused("output_len: must be given, or trace", traffic, input_len=10, request_rate=1, **ASKED)


def test_the_replay_of_a_long_trace_is_its_beginning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests_of, "LONGEST", 50)
    monkeypatch.setattr(replayed_rows, "LONGEST", 50)
    monkeypatch.setattr(replayed_load, "LONGEST", 50)
    calm = [(i, 100, 10) for i in range(50)]
    beginning = traffic(trace=trace(tmp_path, *calm), **ASKED).replay
    whole = traffic(trace=trace(tmp_path, *calm, (50, 9000, 900)), **ASKED).replay
    assert beginning is not None
    assert whole is not None
    assert whole[0].tpot_s == beginning[0].tpot_s
    assert Percentiles.of(np.zeros(0)) == Percentiles(0, 0, 0, 0)
    assert [row.warnings for row in (*beginning, *whole)] == [
        (),
        ("the first 50 of the trace's 51 requests are replayed",),
    ]


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
