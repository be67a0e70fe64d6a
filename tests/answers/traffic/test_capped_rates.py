"""A rate with a cap on the requests at once: an open loop until the cap binds, then clients."""

import pytest

import perfmodel as pm
from perfmodel.answers.load.closed_form_range import Doubt


@pytest.mark.parametrize(("rate", "clients"), [(5, 16), (20, 16), (20, 64), (10, 200)])
def test_a_rate_with_a_cap_is_an_open_loop_until_the_cap_binds(rate, clients) -> None:
    ask = {"model": "llama-3.1-8b", "hardware": "h100", "input_len": 1000, "output_len": 300, "gamma": 0}
    load = {"request_rate": str(rate), "max_concurrency": clients}
    (row,) = pm.traffic(**ask, **load, closed_form=True).rows
    (replayed,) = pm.traffic(**ask, **load, replay=True, num_prompts=1000).rows
    assert row.request_rate == rate
    assert row.concurrency == clients
    assert row.tpot_s.mean == pytest.approx(replayed.tpot_s.mean, rel=0.05)
    assert row.requests_per_s == pytest.approx(replayed.requests_per_s, rel=0.08)
    assert replayed.running_mean <= clients


def test_where_the_cap_binds_the_times_are_of_its_clients_and_the_replicas_of_the_rate() -> None:
    ask = {"model": "llama-3.1-8b", "hardware": "h100", "input_len": 1000, "output_len": 300, "gamma": 0}
    ask |= {"closed_form": True, "slo": "tpot:100"}
    low, high = pm.traffic(**ask, request_rate="1,60", max_concurrency=16).rows
    low_alone, high_alone = pm.traffic(**ask, request_rate="1,60").rows
    (clients,) = pm.traffic(**ask, max_concurrency=16).rows
    assert (low.replicas, high.replicas) == (low_alone.replicas, high_alone.replicas)
    assert high.replicas > 1
    assert high.tpot_s == clients.tpot_s
    assert high.requests_per_s == clients.requests_per_s
    assert low.requests_per_s == pytest.approx(1)
    assert low.tpot_s.mean < high.tpot_s.mean


def test_a_capped_rate_has_the_doubts_of_its_clients_too() -> None:
    ask = {"model": "llama-3.1-8b", "hardware": "h100", "input_len": 1000, "output_len": 300, "gamma": 0}
    (open_loop,) = pm.traffic(**ask, request_rate=0.5, closed_form=True).rows
    (capped,) = pm.traffic(**ask, request_rate=0.5, max_concurrency=4, closed_form=True).rows
    assert open_loop.doubts == ()
    assert capped.doubts == (Doubt.LOCKSTEP,)
