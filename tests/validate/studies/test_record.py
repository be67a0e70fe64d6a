"""The figures of the accuracy record, from rows that are worked by hand."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from perfmodel.specs.published import MeasuredPoint, published_points
from perfmodel.validate.accuracy.cells import Cell
from perfmodel.validate.accuracy.compare import calibration_for
from perfmodel.validate.studies import record

POINT = published_points("magicdec")[0]


def cell(row: str, quantity: str, measured: float, predicted: float, **facts: Any) -> Cell:
    return Cell(replace(POINT, row_id=row), quantity, measured, predicted, "cal", **facts)


def test_a_replay_counts_fitted_passes_and_speedups_and_names_wrong_verdicts() -> None:
    """Errors of -25, 10 and 5 %. The overhead is a partition only, and so is what was not fitted."""
    fitted = [
        cell("a", "speedup", 1.25, 0.9375, fitted=True),
        cell("b", "speedup", 2.0, 2.2, fitted=True),
        cell("c", "target_s", 2.0, 2.1, fitted=True),
        cell("d", "overhead_s", 1.0, 2.0, fitted=True),
    ]
    replayed = record.replay([*fitted, cell("e", "speedup", 1.25, 0.5)])
    assert replayed["overall"] == {
        "rows": 3,
        "mape": pytest.approx(0.4 / 3),
        "bias": pytest.approx(-0.1 / 3),
        "worst": pytest.approx(-0.25),
        "worst_row": "a",
    }
    assert replayed["side_of_one"] == {"right": 1, "rows": 2, "wrong": {"a": [1.25, 0.9375]}}
    assert replayed["partitions"]["magicdec/a100-sxm-80gb/speedup"]["rows"] == 3
    assert replayed["predicted"] == sorted(
        f"magicdec/{name}" for name in ("a/speedup", "b/speedup", "c/target_s", "d/overhead_s", "e/speedup")
    )


def test_the_closest_bound_is_the_one_that_is_nearly_reached() -> None:
    """1.5 of 2 s; a bound that does not bind is not checked."""
    far = cell("a", "target_s", 2.0, 2.0, lower=1.0, binding=True)
    near = cell("b", "target_s", 2.0, 2.0, lower=1.5, binding=True)
    cached = cell("c", "target_s", 2.0, 2.0, lower=3.0)
    assert record.bounds([far, near, cached]) == {"checked": 2, "closest": 0.75, "violations": []}
    faster = replace(near, measured=1.2)
    assert record.bounds([far, faster])["violations"] == ["magicdec/b/target_s"]


def test_a_held_out_interval_has_the_width_of_the_other_folds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Log errors of 0.1 and 0.3 in one fold, and of 0.25 in another. The first fold is as wide as 0.25, and
    the other as sqrt((0.01 + 0.09) / 2) = 0.22.
    """

    def interval(scatter: Any, batch: int, context: int, gamma: int, predicted: float) -> tuple[float, float]:
        factor = np.exp(scatter.log_rms)
        return predicted / factor, predicted * factor

    monkeypatch.setattr(record, "scenario_of", lambda point, scatter: scatter)
    monkeypatch.setattr(record, "speedup_interval", interval)
    stated: Any = SimpleNamespace(replace=lambda observed_error: observed_error["speedup"])
    rows = [replace(POINT, speedup=2.0)] * 3
    out: Any = SimpleNamespace(
        points=SimpleNamespace(points=rows, speedup=lambda times: 2.0 * np.exp([0.1, 0.3, 0.25])),
        times={},
        fold=np.array([0, 0, 1]),
        fits=[SimpleNamespace(calibration=stated)] * 2,
    )
    assert record.covered(out).tolist() == [1, 0, 0]


def test_a_wrong_gamma_costs_what_the_best_one_gains(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measured best: 2.0 at gamma 3, and 2.0 at gamma 2. Predicted best: 1.98 at gamma 4, and 2.52 at 5."""
    first, second = published_points("gamma_optimal")[:2]
    points = [replace(first, gamma=3, speedup=2.0), replace(second, gamma=2, speedup=2.0)]
    predictions = iter(
        [
            SimpleNamespace(speedup=1.8, speedup_at_gamma_optimal=1.98, gamma_optimal=4),
            SimpleNamespace(speedup=2.1, speedup_at_gamma_optimal=2.52, gamma_optimal=5),
        ]
    )
    constant = iter([np.array([1.1, 1.32, 1.8, 1.98, 1.65]), np.array([1.26, 2.1, 2.016, 2.24, 2.52])])
    monkeypatch.setattr(record, "published_points", lambda name: points)
    monkeypatch.setattr(record, "predict", lambda *of: next(predictions))
    monkeypatch.setattr(record, "speedups", lambda *of: next(constant))
    assert record.best_gamma("shipped") == {
        "rows": 2,
        "speedup_mape": pytest.approx(0.075),
        "speedup_worst": pytest.approx(-0.1),
        "within_one": 1,
        "regret_mean": pytest.approx(0.15),
        "regret_worst": pytest.approx(0.2),
        "constant_regret_mean": pytest.approx({"1": 0.9, "2": 0.35, "3": 0.175, "4": 0.0625, "5": 0.1}),
        "choices": {first.row_id: [3, 4], second.row_id: [2, 5]},
    }


def test_a_held_out_gamma_has_the_fit_without_its_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    """A configuration that no row of the fit has keeps the calibration that ships."""
    point = published_points("gamma_optimal")[0]
    other: MeasuredPoint = replace(point, batch=point.batch + 1)
    out = SimpleNamespace(
        points=SimpleNamespace(points=[other, replace(point, gamma=9)]),
        fold=[0, 1],
        fits=[SimpleNamespace(calibration="without another"), SimpleNamespace(calibration="without it")],
    )
    shipped = calibration_for(point)
    assert shipped.name in record.RECIPES
    monkeypatch.setattr(record, "held_out", lambda recipe: out)
    assert record._gamma_calibration(point, "held-out") == "without it"
    assert record._gamma_calibration(point, "shipped") is shipped
    elsewhere = replace(point, context=point.context + 1)
    assert record._gamma_calibration(elsewhere, "held-out") is shipped
