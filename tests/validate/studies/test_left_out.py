"""Steps of public runs by constants that have not seen their source."""

import json
import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from perfmodel.validate.studies import llamacpp
from perfmodel.validate.studies.left_out import (
    FREE,
    LATER,
    Step,
    _refit,
    alike,
    left_out,
    neutral,
    on_borrowed_kernels,
)
from perfmodel.validate.studies.parameters import Parameter
from perfmodel.validate.studies.public_runs import answers, public_runs
from perfmodel.validate.studies.sources import LEFT_OUT, TITLES

H20 = [run for run in public_runs() if run.hardware == "h20-sxm-96gb" and run.kind == "step"]
ROWS = [answers(run)[0] for run in H20 if run.counts][:6]


def test_a_constant_without_rows_is_a_factor_of_one_a_tenth_of_its_time_or_as_versions_are() -> None:
    assert neutral(Parameter("a.expert_factor", 3.0, 1.0)) == pytest.approx(-math.log(3))
    assert neutral(Parameter("a.small_kernel_s", 2.0, 1.0, True)) == pytest.approx(-math.log(2))
    assert neutral(Parameter("a.pass_fixed_s", 1e-3, 1.0)) == pytest.approx(math.log(0.1))
    assert neutral(Parameter("a@2.0.small_kernel_s", 0.8, 1.0, True)) == pytest.approx(math.log(LATER / 0.8))
    measured = Parameter("a.gemm_factor", 0.4, 1.0, True, elsewhere=0.5)
    assert neutral(measured) == pytest.approx(math.log(0.5 / 0.4))


def test_a_step_moves_with_its_own_constants_alone() -> None:
    step = Step.of_run(ROWS[0], {})
    (board,) = [place for place in step.places if place == "h20-sxm-96gb.gemm_factor"]
    assert step.moved({}) == 0.0
    assert step.moved({board: 0.1}) < 0 < step.moved({board: -0.1})
    other = next(place for place in FREE if place not in step.places)
    assert step.moved({other: 1.0}) == 0.0


def test_a_source_of_a_device_of_its_own_is_predicted_without_what_it_taught() -> None:
    """One source has all rows here: without it, small kernels of this version take 1 / 2.8 of their time."""
    left = left_out(ROWS)
    assert np.all(left < np.array([a.off for a in ROWS]) - 0.1)


def test_constants_are_refitted_by_generalised_least_squares() -> None:
    """Errors near 0 weigh (4 + 1) / 4; one far off, of a server of its own, hardly weighs at all."""
    time, factor = "vllm.pass_fixed_s", "gddr.gemm_factor"
    slopes = np.array([[1.0, 0.0], [0.5, 0.2], [0.0, 0.7], [0.3, 0.3]])
    expected, spread = np.array([neutral(FREE[p]) for p in (time, factor)]), np.array([2.0, 0.7])
    off = np.array([1e-3, -2e-3, 3e-3, 100.0]) - slopes @ expected
    steps: list[Any] = [
        SimpleNamespace(
            source=source,
            server=server,
            places=[place for place, slope in zip((time, factor), own, strict=True) if slope],
            off=error,
            moved=lambda by, own=own: float(own @ [by[time], by[factor]]),
        )
        for source, server, own, error in zip("aabc", "sstu", slopes, off.tolist(), strict=True)
    ]
    covariance = np.diag([0.0015 + 0.0236 + 0.0142] * 3)
    covariance[0, 1] = covariance[1, 0] = 0.0015 + 0.0236
    weights = 1.25 * np.linalg.inv(covariance)
    near, left = slopes[:3], np.array([1e-3, -2e-3, 3e-3])
    precision = near.T @ weights @ near + np.diag(spread**-2)
    found = _refit(steps, [time, factor])
    by_hand = expected - np.linalg.solve(precision, near.T @ weights @ left)
    assert [found[time], found[factor]] == pytest.approx(by_hand, abs=2e-3)


def test_tables_of_engines_teach_what_a_device_with_borrowed_kernels_costs() -> None:
    steps = on_borrowed_kernels({})
    assert "InferenceX" in {s.source for s in steps}
    assert any(place.startswith("cdna3.") for s in steps for place in s.places)
    assert alike("SemiAnalysisAI/InferenceX#870", "InferenceX")
    assert not alike("QwenLM/Qwen3", "InferenceX")


def test_what_is_recorded_is_of_the_rows_that_count() -> None:
    of_llamacpp = json.loads(llamacpp.LEFT_OUT.read_text())
    runs = [run for run in public_runs() if run.counts and run.engine in TITLES]
    steps = {run.id for run in runs if run.kind != "speculation"}
    assert json.loads(LEFT_OUT.read_text()).keys() | of_llamacpp["step"].keys() == steps
    ratios = {run.id for run in runs if run.engine == "llamacpp" and run.ratio}
    assert of_llamacpp["ratio"].keys() == ratios
