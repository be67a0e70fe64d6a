"""Servers that `advise` names next to its choice under a load: each limit is tried from both sides."""

from types import SimpleNamespace

import pytest

from perfmodel.answers.advice import beside_load
from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.layouts import Layout

GROUPS = Layout(8, 1, 4, 2, 8)
WHOLE = Layout(8, 1, 8, 1, 1)
HALVES = Layout(8, 2, 4, 1, 1)


def servers(layout: Layout, request_s: float, ttft_s: float) -> SimpleNamespace:
    """Servers of a layout with these times, of which a replay confirms both."""
    asked = SimpleNamespace(max_concurrency=None)
    return SimpleNamespace(
        candidate=SimpleNamespace(layout=layout), request_s=request_s, ttft_s=ttft_s, asked=asked, point=None
    )


def named(monkeypatch, chosen: SimpleNamespace, other: SimpleNamespace) -> list[str]:
    """What is named next to the chosen servers if the other servers are the only alternative."""
    monkeypatch.setattr(beside_load, "confirmed", lambda question, estimate: estimate)
    monkeypatch.setattr(beside_load, "started", lambda text, question, served: text)
    monkeypatch.setattr(beside_load, "shorter_draft", lambda question, point: None)
    monkeypatch.setattr(beside_load, "draft_text", lambda point: "no draft")
    question = AdviseQuery("qwen3-30b-a3b", "h100", gpus=8, clients=64, input_len=1000, output_len=100)
    decision = SimpleNamespace(others=[other], option=None)
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
