"""The number of servers for a rate at which the closed form may be off is that of replays."""

from types import SimpleNamespace
from typing import Any

import pytest

from perfmodel.answers.advice import replayed_servers
from perfmodel.answers.advice.advise import advise
from perfmodel.answers.advice.replayed_servers import fewest, fewest_of
from perfmodel.answers.load.traffic import traffic


@pytest.mark.parametrize(
    ("model", "hardware", "tp", "load"),
    [
        # the closed form finds one server less, which keeps the limit for fewer than 90 %
        ("qwen3-32b", "a100-sxm-80gb", 8, {"request_rate": 5.0, "input_len": 30_000, "slo": "ttft:8000"}),
        # the closed form finds more servers
        ("qwen3-32b", "rtx-pro-6000", 1, {"request_rate": 4.0, "input_len": 10_000}),
    ],
)
def test_one_server_less_does_not_serve_the_load(
    model: str, hardware: str, tp: int, load: dict[str, Any]
) -> None:
    question = load | {"output_len": 200, "draft": "ngram"}
    chosen = advise(model, hardware, tp=tp, **question).chosen
    rate = question.pop("request_rate")
    shares = []
    for servers in (chosen.replicas, chosen.replicas - 1):
        row = traffic(model, hardware, tp=tp, gamma=0, request_rate=rate / servers, **question).rows[0]
        shares.append(row.slo_share if "slo" in load else rate / servers / row.saturation_rate)
    enough, too_few = shares
    if "slo" in load:
        assert enough >= 0.9 > too_few
    else:
        assert enough <= 0.9 < too_few


@pytest.mark.parametrize("near", [1, 7, 20, 21, 33])
@pytest.mark.parametrize("least", [1, 2, 20, 34])
def test_the_fewest_servers_are_found_from_any_estimate(near: int, least: int) -> None:
    assert fewest(lambda servers: servers >= least, near, most=64) == least


def test_the_search_ends_if_no_number_serves_the_load() -> None:
    assert fewest(lambda servers: False, 5, most=11) is None


@pytest.mark.parametrize(("needed", "found"), [(5, 5), (10, 10), (12, 12), (13, None)])
def test_about_twice_the_estimate_is_the_most_that_is_tried(monkeypatch, needed, found) -> None:
    """From an estimate of 5 the search tries 5, 6, 8 and 12, which is the first number from 11 on."""
    monkeypatch.setattr(replayed_servers, "fitting_seats", lambda *_: 1)

    def row(load: float, servers: int, rough: bool) -> SimpleNamespace:
        assert (load, rough) == (20.0, True)
        share = float(servers >= needed)
        return SimpleNamespace(ttft_s=1.0, slo_share=share, concurrency=1, e2e_s=None, gamma=0)

    question: Any = SimpleNamespace(request_rate=20.0)
    reach: Any = SimpleNamespace(candidate=None, row=row)
    assert fewest_of(question, reach, near=5) == found
