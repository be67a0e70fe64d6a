"""Requests of ``traffic`` within the SLO, and the replicas that they need."""

from types import SimpleNamespace
from typing import Any

import pytest

import perfmodel as pm
from perfmodel.answers.load import slo as within_slo
from perfmodel.queueing.moments import Moments
from tests.answers.traffic.questions import rows


def test_replicas_meet_the_slo_and_one_fewer_does_not() -> None:
    slo = "ttft:2000,tpot:30"
    needed = rows(request_rate=6, gamma=0, slo=slo)[0].replicas
    (fewer,) = rows(request_rate=6 / (needed - 1), gamma=0, slo=slo)
    (enough,) = rows(request_rate=6 / needed, gamma=0, slo=slo)
    assert fewer.slo_share < 0.9 <= enough.slo_share
    none = rows(request_rate=1, gamma=0, slo="tpot:1")[0]
    assert none.slo_share == pytest.approx(0, abs=1e-3)
    assert none.replicas is None
    assert any("no number of replicas" in note for note in none.warnings)
    alone, beside = (rows(request_rate=rate, gamma="1", slo=slo) for rate in ("1", "1,4"))
    assert alone[1].slo_share == pytest.approx(beside[1].slo_share, abs=1e-3)


def test_no_more_requests_are_within_the_slo_than_at_a_lower_load() -> None:
    """Alone, a request takes 4.4 ms per token. Others make that longer and less even, never shorter."""
    ask = {"input_len": 1000, "output_len": 20, "gamma": 0, "slo": "tpot:4"}
    low, high = rows(**ask, request_rate="0.001,1")
    (alone,) = rows(**ask, request_rate=1)
    assert low.slo_share == high.slo_share == alone.slo_share < 0.01


def test_a_saturated_row_and_one_without_room_keep_no_request_within_the_slo() -> None:
    ask = {"model": "llama-3.1-70b", "input_len": 1000, "output_len": 300, "gamma": 0, "request_rate": 500}
    ask |= {"closed_form": True, "slo": "tpot:1000"}
    (saturated,) = pm.traffic(**ask, hardware="h100", tp=8).rows
    assert saturated.saturated
    assert saturated.slo_share == 0.0
    assert saturated.ttft_s is None
    assert (
        saturated.warnings[0]
        == f"saturated at {saturated.saturation_rate:.3g}/s: {saturated.replicas} replicas"
    )
    assert pm.traffic(**ask | {"request_rate": 1}, hardware="h100", tp=8).rows[0].warnings == ()
    (no_room,) = pm.traffic(**ask, hardware="rtx-3060").rows
    assert no_room.slo_share == 0.0
    assert no_room.requests_per_s == 0.0
    assert "no request fits in memory" in no_room.warnings[0]


@pytest.mark.parametrize(
    ("limits_s", "share"),
    [
        ({"ttft": 1.0}, 0.5),
        ({"ttft": 1.0, "tpot": 0.02}, 0.25),
        ({"tpot": 0.02, "e2e": 3.0}, 0.5),
        ({"ttft": 1.0, "tpot": 0.02, "e2e": 3.0}, 0.25),
    ],
)
def test_shares_of_ttft_and_tpot_multiply_and_the_time_to_the_last_token_is_one_of_both(
    limits_s: dict[str, float], share: float
) -> None:
    """Half of the requests are within each limit. The whole time is no third independent one."""
    halves: Any = SimpleNamespace(ttft=Moments(1.0, 0.01), tpot=Moments(0.02, 1e-6), e2e=Moments(3.0, 0.01))
    assert float(within_slo.slo_share(limits_s, halves)) == pytest.approx(share, abs=1e-3)


@pytest.mark.parametrize(("replicas", "found"), [(4000, True), (4200, False)])
def test_more_replicas_than_4096_are_not_searched(replicas: int, found: bool) -> None:
    tight = {"gamma": 0, "slo": "ttft:500,tpot:9"}
    rate_of_each = 50 / rows(request_rate=50, **tight)[0].replicas
    needed = rows(request_rate=replicas * rate_of_each, **tight)[0].replicas
    assert needed == (pytest.approx(replicas, rel=0.01) if found else None)


def test_without_limits_as_many_replicas_as_keep_each_below_its_highest_rate() -> None:
    highest = rows(request_rate=1, gamma=0)[0].saturation_rate
    replicas = [
        rows(request_rate=servers * highest, gamma=0)[0].replicas for servers in (0.5, 0.99, 1.01, 2.5)
    ]
    assert replicas == [1, 1, 2, 3]


def test_a_number_of_clients_needs_no_number_of_replicas() -> None:
    assert rows(max_concurrency=8, gamma=0)[0].replicas is None
