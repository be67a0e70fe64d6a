"""Steps of public runs by constants that have not seen their source."""

import json
import math

import numpy as np
import pytest

from perfmodel.validate.studies.left_out import FREE, Step, left_out, neutral
from perfmodel.validate.studies.parameters import Parameter
from perfmodel.validate.studies.sources import LEFT_OUT, of_figure

H20 = [a for a in of_figure("step") if a.run.hardware == "h20-sxm-96gb" and a.run.kind == "step"][:6]


def test_a_constant_without_rows_is_a_factor_of_one_or_a_tenth_of_its_time() -> None:
    assert neutral(Parameter("a.expert_factor", 3.0, 1.0)) == pytest.approx(-math.log(3))
    assert neutral(Parameter("a.small_kernel_s", 2.0, 1.0, True)) == pytest.approx(-math.log(2))
    assert neutral(Parameter("a.pass_fixed_s", 1e-3, 1.0)) == pytest.approx(math.log(0.1))


def test_a_step_moves_with_its_own_constants_alone() -> None:
    step = Step(H20[0], {})
    (board,) = [place for place in step.places if place == "h20-sxm-96gb.gemm_factor"]
    assert step.moved({}) == 0.0
    assert step.moved({board: 0.1}) < 0 < step.moved({board: -0.1})
    other = next(place for place in FREE if place not in step.places)
    assert step.moved({other: 1.0}) == 0.0


def test_a_source_of_a_device_of_its_own_is_predicted_without_what_it_taught() -> None:
    """One source has all rows here: without it an H20 reads weights as an H100 does, far too fast."""
    left = left_out(H20, lambda rows: np.eye(len(rows)))
    assert np.all(left < np.array([a.off for a in H20]) - 0.1)


def test_what_is_recorded_is_of_the_rows_that_count() -> None:
    recorded = json.loads(LEFT_OUT.read_text())
    assert recorded.keys() == {a.run.id for a in of_figure("step")}
