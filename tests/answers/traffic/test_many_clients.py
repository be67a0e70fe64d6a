"""A closed loop with far more clients than a server can seat."""

from perfmodel.answers.load.requests import requests_at
from perfmodel.answers.load.traffic_query import TrafficQuery
from perfmodel.queueing.trace import LONGEST


def test_the_requests_of_a_replay_rise_with_the_clients_up_to_the_longest_replay() -> None:
    query = TrafficQuery(
        model="llama-3.1-8b", hardware="h100", input_len=1024, output_len=256, max_concurrency=(5000,)
    )
    counts = [requests_at(query, clients).at_s.size for clients in (50, 5000, 10**11)]
    assert counts == [2000, 20000, LONGEST]
