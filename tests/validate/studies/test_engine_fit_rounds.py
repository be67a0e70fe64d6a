"""The engines' least squares by hand: parts of an error, expectations beside rows, slopes, and rounds of both."""

from math import e, exp, log, log1p, sqrt
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from perfmodel.validate.studies.parameters import Parameter
from perfmodel.validate.studies.robust import Slopes, _soft, fit, fit_anew, solve, weigh_steps

FREE = 1e6
"""A spread that pulls at nothing."""


def row(model: str, hardware: str = "h100-sxm-80gb", engine: str = "vllm", version: str = "0.10.2", tp: int = 1) -> Any:
    return SimpleNamespace(engine=engine, model=model, hardware=hardware, tensor_parallel=tp, engine_version=version)


def soft(deviation: float, width: float) -> float:
    """Square root of the Cauchy loss w^2 ln(1 + (d/w)^2), with the sign of d."""
    return float(np.sign(deviation)) * width * sqrt(log1p((deviation / width) ** 2))


def test_the_cauchy_loss_is_square_near_nothing_and_flat_far_out() -> None:
    found = _soft(np.array([-2.0, 0.01, 0.0, 20.0]), 2.0)
    assert found == pytest.approx([-2 * sqrt(log(2)), 0.01, 0.0, 2 * sqrt(log(101))], rel=1e-5)


def test_an_error_has_a_part_of_its_model_its_group_and_its_row() -> None:
    """Groups a (two rows) and b of one model on Hopper, c of it on Blackwell; the last row is not trained on.

    The parts have standard deviations of 0.02. The mean of a has a variance of 0.0004 (1 + 1/2), of b and c 0.0008.
    """
    rows = [row("m"), row("m"), row("m", "h200-sxm-141gb"), row("m", "b200-sxm-180gb"), row("m", tp=2)]
    weigh = weigh_steps(SimpleNamespace(rows=rows), np.array([True] * 4 + [False]))  # type: ignore[arg-type]
    found = weigh(np.array([0.01, 0.05, 0.06, -0.04, 9.0]))
    a, b = 0.0004 * 1.5, 0.0004 * 2
    model = (0.03 / a + 0.06 / b) / (1 / a + 1 / b)
    expected = [
        soft(model / sqrt(0.0004 + 1 / (1 / a + 1 / b)), 2),
        soft(-0.04 / sqrt(0.0004 + b), 2),
        soft((0.03 - model) / sqrt(a), 2),
        soft((0.06 - model) / sqrt(b), 2),
        0.0,
        *(soft(off / 0.02, 3) for off in (-0.02, 0.02, 0.0, 0.0)),
    ]
    assert found == pytest.approx(expected, abs=1e-12)


def test_a_group_of_many_rows_weighs_as_ten_and_a_minor_version_is_no_group() -> None:
    """40 rows, half of them of 0.10.2 and half of 0.10.4; one of 0.11 is another group of the model."""
    rows = [row("m", version="0.10.2" if i % 2 else "0.10.4") for i in range(40)] + [row("m", version="0.11")]
    off = np.array([0.03] + [0.0] * 39 + [0.0])
    found = weigh_steps(SimpleNamespace(rows=rows), np.ones(41, dtype=bool))(off)  # type: ignore[arg-type]
    assert len(found) == 1 + 2 + 41
    many, one, mean = 0.0004 * 1.1, 0.0004 * 2, 0.03 / 40
    model = (mean / many) / (1 / many + 1 / one)
    assert found[:3] == pytest.approx(
        [
            soft(model / sqrt(0.0004 + 1 / (1 / many + 1 / one)), 2),
            soft((mean - model) / sqrt(many), 2),
            soft(-model / sqrt(one), 2),
        ]
    )
    assert found[3] == pytest.approx(soft((0.03 - mean) * 0.5 / 0.02, 3))  # sqrt(10/40)


def test_a_solution_lies_between_the_rows_and_what_is_expected() -> None:
    """ln a = ln 2 +- 0.1 beside an expectation of 0 +- 0.2: 0.8 ln 2, variance 1/(100 + 25). Nothing is said of b."""
    parameters = [Parameter("all.a", 1.0, 0.2), Parameter("all.b", 3.0, 0.5)]
    found = solve(parameters, lambda v: np.array([(log(v["all.a"]) - log(2)) / 0.1]), {"all.a": 1.5, "all.b": 9.0})
    assert found.values == pytest.approx({"all.a": 2**0.8, "all.b": 3.0}, rel=1e-6)
    assert found.covariance == pytest.approx(np.diag([1 / 125, 0.25]), abs=1e-9)


def test_slopes_are_differences_of_logarithms() -> None:
    parameters = [Parameter("all.a", 1.0, FREE), Parameter("all.b", 1.0, FREE)]
    found = Slopes.at(
        lambda v: np.array([log(v["all.a"]), 2 - 3 * log(v["all.b"])]), parameters, {"all.a": 2.0, "all.b": 5.0}
    )
    assert found.by_parameter == pytest.approx(np.array([[1.0, 0.0], [0.0, -3.0]]), abs=1e-9)


def test_two_rounds_of_a_fit_keep_the_slopes_and_measure_the_errors_anew() -> None:
    """a - 3 from a = 2 with the slope of there, 2 (exp(0.001) - 1)/0.001, in ln a; twice unless told otherwise."""
    parameters = [Parameter("all.a", 2.0, FREE)]
    slopes = Slopes.at(lambda v: np.array([v["all.a"] - 3]), parameters, {"all.a": 2.0})
    slope = 2 * (exp(1e-3) - 1) / 1e-3
    first = 2 * exp(1 / slope)
    second = first * exp(-(first - 3) / slope)
    at = {"all.a": 2.0}
    assert slopes.fit(lambda off: off, at, rounds=1).values["all.a"] == pytest.approx(first, rel=1e-7)
    assert slopes.fit(lambda off: off, at).values["all.a"] == pytest.approx(second, rel=1e-7)
    untouched = slopes.fit(lambda off: off, at, rounds=0)
    assert (untouched.values, untouched.covariance.shape) == (at, (0, 0))


def test_a_fit_from_what_is_expected_takes_five_steps_with_slopes_of_their_own() -> None:
    """(ln a)^3 from ln a = 1: each step of Newton's method keeps two thirds."""
    parameters = [Parameter("all.a", e, FREE)]
    found, slopes = fit_anew(lambda v: np.array([log(v["all.a"]) ** 3]), parameters, lambda off: off * 1e6)
    at = (2 / 3) ** 5
    assert log(found.values["all.a"]) == pytest.approx(at, rel=0.02)
    assert slopes.by_parameter == pytest.approx(3 * log(found.values["all.a"]) ** 2, rel=0.02)


def test_all_rows_of_steps_are_fitted() -> None:
    """Two groups of two models say 2 and 2.02; each counts alike, so that the mean of the logarithms comes out."""
    measured = np.log([2.0, 2.02])
    rows = SimpleNamespace(
        rows=[row("m"), row("n")],
        parameters=[Parameter("all.a", 2.0, FREE)],
        off=lambda values: log(values["all.a"]) - measured,
    )
    found, slopes = fit(rows)  # type: ignore[arg-type]
    assert found.values["all.a"] == pytest.approx(sqrt(4.04), rel=1e-5)
    assert slopes.by_parameter == pytest.approx(np.ones((2, 1)))
