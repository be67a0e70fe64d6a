"""A closed loop with far more clients than a server can seat."""

import pytest

import perfmodel as pm
from perfmodel.answers.load.requests import requests_at
from perfmodel.answers.load.traffic_query import TrafficQuery
from perfmodel.queueing.trace import LONGEST


def test_the_requests_of_a_replay_rise_with_the_clients_up_to_the_longest_replay() -> None:
    query = TrafficQuery(
        model="llama-3.1-8b", hardware="h100", input_len=1024, output_len=256, max_concurrency=(5000,)
    )
    counts = [requests_at(query, clients).at_s.size for clients in (50, 5000, 10**11)]
    assert counts == [2000, 20000, LONGEST]


def test_a_policy_queues_the_clients_beyond_the_longest_replay() -> None:
    """A server without a free seat has a queue, so the wait rises with the number of clients."""
    answer = pm.traffic(
        model="llama-3.1-8b",
        hardware="h100",
        input_len=1000,
        output_len=50,
        draft="eagle3",
        gamma="adaptive",
        max_concurrency=(50_000, 250_000),
    )
    few, many = (row for row in answer.rows if row.gamma == "adaptive")
    assert many.ttft_s.mean == pytest.approx(5 * few.ttft_s.mean, rel=0.05)
    assert many.requests_per_s == pytest.approx(few.requests_per_s, rel=0.02)
