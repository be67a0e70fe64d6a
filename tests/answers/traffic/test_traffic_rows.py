"""Rows of ``traffic``: one for each load and draft length, and which lengths are the best."""

import pytest

import perfmodel as pm
from perfmodel.answers.load.closed_form_range import Doubt
from tests.answers.traffic.questions import ASK, rows


@pytest.mark.parametrize(
    "other",
    [{"alpha": 0.7}, {"gamma": "0,1,3"}, {"prefix_len": 4096}],
)
def test_the_rows_of_a_question_do_not_depend_on_the_one_before(other):
    first = rows(max_concurrency=8, gamma="0,3")
    assert rows(max_concurrency=8, **{"gamma": "0,3"} | other) != first
    assert rows(max_concurrency=8, gamma="0,3") == first


def test_a_row_for_each_load_and_length_that_agrees_with_itself():
    closed = pm.traffic(**ASK, alpha=0.6, max_concurrency="4,16", gamma="1", num_prompts=100)
    at = [(row.request_rate, row.concurrency, row.gamma) for row in closed.rows]
    assert at == [(None, 4, 0), (None, 4, 1), (None, 16, 0), (None, 16, 1)]
    for row, cells in zip(closed.rows, closed.to_frame().itertuples(), strict=True):
        assert cells.gamma == row.gamma
        assert cells.tpot_s_p99 == row.tpot_s.p99
        assert cells.e2e_s_mean == row.e2e_s.mean
        assert (cells.ttft_low_s, cells.ttft_high_s) == row.ttft_interval
        assert cells.warnings == "; ".join(row.warnings)
        assert cells.doubts == "; ".join(row.doubts)
    for row in rows(request_rate="0.5,1", gamma="0,3"):
        by_littles_law = row.request_rate * row.tpot_s.mean * 1023
        assert row.running_mean == pytest.approx(by_littles_law, rel=1e-6)
        assert row.tpot_interval[0] < row.tpot_s.mean < row.tpot_interval[1]


def test_auto_is_the_fastest_of_all_lengths_and_a_table_no_slower_than_its_own():
    for load in ({"request_rate": 1}, {"max_concurrency": 32}):
        auto = rows(**load)[-1]
        table = rows(**load, gamma="2,3,table")[-1]
        listed = {row.gamma: row.tpot_s.mean for row in rows(**load, gamma=[0, 1, 2, 3, 4, 5])}
        assert auto.tpot_s.mean <= min(listed.values()) * 1.01
        assert table.gamma == "table"
        assert table.tpot_s.mean <= 1.01 * min(listed[2], listed[3])
    long = {
        "model": "llama-3.1-8b",
        "hardware": "h100",
        "draft": "llama-3.2-1b",
        "alpha": 0.4,
        "output_len": 100,
    }
    (best,) = rows(**long, request_rate=2)
    assert best.gamma == 0, "what a draft saves, reading the prompts takes"


def test_one_row_per_load_which_says_who_made_it() -> None:
    """Clients with answers of one length stay in step, so a replay makes their rows; one client has none to
    wait for.
    """
    ask = {"model": "llama-3.1-8b", "hardware": "h100", "input_len": 1000, "output_len": 200, "gamma": 0}
    alone, crowd = pm.traffic(**ask, max_concurrency="1,64").rows
    assert alone.made_by == "closed form"
    assert alone.doubts == ()
    assert crowd.made_by == "replay"
    assert crowd.doubts == (Doubt.LOCKSTEP,)
    answer = pm.traffic(**ask, max_concurrency=64, replay=True)
    assert answer.replay == answer.rows
    assert answer.rows[0].made_by == "replay"
    (closed,) = pm.traffic(**ask, max_concurrency=64, closed_form=True).rows
    assert closed.made_by == "closed form"
    assert "may be off: clients with equal" in closed.warnings[-1]
    assert closed.ttft_s.mean < 0.5 * crowd.ttft_s.mean


def test_more_clients_than_a_full_server_seats_only_wait_longer() -> None:
    """By Little's law, the clients at a server are its throughput times the time of a request."""
    ask = {"model": "llama-3.1-8b", "hardware": "l40s", "input_len": 1024, "output_len": 512, "gamma": 0}
    ask |= {"output_std": 25.0, "max_num_seqs": 64}
    few, many, most = pm.traffic(**ask, max_concurrency="128,1000,8000").rows
    assert many.made_by == most.made_by == "replay"
    assert most.requests_per_s == many.requests_per_s == pytest.approx(few.requests_per_s, rel=0.03)
    assert most.tpot_s.mean == many.tpot_s.mean
    for row in (few, many, most):
        assert row.requests_per_s * row.e2e_s.mean == pytest.approx(row.concurrency, rel=0.03)


def test_a_draft_that_is_not_advised_still_has_its_memory_in_the_answer() -> None:
    ask = {"model": "llama-3.1-8b", "hardware": "h100", "input_len": 1000, "output_len": 300}
    ask |= {"request_rate": 1, "closed_form": True}
    plain = pm.traffic(**ask, gamma=0)
    useless = pm.traffic(**ask, gamma=4, draft="llama-3.2-1b", alpha=0.01)
    assert useless.verdict == plain.verdict == "do_not_speculate"
    assert useless.kv_cache.kv_tokens < plain.kv_cache.kv_tokens


def test_a_draft_of_unknown_acceptance_has_no_verdict() -> None:
    ask = {"model": "qwen3-14b", "hardware": "h100", "input_len": 1000, "output_len": 300, "request_rate": 1}
    answer = pm.traffic(**ask, draft="medusa")
    assert (answer.verdict, answer.acceptance_source) == ("unknown_acceptance", "unknown")
    assert {row.gamma for row in answer.rows} == {0}
