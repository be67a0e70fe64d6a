"""Fitting: constants are found again where they are known, files are reproduced byte for byte, rows held out
are.
"""

import datetime
from dataclasses import replace
from math import log
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from perfmodel.answers.point.whatif import whatif
from perfmodel.specs import Calibration, load_calibration
from perfmodel.specs.published import MeasuredPoint, published_points
from perfmodel.speculation import with_values
from perfmodel.validate.fit.calibrate import correlated, other_error, path_of, refreshed, report_lines
from perfmodel.validate.fit.counted_points import TIMES, PointSet, draft_passes
from perfmodel.validate.fit.errors import Errors, errors_of
from perfmodel.validate.fit.fitting import fit, points_of, used, weighted_residuals
from perfmodel.validate.fit.folds import folds_of
from perfmodel.validate.fit.recipes import RECIPES
from perfmodel.validate.records import BUNDLED, points, read_record
from perfmodel.validate.solving import shortened, significant
from tests.sampled import first_fast

A100, H100, GPT_FAST = RECIPES.values()
TREES = BUNDLED / "h200-1" / "20261126T023256Z-f66ff6fd-gpu-trees.json"
TODAY = datetime.date(2031, 1, 1)


@pytest.mark.parametrize("recipe", first_fast([(GPT_FAST,), (H100,), (A100,)]), ids=lambda r: r.name)
def test_shipped_files_are_what_calibrate_writes(recipe) -> None:
    assert refreshed(recipe, TODAY) == path_of(recipe.name).read_text(encoding="utf-8")


@pytest.mark.parametrize("recipe", [A100, H100], ids=lambda r: r.name)
def test_literature_files_state_the_error_that_they_show(recipe) -> None:
    known = load_calibration(recipe.base)
    error = other_error(recipe, known)["speedup"]
    assert known.observed_error["speedup"].log_rms == significant(error.log_rms, 3)
    assert known.observed_error["speedup"].rows == error.rows


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=lambda r: r.name)
def test_no_decoding_time_is_on_both_sides(recipe) -> None:
    """Every time is predicted: a missing one is refused where the accuracy record is written."""
    points = points_of(recipe).points
    times: dict[tuple[object, ...], set[int]] = {}
    for p, fold in zip(points, folds_of(points, "point"), strict=True):
        step = (p.target, p.tp, p.weights, p.batch, p.context)
        times.setdefault(step, set()).add(int(fold))
    assert all(len(folds) == 1 for folds in times.values())


def test_points_are_predicted_as_whatif_does() -> None:
    points = points_of(A100)
    calibration = load_calibration(A100.name)
    times = points.predict(calibration)
    for i in (0, 20, 40):
        p = points.points[i]
        answer = whatif(
            p.target,
            p.hardware,
            p.batch,
            p.context,
            p.gamma,
            tp=p.tp,
            draft=p.draft or "",
            draft_kv=p.draft_kv or "",
            tokens_per_iteration=p.tokens_per_iteration,
            engine="magicdec",
        )
        assert answer.calibration.name == A100.name
        assert answer.target_step.predicted_s == pytest.approx(times["target_s"][i], rel=1e-12)
        assert answer.draft_step.predicted_s == pytest.approx(times["draft_s"][i], rel=1e-12)
        assert answer.verify_step.predicted_s == pytest.approx(times["verify_s"][i], rel=1e-12)
        speedup = points.speedup(times)[i]
        assert answer.speedup == pytest.approx(speedup, rel=1e-9)


START = load_calibration("h100-sxm-80gb.literature")
POINT = published_points("magicdec")[0]


class Points:
    """Rows whose plain step takes `kernels` small kernels, and whose overhead is 1 ms beside that of an
    iteration.
    """

    def __init__(self, kernels: list[float], target: list[float], overhead: list[float]) -> None:
        self.points = tuple(replace(POINT, target_s=seconds) for seconds in target)
        self.kernels = np.array(kernels)
        self.given = {"target_s": np.array(target), "overhead_s": np.array(overhead)}

    def nothing(self) -> Any:
        return np.full(len(self.points), np.nan)

    def measured(self, name: str) -> Any:
        return self.given.get(name, self.nothing())

    def predict(self, c: Calibration) -> dict[str, Any]:
        times = dict.fromkeys(TIMES, self.nothing())
        times["target_s"] = self.kernels * c.small_kernel_s.value
        times["overhead_s"] = np.full(len(self.points), 1e-3 + c.iteration_fixed_s.value)
        return times


def test_two_rows_that_disagree_a_little_give_their_mean_and_what_it_is_off_by() -> None:
    """c and its standard error where rows say c e^d and c e^-d: d sqrt(2) / sqrt(n - 1) / sqrt(n), n = 2."""
    off = 1e-3
    true = 5e-6
    longer_s = 1e3 * true * np.exp(off)  # 1,000 kernels
    shorter_s = 2e3 * true * np.exp(-off)
    target = [longer_s, shorter_s]
    points: Any = Points([1e3, 2e3], target, [np.nan, np.nan])
    fitted = fit(points, START, ("small_kernel_s",), np.ones(2, dtype=bool))
    assert fitted.values["small_kernel_s"] == pytest.approx(true, rel=1e-6)
    assert fitted.calibration.small_kernel_s.value == fitted.values["small_kernel_s"]
    assert fitted.stderr["small_kernel_s"] == pytest.approx(off * true, rel=1e-3)
    assert fitted.calibration.small_kernel_s.stderr == fitted.stderr["small_kernel_s"]
    assert fitted.at_bound == ()
    assert fitted.calibration.fit.parameters == ("small_kernel_s",)
    assert fitted.calibration.fit.correlation == ((pytest.approx(1.0),),)


def test_a_constant_at_its_bound_has_no_error_and_rows_not_trained_on_say_nothing() -> None:
    """Half the overhead that there is without the constant; small kernels from the rows that are trained
    on.
    """
    steps_s = [5e-3, 9e-3, 5.00001e-3]
    points: Any = Points([1e3, 1e3, 1e3], steps_s, [5e-4, 1.0, 5e-4])
    free = ("small_kernel_s", "iteration_fixed_s")
    train = np.array([True, False, True])
    fitted = fit(points, START, free, train, {"small_kernel_s": 7e-6, "iteration_fixed_s": 1e-3})
    assert fitted.values["small_kernel_s"] == pytest.approx(5e-6, rel=1e-4)
    assert list(fitted.stderr) == ["small_kernel_s"]
    assert fitted.at_bound == ("iteration_fixed_s",)


def test_an_overhead_counts_less_than_a_pass() -> None:
    """All times are predicted e times too long; the second row has no draft."""
    times = dict.fromkeys(TIMES, np.array([np.e, np.e]))
    logs = dict.fromkeys(TIMES, np.array([0.0, 0.0]))
    rows = {name: np.array([True, name != "draft_s"]) for name in TIMES}
    assert weighted_residuals(times, logs, rows).tolist() == pytest.approx([1, 1, 1, 1, 1, 0.3, 0.3])


def test_a_fit_in_words() -> None:
    """Of three pairs of constants two are told apart well enough."""
    correlation = ((1.0,), (0.8, 1.0), (0.1, -0.9, 1.0))
    fitted: Any = SimpleNamespace(parameters=("a", "b", "c"), correlation=correlation)
    assert correlated(fitted) == [("c", "b", -0.9)]
    three_fits = {
        "calibration": "x.y",
        "rows": 3,
        "set": "z",
        "values": {"a": 0.5, "b": 2.0},
        "stderr": {"a": 0.02},
    }
    three_fits["strong_correlations"] = correlated(fitted)
    three_fits["in_sample"] = {"target_s": {"mape": 0.021, "worst": -0.05}}
    three_fits["held_out"] = {"gpu": {"target_s": {"mape": 0.03, "worst": 0.1}}}
    printed = [" ".join(line.split()) for line in report_lines(three_fits)]
    assert printed == [
        "x.y: 3 rows of z",
        "a 0.5 +- 0.02",
        "b 2 at its bound",
        "correlated above 0.8: c and b -0.90",
        "in sample mean (worst) error %: target_s 2.1 (-5.0)",
        "held out by gpu mean (worst) error %: target_s 3.0 (+10.0)",
        "",
    ]


def test_a_plain_step_printed_in_several_rows_is_one_measurement() -> None:
    """Same device, model and shape: the first of those that are trained on; another time, batch or model is
    another.
    """
    one = replace(POINT, target_s=1.0)
    unmeasured = replace(POINT, target_s=None)
    points: tuple[MeasuredPoint, ...] = (
        one,
        replace(one, gamma=9),
        replace(POINT, target_s=2.0),
        replace(one, batch=999),
        unmeasured,
        unmeasured,
    )
    all_but_the_first = np.arange(len(points)) > 0
    rows = used(points, all_but_the_first)
    assert rows["target_s"].tolist() == [False, True, True, True, True, False]
    assert rows["verify_s"].tolist() == [False, True, True, True, True, True]
    assert rows["draft_s"].tolist() == rows["verify_s"].tolist()


def test_what_a_draft_time_is_the_mean_of() -> None:
    """One of three passes below a tree's root is of one node, two of two."""
    tree = replace(POINT, widths=(1, 2, 2, 4))
    assert draft_passes(tree) == [(1.0, 1 / 3), (2.0, 2 / 3)]
    assert draft_passes(POINT) == [(1.0, 1.0)]


def test_floats_of_a_record_are_shortened_wherever_they_are() -> None:
    record = {"a": [1.23456, (2.0, 3)], "b": {"c": 0.00098765}, "d": "4.5678"}
    short = shortened(record, 3)
    assert short == {"a": [1.23, [2.0, 3]], "b": {"c": 0.000988}, "d": "4.5678"}


NAN = float("nan")


def test_errors_are_over_the_rows_that_have_both() -> None:
    """3 for 1.5 and 1 for 2: +100 % and -50 %, logarithms of 2 and 1/2; a time of 0 or none says nothing."""
    predicted = np.array([3.0, 1.0, NAN, 3.0, 0.0])
    measured = np.array([1.5, 2.0, 3.0, NAN, 1.0])
    errors = errors_of(predicted, measured)
    assert errors == Errors(rows=2, mape=0.75, bias=0.25, worst=1.0, log_rms=log(2))
    ones = np.ones(2)
    assert errors_of(np.array([0.5, 1.1]), ones).worst == -0.5
    assert errors_of(np.array([NAN, 0.0]), ones) is None


def test_the_passes_of_a_tree_choose_the_nodes_of_a_level_each() -> None:
    """The mean draft pass of a tree is longer by the constant; that of a chain and verifications are not."""
    calibration = load_calibration("h200-sxm-141gb.micro")
    slower = with_values(calibration, {"tree_level_s": calibration.tree_level_s.value + 1e-3})
    rows = PointSet(points(read_record(TREES)), calibration)
    before = rows.predict(calibration)
    after = rows.predict(slower)
    expected_s = [0.0 if p.widths is None else 1e-3 for p in rows.points]
    assert len(set(expected_s)) == 2
    assert after["draft_s"] - before["draft_s"] == pytest.approx(expected_s, abs=1e-9)
    np.testing.assert_array_equal(after["verify_s"], before["verify_s"])
