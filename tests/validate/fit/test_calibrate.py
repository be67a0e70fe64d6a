"""Fitting: constants are found again where they are known, files are reproduced byte for byte, rows held out are."""

import datetime
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from perfmodel.answers.whatif import whatif
from perfmodel.errors import InputError
from perfmodel.specs.calibration import load_calibration
from perfmodel.speculation.uncertainty import with_values
from perfmodel.validate.cli import app
from perfmodel.validate.fit.calibrate import path_of, refreshed, with_literature_error
from perfmodel.validate.fit.counted import PointSet
from perfmodel.validate.fit.fitting import fit, points_of, start_of, used
from perfmodel.validate.fit.folds import held_out
from perfmodel.validate.fit.recipes import RECIPES
from perfmodel.validate.fit.split import judge

A100, H100, GPT_FAST = RECIPES.values()
TODAY = datetime.date(2031, 1, 1)


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=lambda r: r.name)
def test_shipped_files_are_what_calibrate_writes(recipe) -> None:  # type: ignore[no-untyped-def]
    assert refreshed(recipe, TODAY) == path_of(recipe.name).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["a100-sxm-80gb", "h100-sxm-80gb", "h200-sxm-141gb", "l40s-48gb"])
def test_literature_files_state_the_error_that_they_show(name: str) -> None:
    path = path_of(f"{name}.literature")
    assert with_literature_error(path.stem) == path.read_text(encoding="utf-8")


def test_known_constants_are_found_again() -> None:
    """Measurements made by the model itself are fitted without error, from another starting point."""
    truth = {
        "small_kernel_s": 8e-6,
        "allreduce_multiplier": 2.5,
        "iteration_fixed_s": 1e-3,
    }
    points, start = points_of(H100), start_of(H100)
    made = points.predict(with_values(start, truth))
    synthetic = PointSet(
        tuple(
            replace(p, **{name: float(seconds[i]) for name, seconds in made.items()})
            for i, p in enumerate(points.points)
        ),
        start,
    )
    found = fit(synthetic, start, H100.free, np.ones(len(points.points), dtype=bool))
    assert found.values == pytest.approx(truth, rel=1e-4)
    assert not found.at_bound


def test_a_constant_at_its_bound_is_reported() -> None:
    free = (*A100.free, "pass_fixed_s")
    found = fit(points_of(A100), start_of(replace(A100, free=free)), free, np.ones(47, dtype=bool))
    assert found.at_bound == ("pass_fixed_s",)
    assert "pass_fixed_s" not in found.stderr
    assert found.calibration.fit is not None
    assert len(found.calibration.fit.correlation) == 8


def test_a_decoding_time_printed_in_three_rows_counts_once() -> None:
    points = points_of(H100).points
    rows = used(points, np.ones(12, dtype=bool))
    assert rows["target_s"].sum() == 4
    assert rows["draft_s"].sum() == 12


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=lambda r: r.name)
def test_no_decoding_time_is_on_both_sides(recipe) -> None:  # type: ignore[no-untyped-def]
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


@pytest.mark.parametrize(
    ("fit_on", "out", "message"),
    [
        (("colour=red",), (), "--fit"),
        ((), ("batch=7",), "--hold-out: batch must be one of"),
        ((), (), "both sides"),
    ],
)
def test_bad_splits_are_refused(fit_on: tuple[str, ...], out: tuple[str, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        judge(H100, fit_on, out)


def test_command_line() -> None:
    done = CliRunner().invoke(app, ["calibrate", H100.name])
    assert done.exit_code == 0
    assert "held out by draft" in done.output
    assert "allreduce_multiplier and small_kernel_s" in done.output
