"""Runs of public sources: asked as their authors would ask, answered by constants that have not seen their
source, and what is stated of sources that were left out.
"""

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from perfmodel.operations import Array
from perfmodel.validate.studies import gate, record as accuracy
from perfmodel.validate.studies.decisions import best_length_loss, side_counts
from perfmodel.validate.studies.judged_runs import JudgedRun, is_slowed
from perfmodel.validate.studies.left_out import alike, left_out
from perfmodel.validate.studies.measured_steps import FREE, MeasuredStep, on_borrowed_kernels
from perfmodel.validate.studies.parameters import PlacedConstant
from perfmodel.validate.studies.public_runs import Answered, answers, public_runs
from perfmodel.validate.studies.refit import LATER_VERSION, neutral, refit
from perfmodel.validate.studies.source_figures import group_errors

H20 = [run for run in public_runs() if run.hardware == "h20-sxm-96gb" and run.kind == "step"]
ROWS = [answers(run)[0] for run in H20 if run.counts and run.weights != "int4-g128"][:6]


def test_a_constant_without_rows_is_a_factor_of_one_a_tenth_of_its_time_or_as_versions_are() -> None:
    factor = PlacedConstant("a.expert_factor", 3.0, 1.0)
    assert neutral(factor) == pytest.approx(-math.log(3))
    multiple = PlacedConstant("a.small_kernel_s", 2.0, 1.0, True)
    assert neutral(multiple) == pytest.approx(-math.log(2))
    time = PlacedConstant("a.pass_fixed_s", 1e-3, 1.0)
    assert neutral(time) == pytest.approx(math.log(0.1))
    of_a_version = PlacedConstant("a@2.0.small_kernel_s", 0.8, 1.0, True)
    assert neutral(of_a_version) == pytest.approx(math.log(LATER_VERSION / 0.8))
    measured = PlacedConstant("a.gemm_factor", 0.4, 1.0, True, elsewhere=0.5)
    assert neutral(measured) == pytest.approx(math.log(0.5 / 0.4))


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


def test_constants_are_refitted_by_generalised_least_squares() -> None:
    """Errors near 0 weigh (4 + 1) / 4; one far off, of a server of its own, hardly weighs at all."""
    time = "vllm.pass_fixed_s"
    factor = "gddr.gemm_factor"
    places = (time, factor)
    slopes = np.array([[1.0, 0.0], [0.5, 0.2], [0.0, 0.7], [0.3, 0.3]])
    expected = np.array([neutral(FREE[place]) for place in places])
    spread = np.array([2.0, 0.7])
    left = np.array([1e-3, -2e-3, 3e-3])
    off = np.append(left, 100.0) - slopes @ expected

    def step(source: str, server: str, own: Array, error: float) -> Any:
        return SimpleNamespace(
            source=source,
            server=server,
            places=[place for place, slope in zip(places, own, strict=True) if slope],
            off=error,
            moved=lambda by: float(own @ [by[time], by[factor]]),
        )

    steps = [step(*each) for each in zip("aabc", "sstu", slopes, off.tolist(), strict=True)]
    covariance = np.diag([0.0015 + 0.0236 + 0.0142] * 3)
    covariance[0, 1] = covariance[1, 0] = 0.0015 + 0.0236
    weights = 1.25 * np.linalg.inv(covariance)
    near = slopes[:3]
    precision = near.T @ weights @ near + np.diag(spread**-2)
    pull = near.T @ weights @ left
    refitted = refit(steps, [time, factor])
    by_hand = expected - np.linalg.solve(precision, pull)
    assert [refitted[time], refitted[factor]] == pytest.approx(by_hand, abs=2e-3)


def test_tables_of_engines_teach_what_a_device_with_borrowed_kernels_costs() -> None:
    steps = on_borrowed_kernels({})
    assert "InferenceX" in {s.source for s in steps}
    assert any(place.startswith("cdna3.") for s in steps for place in s.places)
    assert alike("SemiAnalysisAI/InferenceX#870", "InferenceX")
    assert not alike("QwenLM/Qwen3", "InferenceX")


# Errors of sources that were left out.


def test_sources_left_out_are_off_by_what_is_promised() -> None:
    """By the record, which `test_accuracy` compares with the code.

    The widths are those of sources left out. Constants that have seen a row err less on it, so more rows lie
    inside as shipped. So do rows whose class of devices has few others. Coverage judges each row by widths
    without its source. Two sources have nearly all speedups of llama.cpp and differ in their errors, so that
    fewer of its rows lie inside.
    """
    stated = gate.read(accuracy.PATH)["sources"]
    for figure, seen, unseen in (("step", 0.09, 0.15), ("ratio", 0.06, 0.1), ("speedup", 0.06, 0.1)):
        of = stated[figure]["llama.cpp"]
        assert of["shipped"] < seen
        assert of["error"] < unseen
        assert 0.85 <= of.get("inside", 0.9) <= 0.98
    for name in ("own", "borrowed", "llamacpp"):
        assert 0.85 <= stated["coverage"]["step"][name]["inside"] <= 0.95
    for name, least in (("known", 0.85), ("new", 0.85), ("llamacpp", 0.8)):
        assert least <= stated["coverage"]["speedup"][name]["inside"] <= 0.98
    assert 0.85 <= stated["step"]["all"]["inside"] <= 0.95
    assert 0.85 <= stated["step"]["all"]["inside_shipped"] <= 0.97


PARTS = [
    JudgedRun("a", "vllm", "h100-sxm-80gb", "m", "ngram", 0.1, 0.2, (0.9, 1.2)),
    JudgedRun("a", "vllm", "h100-sxm-80gb", "m", "ngram", -0.3, -0.1, None),
    # holds the measurement by the constants that have not seen it
    JudgedRun("b", "vllm", "h100-sxm-80gb", "m", "ngram", 0.4, 0.5, (1.05, 1.5)),
]


def test_errors_of_a_part_by_hand() -> None:
    """Two rows of a source that are off by 0.1 and -0.3, and one of another by 0.4."""
    errors = group_errors(PARTS)
    logs = {"error": 0.8 / 3, "macro": 0.3, "bias": 0.2 / 3, "shipped": 0.8 / 3}
    for name, off in logs.items():
        assert errors[name] == pytest.approx(math.expm1(off)), name
    first_width = (1.2 / 0.9) ** 0.5
    second_width = (1.5 / 1.05) ** 0.5
    assert errors["rows"] == 3
    assert errors["sources"] == 2
    assert errors["inside"] == 1.0
    assert errors["inside_shipped"] == 0.5
    worst = math.expm1(0.4)
    assert errors["worst"] == {"source": "b", "error": pytest.approx(worst)}
    assert errors["width"] == pytest.approx((first_width + second_width) / 2 - 1)
    assert "inside" not in group_errors(PARTS[1:2])


def test_an_interval_of_a_speedup_is_as_wide_as_its_own_extra_time() -> None:
    """Answers predict iterations of two steps, of which a half is extra time. Without the source it is three
    quarters of four, so each end is half as far again from the prediction, as a logarithm.
    """
    row = JudgedRun("a", "vllm", "h100-sxm-80gb", "m", "mtp", math.log(0.5), 0.0, (0.64, 1.44), ratio=2.0)
    assert row.interval_left_out == pytest.approx((0.5 * 0.64**1.5, 0.5 * 1.44**1.5))
    assert replace(row, ratio=None).interval_left_out == pytest.approx((0.32, 0.72))


def test_the_predicted_best_length_loses_throughput_of_the_measured_best_one() -> None:
    """Of two sweeps one is right. The other expects no gain, and loses the measured one of 1.25. A length
    without others is no sweep.
    """

    def at(gamma: int, predicted: float, measured: float, batch: int = 1) -> Answered:
        run = replace(ROWS[0].run, gamma=gamma, batch=batch)
        return Answered(run, "speedup", predicted, measured, None)

    right = [at(1, 1.3, 1.2), at(3, 1.5, 1.6)]
    wrong = [at(1, 0.9, 1.25), at(3, 0.8, 0.9)]
    single = at(3, 2.0, 3.0, batch=2)
    lost = best_length_loss([*right, *wrong, single])
    assert lost["sweeps"] == 2
    assert lost["lost"] == pytest.approx(0.1)
    assert lost["worst"] == pytest.approx(0.2)
    assert lost["near"] == 1
    assert lost["near_shipped"] == 1


def test_sides_and_sure_verdicts_are_counted() -> None:
    """Five speedups: sure and right on either side of 1, sure and wrong, unsure and right, unsure and
    wrong.
    """
    rows = [
        (1.3, 1.2, "pays"),
        (0.8, 0.9, "does_not_pay"),
        (1.4, 0.9, "pays"),
        (1.1, 1.2, "unsure"),
        (1.1, 0.9, "unsure"),
    ]
    speedups = [Answered(ROWS[0].run, "speedup", made, got, None, verdict) for made, got, verdict in rows]
    assert side_counts(speedups) == {"rows": 5, "right": 3, "sure": 3, "sure_and_wrong": 1}


def test_runs_that_a_known_defect_slows_are_those_whose_answer_names_it() -> None:
    """MTP of a model with recurrent layers and experts on Ampere, not without experts, nor on Blackwell."""
    slowed = {}
    for run in public_runs():
        if run.draft == "mtp" and run.engine == "vllm" and run.model.startswith("qwen3.5-"):
            slowed.setdefault((run.model, run.hardware), is_slowed(run))
    assert slowed["qwen3.5-35b-a3b", "rtx-3090-24gb"]
    assert not slowed["qwen3.5-27b", "rtx-3090-24gb"]
    assert not slowed["qwen3.5-397b-a17b", "rtx-pro-6000-96gb"]


# The answers themselves.


def test_a_step_a_served_run_and_a_speculation_are_answered_by_the_projects_own_path() -> None:
    first = {}
    for run in public_runs():
        if run.counts and run.engine != "llamacpp":
            first.setdefault(run.kind, run)
    figures = [a.figure for run in first.values() for a in answers(run)]
    assert sorted(figures) == ["ratio", "speedup", "step", "step"]
    for run in first.values():
        for answer in answers(run):
            assert abs(answer.off) < math.log(3), run.id
            if answer.figure != "ratio":
                low, high = answer.interval
                assert low < answer.predicted <= high
