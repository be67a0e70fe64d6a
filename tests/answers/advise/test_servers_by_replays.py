"""The number of servers for a rate at which the closed form may be off is that of replays."""

from types import SimpleNamespace
from typing import Any

import pytest

import perfmodel as pm
from perfmodel.answers.advice import other_servers, replayed_servers
from perfmodel.answers.advice.advise import advise
from perfmodel.answers.advice.layouts import Layout
from perfmodel.answers.advice.replayed_servers import fewest, fewest_of
from perfmodel.answers.load.traffic import traffic


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_draft_that_needs_as_few_servers_only_by_a_replay_is_not_left_out() -> None:
    """The closed form asks for 8 GPUs with eagle3. A replay finds that 6 are enough, as with the draft model,
    and that eagle3 is faster.
    """
    load = {"request_rate": 12.0, "input_len": 1500, "output_len": 350, "slo": "ttft:800,tpot:25"}
    a = advise("qwen3-32b", "h100", engine="sglang", **load)
    named = advise("qwen3-32b", "h100", engine="sglang", draft="eagle3", **load)
    assert a.chosen == named.chosen
    assert a.chosen.gpus == 6


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


RATE: Any = SimpleNamespace(request_rate=10.0, objective="throughput")
"""A question about 10 requests/s on any number of GPUs."""


def reach(
    gpus: int, load: float, needed: int | None = 0, request_s: float = 1.0, doubted: bool = False
) -> SimpleNamespace:
    """A server of so many GPUs with this largest load, and what replays find: the number of servers (0: that
    of the closed form; None: no number suffices) and the time of a request.
    """
    candidate = SimpleNamespace(layout=Layout(gpus, 1, gpus))
    largest = SimpleNamespace(load=load)
    return SimpleNamespace(
        candidate=candidate, largest=largest, needed=needed, request_s=request_s, doubted=doubted
    )


def fewest_for_rate(monkeypatch, *found: SimpleNamespace, **most: float) -> str | None:
    """The layout with the fewest GPUs for `RATE`."""

    def served_by(question: Any, each: SimpleNamespace, servers: int) -> SimpleNamespace:
        layout = each.candidate.layout.times(servers)
        return SimpleNamespace(candidate=SimpleNamespace(layout=layout), request_s=each.request_s)

    def replayed(question: Any, each: SimpleNamespace, near: int) -> int | None:
        return near if each.needed == 0 else each.needed

    monkeypatch.setattr(other_servers, "fewest_of", replayed)
    monkeypatch.setattr(other_servers, "served_by", served_by)
    best: Any = other_servers.fewest_gpus(RATE, found, **most)
    return None if best is None else best.candidate.layout.label()


def test_the_servers_that_need_the_fewest_gpus_serve_a_rate(monkeypatch) -> None:
    """Three servers of one GPU that serve 4 requests/s each, and not two of two GPUs with 9 each."""
    assert fewest_for_rate(monkeypatch, reach(2, 9.0), reach(1, 4.0)) == "3 x TP 1"
    assert fewest_for_rate(monkeypatch, reach(1, 2.5 * (1.0 - 1e-10))) == "4 x TP 1", "a rounding error"
    assert fewest_for_rate(monkeypatch) is None


def test_of_servers_on_as_many_gpus_those_with_the_shortest_request_are_taken(monkeypatch) -> None:
    alike = [reach(1, 2.5, request_s=2.0), reach(2, 5.0, request_s=1.0), reach(4, 10.0, request_s=1.5)]
    assert fewest_for_rate(monkeypatch, *alike) == "2 x TP 2"


def test_where_replays_find_more_servers_the_next_kind_may_need_fewer_gpus(monkeypatch) -> None:
    three_of_four = reach(1, 4.0, needed=5)
    assert fewest_for_rate(monkeypatch, three_of_four, reach(2, 9.0)) == "2 x TP 2"
    assert fewest_for_rate(monkeypatch, reach(1, 4.0, needed=None), reach(2, 9.0)) == "2 x TP 2"
    assert fewest_for_rate(monkeypatch, three_of_four, reach(8, 10.0)) == "5 x TP 1"


def test_a_doubtful_load_may_be_a_tenth_larger_in_a_replay(monkeypatch) -> None:
    assert fewest_for_rate(monkeypatch, reach(1, 9.2, doubted=True)) == "TP 1"
    assert fewest_for_rate(monkeypatch, reach(1, 9.2)) == "2 x TP 1"


def test_servers_on_more_gpus_than_the_limit_are_none(monkeypatch) -> None:
    assert fewest_for_rate(monkeypatch, reach(1, 4.0), most=3) == "3 x TP 1"
    assert fewest_for_rate(monkeypatch, reach(1, 4.0), most=2) is None
    assert fewest_for_rate(monkeypatch, reach(1, 4.0, needed=4), most=3) is None
    assert fewest_for_rate(monkeypatch, reach(1, 4.0, needed=5), reach(2, 9.0), most=4) == "2 x TP 2"


def test_three_kinds_of_servers_are_replayed(monkeypatch) -> None:
    """Of equal numbers of GPUs by the closed form, those with the larger load come first."""
    refuted = [reach(1, load, needed=None) for load in (4.2, 4.1, 4.0)]
    assert fewest_for_rate(monkeypatch, *refuted[1:], reach(1, 3.9)) == "3 x TP 1"
    assert fewest_for_rate(monkeypatch, *refuted, reach(1, 3.9)) is None


def test_an_open_search_finds_what_a_stated_number_of_gpus_serves() -> None:
    """The closed form finds 89 % of the requests within the limits on one GPU, a replay finds 94 %."""
    load = {"request_rate": 20, "input_len": 1024, "output_len": 200, "slo": "ttft:500,tpot:20"}
    asked = {"model": "qwen3-8b", "hardware": "h100", **load}
    stated = pm.advise(**asked, weights="fp8", gpus=1)
    assert stated.chosen.slo_share >= 0.9
    free = pm.advise(**asked, weights="fp8")
    assert 1 in {pick.gpus for pick in (free.chosen, free.option) if pick is not None}
    beside = pm.advise(**asked)
    assert beside.chosen.gpus == 2
    assert any(each.text.startswith("With --weights fp8 1 GPU suffices: ") for each in beside.alternatives)
