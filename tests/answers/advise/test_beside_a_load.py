"""Servers that `advise` names next to its choice under a load: each limit is tried from both sides."""

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from perfmodel.answers.advice import beside_load
from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.layouts import Layout
from perfmodel.answers.advice.smaller_servers import SmallerServers

QUESTION = AdviseQuery("qwen3-30b-a3b", "h100", gpus=8, clients=64, input_len=1000, output_len=100)
GROUPS = Layout(8, 1, 4, 2, 8)
WHOLE = Layout(8, 1, 8, 1, 1)
HALVES = Layout(8, 2, 4, 1, 1)
FOUR = Layout(4, 1, 4, 1, 1)
SMALL = Layout(8, 4, 2, 1, 1)


def servers(layout: Layout, request_s: float, ttft_s: float, seats: int = 64) -> SimpleNamespace:
    """Servers of a layout with these times, each with room for so many of its 64 clients."""
    return SimpleNamespace(
        candidate=SimpleNamespace(layout=layout),
        request_s=request_s,
        ttft_s=ttft_s,
        seats=seats,
        asked=SimpleNamespace(max_concurrency=(64,)),
        point=None,
    )


def confirm(estimate: SimpleNamespace) -> SimpleNamespace:
    """A replay that agrees with the closed form."""
    return estimate


def named(
    monkeypatch,
    chosen: SimpleNamespace,
    *others: SimpleNamespace,
    replay: Callable[[SimpleNamespace], SimpleNamespace | None] = confirm,
    **asked: Any,
) -> list[str]:
    """What is named next to the chosen servers if the other servers are the only alternatives."""
    monkeypatch.setattr(beside_load, "confirmed", lambda question, estimate, most_s: replay(estimate))
    monkeypatch.setattr(beside_load, "started", lambda text, question, served: text)
    monkeypatch.setattr(beside_load, "shorter_draft", lambda question, point: None)
    monkeypatch.setattr(beside_load, "draft_text", lambda point: "no draft")
    question = replace(QUESTION, **asked)
    decision = SimpleNamespace(others=others, option=None)
    return list(beside_load.beside_load(question, decision, chosen, []))


@pytest.mark.parametrize(("chosen", "limit"), [(GROUPS, 1.25), (WHOLE, 1.1)])
def test_a_simpler_layout_may_be_a_quarter_or_a_tenth_slower(monkeypatch, chosen, limit) -> None:
    best = servers(chosen, 10.0, 0.5)
    near = named(monkeypatch, best, servers(HALVES, 10.0 * limit - 0.1, 0.5))
    assert [text.split(" is simpler")[0] for text in near] == ["2 x TP 4 with no draft"]
    assert named(monkeypatch, best, servers(HALVES, 10.0 * limit + 0.1, 0.5)) == []


@pytest.mark.parametrize(("ttft_s", "latest_s"), [(0.1, 1.0), (2.0, 4.0)])
def test_a_simpler_layout_may_have_its_first_token_after_twice_the_time_or_a_second(
    monkeypatch, ttft_s, latest_s
) -> None:
    best = servers(WHOLE, 10.0, ttft_s)
    assert named(monkeypatch, best, servers(HALVES, 10.2, latest_s - 0.1))
    assert named(monkeypatch, best, servers(HALVES, 10.2, latest_s + 0.1)) == []


def test_a_first_token_in_half_the_time_is_worth_thirty_per_cent(monkeypatch) -> None:
    best = servers(HALVES, 10.0, 1.1)
    assert named(monkeypatch, best, servers(WHOLE, 12.9, 0.5)) == [
        "TP 8 with no draft: first token after 500 ms instead of 1.1 s, for 29% more time per request"
    ]
    assert named(monkeypatch, best, servers(WHOLE, 13.1, 0.5)) == []
    assert named(monkeypatch, best, servers(WHOLE, 12.9, 0.6)) == []


def test_a_first_token_within_a_second_is_early_enough(monkeypatch) -> None:
    assert named(monkeypatch, servers(HALVES, 10.0, 0.9), servers(WHOLE, 12.0, 0.1)) == []


def test_a_simpler_layout_that_is_faster_takes_less_time(monkeypatch) -> None:
    (text,) = named(monkeypatch, servers(WHOLE, 10.0, 0.5), servers(HALVES, 9.8, 0.5))
    assert text == "2 x TP 4 with no draft is simpler to run and takes 2% less time per request"


def test_layouts_of_fewer_gpus_are_not_named_as_simpler(monkeypatch) -> None:
    assert named(monkeypatch, servers(WHOLE, 10.0, 0.5), servers(FOUR, 10.0, 0.5)) == []


def test_for_the_objective_latency_no_slower_layout_is_named_as_simpler(monkeypatch) -> None:
    found = (servers(WHOLE, 10.0, 0.5), servers(HALVES, 10.5, 0.5))
    assert named(monkeypatch, *found)
    assert named(monkeypatch, *found, objective="latency") == []


def test_the_simplest_of_several_layouts_is_named_and_the_fastest_of_those_without_groups(
    monkeypatch,
) -> None:
    others = [servers(HALVES, 10.2, 0.5), servers(SMALL, 10.8, 0.5)]
    (text,) = named(monkeypatch, servers(WHOLE, 10.0, 0.5), *others)
    assert text.startswith("4 x TP 2 with")
    (text,) = named(monkeypatch, servers(GROUPS, 10.0, 0.5), *others)
    assert text.startswith("2 x TP 4 with")


REFUTED = [None, (13.1, 0.5), (10.2, 4.1)]
"""A replay that refuses servers, or finds a request or its first token too late."""


@pytest.mark.parametrize("found", REFUTED)
@pytest.mark.parametrize("chosen", [GROUPS, WHOLE])
def test_a_simpler_layout_that_the_replay_does_not_confirm_is_not_named(monkeypatch, chosen, found) -> None:
    def replayed(estimate: SimpleNamespace) -> SimpleNamespace | None:
        return None if found is None else servers(HALVES, *found)

    both = (servers(chosen, 10.0, 0.5), servers(HALVES, 10.2, 0.5))
    assert named(monkeypatch, *both)
    assert named(monkeypatch, *both, replay=replayed) == []


@pytest.mark.parametrize("found", REFUTED)
def test_an_earlier_first_token_that_the_replay_does_not_confirm_is_not_named(monkeypatch, found) -> None:
    def replayed(estimate: SimpleNamespace) -> SimpleNamespace | None:
        return None if found is None else servers(WHOLE, *found)

    both = (servers(HALVES, 10.0, 1.1), servers(WHOLE, 12.9, 0.5))
    assert named(monkeypatch, *both)
    assert named(monkeypatch, *both, replay=replayed) == []


@pytest.mark.parametrize(
    ("seats", "seats_with_fp8", "limit"), [(64, 80, 0.85), (48, 48, 0.85), (48, 64, 0.95)]
)
def test_an_fp8_cache_saves_fifteen_per_cent_or_five_where_more_of_the_clients_then_run_at_once(
    monkeypatch, seats, seats_with_fp8, limit
) -> None:
    chosen = servers(WHOLE, 10.0, 0.5, seats)

    def with_fp8(request_s: float) -> SmallerServers | None:
        best = servers(WHOLE, request_s, 0.5, seats_with_fp8)
        monkeypatch.setattr(beside_load, "best_on", lambda asked, layouts, most_s: best)
        monkeypatch.setattr(beside_load, "served_with_draft", lambda served: "these servers")
        monkeypatch.setattr(beside_load, "started", lambda text, question, served: text)
        return beside_load.smaller_cache(QUESTION, chosen)

    assert with_fp8(10.0 * limit + 0.1) is None
    found = with_fp8(10.0 * limit - 0.1)
    assert found is not None
    of_seats = "A server runs 48 of 64 requests at once, with --kv-dtype fp8 64, and a request then takes"
    assert found.alternative.startswith(of_seats) is (limit > 0.9)


@pytest.mark.parametrize(
    ("dp", "stated", "tried"), [(1, None, []), (4, None, [2]), (4, (4,), []), (8, None, [4])]
)
def test_an_fp8_cache_is_also_tried_with_half_of_the_attention_groups(monkeypatch, dp, stated, tried) -> None:
    """Unless the question states their number."""
    layouts: list[Layout] = []
    monkeypatch.setattr(beside_load, "best_on", lambda asked, given, most_s: layouts.extend(given))
    layout = Layout(8, 1, 8, dp)
    assert beside_load.smaller_cache(replace(QUESTION, dp=stated), servers(layout, 10.0, 0.5)) is None
    assert layouts == [layout, *(Layout(8, 1, 8, half) for half in tried)]


@pytest.mark.parametrize(
    ("asked", "named_gpus"),
    [({}, 7), ({"objective": "latency"}, None), ({"gpus": None}, None), ({"request_rate": None}, None)],
)
def test_fewer_gpus_without_a_draft_are_searched_for_a_rate_on_given_gpus(
    monkeypatch, asked, named_gpus
) -> None:
    """The objective latency has a use for every GPU, and clients are served by any number."""
    rate = replace(QUESTION, clients=None, request_rate=2.0, slo="tpot:50")
    searched = []
    reach = [SimpleNamespace(drafts=drafts) for drafts in (True, False)]

    def fewest(question, found, most):
        searched.append((question.gpus, [each.drafts for each in found], most))

    monkeypatch.setattr(beside_load, "all_reaches", lambda question: reach)
    monkeypatch.setattr(beside_load, "fewest_gpus", fewest)
    monkeypatch.setattr(beside_load, "shorter_draft", lambda question, point: None)
    clients = {"clients": 4} if "request_rate" in asked else {}
    decision = SimpleNamespace(others=[], option=None)
    found = beside_load.beside_load(
        replace(rate, **asked, **clients), decision, servers(WHOLE, 10.0, 0.5), []
    )
    assert list(found) == []
    assert searched == ([] if named_gpus is None else [(None, [False], named_gpus)])


@pytest.mark.parametrize(("gpus", "stated", "tried"), [(16, None, [16]), (8, None, []), (16, 16, [])])
def test_two_pools_are_searched_beside_more_gpus_than_the_largest_server(
    monkeypatch, gpus, stated, tried
) -> None:
    """Unless the question states the number of GPUs."""
    searched = []
    monkeypatch.setattr(beside_load, "fewer_in_two_pools", lambda question, of: searched.append(of) or [])
    named(monkeypatch, servers(Layout(gpus, gpus // 8, 8), 10.0, 0.5), gpus=stated, slo="tpot:50")
    assert searched == tried
