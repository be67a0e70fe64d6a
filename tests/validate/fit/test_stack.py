"""Stack factors: found where they made the times, judged only on what they have not seen."""

import json
from dataclasses import replace

import numpy as np
import pytest

from perfmodel.cli import run
from perfmodel.specs import CONSTANTS, Calibration, load_calibration
from perfmodel.specs.published import MeasuredPoint
from perfmodel.speculation import with_values
from perfmodel.validate.fit.counted_points import TIMES, PointSet
from perfmodel.validate.fit.stack import KINDS, fit_factors, fit_stack, scaled
from perfmodel.validate.records import RESULTS, latest, newest, points, records, stamped
from tests.refusals import refused

FACTORS = {"linear ops": 1.2, "attention": 0.8, "rest of a pass": 2.5, "outside the passes": 3.0}
KERNELS = load_calibration("xeon-amx-2core.micro")


@pytest.fixture(scope="module")
def retimed_points() -> tuple[MeasuredPoint, ...]:
    """The points of a committed record with the times that FACTORS give."""
    return retimed(points(latest(records(RESULTS, "cpu-1"), "measure")), scaled(KERNELS, FACTORS))


def retimed(measured: tuple[MeasuredPoint, ...], calibration: Calibration) -> tuple[MeasuredPoint, ...]:
    times = PointSet(measured, calibration).predict(calibration)
    return tuple(
        replace(p, **{name: float(times[name][i]) for name in TIMES}) for i, p in enumerate(measured)
    )


def test_factors_that_made_the_times_are_found(retimed_points) -> None:
    fitted = fit_stack(retimed_points, KERNELS)
    assert fitted.factors == pytest.approx(FACTORS, rel=1e-3)
    assert all(fitted.held_out[name].mape < 1e-3 for name in TIMES)


@pytest.mark.parametrize(("made_with", "found"), [(0.3, 0.3), (0.2, 0.25), (5.0, 4.0)])
def test_a_factor_is_between_a_quarter_and_four(made_with: float, found: float) -> None:
    factors = {"outside the passes": made_with}
    measured = retimed(points(latest(records(RESULTS, "cpu-1"), "measure")), scaled(KERNELS, factors))
    fitted = fit_factors(PointSet(measured, KERNELS), KERNELS, np.ones(len(measured), bool))
    assert fitted["outside the passes"] == pytest.approx(found, rel=1e-3)


def test_a_predicted_zero_leaves_its_factor_alone(retimed_points) -> None:
    ideal = load_calibration("ideal")  # has no overhead
    factors = fit_factors(PointSet(retimed_points, ideal), ideal, np.ones(len(retimed_points), bool))
    assert factors["outside the passes"] == 1.0 < factors["linear ops"]


def test_a_factor_scales_the_fractions_and_times_of_its_work_and_nothing_else() -> None:
    """Every one but those of an all-reduce has a factor; none has two."""
    alone = {
        kind: {n for n in CONSTANTS if getattr(scaled(KERNELS, {kind: 1.25}), n) != getattr(KERNELS, n)}
        for kind in KINDS
    }
    assert alone["linear ops"] == {
        "gemm_bandwidth_fraction",
        "gemm_flops_fraction",
        "gemm_fixed_s",
        "gemm_column_s",  # this calibration states no weight_unpack_s
    }
    moved = [name for names in alone.values() for name in names]
    of_work = {n for n, d in CONSTANTS.items() if d.unit in ("s", "fraction") and d.work != "allreduce"}
    stated = of_work - KERNELS.absent
    assert sorted(moved) == sorted(stated)


def test_one_plain_pass_cannot_be_halved(retimed_points) -> None:
    refused("two batches or contexts", fit_stack, retimed_points[:1], KERNELS)
    first = retimed_points[0]
    place = (first.target, 1, first.asked_context)
    one = [p for p in retimed_points if (p.target, p.batch, p.asked_context) == place]
    assert len({p.gamma for p in one}) > 1
    refused("two batches or contexts", fit_stack, tuple(one), KERNELS)


def test_passes_must_have_been_timed_alone(retimed_points) -> None:
    whole = tuple(
        replace(p, target_s=None, verify_s=None, draft_s=None, overhead_s=None) for p in retimed_points
    )
    refused("--stack: must hold passes that were timed alone", fit_stack, whole, KERNELS)


def test_the_command(tmp_path) -> None:
    """Folders stand for their newest record."""
    folder = str(RESULTS / "cpu-1")
    out = tmp_path / "c.yaml"
    base = ["validate", "calibrate", "--from-microbench", folder]
    assert run([*base, "--stack", folder, "--out", str(out)]) == 0
    calibration = load_calibration(str(out))
    assert calibration.name == "xeon-amx-2core.stack"
    assert len(calibration.fitted_on) == 2
    assert set(calibration.observed_error) == {*TIMES, "speedup"}
    refused("must hold a record of kind measure", newest, tmp_path, "measure", "--stack")
    micro = latest(records(RESULTS, "cpu-1"), "microbench")
    refused("must be of kind measure, given microbench", newest, micro.path, "measure", "--stack")


def test_a_model_that_a_record_names_wrongly_is_a_fault_of_its_file(tmp_path, capsys) -> None:
    whole = json.loads(latest(records(RESULTS, "cpu-1"), "measure").path.read_text("utf-8"))
    assert isinstance(whole["points"][0]["target"], str)
    for point in whole["points"]:
        point["target"] = "no-such-model"
    path = tmp_path / "whole.json"
    path.write_text(stamped(json.dumps(whole)))
    folder = str(RESULTS / "cpu-1")
    assert run(["validate", "calibrate", "--from-microbench", folder, "--stack", str(path)]) == 2
    assert f"error: {path}: model: no model named 'no-such-model'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("factor", "fraction", "seconds"),
    [
        (0.8, 0.75, 1.6e-6),
        (0.5, 1.0, 1e-6),
        (1.5, 0.4, 3e-6),
    ],
)
def test_no_kernel_gets_faster_than_the_device(factor, fraction, seconds) -> None:
    """A fraction of 0.6 scaled by 0.8 is 0.75, by 0.5 it is 1 and not 1.2; a time of 2 us is 1.6 and 1."""
    kernels = with_values(KERNELS, {"attention_bandwidth_fraction": 0.6, "attention_fixed_s": 2e-6})
    rescaled = scaled(kernels, {"attention": factor})
    assert rescaled.attention_bandwidth_fraction.value == pytest.approx(fraction)
    assert rescaled.attention_fixed_s.value == pytest.approx(seconds)
    assert rescaled.gemm_fixed_s == KERNELS.gemm_fixed_s
