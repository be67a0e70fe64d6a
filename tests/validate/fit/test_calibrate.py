"""Fitting: constants are found again where they are known, files are reproduced byte for byte, rows held out are."""

import datetime

import numpy as np
import pytest
from typer.testing import CliRunner

from perfmodel.answers.whatif import whatif
from perfmodel.specs.calibration import load_calibration
from perfmodel.specs.fits import StatedFit
from perfmodel.validate.cli import app
from perfmodel.validate.fit.calibrate import path_of, refreshed, with_literature_error
from perfmodel.validate.fit.fitting import Fit, points_of
from perfmodel.validate.fit.folds import held_out, whole_fit
from perfmodel.validate.fit.recipes import RECIPES
from perfmodel.validate.fit.split import _head, judge, report_lines
from tests.validate.refused import refused

A100, H100, GPT_FAST = RECIPES.values()
TODAY = datetime.date(2031, 1, 1)


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=lambda r: r.name)
def test_shipped_files_are_what_calibrate_writes(recipe) -> None:
    assert refreshed(recipe, TODAY) == path_of(recipe.name).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["a100-sxm-80gb", "h100-sxm-80gb", "h200-sxm-141gb", "l40s-48gb"])
def test_literature_files_state_the_error_that_they_show(name) -> None:
    path = path_of(f"{name}.literature")
    assert with_literature_error(path.stem) == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=lambda r: r.name)
def test_no_decoding_time_is_on_both_sides(recipe) -> None:
    out = held_out(recipe)
    times: dict[tuple[object, ...], set[int]] = {}
    for p, fold in zip(out.points.points, out.fold, strict=True):
        times.setdefault((p.target, p.tp, p.weights, p.batch, p.context), set()).add(int(fold))
    assert all(len(folds) == 1 for folds in times.values())
    assert not any(np.isnan(out.times["target_s"]))


def test_points_are_predicted_as_whatif_does() -> None:
    points, calibration = points_of(A100), load_calibration(A100.name)
    times = points.predict(calibration)
    for i in (0, 20, 40):
        p = points.points[i]
        a = whatif(
            p.target, p.hardware, p.batch, p.context, p.gamma,
            tp=p.tp, draft=p.draft or "", draft_kv=p.draft_kv or "",
            tokens_per_iteration=p.tokens_per_iteration, engine="magicdec",
        )  # fmt: skip
        assert a.calibration.name == A100.name
        assert a.target_step.predicted_s == pytest.approx(times["target_s"][i], rel=1e-12)
        assert a.draft_step.predicted_s == pytest.approx(times["draft_s"][i], rel=1e-12)
        assert a.verify_step.predicted_s == pytest.approx(times["verify_s"][i], rel=1e-12)
        assert a.speedup == pytest.approx(points.speedup(times)[i], rel=1e-9)


@pytest.mark.parametrize(("fit_on", "out", "message"), [
    (("colour=red",), (), "--fit"), ((), ("batch=7",), "--hold-out: batch must be one of"), ((), (), "both sides"),
])  # fmt: skip
def test_bad_splits_are_refused(fit_on, out, message) -> None:
    refused(message, judge, H100, fit_on, out)


def test_command_line() -> None:
    done = CliRunner().invoke(app, ["calibrate", H100.name])
    assert done.exit_code == 0
    assert "held out by draft" in done.output
    assert "allreduce_multiplier and small_kernel_s" in done.output


def test_a_plain_step_of_a_held_out_row_is_not_trained_on_either() -> None:
    """By row: of the rows whose model, devices and shape are the held-out row's, none is left to fit to."""
    points = points_of(H100).points
    out = points[0]
    same = [
        p
        for p in points
        if (p.target, p.tp, p.weights, p.batch, p.context) == (out.target, out.tp, out.weights, out.batch, out.context)
    ]
    assert len(same) > 1
    found = judge(H100, (), (f"row={out.row_id}",))
    assert found["rows"] == len(points) - len(same)
    assert found["held_out"]["chosen"]["speedup"]["rows"] == 1
    assert found["in_sample"]["speedup"]["rows"] == found["rows"]


def test_what_is_not_fitted_to_is_held_out_where_nothing_else_is_said() -> None:
    points = points_of(H100).points
    batch = points[0].batch
    found = judge(H100, (f"batch={batch}",), ())
    inside = sum(p.batch == batch for p in points)
    assert (found["rows"], found["held_out"]["chosen"]["speedup"]["rows"]) == (inside, len(points) - inside)


def test_pairs_above_0_8_are_named_whatever_their_sign() -> None:
    fitted = StatedFit.model_construct(parameters=("a", "b", "c"), correlation=((1.0,), (0.8, 1.0), (-0.9, 0.81, 1.0)))
    made = Fit(whole_fit(H100).calibration.model_copy(update={"fit": fitted}), {}, {}, ())
    assert _head(H100, made)["strong_correlations"] == [("c", "a", -0.9), ("c", "b", 0.81)]


def test_a_report_in_words() -> None:
    error = {"mape": 0.0123, "worst": -0.0456}
    found = {
        "calibration": "x.y", "rows": 7, "set": "magicdec", "values": {"token_s": 1.5e-6, "pass_fixed_s": 0.0},
        "stderr": {"token_s": 2.5e-7}, "strong_correlations": [("a", "b", -0.91)], "in_sample": {"speedup": error},
        "held_out": {"point": {"speedup": error, "target_s": {"mape": 0.2, "worst": 0.3}}},
    }  # fmt: skip
    lines = report_lines(found)
    assert lines[0] == "x.y: 7 rows of magicdec"
    assert lines[1].split() == ["token_s", "1.5e-06", "+-", "2.5e-07"]
    assert lines[2].split() == ["pass_fixed_s", "0", "at", "its", "bound"]
    assert lines[3] == "  correlated above 0.8: a and b -0.91"
    assert lines[4].split(":")[1].strip() == "speedup 1.2 (-4.6)"
    assert lines[5].split(":")[1].strip() == "speedup 1.2 (-4.6), target_s 20.0 (+30.0)"
    assert "none" in report_lines(found | {"strong_correlations": []})[3]
