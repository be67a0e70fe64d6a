"""The time that a session thinks, for each of its requests."""

import pytest

from perfmodel.queueing.load import Lengths
from perfmodel.queueing.prefix import Reuse


@pytest.mark.parametrize(("turns", "seconds"), [(1, 0.0), (3, 4.0)])
def test_a_session_thinks_between_its_requests_alone(turns: int, seconds: float) -> None:
    """Three requests with two pauses of 6 s: 4 s for each request."""
    lengths = Lengths(input_mean=1000.0, output_mean=101.0)
    assert Reuse(lengths, turns=turns, think_s=6.0).think_of_all_s == seconds
