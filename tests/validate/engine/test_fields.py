"""Fields of benchmark files: draft lengths, counts, gaps between chunks, and figures at their limits."""

from typing import Any

import pytest

from perfmodel.validate.engine.formats.fields import bunched, interference, of_client, thinned
from perfmodel.validate.engine.text import floats, is_count
from perfmodel.validate.engine.timing import NOT_SPECULATED, GivenFacts, RequestLengths, Timing, speculation
from tests.refusals import refused


@pytest.mark.parametrize(
    ("given", "accepted", "gamma", "expected"),
    [
        ({}, 1.0, None, (0, 1.0)),
        ({"gamma": 3}, 4.0, None, (3, 4.0)),
        ({"gamma": 3}, 1.0, None, (3, 1.0)),
        ({"gamma": 3, "accepted": 2.0}, None, 3, (3, 2.0)),
        ({"gamma": 1}, None, 0, "gamma: must be 0"),
        ({}, 1.01, None, "gamma: must be stated"),
        ({"gamma": 3}, 4.01, None, r"from 1 to gamma \+ 1 = 4"),
        ({"gamma": 3}, 0.99, None, r"from 1 to gamma \+ 1 = 4"),
        ({"gamma": 3}, None, None, "accepted: must be stated"),
    ],
)
def test_draft_length_and_tokens_per_iteration(given, accepted, gamma, expected) -> None:
    if isinstance(expected, tuple):
        assert speculation("x", GivenFacts(**given), accepted, gamma) == expected
    else:
        refused(expected, speculation, "x", GivenFacts(**given), accepted, gamma)


@pytest.mark.parametrize("value", [0, 1e18])
def test_a_count_is_a_number_up_to_1e18(value: float) -> None:
    assert is_count(value)


@pytest.mark.parametrize("value", [1.1e18, -1, True, "1"])
def test_what_is_no_count(value: object) -> None:
    assert not is_count(value)


@pytest.mark.parametrize(
    "gaps",
    [
        [0.01, 0.011, 0.009, 0.05],
        [0.084] * 20 + [5.0] * 5,  # other requests' prompts say nothing of the steps between them
        [0.0] + [1.0] * 19,  # a twentieth
        [0.3] * 2 + [1.0] * 19,  # 0.3 of the median
    ],
)
def test_chunks_that_come_steadily(gaps: list[float]) -> None:
    assert not bunched(gaps)


def test_figures_at_their_limits() -> None:
    assert str(floats(["1", "x"])) == "[nan, nan]"
    assert thinned(range(200)) == tuple(range(200))
    many = thinned(range(399))
    assert len(many) == 200
    assert many[:3] == (0, 2, 4)
    assert many[-1] == 398
    assert bunched([0.0] * 2 + [1.0] * 19)
    twice = [0.02] * 20 + [1.0] * 10 + [1.1] * 11
    assert bunched(twice), "2 % of the median are no gap, 2.9 % of the mean are one"
    assert interference(2, 3, 0.0, 0.01, 0.0, 1.0) == 0.0
    assert interference(0.5, 3, 0.1, 0.01, 9, 1.0) == 0.0
    alone = of_client("x", 0.01, NOT_SPECULATED, 2.0, RequestLengths(8, 8), None, 9.0)
    assert alone.prefill_share == 0.0
    place: dict[str, Any] = {"where": "x", "seconds": 0.5, "batch": 2.0, "context": 10.0}
    assert Timing(**place, gamma=0, samples=(0.0, 1e5)).name == "B=2 S=10 baseline"
    assert Timing(**place, gamma=3, tokens_per_iteration=2.5).tpot_s == 0.2
    assert Timing(**place, gamma=3).name == "B=2 S=10 K=3"


@pytest.mark.parametrize(
    ("gaps", "late"),
    [
        ([1.0] * 90 + [0.35] * 10, False),
        ([1.0] * 90 + [0.25] * 10, True),
        ([1.0] * 96 + [0.1] * 4, False),
        ([1.0] * 94 + [0.1] * 6, True),
        ([0.003] * 60 + [1.0] * 40, True),
        ([0.005] * 60 + [1.0] * 40, False),
    ],
)
def test_chunks_that_a_client_read_late_leave_short_gaps(gaps: list[float], late: bool) -> None:
    """More than 5 % of the gaps are below 0.3 of the median of the gaps above 1 % of the mean."""
    assert bunched(gaps) is late
