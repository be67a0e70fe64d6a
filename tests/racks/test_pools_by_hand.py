"""The rates that pools serve within limits, and the numbers of instances that are tried, by hand."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.pools import fewest, search
from perfmodel.answers.advice.pools.lines import PoolServers
from perfmodel.answers.advice.pools.load import AtRate, OfClients
from perfmodel.answers.advice.pools.pairs import (
    Pair,
    _prefill_bound,
    highest,
    splits_at_capacity,
    splits_of,
)
from perfmodel.answers.advice.pools.servers import PoolServer, servers_for
from perfmodel.answers.load.pool_question import Instances


@pytest.mark.parametrize(
    ("limits_s", "rate"),
    [
        ({}, 9.0),
        ({"ttft": 0.11}, 0.0),
        ({"ttft": 0.12}, 2.0),
        ({"ttft": 0.21}, 10 * 0.10 / 0.15),
        ({"ttft": 99.0}, 9.0),
    ],
)
def test_the_wait_that_the_limit_leaves_sets_the_load_of_the_queue(limits_s: dict, rate: float) -> None:
    """Prompts of 100 ms, ten per second, and half a decode step of 20 ms: 110 ms without a wait. A fifth of
    the capacity leaves few waits at all.
    """
    prompts = SimpleNamespace(alone_s=0.1, each_s=0.1, cv=0.0)
    steps = SimpleNamespace(decode_s=np.array([0.02]))
    each = SimpleNamespace(prefill_rate=10.0, prompts=prompts, transfer_s=0.0, steps=steps)
    assert _prefill_bound(each, limits_s) == pytest.approx(rate)


@pytest.mark.parametrize(
    ("limits_s", "enough", "bound", "rate"),
    [
        ({}, 3.0, 100.0, 9.0),
        ({}, 3.0, 7.0, 7.0),
        ({"tpot": 0.1}, 3.0, 100.0, 3.0),
        ({"tpot": 0.1}, 3.0, 2.0, 2.0),
        ({"tpot": 0.1}, 9.0, 100.0, 9.0),
        ({"tpot": 0.1}, -1.0, 100.0, 0.0),
    ],
)
def test_two_pools_serve_the_rate_at_which_nine_of_ten_requests_are_within_the_limits(
    limits_s, enough, bound, rate
) -> None:
    """At most nine tenths of a capacity of 10 requests/s. The rate is found to a millionth."""

    def share_within(limits: dict, at: float) -> float:
        return 0.9 if at <= enough else 0.89

    pools: Any = SimpleNamespace(max_rate=10.0, share_within=share_within)
    assert highest(pools, limits_s, bound) == pytest.approx(rate, rel=1e-6, abs=1e-5)


def pair(prefill_gpus: int = 2, decode_gpus: int = 1, serve: Callable[[int, int], bool] = min) -> Pair:
    """Instances of which a prefill one serves at most 5 requests/s and a decode one at most 4.

    - serve: whether numbers of prefill and decode instances serve the load.
    """

    def with_counts(prefill: int, decode: int) -> SimpleNamespace:
        def share_within(limits_s: dict, rate: float) -> float:
            return float(serve(prefill, decode))

        devices = prefill * prefill_gpus + decode * decode_gpus
        counts = (prefill, decode)
        return SimpleNamespace(devices=devices, max_rate=100.0, share_within=share_within, counts=counts)

    gpus = (SimpleNamespace(gpus=prefill_gpus), SimpleNamespace(gpus=decode_gpus))
    each: Any = SimpleNamespace(prefill=gpus[0], decode=gpus[1], with_counts=with_counts, max_rate=4.0)
    each.state = lambda rate: SimpleNamespace(batch=0.0)
    return Pair(each, prefill_rate=5.0, decode_rate=4.0)


def counts(pools: Any) -> tuple[int, int] | None:
    """The numbers of prefill and decode instances."""
    return None if pools is None else pools.counts


@pytest.mark.parametrize(
    ("prefill", "decode", "found"),
    [(1, 1, (2, 3)), (2, 4, (2, 4)), (5, 6, (5, 6)), (6, 3, None), (2, 7, None)],
)
def test_a_rate_may_need_three_instances_more_than_the_bounds_of_each_pool(prefill, decode, found) -> None:
    """For 10 requests/s, 2 prefill and 3 decode instances are the fewest possible."""
    one = pair(serve=lambda p, d: p >= prefill and d >= decode)
    assert counts(AtRate(10.0).fewest_pools([one], {"tpot": 0.1})) == found


def test_of_pools_that_serve_a_rate_those_on_the_fewest_devices_are_taken() -> None:
    """A prefill instance more costs two devices, and a decode instance one."""
    one = pair(serve=lambda p, d: p + d >= 6)
    assert counts(AtRate(10.0).fewest_pools([one], {"tpot": 0.1})) == (2, 4)
    assert counts(AtRate(10.0).fewest_pools([pair(serve=lambda p, d: False)], {})) == (2, 3), "without limits"
    assert AtRate(95.0).fewest_pools([one], {}) is None, "above nine tenths of the capacity of 100"


@pytest.mark.parametrize(("prefill", "found"), [(2, (2, 3)), (10, (10, 3)), (11, None)])
def test_clients_may_need_eight_instances_more_than_the_bounds_of_each_pool(
    monkeypatch, prefill, found
) -> None:
    """Ten clients whose requests may take a second need 10 requests/s: 2 prefill and 3 decode instances."""
    rate = {"rate_of_pools": lambda self, pools, limits_s, bound: float(pools.counts[0] >= prefill)}
    clients = type("Clients", (OfClients,), rate)(10, 100)
    assert counts(clients.fewest_pools([pair()], {"e2e": 1.0})) == found
    assert clients.fewest_pools([pair()], {}) is None, "any pools serve clients without limits"


def test_pools_are_split_near_equal_capacities() -> None:
    """On 20 devices each prefill instance takes two, and the decode instances the rest. With 5 and 4
    requests/s per instance, pools are equal at 8 prefill devices for every 5 decode devices.
    """
    one = pair()
    assert one.ratio == pytest.approx((2 / 5) / (1 / 4))
    assert splits_of(one, 20) == [(count, 20 - 2 * count) for count in range(1, 10)]
    assert splits_of(one, 2) == []
    assert splits_at_capacity(one, 20) == [(5, 10), (6, 8), (7, 6)]  # 20 * 8 / 13 / 2 is 6.15
    assert splits_at_capacity(one, 3) == [(1, 1)]
    few = Pair(one.each, prefill_rate=500.0, decode_rate=4.0)
    assert splits_at_capacity(few, 20) == [(1, 18), (2, 16)]


def server(gpus: int, usable_rate: float, highest: float) -> Any:
    """A server with its capacity and its highest rate within the limits."""
    layout = Instances(1, gpus, 1, 1)
    return SimpleNamespace(
        gpus=gpus, usable_rate=usable_rate, highest=highest, instance=SimpleNamespace(layout=layout)
    )


def test_the_fewest_devices_of_equal_servers_serve_a_rate_within_the_limits() -> None:
    """Nine servers with 1.2 requests/s each, or three with 3.5 on two devices each."""
    assert str(servers_for([server(1, 3.0, 1.2), server(2, 4.0, 3.5)], 10.0)) == "3x2"
    assert str(servers_for([server(1, 3.0, 2.5), server(2, 4.0, 3.5)], 10.0)) == "4x1"
    assert str(servers_for([server(1, 5.0, 3.4), server(2, 10.0, 4.0)], 10.0)) == "3x1", (
        "and not three servers on six"
    )
    assert servers_for([server(1, 3.0, 0.0)], 10.0) is None
    assert servers_for([], 10.0) is None


LIMITED: Any = SimpleNamespace(limits_s={"tpot": 0.1})


@pytest.mark.parametrize(("enough", "found"), [(5.5, 5 + 6 / 13), (0.5, 6 / 13), (0.05, 0.0), (12.5, 12.0)])
def test_the_highest_rate_of_a_server_is_found_to_a_thirteenth_of_a_twelfth(enough, found) -> None:
    """Twelve rates up to the highest one, and then twelve more between the last one that is served and the
    next.
    """

    def shares(self: PoolServer, rates: np.ndarray) -> np.ndarray:
        return np.where(rates <= enough, 0.9, 0.89)

    made = type("Made", (PoolServer,), {"shares": shares})
    assert made(LIMITED, None, None, None, usable_rate=12.0).highest == pytest.approx(found)
    free: Any = SimpleNamespace(limits_s={})
    assert made(free, None, None, None, usable_rate=12.0).highest == 12.0


@pytest.mark.parametrize(("enough", "found"), [(0, 0), (1, 1), (37, 37), (99, 99), (100, 100), (300, 100)])
def test_the_most_clients_of_a_server_are_found_exactly(enough: int, found: int) -> None:
    def under(self: PoolServer, loads: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.where(loads <= enough, 0.9, 0.89), loads

    made = type("Made", (PoolServer,), {"under": under})
    assert made(LIMITED, None, None, None, usable_rate=12.0).most_clients(100) == found


@pytest.mark.parametrize(
    ("rate", "prompt_s", "tpot_s"),
    [
        (5.0, 0.0, 10 * 0.010 / 20),  # a request alone
        (10.0, 0.0, 10 * 0.012 / 20),  # one that joins another
        (10.0, 0.05, 10 * 0.012 / 0.5 / 20),  # prefill takes half of the time
        (10.0, 0.2, 10 * 0.012 / 0.01 / 20),  # prefill takes more than all of it
        (12.1, 0.0, np.inf),
    ],
)
def test_a_servers_tpot_is_estimated_from_the_batch_that_a_request_joins(rate, prompt_s, tpot_s) -> None:
    """Ten iterations for 20 tokens, of 10 ms alone and 12 ms in twos: one request at a time is ten a
    second.
    """
    steps: Any = SimpleNamespace(
        iterations=lambda lengths: 10.0,
        decode_s=np.array([0.010, 0.012]),
        batches=np.array([1.0, 2.0]),
        prompt_s=np.zeros(2),
        decode_at=lambda batch: np.interp(batch, [1.0, 2.0], [0.010, 0.012]),
        prompt_at=lambda batch: np.array(prompt_s),
    )
    question: Any = SimpleNamespace(lengths=SimpleNamespace(decoded=20.0))
    assert PoolServer(question, None, None, steps, usable_rate=12.0).tpot_s(rate) == pytest.approx(tpot_s)


@pytest.mark.parametrize(("best", "shortlist"), [("a", "agfedc"), ("f", "fgedcb"), (None, "gfedc")])
def test_six_layouts_of_one_pool_are_predicted_as_in_traffic(monkeypatch, best, shortlist) -> None:
    """The one with the highest rate within the limits, if any keeps them, and then those with the lowest TPOT
    under the load, each with its best draft length.
    """
    instances = [SimpleNamespace(candidate=name) for name in "abcdefg"]
    lengths = [
        SimpleNamespace(instance=each, gpus=1, usable_rate=1.0, tpot_s=(9.0 - at) + longer)
        for at, each in enumerate(instances)
        for longer in (3.0 * at, 0.0)
    ]
    load: Any = SimpleNamespace(
        place=lambda server, count: (server.tpot_s, 0.0),
        rate_of_servers=lambda server, count: float(server.instance.candidate == best),
    )
    monkeypatch.setattr(search, "servers_of", lambda drafting: lengths)
    made: Any = [SimpleNamespace(instances=instances)]
    question: Any = None
    assert "".join(search.Search(question, 8, load).fastest(made)) == shortlist


def two_pools_beside(monkeypatch, of_one: float, *found: tuple[str | None, int], **asked: Any) -> list[str]:
    """What is named beside one pool of so many GPUs if two pools with these drafts need these devices."""
    load = {"request_rate": 2, "input_len": 100, "output_len": 50}
    question = AdviseQuery("qwen3-8b", "h100", **load | asked)
    times = SimpleNamespace(request_rate=2.0, ttft_s=0.1, tpot_s=0.01)
    of_pools = SimpleNamespace(arguments={}, row=lambda pools, limits_s: times)
    pools = [
        SimpleNamespace(
            draft=draft,
            question=SimpleNamespace(limits_s={}),
            pools=SimpleNamespace(devices=devices, steps=SimpleNamespace(gamma=3 if draft else 0)),
        )
        for draft, devices in found
    ]
    part = PoolServers("", "1x1", 1, "serve")
    replaced = {
        "router_of": lambda question: "A router",
        "load_of": lambda question: of_pools,
        "find_candidates": lambda question: None,
        "drafting_of": lambda *_: pools,
        "_fewest": lambda drafting, load: drafting.pools,
        "lines_of": lambda *_: (part, part),
    }
    for name, stand_in in replaced.items():
        monkeypatch.setattr(fewest, name, stand_in)
    return [each.text for each in fewest.fewer_in_two_pools(question, of_one)]


def test_two_pools_are_named_if_they_save_a_tenth_of_the_gpus_of_one(monkeypatch) -> None:
    first, decode, router = two_pools_beside(monkeypatch, 20, (None, 18))
    assert first == (
        "Two pools of 18 GPUs suffice: prefill 1x1, decode 1x1, no draft, TTFT 100 ms, TPOT 10 ms. The "
        "prefill pool"
    )
    assert (decode, router) == ("The decode pool", "A router")
    assert two_pools_beside(monkeypatch, 20, (None, 19)) == []
    assert two_pools_beside(monkeypatch, 20) == []


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ([(None, 10), ("eagle3", 10)], "10 GPUs suffice: prefill 1x1, decode 1x1, no draft,"),
        ([("eagle3", 10), (None, 10)], "10 GPUs suffice: prefill 1x1, decode 1x1, no draft,"),
        ([(None, 10), ("eagle3", 9)], "9 GPUs suffice: prefill 1x1, decode 1x1, eagle3, gamma 3,"),
    ],
)
def test_two_pools_have_a_draft_only_if_it_saves_gpus(monkeypatch, found, words) -> None:
    assert words in two_pools_beside(monkeypatch, 20, *found)[0]


def test_clients_without_limits_need_no_second_pool(monkeypatch) -> None:
    """Any number of GPUs serves them."""
    clients = {"request_rate": None, "clients": 64}
    assert two_pools_beside(monkeypatch, 20, (None, 10), **clients) == []
    assert two_pools_beside(monkeypatch, 20, (None, 10), **clients, slo="tpot:50")


@pytest.mark.parametrize(("devices", "is_named"), [(16, False), (24, True)])
def test_two_pools_on_the_given_gpus_are_not_named_again(monkeypatch, devices: int, is_named: bool) -> None:
    """The first part of an answer about 16 GPUs and a limit compares two pools on these."""
    given = {"gpus": 16, "slo": "tpot:50"}
    assert bool(two_pools_beside(monkeypatch, np.inf, (None, devices), **given)) is is_named
