"""The recommendation at one load, from rows that are given by hand."""

import math

import pytest

from perfmodel.answers.load.load_verdict import verdict_of
from perfmodel.answers.load.prefix_verdict import PrefixChange, _net, _order
from perfmodel.answers.load.traffic_query import TrafficQuery
from perfmodel.answers.load.traffic_rows import Percentiles, TrafficRow

ASKED = {"model": "llama-3.1-8b", "hardware": "h100", "input_len": 1000, "output_len": 100}


def question(**more) -> TrafficQuery:
    """Two devices at 3 dollars an hour each serve outputs of 100 tokens."""
    return TrafficQuery(**(ASKED | {"tp": 2, "price": 3.0, "request_rate": 1} | more))


def row(gamma: int | str, tpot_s: float, **more) -> TrafficRow:
    """A row at one request per second of a replica that carries two; each request takes 100 tokens' time."""
    figures = {
        "request_rate": 1.0,
        "concurrency": None,
        "gamma": gamma,
        "running_mean": 1.0,
        "tpot_s": Percentiles(tpot_s, tpot_s, tpot_s, tpot_s),
        "e2e_s": Percentiles(*[100 * tpot_s] * 4),
        "output_tokens_per_s": 100.0,
        "requests_per_s": 1.0,
        "saturation_rate": 2.0,
        "kv_share": 0.1,
        "replicas": 1,
        "tokens_per_iteration": 1.0,
    }
    return TrafficRow(**(figures | more))


def chosen(*rows: TrafficRow, **more) -> int | str:
    """The draft length that is recommended from the rows of one load."""
    return verdict_of(question(**more), rows, known=True).gamma


def test_the_earliest_end_decides_and_the_speedup_is_of_tpot() -> None:
    verdict = verdict_of(question(), (row(0, 0.03), row(2, 0.02), row(4, 0.025)), known=True)
    assert verdict.gamma == 2
    assert verdict.speedup == pytest.approx(1.5)
    assert verdict.reason == "1 request/s: 2 draft tokens, 1.50 times as fast per token, 1 replica"


def test_a_length_that_saturates_is_chosen_only_where_all_do() -> None:
    full = {"saturation_rate": 0.9, "e2e_s": None}
    assert chosen(row(0, 0.03), row(2, 0.02, requests_per_s=0.9, **full)) == 0
    slower_but_more = row(4, 0.04, requests_per_s=0.95, saturation_rate=0.95, e2e_s=None)
    assert chosen(row(0, 0.03, requests_per_s=0.9, **full), slower_but_more) == 4


def test_saturated_rates_that_differ_by_rounding_are_a_tie() -> None:
    """Then the time per token decides: a saturated server has no end of a request."""
    slower = row(0, 0.03, requests_per_s=0.9000001, saturation_rate=0.9, e2e_s=None)
    faster = row(2, 0.02, requests_per_s=0.9, saturation_rate=0.9, e2e_s=None)
    assert chosen(slower, faster) == 2
    more = row(0, 0.03, requests_per_s=0.90001, saturation_rate=0.9, e2e_s=None)
    assert chosen(more, faster) == 0


def test_the_end_of_a_request_decides_before_its_time_per_token() -> None:
    """A draft may slow the prompt by more than it saves."""
    early = row(0, 0.03, e2e_s=Percentiles(1.0, 1.0, 1.0, 1.0))
    late = row(2, 0.02, e2e_s=Percentiles(2.0, 2.0, 2.0, 2.0))
    assert chosen(early, late) == 0


def test_requests_within_the_slo_come_before_the_time_but_not_a_chance_difference() -> None:
    slow_in_time = row(0, 0.03, slo_share=0.99)
    assert chosen(slow_in_time, row(2, 0.02, slo_share=0.95)) == 0
    assert chosen(slow_in_time, row(2, 0.02, slo_share=0.9899)) == 2


def test_a_rate_that_is_offered_counts_and_not_what_a_replay_happened_to_serve() -> None:
    lucky = row(0, 0.03, slo_share=0.99, requests_per_s=1.02)
    assert chosen(lucky, row(2, 0.02, slo_share=0.99, requests_per_s=0.98)) == 2


def test_of_a_saturated_server_only_the_requests_that_it_serves_count() -> None:
    """90 % of 0.5 requests a second are fewer than 60 % of 0.9."""
    strict = row(0, 0.02, slo_share=0.9, requests_per_s=0.5, saturation_rate=0.5)
    fast = row(2, 0.03, slo_share=0.6, requests_per_s=0.9, saturation_rate=0.9)
    assert chosen(strict, fast) == 2


def test_the_reason_names_a_rate_a_number_of_clients_or_both() -> None:
    """With both, the clients limit the requests at once, so the server is not saturated."""
    both = row(2, 0.02, request_rate=2.5, concurrency=8)
    reason = verdict_of(question(), (row(0, 0.03), both), known=True).reason
    assert reason.startswith("2.5 requests/s by 8 clients: 2 draft tokens, ")


def test_the_reason_names_a_policy_and_the_share_within_the_slo() -> None:
    table = row("table", 0.02, slo_share=0.956)
    reason = verdict_of(question(), (row(0, 0.03, slo_share=0.5), table), known=True).reason
    assert reason == (
        "1 request/s: draft by the table, 1.50 times as fast per token, 1 replica, "
        "96% of the requests within the SLO on one replica"
    )


def test_dollars_are_of_all_devices_of_all_replicas() -> None:
    """Three replicas of two devices at 3 dollars an hour are 18 dollars, for 100 tokens a second."""
    verdict = verdict_of(question(), (row(0, 0.03, replicas=3),), known=True)
    assert verdict.dollars_per_million_tokens == pytest.approx(18 / 3600 * 1e6 / 100)
    no_number_is_enough = verdict_of(question(), (row(0, 0.03, replicas=None),), known=True)
    assert no_number_is_enough.dollars_per_million_tokens is None
    assert verdict_of(question(price=None), (row(0, 0.03),), known=True).dollars_per_million_tokens is None


def test_clients_pay_for_one_replica_and_its_own_tokens() -> None:
    clients = {"request_rate": None, "concurrency": 8, "replicas": None, "output_tokens_per_s": 250.0}
    verdict = verdict_of(question(request_rate=None, max_concurrency=8), (row(0, 0.03, **clients),), True)
    assert verdict.dollars_per_million_tokens == pytest.approx(6 / 3600 * 1e6 / 250)
    assert math.isclose(verdict.speedup, 1.0)
    assert verdict.reason == "8 clients: do not speculate"


def test_a_server_without_room_and_an_unknown_acceptance_say_so() -> None:
    nothing = row(0, 0.03, saturation_rate=0.0, replicas=None)
    assert verdict_of(question(), (nothing,), known=True).reason == "1 request/s: no request fits in memory"
    undecided = verdict_of(question(), (row(0, 0.03, replicas=2),), known=False).reason
    assert "no acceptance is known" in undecided
    assert undecided.endswith(", 2 replicas")


SATURATED = {"saturation_rate": 0.9, "e2e_s": None}


@pytest.mark.parametrize(
    ("baseline", "drafting", "net_s", "pays"),
    [
        (row(0, 0.03), row(2, 0.02), 1.0, True),
        (row(0, 0.02), row(2, 0.03), -1.0, False),
        (row(0, 0.03, **SATURATED), row(2, 0.05), None, True),
        (row(0, 0.03), row(2, 0.02, **SATURATED), None, False),
        (row(0, 0.03, requests_per_s=0.8, **SATURATED), row(2, 0.05, **SATURATED), None, True),
        (row(0, 0.03, **SATURATED), row(2, 0.02, requests_per_s=0.8, **SATURATED), None, False),
    ],
)
def test_a_draft_beside_a_prefix_cache_pays_if_requests_end_earlier_or_more_are_served(
    baseline: TrafficRow, drafting: TrafficRow, net_s: float | None, pays: bool
) -> None:
    """A request takes 100 tokens' time. A saturated server has no such time."""
    assert _net(baseline, drafting) == (net_s if net_s is None else pytest.approx(net_s), pays)


def test_changes_of_a_draft_beside_a_prefix_cache_are_listed_with_the_best_first() -> None:
    """An unknown gain of a server that then carries the load is the largest."""
    found = [("loses", -1.0, False), ("saves", 0.5, True), ("saves more", 0.9, True), ("carries", None, True)]
    changes = [PrefixChange(name, 0.5, net_s, pays) for name, net_s, pays in found]
    listed = [each.change for each in sorted(changes, key=_order)]
    assert listed == ["carries", "saves more", "saves", "loses"]
