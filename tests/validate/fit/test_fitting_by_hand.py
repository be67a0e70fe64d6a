"""A fit's numbers by hand: one constant that two rows disagree about, one that ends at its bound; errors."""

from dataclasses import replace
from math import log
from typing import Any

import numpy as np
import pytest

from perfmodel.specs.calibration import CONSTANTS, Calibration, load_calibration
from perfmodel.specs.published import MeasuredPoint, published_points
from perfmodel.validate.fit.counted import TIMES
from perfmodel.validate.fit.errors import Errors, errors_of
from perfmodel.validate.fit.fitting import fit, search_of, used

START = load_calibration("h100-sxm-80gb.literature")
POINT = published_points("magicdec")[0]


class Points:
    """Rows whose plain step takes `kernels` small kernels, and whose overhead is 1 ms beside that of an iteration."""

    def __init__(self, kernels: list[float], target: list[float], overhead: list[float]) -> None:
        self.points = tuple(replace(POINT, target_s=seconds) for seconds in target)
        self.kernels, self.given = np.array(kernels), {"target_s": np.array(target), "overhead_s": np.array(overhead)}

    def measured(self, name: str) -> Any:
        return self.given.get(name, np.full(len(self.points), np.nan))

    def predict(self, c: Calibration) -> dict[str, Any]:
        nothing = np.full(len(self.points), np.nan)
        overhead = np.full(len(self.points), 1e-3 + c.iteration_fixed_s.value)
        return dict.fromkeys(TIMES, nothing) | {
            "target_s": self.kernels * c.small_kernel_s.value,
            "overhead_s": overhead,
        }


def test_two_rows_that_disagree_a_little_give_their_mean_and_what_it_is_off_by() -> None:
    """c and its standard error where rows say c e^d and c e^-d: d sqrt(2) / sqrt(n - 1) / sqrt(n), n = 2."""
    off, true = 1e-3, 5e-6
    target = [1e3 * true * np.exp(off), 2e3 * true * np.exp(-off)]
    points: Any = Points([1e3, 2e3], target, [np.nan, np.nan])
    found = fit(points, START, ("small_kernel_s",), np.ones(2, dtype=bool))
    assert found.values["small_kernel_s"] == pytest.approx(true, rel=1e-6)
    assert found.calibration.small_kernel_s.value == found.values["small_kernel_s"]
    assert found.stderr["small_kernel_s"] == pytest.approx(off * true, rel=1e-3)
    assert found.calibration.small_kernel_s.stderr == found.stderr["small_kernel_s"]
    assert found.at_bound == ()
    assert found.calibration.fit.parameters == ("small_kernel_s",)
    assert found.calibration.fit.correlation == ((pytest.approx(1.0),),)


def test_a_constant_at_its_bound_has_no_error_and_rows_not_trained_on_say_nothing() -> None:
    """Half the overhead that there is without the constant; small kernels from the rows that are trained on."""
    points: Any = Points([1e3, 1e3, 1e3], [5e-3, 9e-3, 5.00001e-3], [5e-4, 1.0, 5e-4])
    free = ("small_kernel_s", "iteration_fixed_s")
    train = np.array([True, False, True])
    found = fit(points, START, free, train, {"small_kernel_s": 7e-6, "iteration_fixed_s": 1e-3})
    assert found.values["small_kernel_s"] == pytest.approx(5e-6, rel=1e-4)
    assert list(found.stderr) == ["small_kernel_s"]
    assert found.at_bound == ("iteration_fixed_s",)


def test_a_plain_step_printed_in_several_rows_is_one_measurement() -> None:
    """Same device, model and shape: the first of those that are trained on; another time, batch or model is another."""
    points: tuple[MeasuredPoint, ...] = (
        replace(POINT, target_s=1.0), replace(POINT, target_s=1.0, gamma=9), replace(POINT, target_s=2.0),
        replace(POINT, target_s=1.0, batch=999), replace(POINT, target_s=None), replace(POINT, target_s=None),
    )  # fmt: skip
    rows = used(points, np.array([False, True, True, True, True, True]))
    assert rows["target_s"].tolist() == [False, True, True, True, True, False]
    assert rows["verify_s"].tolist() == rows["draft_s"].tolist() == [False, True, True, True, True, True]


def test_what_is_never_searched_for_cannot_be_fitted() -> None:
    name = next(name for name, declared in CONSTANTS.items() if declared.search is None)
    with pytest.raises(ValueError, match="must give a `search` to be fitted"):
        search_of(name)


NAN = float("nan")


def test_errors_are_over_the_rows_that_have_both() -> None:
    """3 for 1.5 and 1 for 2: +100 % and -50 %, logarithms of 2 and 1/2; a time of 0 or none says nothing."""
    found = errors_of(np.array([3.0, 1.0, NAN, 3.0, 0.0]), np.array([1.5, 2.0, 3.0, NAN, 1.0]))
    assert found == Errors(rows=2, mape=0.75, bias=0.25, worst=1.0, log_rms=log(2))
    below = errors_of(np.array([0.5, 1.1]), np.array([1.0, 1.0]))
    assert below.worst == -0.5
    assert errors_of(np.array([NAN, 0.0]), np.array([1.0, 1.0])) is None
