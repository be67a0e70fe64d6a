"""Decisions by predictions for public runs: verdicts on the right side, and what a draft length loses."""

from dataclasses import replace

import pytest

from perfmodel.validate.studies.decisions import best_length_loss, side_counts
from perfmodel.validate.studies.public_runs import Answered, public_runs

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
    speedups = [Answered(RUN, "speedup", made, got, None, verdict) for made, got, verdict in rows]
    assert side_counts(speedups) == {"rows": 5, "right": 3, "sure": 3, "sure_and_wrong": 1}
