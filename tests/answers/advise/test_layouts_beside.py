"""Layouts that `advise` names next to its choice: each begins and ends at its limit."""

import functools
import re
from dataclasses import make_dataclass, replace
from types import SimpleNamespace
from typing import Any

import pytest

from perfmodel.answers.advice import in_all as of_all
from perfmodel.answers.advice.advise import advise
from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.alternatives import Alternative
from perfmodel.answers.advice.beside_choice import layouts_beside
from perfmodel.answers.advice.layouts import Layout
from perfmodel.answers.advice.ranking import PricedPoint
from perfmodel.answers.advice.search import Search


@functools.cache
def searched(objective: str) -> tuple[AdviseQuery, dict[str, PricedPoint]]:
    """The best point of each layout of eight devices without a draft, by label."""
    query = AdviseQuery("qwen3-30b-a3b", "h100", gpus=8, objective=objective, batch=(1, 64))
    points = [point for point in Search.of(query).ranked if not point.gamma]
    return query, {point.layout.label(): point for point in points}


def named(objective: str, choice: str, other: str, times: float) -> list[str]:
    """What is named next to a choice if the other layout takes this many times as long per token."""
    query, points = searched(objective)
    chosen = points[choice]
    value = chosen.value * times if objective == "latency" else chosen.value / times
    slower = replace(points[other], tpot_s=chosen.tpot_s * times, value=value)
    weighed = sorted([chosen, slower], key=lambda point: -point.value)
    decision = SimpleNamespace(chosen=chosen, weighed=weighed)
    return [each.text for each in layouts_beside(query, decision)]


@pytest.mark.parametrize(("times", "is_named"), [(1.14, True), (1.16, False)])
def test_smaller_servers_may_be_fifteen_per_cent_slower(times: float, is_named: bool) -> None:
    texts = named("latency", "TP 8", "2 x TP 4", times)
    assert any(re.match(r"2 x TP 4 is \d+% slower and gives ", text) for text in texts) is is_named


@pytest.mark.parametrize(("times", "is_named"), [(1.09, True), (1.11, False)])
def test_smaller_servers_of_the_same_kind_may_be_a_tenth_worse(times: float, is_named: bool) -> None:
    texts = named("throughput", "TP 8", "8 x TP 1", times)
    assert any("is simpler to run and gives " in text for text in texts) is is_named


@pytest.mark.parametrize(("times", "is_named"), [(1.24, True), (1.26, False)])
def test_tensor_parallelism_alone_may_be_a_quarter_worse_than_groups(times: float, is_named: bool) -> None:
    texts = named("throughput", "TP 4 DP 2 EP 8", "8 x TP 1", times)
    assert any("is simpler to run and gives " in text for text in texts) is is_named


@pytest.mark.parametrize(("better", "is_named"), [(1.011, True), (1.009, False)])
def test_a_harder_layout_is_named_from_one_per_cent_on(better: float, is_named: bool) -> None:
    texts = named("throughput", "8 x TP 1", "TP 4 DP 2 EP 8", 1.0 / better)
    assert any("% better, which is too little" in text for text in texts) is is_named


def test_a_stated_batch_is_also_answered_for_all_servers_together() -> None:
    """A batch is that of one server: four servers of batch 8 run 32 sequences."""
    answer = advise("llama-3.1-8b", "4xh100", batch=(8,), context=8192)
    assert (answer.chosen.replicas, answer.chosen.batch) == (4, 8)
    assert "batch 8 per server" in answer.headline()
    (named,) = [each for each in answer.alternatives if each.text.startswith("Batch 8 is that of each ")]
    one = advise("llama-3.1-8b", "h100", batch=(8,), context=8192, tp=(4,)).chosen
    expected = f"32 sequences run in all; for 8 in all: TP 4, {one.draft}, gamma {one.gamma}, batch 8: "
    assert expected in named.text
    assert named.servers == 1
    assert " --max-num-seqs 8 " in named.line


@pytest.mark.parametrize("model", ["glm-4.6", "deepseek-v3.1"])
def test_other_servers_at_a_stated_batch_run_as_many_sequences(model: str) -> None:
    answer = advise(model, "8xh200", weights="fp8", context=32_768, batch=(8,))
    for each in answer.alternatives:
        assert each.servers == answer.chosen.replicas or "in all" in each.text, each.text


def in_all(monkeypatch, batch: int, values: dict[int, float], **asked: Any) -> str | None:
    """What is named beside two servers that each have a stated batch.

    - values: number of servers -> the value of the best point of such servers.
    """

    def of(query: SimpleNamespace, layouts: list[Layout]) -> SimpleNamespace:
        (servers,) = {layout.replicas for layout in layouts}
        assert query.batch == (batch // servers,)
        return SimpleNamespace(servers=servers, batch=query.batch[0], value=values[servers], tpot_s=0.01)

    layouts = [Layout(8, servers, 8 // servers) for servers in (8, 4, 2, 1)]
    candidates = SimpleNamespace(baselines=[SimpleNamespace(layout=layout) for layout in layouts])
    stated = {"batch": (batch,), "states_batch": True, "objective": "throughput"} | asked
    query = make_dataclass("Query", stated)(**stated)
    monkeypatch.setattr(of_all, "Search", SimpleNamespace(of=of))
    monkeypatch.setattr(of_all, "quick_choice", lambda point: point)
    monkeypatch.setattr(of_all, "point_text", lambda point: f"{point.servers} of batch {point.batch}")
    monkeypatch.setattr(of_all, "per_gpu", lambda point: 100.0)
    monkeypatch.setattr(Alternative, "of", lambda text, query, point: SimpleNamespace(text=text))
    search = SimpleNamespace(query=query, candidates=candidates)
    chosen = SimpleNamespace(layout=Layout(8, asked.get("replicas", 2), 4))
    found = of_all.for_batch_in_all(search, chosen)
    return None if found is None else found.text


@pytest.mark.parametrize(
    ("batch", "values", "best"),
    [
        (6, {1: 1.0, 2: 3.0}, "2 of batch 3"),
        (8, {1: 1.0, 2: 3.0, 4: 4.0, 8: 2.0}, "4 of batch 2"),
        (7, {1: 1.0}, "1 of batch 7"),
    ],
)
def test_servers_whose_batches_add_up_to_the_stated_one_are_named(monkeypatch, batch, values, best) -> None:
    assert in_all(monkeypatch, batch, values) == (
        f"Batch {batch} is that of each server, and {2 * batch} sequences run in all; for {batch} in all: "
        f"{best}: 100 tokens/s/GPU, 10 ms per token"
    )


@pytest.mark.parametrize("asked", [{"replicas": 1}, {"states_batch": False}, {"objective": "latency"}])
def test_one_server_several_batches_and_the_objective_latency_have_none_in_all(monkeypatch, asked) -> None:
    assert in_all(monkeypatch, 6, {1: 1.0, 2: 3.0}, **asked) is None
