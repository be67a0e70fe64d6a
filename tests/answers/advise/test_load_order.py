"""Which servers an operator prefers under a load, and which of them are replayed. Made-up servers."""

from types import SimpleNamespace
from typing import Any

import pytest

from perfmodel.answers.advice import load_search
from perfmodel.answers.advice.load_order import safest_of_best, used
from perfmodel.answers.advice.load_search import _is_beaten, _is_worth_a_replay, may_suffice, may_take
from perfmodel.answers.load.closed_form_range import Doubt

LIMITED = SimpleNamespace(objective="throughput", latency_limits_ms={"tpot": 30.0}, gpus=None)
FREE = SimpleNamespace(objective="throughput", latency_limits_ms={}, gpus=None)


def server(request_s: float = 1.0, tpot_p90_s: float = 0.015, **changes: Any) -> SimpleNamespace:
    """Servers without a draft on eight GPUs."""
    row = {"gamma": 0, "slo_share": 1.0, "doubts": (), "ttft_s": 0.1}
    row |= {name: changes.pop(name) for name in [*row] if name in changes}
    row |= {"by_limit": {"tpot": SimpleNamespace(p90=tpot_p90_s)}}
    layout = SimpleNamespace(gpus=changes.pop("gpus", 8), simplicity=changes.pop("simplicity", 1), replicas=1)
    return SimpleNamespace(
        candidate=SimpleNamespace(layout=layout),
        row=SimpleNamespace(**row),
        request_s=request_s,
        tpot_s=request_s / 100,
        queues=changes.pop("queues", False),
    )


@pytest.mark.parametrize(("tpot_p90_s", "tenths"), [(0.003, 7), (0.021, 7), (0.024, 8), (0.029, 10)])
def test_percentiles_below_seven_tenths_of_a_limit_are_alike(tpot_p90_s: float, tenths: int) -> None:
    assert used(server(tpot_p90_s=tpot_p90_s), LIMITED) == (0, tenths)


@pytest.mark.parametrize(("request_s", "is_safer"), [(1.04, True), (1.06, False)])
def test_safer_servers_may_take_five_per_cent_longer(request_s: float, is_safer: bool) -> None:
    fast = server(tpot_p90_s=0.029)
    safe = server(request_s)
    assert safest_of_best([fast, safe], LIMITED) is (safe if is_safer else fast)


@pytest.mark.parametrize(("request_s", "is_simpler"), [(1.02, True), (1.03, False)])
def test_without_limits_simpler_servers_may_take_two_and_a_half_per_cent_longer(
    request_s: float, is_simpler: bool
) -> None:
    fast = server(simplicity=2)
    simple = server(request_s, simplicity=1)
    assert safest_of_best([fast, simple], FREE) is (simple if is_simpler else fast)


@pytest.mark.parametrize(
    ("share", "suffices", "replayed"),
    [(0.6, True, False), (0.59, False, True), (0.006, False, True), (0.004, False, False)],
)
def test_a_replay_may_find_enough_from_sixty_per_cent_on_and_none_below_half_a_per_cent(
    share: float, suffices: bool, replayed: bool
) -> None:
    assert may_suffice(server(slo_share=share)) is suffices
    assert _is_worth_a_replay(server(slo_share=share)) is replayed


@pytest.mark.parametrize(
    ("estimate", "beaten"),
    [
        ({"request_s": 1.001}, True),
        ({"request_s": 1.029, "doubts": (Doubt.BUNCHED,)}, False),
        ({"request_s": 1.031, "doubts": (Doubt.BUNCHED,)}, True),
        ({"request_s": 9.0, "doubts": (Doubt.CROWDED,)}, False),
        ({"request_s": 1.02, "simplicity": 0}, False),
        ({"request_s": 1.03, "simplicity": 0}, True),
        ({"request_s": 0.5, "gpus": 9, "doubts": (Doubt.CROWDED,)}, True),
        ({"request_s": 9.0, "gpus": 7}, False),
    ],
)
def test_a_candidate_is_beaten_beyond_the_error_of_the_closed_form(estimate: dict, beaten: bool) -> None:
    assert _is_beaten(server(**estimate), server(), FREE) is beaten


@pytest.mark.parametrize(
    ("estimate", "may"),
    [
        ({"request_s": 2.0}, True),
        ({"request_s": 2.01}, False),
        ({"request_s": 2.05, "doubts": (Doubt.BUNCHED,)}, True),
        ({"request_s": 2.07, "doubts": (Doubt.BUNCHED,)}, False),
        ({"request_s": 9.0, "doubts": (Doubt.CROWDED,)}, True),
        ({"request_s": 9.0, "queues": True}, True),
    ],
)
def test_servers_are_not_replayed_for_a_time_beyond_the_error_of_the_closed_form(
    estimate: dict, may: bool
) -> None:
    assert may_take(server(**estimate), most_s=2.0) is may


def replayed_of(monkeypatch, gpus: int | None, *servers: tuple[float, dict[str, Any]]) -> list[float]:
    """The times of the servers that are replayed, in this order. Their names are their times by the closed
    form.

    - servers: this time, and what the replay finds otherwise; the servers have eight GPUs.
    """
    found = []
    changes = dict(servers)

    def replayed(question: Any, estimate: SimpleNamespace) -> SimpleNamespace | None:
        found.append(estimate.request_s)
        made = server(**{"request_s": estimate.request_s, "queues": False} | changes[estimate.request_s])
        made.suffices = made.row.slo_share >= 0.9
        return made

    estimates = [server(request_s, doubts=(Doubt.BUNCHED,)) for request_s in changes]
    for estimate in estimates:
        estimate.pays = True
    monkeypatch.setattr(load_search, "_estimates", lambda question, candidates, drafts: estimates)
    monkeypatch.setattr(load_search, "replayed", replayed)
    question: Any = SimpleNamespace(**vars(FREE) | {"gpus": gpus})
    load_search.served_by_all(question, None, drafts=False)
    return found


def test_servers_are_replayed_from_the_fastest_until_the_others_are_beaten(monkeypatch) -> None:
    """The closed form may be off by three per cent."""
    assert replayed_of(monkeypatch, 8, (1.04, {}), (1.0, {}), (1.02, {})) == [1.0, 1.02]


@pytest.mark.parametrize(
    ("gpus", "first", "replayed"),
    [
        (8, {"queues": True}, [1.0]),
        (None, {"queues": True}, [1.0, 1.5]),
        (8, {"slo_share": 0.5}, [1.0, 1.5]),
        (8, {"request_s": 1.6}, [1.0, 1.5]),
    ],
)
def test_the_next_servers_are_replayed_if_the_first_do_not_suffice(
    monkeypatch, gpus, first, replayed
) -> None:
    """Servers with a queue suffice only if the number of GPUs is given."""
    assert replayed_of(monkeypatch, gpus, (1.0, first), (1.5, {})) == replayed
