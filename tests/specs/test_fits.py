"""What holds a fit's constants together must be a correlation, and an error must leave an answer finite."""

import numpy as np
import pytest
from pydantic import ValidationError

from perfmodel.specs.fits import Scatter, StatedFit, square


def test_a_lower_triangle_becomes_the_whole() -> None:
    assert square(((1.0,), (0.5, 1.0), (-0.2, 0.1, 1.0))).tolist() == [[1, 0.5, -0.2], [0.5, 1, 0.1], [-0.2, 0.1, 1]]


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        # a and b move together, b and c move together, a and c against each other: eigenvalue 1 - 2 x 0.9 = -0.8
        (((1,), (0.9, 1), (-0.9, 0.9, 1)), "positive semi-definite, given an eigenvalue of -0.8"),
        (((1,), (float("nan"), 1), (0, 0, 1)), "from -1 to 1"),
        (((1,), (1.01, 1), (0, 0, 1)), "from -1 to 1"),
        (((1,), (0.5, 0.9), (0, 0, 1)), "1 on the diagonal"),
        (((1,), (0.5, 1)), "one row per parameter"),
    ],
)
def test_what_is_no_correlation_is_refused(rows: tuple[tuple[float, ...], ...], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        StatedFit(parameters=("a", "b", "c"), correlation=rows)


def test_a_correlation_may_be_whole() -> None:
    """1 or -1 beside the diagonal is one parameter told twice: the least eigenvalue is 0."""
    for beside in (1.0, -1.0):
        assert StatedFit(parameters=("a", "b"), correlation=((1.0,), (beside, 1.0))).correlation[1] == (beside, 1.0)
    with pytest.raises(ValidationError, match="one row per parameter"):
        StatedFit(parameters=("a", "b"), correlation=((1.0, 0.0), (0.0, 1.0)))


def test_the_deviation_of_a_scatter_is_that_of_its_interval() -> None:
    """90 % of a normal distribution lie within 1.645 deviations."""
    assert Scatter(log_rms=0.2, rows=1, source="a test").deviation == 0.2
    within = Scatter(log_rms=0.2, log_within=0.3, rows=1, source="a test")
    assert within.deviation == pytest.approx(0.3 / 1.6448536269514722, rel=1e-15)
    assert [Scatter(log_rms=end, rows=1, source="xyz").deviation for end in (0.0, 10)] == [0.0, 10.0]
    for log_rms, rows in ((0.1, 0), (-0.1, 3), (10.1, 3), (float("inf"), 3), (float("nan"), 3)):
        with pytest.raises(ValidationError):
            Scatter(log_rms=log_rms, rows=rows, source="a test")


def test_a_parameter_is_given_once() -> None:
    with pytest.raises(ValidationError, match="once each"):
        StatedFit(parameters=("a", "a"), correlation=((1,), (0.5, 1)))


def test_rounding_to_two_decimals_is_allowed() -> None:
    """Three parameters that are one: 0.995 rounds to 1 or 0.99, and the least eigenvalue falls just below 0."""
    rows = ((1.0,), (1.0, 1.0), (0.99, 1.0, 1.0))
    assert -0.015 < np.linalg.eigvalsh(square(rows))[0] < 0
    StatedFit(parameters=("a", "b", "c"), correlation=rows)
