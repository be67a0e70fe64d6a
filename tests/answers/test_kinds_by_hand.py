"""Choices on several kinds of device, with round numbers: what ranks them, and which others are named."""

from types import SimpleNamespace
from typing import Any

import pytest

from perfmodel.answers.advice import other_kinds
from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.other_kinds import OfKind, most_in_all, with_smaller_weights_on_all
from perfmodel.answers.advice.ranking import ALIKE
from perfmodel.errors import InputError


def kind(tokens_per_s: float = 100.0, price: float | None = None, **question: Any) -> OfKind:
    """A choice on two devices, which takes 10 ms per token (9 to 12)."""
    pick: Any = SimpleNamespace(
        hardware="h100",
        layout="TP 2",
        draft=None,
        gamma=0,
        gpus=2,
        batch=1,
        replicas=1,
        tpot_s=0.010,
        tpot_interval=(0.009, 0.012),
        throughput_tokens_per_s=tokens_per_s,
        throughput_tokens_per_s_per_device=tokens_per_s / 2,
        all_servers_tokens_per_s=tokens_per_s,
        cost_per_million_tokens=price,
    )
    usual = {"objective": "throughput", "has_load": False, "gpus": 2, "dollars": None}
    asked: Any = SimpleNamespace(**usual | question)
    no_answer: Any = None
    return OfKind(asked, pick, lambda: "vllm serve", no_answer, (80.0, 125.0))


@pytest.mark.parametrize(
    ("question", "price", "name", "cost", "ends"),
    [
        ({}, None, "throughput", 1 / 50, (0.9, 1.2)),
        ({"has_load": True}, None, "throughput", 1 / 50, (0.8, 1.25)),
        ({"has_load": True}, 3.0, "cost", 3.0, (0.8, 1.25)),
        ({"has_load": True, "objective": "latency"}, None, "latency", 0.010, (0.9, 1.2)),
    ],
)
def test_under_a_load_the_rate_of_a_server_is_what_is_uncertain(question, price, name, cost, ends) -> None:
    """100 tokens/s, 80 to 125, take 0.8 to 1.25 times as long."""
    measure = kind(price=price, **question).measure
    assert (measure.name, measure.cost) == (name, pytest.approx(cost))
    assert measure.factors == pytest.approx(ends)


def test_a_machine_that_gives_clearly_more_in_all_is_named() -> None:
    more = kind(100.0 * (1.01 + ALIKE))
    (named,) = most_in_all([kind(), more])
    assert "tokens/s in all instead of 100" in named.text
    assert most_in_all([kind(), kind(100.0 * (0.99 + ALIKE))]) == ()
    assert most_in_all([kind(), kind(100.0 * (1.01 + ALIKE), gpus=None)]) == (), "as many as needed"
    assert most_in_all([kind(dollars=2.0), more]) == (), "ranked by price"


def test_smaller_weights_are_named_where_they_are_clearly_better(monkeypatch: pytest.MonkeyPatch) -> None:
    """One kind refuses FP8, and the other gives so many tokens/s with it."""
    asked = [AdviseQuery("qwen3-8b", hardware) for hardware in ("a100", "h100")]

    def named(tokens_per_s: float) -> int:
        def of(question: AdviseQuery) -> OfKind:
            if question.hardware == "a100":
                raise InputError("--weights: a100 has no fp8 peak")
            return kind(tokens_per_s)

        monkeypatch.setattr(OfKind, "of", of)
        return len(with_smaller_weights_on_all(asked, kind(100.0)))

    monkeypatch.setattr(other_kinds, "may_be_smaller", lambda question: True)
    assert named(100.0 * (1.01 + ALIKE)) == 1
    assert named(100.0 * (0.99 + ALIKE)) == 0
