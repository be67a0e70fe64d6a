"""Servers with smaller weights that an answer names beside the choice. Made-up servers."""

from types import SimpleNamespace
from typing import Any

import pytest

from perfmodel.answers.advice import smaller_servers
from perfmodel.answers.advice.layouts import Layout


def served(gpus: int, request_s: float, queues: bool = False) -> SimpleNamespace:
    layout = Layout(gpus, 1, gpus)
    return SimpleNamespace(candidate=SimpleNamespace(layout=layout), request_s=request_s, queues=queues)


def on_given_gpus(
    monkeypatch, times: dict[str, float], queues: bool = False, **stated: Any
) -> tuple[list[str], set[str]]:
    """The formats that are named on eight given GPUs beside servers whose requests take 10 s, and the layouts
    that are tried.

    - times: the time of a request in each format. Formats with ``kv`` have a smaller cache too.
    - queues: whether requests wait for a seat.
    """
    question = SimpleNamespace(gpus=8, tp=None, ep=None)
    weights = [flags for flags in times if "kv" not in flags]
    tried = set()

    def best_on(asked: SimpleNamespace, layouts: list[Layout], most_s: float) -> SimpleNamespace:
        tried.update(each.label() for each in layouts)
        return served(8, times[asked.flags], queues)

    def changed(flags: str) -> SimpleNamespace:
        return SimpleNamespace(**vars(question) | {"flags": flags} | stated)

    def with_smaller_cache(flags: str, question: SimpleNamespace) -> list[tuple[str, SimpleNamespace]]:
        return [(f"{flags}kv", changed(f"{flags}kv"))] if f"{flags}kv" in times else []

    replaced = {
        "best_on": best_on,
        "in_smaller_weights": lambda question: [(flags, changed(flags)) for flags in weights],
        "with_smaller_cache": with_smaller_cache,
        "served_with_draft": lambda served: "servers",
        "started": lambda text, question, served: text,
    }
    for name, stand_in in replaced.items():
        monkeypatch.setattr(smaller_servers, name, stand_in)
    found = list(smaller_servers.smaller_servers(question, served(8, 10.0)))
    return [each.flags for each in found], tried


@pytest.mark.parametrize(
    ("times", "named"),
    [
        ({"fp8": 8.4}, ["fp8"]),
        ({"fp8": 8.6}, []),
        ({"fp8": 8.0, "int4": 6.7}, ["fp8", "int4"]),
        ({"fp8": 8.0, "int4": 6.9}, ["fp8"]),
        ({"fp8": 9.0, "int4": 8.4}, ["int4"]),
    ],
)
def test_each_smaller_format_saves_fifteen_per_cent_of_what_the_one_before_takes(
    monkeypatch, times, named
) -> None:
    assert on_given_gpus(monkeypatch, times)[0] == named


@pytest.mark.parametrize(
    ("times", "queues", "named"),
    [
        ({"fp8": 8.0, "fp8 kv": 7.5}, True, ["fp8 kv"]),
        ({"fp8": 8.0, "fp8 kv": 7.7}, True, ["fp8"]),
        ({"fp8": 8.0, "fp8 kv": 7.5}, False, ["fp8"]),
        ({"fp8": 8.8, "fp8 kv": 8.3}, True, ["fp8 kv"]),
    ],
)
def test_a_smaller_cache_beside_smaller_weights_saves_a_twentieth_where_requests_wait_for_a_seat(
    monkeypatch, times, queues, named
) -> None:
    assert on_given_gpus(monkeypatch, times, queues)[0] == named


@pytest.mark.parametrize(
    ("stated", "tried"), [({}, {"TP 8", "2 x TP 4"}), ({"tp": (8,)}, {"TP 8"}), ({"ep": (1,)}, {"TP 8"})]
)
def test_servers_of_half_the_size_are_tried_unless_the_question_states_a_degree(
    monkeypatch, stated, tried
) -> None:
    assert on_given_gpus(monkeypatch, {"fp8": 8.0}, **stated)[1] == tried


def test_smaller_weights_for_a_load_on_any_gpus_must_save_one(monkeypatch) -> None:
    most = []
    monkeypatch.setattr(smaller_servers, "all_reaches", lambda question: [])
    monkeypatch.setattr(smaller_servers, "fewest_gpus", lambda question, found, most: needs.pop(0)(most))
    monkeypatch.setattr(smaller_servers, "in_smaller_weights", lambda question: [("fp8", 0), ("int4", 0)])
    monkeypatch.setattr(smaller_servers, "enough_text", lambda served: "these suffice")
    monkeypatch.setattr(smaller_servers, "started", lambda text, question, served: text)
    needs = [lambda limit: most.append(limit) or served(5, 1.0), lambda limit: most.append(limit)]
    found = list(smaller_servers.smaller_servers(SimpleNamespace(gpus=None), served(8, 10.0)))
    assert [(each.flags, each.gain) for each in found] == [("fp8", "5 GPUs suffice, not 8")]
    assert most == [7, 4]


def in_format(flags: str, request_s: float, gpus: int = 8) -> smaller_servers.SmallerServers:
    """Servers in a format with the time of a request."""
    made_up: Any = SimpleNamespace(at_its_batch=lambda question: "point", **vars(served(gpus, request_s)))
    nothing: Any = None
    return smaller_servers.SmallerServers(flags, nothing, nothing, made_up, "")


@pytest.mark.parametrize(
    ("both_s", "named"), [(7.5, ["fp8", "int4 kv", "kv"]), (7.7, ["fp8", "kv"])], ids=["sooner", "alike"]
)
def test_smaller_weights_with_a_smaller_cache_must_be_sooner_than_with_the_cache_alone(both_s, named) -> None:
    """With the cache alone a request takes 8 s. Weights without this cache are an answer of their own."""
    smaller = [in_format("fp8", 9.0), in_format("int4 kv", both_s)]
    beside = smaller_servers.beside_cache(smaller, in_format("kv", 8.0))
    assert [each.flags for each in beside] == named


@pytest.mark.parametrize(
    ("gpus", "gain"), [(4, 2.0), (8, 1.25)], ids=["half of the GPUs", "on as many GPUs, the time"]
)
def test_the_gain_of_a_format_is_in_gpus_or_on_as_many_in_time(monkeypatch, gpus, gain) -> None:
    monkeypatch.setattr(smaller_servers, "change_of", lambda flags, question, point, gain, share: gain)
    monkeypatch.setattr(smaller_servers, "decoding_share", lambda served, question: 1.0)
    assert in_format("fp8", 8.0, gpus).change(served(8, 10.0)) == gain
