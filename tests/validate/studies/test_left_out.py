"""Steps of public runs by constants that have not seen their source."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from perfmodel.validate.studies import llamacpp
from perfmodel.validate.studies.left_out import (
    FREE,
    LATER,
    Step,
    Variances,
    _refit,
    alike,
    left_out,
    neutral,
    on_borrowed_kernels,
)
from perfmodel.validate.studies.parameters import Parameter
from perfmodel.validate.studies.sources import LEFT_OUT, of_figure

H20 = [a for a in of_figure("step") if a.run.hardware == "h20-sxm-96gb" and a.run.kind == "step"][:6]


def test_a_constant_without_rows_is_a_factor_of_one_a_tenth_of_its_time_or_as_versions_are() -> None:
    assert neutral(Parameter("a.expert_factor", 3.0, 1.0)) == pytest.approx(-math.log(3))
    assert neutral(Parameter("a.small_kernel_s", 2.0, 1.0, True)) == pytest.approx(-math.log(2))
    assert neutral(Parameter("a.pass_fixed_s", 1e-3, 1.0)) == pytest.approx(math.log(0.1))
    assert neutral(Parameter("a@2.0.small_kernel_s", 0.8, 1.0, True)) == pytest.approx(math.log(LATER / 0.8))
    measured = Parameter("a.gemm_factor", 0.4, 1.0, True, elsewhere=0.5)
    assert neutral(measured) == pytest.approx(math.log(0.5 / 0.4))


def test_a_step_moves_with_its_own_constants_alone() -> None:
    step = Step.of_run(H20[0], {})
    (board,) = [place for place in step.places if place == "h20-sxm-96gb.gemm_factor"]
    assert step.moved({}) == 0.0
    assert step.moved({board: 0.1}) < 0 < step.moved({board: -0.1})
    other = next(place for place in FREE if place not in step.places)
    assert step.moved({other: 1.0}) == 0.0


def test_a_source_of_a_device_of_its_own_is_predicted_without_what_it_taught() -> None:
    """One source has all rows here: without it, small kernels of this version take 1 / 2.8 of their time."""
    left = left_out(H20)
    assert np.all(left < np.array([a.off for a in H20]) - 0.1)


def test_a_row_that_is_far_off_hardly_moves_a_constant() -> None:
    """By the same weight of all rows this one moves it by 0.7."""
    steps, board = [Step.of_run(a, {}) for a in H20], "h20-sxm-96gb.gemm_factor"
    far = [replace(steps[0], off=steps[0].off + 3.0), *steps[1:]]
    assert _refit(far, [board])[board] == pytest.approx(_refit(steps, [board])[board], abs=0.1)


def test_rows_of_a_source_and_of_a_server_err_together() -> None:
    one, same_server, other = (Step.of_run(a, {}) for a in (H20[0], H20[0], H20[-1]))
    covariance = Variances(0.04, 0.02, 0.01).covariance([one, same_server, other])
    assert covariance[0] == pytest.approx([0.07, 0.06, 0.04])


def test_tables_of_engines_teach_what_a_device_with_borrowed_kernels_costs() -> None:
    steps = on_borrowed_kernels({})
    assert "InferenceX" in {s.source for s in steps}
    assert any(place.startswith("cdna3.") for s in steps for place in s.places)
    assert alike("SemiAnalysisAI/InferenceX#870", "InferenceX")
    assert not alike("QwenLM/Qwen3", "InferenceX")


def test_what_is_recorded_is_of_the_rows_that_count() -> None:
    recorded = (
        json.loads(LEFT_OUT.read_text()).keys() | json.loads(llamacpp.LEFT_OUT.read_text())["step"].keys()
    )
    assert recorded == {a.run.id for a in of_figure("step")}
    ratios = {a.run.id for a in of_figure("ratio") if a.run.engine == "llamacpp"}
    assert json.loads(llamacpp.LEFT_OUT.read_text())["ratio"].keys() == ratios
