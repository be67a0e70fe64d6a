"""How many requests a server of `advise` runs at once."""

from types import SimpleNamespace

import pytest

from perfmodel.answers.advice.served import Served, _seats_for


@pytest.mark.parametrize(
    ("running", "seats", "started"),
    [(1.0, 256, 8), (2.5, 256, 16), (9.0, 256, 24), (100.0, 256, 200), (100.0, 128, 128)],
)
def test_a_rate_has_twice_its_running_requests_or_four_deviations_more(running, seats, started) -> None:
    """2.5 and four times its root are 8.8, which is rounded up to a multiple of 8."""
    asked = SimpleNamespace(max_concurrency=None)
    served = SimpleNamespace(asked=asked, row=SimpleNamespace(running_mean=running), seats=seats)
    assert Served.started_seats.fget(served) == started


@pytest.mark.parametrize(("groups", "replicas", "seats"), [(1, 1, 10), (1, 2, 13), (2, 1, 14)])
def test_clients_that_a_router_divides_have_a_quarter_more_seats(
    groups: int, replicas: int, seats: int
) -> None:
    assert _seats_for(10, groups, replicas) == seats
