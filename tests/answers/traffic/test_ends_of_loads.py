"""The load at which something ends, by made-up servers: a draft that pays off, and limits that are kept."""

from types import SimpleNamespace

import numpy as np
import pytest

from perfmodel.answers.load import draft_limits, largest_load
from perfmodel.answers.load.largest_load import OneServer
from perfmodel.queueing.load import Lengths, Load

LENGTHS = Lengths(input_mean=1000.0, output_mean=101.0)


def stops_paying_at(monkeypatch, pays_below: float, rate: bool = True) -> float | None:
    """The load from which a draft is not faster if it is faster below this load, on a server with seats for
    32 requests and a capacity of 24 requests/s (30 without the draft).
    """
    drafting, plain = (SimpleNamespace(seats=seats, most=most) for seats, most in ((32, 24.0), (40, 30.0)))

    def mean_tpot_s(steps: SimpleNamespace, load: Load, limits: None) -> np.ndarray:
        loads = load.clients if load.rate is None else load.rate
        return np.where(loads < pays_below, 0.9, 1.1) if steps is drafting else np.ones(loads.size)

    def capacity(steps: SimpleNamespace, lengths: None, limits: None) -> SimpleNamespace:
        return SimpleNamespace(requests_per_s=steps.most)

    monkeypatch.setattr(draft_limits, "mean_tpot_s", mean_tpot_s)
    monkeypatch.setattr(draft_limits, "capacity", capacity)
    some = np.ones(1)
    load = Load(LENGTHS, rate=some) if rate else Load(LENGTHS, clients=some)
    replica = SimpleNamespace(passes={0: plain}, load=load, lengths=None, limits=None)
    return draft_limits._stops_paying(replica, drafting)


def test_the_rate_from_which_a_draft_stops_paying_is_found_to_a_24th_of_the_capacity(monkeypatch) -> None:
    """From 1 request/s up to the lower capacity of 24, which is not tried itself."""
    assert stops_paying_at(monkeypatch, 10.0) == pytest.approx(1 + 10 * 23 / 24)
    assert stops_paying_at(monkeypatch, 0.5) == 1.0
    assert stops_paying_at(monkeypatch, 23.5) is None


def test_the_clients_from_which_a_draft_stops_paying_fit_in_the_seats_of_both(monkeypatch) -> None:
    assert stops_paying_at(monkeypatch, 10.0, rate=False) == 10
    assert stops_paying_at(monkeypatch, 32.0, rate=False) == 32
    assert stops_paying_at(monkeypatch, 33.0, rate=False) is None


@pytest.mark.parametrize(("opens", "most"), [(True, 50.0), (False, 1000.0)])
@pytest.mark.parametrize("enough", [0.0, 7.3, 37.0, 2000.0])
def test_the_largest_load_within_the_limits_is_found_in_two_searches(
    monkeypatch, opens: bool, most: float, enough: float
) -> None:
    """Each search tries 16 loads. The capacity of 50 requests/s bounds a rate."""

    def closed(self: OneServer, loads: np.ndarray) -> list[tuple[SimpleNamespace, None]]:
        return [(SimpleNamespace(at=float(load)), None) for load in loads]

    monkeypatch.setattr(largest_load, "load_of", lambda row: row.at)
    monkeypatch.setattr(
        largest_load, "capacity", lambda steps, lengths, limits: SimpleNamespace(requests_per_s=50.0)
    )
    question = SimpleNamespace(opens=opens, lengths=None, limits=None)
    priced = SimpleNamespace(question=question, replica=SimpleNamespace(passes={0: None}))
    made = type("Made", (OneServer,), {"_closed": closed})
    found = made(priced, drafts=False).largest(1000.0, lambda row: row.at <= enough)
    assert found.load <= enough
    if found.row is None:
        assert found.above.at == (most / 256 if opens else 4)
    elif found.above is None:
        assert found.load == most <= enough
    else:
        assert enough < found.above.at <= max(1.03 * found.load, found.load + (not opens))
