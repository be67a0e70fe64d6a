"""A fold is predicted by a fit without it, by a stand-in for the fit."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from perfmodel.validate.fit import folds
from perfmodel.validate.fit.counted_points import TIMES
from perfmodel.validate.fit.folds import has_folds, held_out
from perfmodel.validate.fit.recipes import RECIPES

A100, _, GPT_FAST = RECIPES.values()


class CountedPoints:
    """Points of some batches. A stand-in for a calibration, the batches of its fit, predicts their sum."""

    def __init__(self, *batches: int) -> None:
        self.points = tuple(SimpleNamespace(batch=batch) for batch in batches)

    def predict(self, calibration: list[int]) -> dict[str, Any]:
        return {name: np.full(len(self.points), float(sum(calibration))) for name in TIMES}


def test_each_fold_is_predicted_by_a_fit_to_the_other_points(monkeypatch: pytest.MonkeyPatch) -> None:
    points = CountedPoints(1, 4, 1, 16)

    def fit(points: CountedPoints, start: object, free: object, train: Any, near: Any = None) -> Any:
        of_fit = [p.batch for p, counts in zip(points.points, train, strict=True) if counts]
        return SimpleNamespace(calibration=of_fit, values={})

    monkeypatch.setattr(folds, "points_of", lambda recipe: points)
    monkeypatch.setattr(folds, "start_of", lambda recipe: None)
    monkeypatch.setattr(folds, "whole_fit", lambda recipe: SimpleNamespace(values={}))
    monkeypatch.setattr(folds, "fit", fit)
    held = held_out.__wrapped__(SimpleNamespace(free=()), "batch")
    assert held.fold.tolist() == [0, 1, 0, 2]
    assert held.times["target_s"].tolist() == [20.0, 18.0, 20.0, 6.0]
    assert [len(of_fold.calibration) for of_fold in held.fits] == [2, 3, 3]


def test_points_without_drafts_have_no_folds_by_draft() -> None:
    assert has_folds(A100, "draft")
    assert not has_folds(A100, "tp"), "all points have one degree"
    assert not has_folds(GPT_FAST, "draft")
    assert has_folds(GPT_FAST, "tp")
