"""Splits and reports in words."""

from perfmodel.specs.fits import StatedFit
from perfmodel.validate.fit.fitting import Fit, points_of
from perfmodel.validate.fit.folds import whole_fit
from perfmodel.validate.fit.recipes import RECIPES
from perfmodel.validate.fit.split import _head, judge, report_lines

A100, H100, _ = RECIPES.values()


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
