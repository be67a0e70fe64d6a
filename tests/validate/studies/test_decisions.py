"""Decisions by predictions for public runs: verdicts on the right side, and what a draft length loses."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from perfmodel.validate.studies import decisions
from perfmodel.validate.studies.answered_runs import Answered
from perfmodel.validate.studies.decisions import best_length_loss, count_sides, side_counts
from perfmodel.validate.studies.judged_runs import JudgedRun
from perfmodel.validate.studies.public_runs import public_runs

RUN = next(run for run in public_runs() if run.hardware == "h20-sxm-96gb" and run.kind == "step")


def test_the_predicted_best_length_loses_throughput_of_the_measured_best_one() -> None:
    """Of two sweeps one is right. The other expects no gain, and loses the measured one of 1.25. A length
    without others is no sweep.
    """

    def at(gamma: int, predicted: float, measured: float, batch: int = 1) -> Answered:
        run = replace(RUN, gamma=gamma, batch=batch)
        return Answered(run, "speedup", predicted, measured, None)

    right = [at(1, 1.3, 1.2), at(3, 1.5, 1.6)]
    wrong = [at(1, 0.9, 1.25), at(3, 0.8, 0.9)]
    single = at(3, 2.0, 3.0, batch=2)
    lost = best_length_loss([*right, *wrong, single])
    assert lost["sweeps"] == 2
    assert lost["lost"] == pytest.approx(0.1)
    assert lost["worst"] == pytest.approx(0.2)
    choice = lost["worst_choice"]
    assert (choice["gamma"], choice["best_gamma"]) == (None, 1)
    assert (choice["speedup"], choice["best_speedup"]) == (1.0, 1.25)
    assert lost["near"] == 1
    assert lost["near_shipped"] == 1


@pytest.mark.parametrize(("measured", "near"), [(1.03, 1), (1.035, 0)])
def test_a_length_is_near_the_best_up_to_a_loss_of_three_per_cent(measured: float, near: int) -> None:
    """A loss of 1 - 1 / 1.03 = 2.9 %, and one of 3.4 %, where no draft is predicted to be best."""
    rows = [
        Answered(replace(RUN, gamma=gamma), "speedup", 0.9, measured - gamma / 1000, None) for gamma in (0, 1)
    ]
    assert best_length_loss(rows)["near"] == near


def test_verdicts_are_counted_as_predicted_without_the_source() -> None:
    """Six speedups by prediction and interval without their source: certain and right on either side of 1,
    certain and wrong, uncertain and right, uncertain and wrong. The last was right only by constants that saw
    its source.
    """

    def judged(measured: float, predicted: float, low: float, high: float, shipped: float) -> JudgedRun:
        off = math.log(predicted / measured)
        ends = low / predicted * shipped / measured, high / predicted * shipped / measured
        shipped_off = math.log(shipped / measured)
        return JudgedRun("a", "vllm", "h100-sxm-80gb", "m", "mtp", off, shipped_off, measured, ends)

    rows = [
        judged(1.2, 1.3, 1.1, 1.5, shipped=1.2),
        judged(0.9, 0.8, 0.7, 0.95, shipped=0.9),
        judged(0.9, 1.4, 1.2, 1.6, shipped=1.4),
        judged(1.2, 1.1, 0.9, 1.3, shipped=1.1),
        judged(0.9, 1.1, 0.9, 1.3, shipped=1.1),
        judged(0.9, 1.3, 1.2, 1.4, shipped=0.9),
    ]
    counts = side_counts(rows)
    assert counts == {"rows": 6, "right": 3, "pays": 2, "pays_and_right": 2, "sure": 4, "sure_and_wrong": 2}


def test_only_lengths_of_one_batch_and_draft_are_a_sweep() -> None:
    def at(gamma: int, **settings: Any) -> Answered:
        return Answered(replace(RUN, gamma=gamma, **settings), "speedup", 1.2, 1.1, None)

    first = at(1, batch=1, draft="mtp")
    other_batch = at(3, batch=2, draft="mtp")
    other_draft = at(3, batch=1, draft="eagle3")
    alike = [at(1, batch=4, draft="mtp"), at(3, batch=4, draft="mtp")]
    assert best_length_loss([first, other_batch, other_draft, *alike])["sweeps"] == 1


def test_a_length_is_chosen_by_constants_that_have_not_seen_its_source(monkeypatch) -> None:
    """They predict no gain (1.1 times e^-0.2), so the measured gain of 1.1 is lost. The shipped constants
    predict 1.2.
    """
    runs = [replace(RUN, gamma=gamma) for gamma in (1, 3)]
    rows = [Answered(run, "speedup", 1.2, 1.1, None) for run in runs]
    monkeypatch.setattr(decisions, "errors_left_out", lambda figure: {run.id: -0.2 for run in runs})
    lost = best_length_loss(rows)
    assert lost["lost"] == pytest.approx(1 - 1 / 1.1)
    assert (lost["near"], lost["near_shipped"]) == (0, 1)


@pytest.mark.parametrize(("measured", "pays"), [(0.999, 0), (1.0, 1), (1.05, 1)])
def test_speculation_pays_from_a_measured_speedup_of_1_on(measured: float, pays: int) -> None:
    counts = count_sides(np.array([1.2]), np.array([measured]), np.array([True]))
    assert counts["pays"] == counts["pays_and_right"] == pays
