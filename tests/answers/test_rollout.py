"""Rollouts: all requests at the start, by policy and by age of the weights."""

from pathlib import Path

import numpy as np
import pytest

from perfmodel.answers.load.rollout import batch_of
from perfmodel.answers.load.traffic import traffic
from perfmodel.answers.point.whatif import whatif
from perfmodel.queueing.arrivals import Arrivals
from perfmodel.queueing.load import Lengths, Limits
from perfmodel.queueing.replay import replay
from perfmodel.queueing.steps import StepTimes
from tests.refusals import refused

ASKED = {"model": "qwen3-8b", "hardware": "h100", "input_len": 500, "output_len": 1000, "draft": "eagle3"}


def test_lengths_are_log_normal_and_cut_at_the_positions() -> None:
    drawn = batch_of(Lengths(500.0, 1000.0, output_std=1000.0), 40_000, 9_000, seed=1)
    assert drawn.output_tokens.mean() == pytest.approx(1000, rel=0.02)
    median = 1000 / 2**0.5
    assert np.median(drawn.output_tokens) == pytest.approx(median, rel=0.02)
    assert drawn.output_tokens.max() == 8_500
    assert set(drawn.input_tokens) == {500}
    assert not drawn.at_s.any()
    short = Lengths(500.0, 3.0, output_std=3.0)
    assert batch_of(short, 1000, 9_000, seed=1).output_tokens.min() == 2


def test_a_drain_by_hand() -> None:
    """Three answers of 11, 21 and 31 tokens: prompts in 30 ms beside a pass of 10, then ten passes of 14, of
    12 and of 10 ms. Alone, the last drafts: 5 passes of 16 ms save 20, and the prompts' own pass is one of
    that length, 6 longer.
    """
    pass_s = np.array([0.010, 0.012, 0.014])
    plain = StepTimes(0, 1.0, pass_s, np.full(3, 0.010), 3, 0.01)
    outputs = np.array([11, 21, 31])
    burst = Arrivals(np.zeros(3), np.full(3, 100), outputs)
    alone = replay(plain, Lengths(100.0, 21.0), Limits(3, 1000), burst)
    assert alone.duration_s == pytest.approx(0.040 + 0.14 + 0.12 + 0.10)
    certain = {"survival": np.array([1.0, 1.0])}
    drafting_s = np.array([0.016])
    drafts = StepTimes(1, 2.0, drafting_s, np.full(1, 0.010), 1, 0.01, **certain)
    table = (drafts, plain, plain)
    decode_s = np.array([0.016, 0.024, 0.028])
    tail = StepTimes(1, 2.0, decode_s, np.full(3, 0.010), 3, 0.01, table=table, **certain)
    drained = replay(tail, Lengths(100.0, 21.0), Limits(3, 1000), burst)
    assert drained.duration_s == pytest.approx(alone.duration_s - 0.020 + 0.006)


def test_a_stale_draft_pays_less_with_age_and_is_switched_off_in_the_crowd() -> None:
    question = {"gamma": (4, "tail"), "alpha": 0.7, "rollout": 128, "output_std": 300} | ASKED
    rows = traffic(alpha_by_age="8:0.4,0:0.7,32:0.05", **question).rollout
    assert rows is not None
    fixed = [row.speedup for row in rows if row.gamma == 4]
    tail = [row.speedup for row in rows if row.gamma == "tail"]
    assert [row.age for row in rows[::3]] == [0, 8, 32]
    assert fixed == sorted(fixed, reverse=True)
    assert fixed[2] < 1 <= tail[2] + 0.01
    assert tail[0] > fixed[0]


def test_the_tail_begins_when_nine_of_ten_requests_are_done(tmp_path: Path) -> None:
    """Ten answers of 100 to 1,000 tokens are done; the last one decodes 100 more tokens alone."""
    where = tmp_path / "lengths.csv"
    lines = ["arrival_s,prompt_tokens,output_tokens", *(f"0,500,{100 * n}" for n in range(1, 12))]
    where.write_text("\n".join(lines), encoding="utf-8")
    (row,) = traffic(**ASKED, trace=str(where), rollout=11, gamma=0).rollout
    step_s = whatif("qwen3-8b", "h100", 1, 1550, gamma=0).ar_tpot_s
    assert row.tail_s == pytest.approx(100 * step_s, rel=0.01)


def test_a_trace_gives_any_lengths(tmp_path: Path) -> None:
    where = tmp_path / "lengths.csv"
    where.write_text("arrival_s,prompt_tokens,output_tokens\n0,500,1\n9,700,4000\n", encoding="utf-8")
    for lengths in ({}, {"input_len": None, "output_len": None}):
        answer = traffic(**{**ASKED, **lengths, "trace": str(where), "rollout": 2, "gamma": 0})
        assert answer.rollout is not None
        (row,) = answer.rollout[:1]
        assert row.output_tokens_per_s * row.makespan_s == pytest.approx(4001)
    refused(
        "rollout: must be of requests with 2 output tokens", traffic, **ASKED, trace=str(where), rollout=1
    )
    refused("rollout: must be at most the 2 requests of", traffic, **ASKED, trace=str(where), rollout=3)
