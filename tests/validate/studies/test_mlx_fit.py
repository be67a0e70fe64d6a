"""MLX's rows and fit: what they say of a source that was left out."""

import json
from typing import Any

import numpy as np
import pytest

from perfmodel.specs import Z, load_gpu
from perfmodel.specs.calibrations.loading import load_bundled
from perfmodel.validate.studies.left_out_error import LeftOutError
from perfmodel.validate.studies.llamacpp import LeftOut
from perfmodel.validate.studies.mlx import ERRORS_PATH, ErrorsByEngine, devices, scatter
from perfmodel.validate.studies.mlx_constants import TERMS, ChipConstants
from perfmodel.validate.studies.mlx_runs import mlx_runs
from perfmodel.validate.studies.mlx_shares import kernel_rows


def test_every_row_has_an_address_and_a_reason_where_it_does_not_count() -> None:
    runs = mlx_runs()
    assert len({run.id for run in runs}) == len(runs)
    assert all("/" in run.source for run in runs)
    counted = [run for run in runs if run.counts]
    assert (len(runs), len(counted)) == (244, 162)
    assert all(run.is_complete and run.time_ms for run in counted)
    assert all(row.url.startswith("https://github.com/") for row in kernel_rows())


def test_intervals_hold_sources_that_were_left_out() -> None:
    coverage = json.loads(ERRORS_PATH.read_text())["coverage"]
    steps = coverage["step"]["mlx"]
    assert 0.85 <= steps["inside"] <= 0.95
    assert steps["error"] < 0.15
    assert steps["sources"] >= 12
    stated = load_bundled("apple-m4-pro-64gb.mlx").observed_error["target_s"]
    assert (stated.log_within or 0.0) == pytest.approx(np.log1p(steps["width"]), rel=0.15)


def test_a_device_is_a_factor_on_its_size_of_chip() -> None:
    values = {f"all.{name}": term.expected for name, term in TERMS.items()}
    values |= {"Ultra.small_kernel_s": 2.0, "apple-m3-ultra-512gb.small_kernel_s": 1.5}
    names = ("m4-pro", "m2-ultra", "m3-ultra")
    starts_s = [ChipConstants(load_gpu(name)).calibration(values).small_kernel_s.value for name in names]
    assert np.divide(starts_s, starts_s[0]) == pytest.approx([1.0, 2.0, 3.0])


def test_kernels_of_packed_weights_reach_less_of_the_bandwidth() -> None:
    values = {f"all.{name}": term.expected for name, term in TERMS.items()}
    values |= {"all.share": 0.9, "all.packed": 0.5}
    efficiency = ChipConstants(load_gpu("m4-pro")).calibration(values).gemm_efficiency
    assert efficiency is not None
    of_one_row = {form: dict(knots)[1.0] for form, knots in efficiency.knots.items()}
    assert of_one_row == pytest.approx({"bf16": 0.9, "int8": 0.9, "int6": 0.45, "q4_k": 0.45, "int2": 0.45})


def test_of_few_sources_an_interval_is_at_least_that_of_a_normal_error() -> None:
    def stated(*offs: float) -> dict[str, Any]:
        errors = [LeftOutError(source, off) for source, off in zip("abcde", offs, strict=False)]
        return scatter({"mlx": errors}, "mlx", "sources")

    of_three = stated(0.1, -0.1, 0.1)
    assert of_three["log_rms"] == pytest.approx(0.1)
    assert of_three["log_within"] == pytest.approx(Z * 0.1)
    of_five = stated(0.1, -0.1, 0.1, -0.1, 0.1)
    assert of_five["log_within"] == pytest.approx(0.1)
    wide = stated(0.0, 0.0, 0.0, 0.4)
    assert wide["log_rms"] == pytest.approx(0.2)
    assert wide["log_within"] > Z * 0.2


def test_every_mac_has_constants_of_each_release_and_fork() -> None:
    for gpu in devices():
        for word in ("mlx", "mlx-qmv", "mlx-dspark"):
            assert load_bundled(f"{gpu.name}.{word}").gpu == gpu.name


def test_attention_computes_like_timed_tiles_and_at_most_at_the_peak() -> None:
    """8 rows of 4-bit weights take 7.93 loads of them on an M1 Max, which computes 26 FLOPs per byte."""
    share = 32 * 2 / (0.5625 * 26 * 7.93)
    assert load_bundled("apple-m1-max-64gb.mlx").attention_flops_fraction.value == pytest.approx(
        share, rel=1e-3
    )
    assert load_bundled("apple-m4-pro-64gb.mlx").attention_flops_fraction.value == 1.0


def test_a_speedup_is_off_the_other_way_than_its_ratio() -> None:
    """A ratio that is predicted too large is a speedup that is predicted too small."""
    run = next(run for run in mlx_runs() if run.engine == "mlx" and run.speedup)
    left_out = LeftOut(step={run.id: 0.1}, ratio={run.id: 0.2}, prompt={}, runs={run.id: run})
    errors = ErrorsByEngine(left_out)
    (step,) = errors.steps["mlx"]
    (speedup,) = errors.speedups["mlx"]
    assert (step.off, speedup.off) == (0.1, -0.2)


def test_the_kernel_of_the_fork_computes_tiles_of_eight_rows() -> None:
    """skinny_qmm.py: 8-bit products of 8 and 16 rows take 1.08 and 1.36 times one row's on an M4 Pro."""
    times = ChipConstants(load_gpu("m4-pro"), "mlx-dspark").times
    eight_bits = 8.5 / 8
    assert times.of(6, eight_bits) == times.of(8, eight_bits) == pytest.approx(1.08, rel=0.03)
    assert times.of(9, eight_bits) == times.of(16, eight_bits) == pytest.approx(1.36, rel=0.03)
