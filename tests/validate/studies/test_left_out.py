"""Steps and speedups of public runs, predicted by constants that have not seen their source."""

import numpy as np

from perfmodel.validate.studies.answered_runs import answers
from perfmodel.validate.studies.left_out import left_out, refitted_errors
from perfmodel.validate.studies.measured_steps import FREE, MeasuredStep, on_borrowed_kernels
from perfmodel.validate.studies.public_runs import public_runs
from perfmodel.validate.studies.published_engines import alike

H20 = [run for run in public_runs() if run.hardware == "h20-sxm-96gb" and run.kind == "step"]
ROWS = [answers(run)[0] for run in H20 if run.counts and run.weights != "int4-g128"][:6]


def test_a_step_moves_with_its_own_constants_alone() -> None:
    step = MeasuredStep.of_run(ROWS[0], {})
    (board,) = [place for place in step.places if place == "h20-sxm-96gb.gemm_factor"]
    assert step.moved({}) == 0.0
    assert step.moved({board: 0.1}) < 0
    assert step.moved({board: -0.1}) > 0
    other = next(place for place in FREE if place not in step.places)
    assert step.moved({other: 1.0}) == 0.0


def test_a_source_of_a_device_of_its_own_is_predicted_without_what_it_taught() -> None:
    """One source has all rows here: without it, small kernels of this version take vLLM's time, which is
    shorter.
    """
    shipped = np.array([row.off for row in ROWS])
    assert np.all(left_out(ROWS) < shipped)


def test_a_speedup_without_its_source_is_off_the_other_way_than_its_ratio() -> None:
    """The one source of verifications of states on this device is left out. They then take a part of their
    time, so an iteration is predicted shorter, and the speedup larger.
    """
    run = next(run for run in public_runs() if run.id == "f247")
    speedup, _ = answers(run)
    ratio = MeasuredStep.of_run(speedup, {})
    verification = "vllm.rtx-3090-24gb.state_verify_s"
    assert ratio.off == -speedup.off
    assert ratio.moved({verification: 0.1}) > 0.05
    (without,) = refitted_errors([ratio], [])
    assert without > speedup.off + 0.1


def test_a_source_in_the_tables_of_engines_is_predicted_without_its_rows_there() -> None:
    """Its rows in ``engine_decode.csv`` ask for more time of a latent layer than the other source's."""
    run = next(run for run in public_runs() if run.id == "f321")
    (row,) = answers(run)
    (without,) = left_out([row])
    assert without < row.off - 0.01


def test_tables_of_engines_teach_what_a_device_with_borrowed_kernels_costs() -> None:
    steps = on_borrowed_kernels({})
    assert "InferenceX" in {s.source for s in steps}
    assert any(place.startswith("cdna3.") for s in steps for place in s.places)
    assert alike("SemiAnalysisAI/InferenceX#870", "InferenceX")
    assert not alike("QwenLM/Qwen3", "InferenceX")
