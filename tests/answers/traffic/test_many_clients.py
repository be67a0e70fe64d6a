"""A closed loop with far more clients than a server can seat."""

import pytest

import perfmodel as pm
from perfmodel.answers.load.requests import requests_at
from perfmodel.answers.load.traffic_query import TrafficQuery
from perfmodel.queueing.trace import LONGEST

SHORT = {"output_len": 100, "output_std": 5}


def test_the_requests_of_a_replay_rise_with_the_clients_up_to_the_longest_replay() -> None:
    query = TrafficQuery(
        model="llama-3.1-8b", hardware="h100", input_len=1024, output_len=256, max_concurrency=(5000,)
    )
    counts = [requests_at(query, clients).at_s.size for clients in (50, 5000, 10**11)]
    assert counts == [2000, 25000, LONGEST]


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


@pytest.mark.parametrize(
    ("server", "clients"),
    [
        ({"model": "gpt-oss-120b", "hardware": "b200", "max_num_seqs": 1024}, 1024),
        ({"model": "deepseek-v3", "hardware": "b200", "tp": 8, "dp": 8, "ep": 8, "max_num_seqs": 256}, 2048),
        ({"model": "qwen3-4b", "hardware": "l40s", "max_num_seqs": 178, **SHORT}, 256),
    ],
)
def test_a_replay_of_few_requests_of_each_client_is_as_fast_as_a_long_one(server, clients: int) -> None:
    """Neither the common start of all clients nor the empty server at the end is part of the result."""
    lengths = {"input_len": 1024, "output_len": 1024, "output_std": 51}
    asked = {**lengths, **server, "gamma": 0, "max_concurrency": clients}
    few, many = (pm.traffic(**asked, num_prompts=requests).rows[0] for requests in (1000, 20_000))
    assert few.made_by == many.made_by == "replay"
    assert few.output_tokens_per_s == pytest.approx(many.output_tokens_per_s, rel=0.01)
    assert few.running_mean <= clients
