"""Judges two decisions that follow from predictions for public runs: whether to speculate, and how many
tokens to draft.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfmodel.operations import Array
from perfmodel.specs import load_model
from perfmodel.speculation import chance_above_one
from perfmodel.validate.fit.errors import same_side
from perfmodel.validate.studies.answered_runs import Answered
from perfmodel.validate.studies.judged_runs import JudgedRun, errors_left_out
from perfmodel.validate.studies.public_runs import PublicRun

NEAR = 0.03
"""Largest loss of throughput, as a share, with which a draft length counts as near the best length."""


CHANCES = (0.0, 0.05, 0.35, 0.65, 0.95, 1.0)
"""Limits of the ranges of chances whose counts are stated together. In the first and in the last range, the
verdict is certain.
"""


def side_counts(speedups: Sequence[JudgedRun]) -> dict[str, int]:
    """The counts of `count_sides`. Each speedup is predicted with constants that were fitted without its
    source.
    """
    measured = np.array([r.measured for r in speedups])
    predicted = measured * np.exp([r.off for r in speedups])
    low, high = (measured * [r.interval_left_out[end] for r in speedups] for end in (0, 1))
    return count_sides(predicted, measured, sure=(low > 1.0) | (high < 1.0))


def count_sides(predicted: Array, measured: Array, sure: NDArray[np.bool_]) -> dict[str, int]:
    """Counts of correct and wrong verdicts. A verdict is correct if the predicted and the measured speedup
    are on the same side of 1. Speedups measured at 1 or above are also counted separately, because the rule
    "always speculate" is right for all of them.

    - sure: whether the whole interval of each prediction is on one side of 1.
    """
    right = same_side(predicted, measured)
    pays = measured >= 1.0
    return {
        "rows": len(measured),
        "right": int(right.sum()),
        "pays": int(pays.sum()),
        "pays_and_right": int((pays & right).sum()),
        "sure": int(sure.sum()),
        "sure_and_wrong": int((sure & ~right).sum()),
    }


def chance_counts(speedups: Sequence[JudgedRun]) -> list[dict[str, Any]]:
    """The stated chance that speculation pays off (`chance_above_one`), and the share of speedups that were
    measured above 1, for each range of chances in `CHANCES` that has speedups. Each speedup is predicted
    with constants that were fitted without its source.
    """
    measured = np.array([r.measured for r in speedups])
    low, high = (measured * [r.interval_left_out[end] for r in speedups] for end in (0, 1))
    stated = np.array([chance_above_one(ends) for ends in zip(low, high, strict=True)])
    ranges = np.searchsorted(CHANCES[1:-1], stated, side="right")
    counts = []
    for at, (least, most) in enumerate(pairwise(CHANCES)):
        inside = ranges == at
        if not inside.any():
            continue
        sources = {r.source for r, is_inside in zip(speedups, inside, strict=True) if is_inside}
        counts.append(
            {
                "least": least,
                "most": most,
                "rows": int(inside.sum()),
                "sources": len(sources),
                "stated": float(stated[inside].mean()),
                "above_one": float((measured[inside] > 1.0).mean()),
            }
        )
    return counts


@dataclass(frozen=True)
class Choice:
    """The predicted best draft length of a sweep, and the measured best draft length.

    - gamma, best_gamma: the predicted and the measured best length; None means no draft.
    - speedup, best_speedup: the measured speedups with these two lengths.
    """

    run: PublicRun
    gamma: int | None
    speedup: float
    best_gamma: int | None
    best_speedup: float

    @property
    def lost(self) -> float:
        """The share of the best measured throughput that is lost with the predicted best length."""
        return 1.0 - self.speedup / self.best_speedup

    def as_dict(self) -> dict[str, Any]:
        """The choice and its server in JSON types."""
        return {
            "source": self.run.source_id,
            "model": load_model(self.run.model).name,
            "hardware": self.run.hardware,
            "gamma": self.gamma,
            "speedup": self.speedup,
            "best_gamma": self.best_gamma,
            "best_speedup": self.best_speedup,
        }


def best_length_loss(rows: Sequence[Answered]) -> dict[str, Any]:
    """Statistics of the throughput that is lost if the predicted best draft length is used instead of the
    measured best one. Each row is predicted with constants that were fitted without its source.
    """
    errors = errors_left_out("speedup")
    several = [sweep for sweep in _sweeps(rows) if len(sweep) > 1]
    choices = [_choice(sweep, [errors.get(a.run.id, a.off) for a in sweep]) for sweep in several]
    shipped = [_choice(sweep, [a.off for a in sweep]) for sweep in several]
    worst = max(choices, key=lambda choice: choice.lost)
    return {
        "sweeps": len(several),
        "lost": float(np.mean([choice.lost for choice in choices])),
        "worst": worst.lost,
        "worst_choice": worst.as_dict(),
        "near": sum(choice.lost <= NEAR for choice in choices),
        "near_shipped": sum(choice.lost <= NEAR for choice in shipped),
    }


def _sweeps(rows: Sequence[Answered]) -> list[list[Answered]]:
    """Groups of speedups of one server, batch and draft that differ in the draft length. If a draft length
    was measured several times, its first measurement belongs to the first sweep, its second to the second,
    and so on.
    """
    runs_of = Counter[Any]()
    sweeps: dict[Any, list[Answered]] = {}
    for a in rows:
        settings = a.run.server, a.run.batch, a.run.draft
        at_length = settings, a.run.gamma
        runs_of[at_length] += 1
        sweeps.setdefault((settings, runs_of[at_length]), []).append(a)
    return list(sweeps.values())


def _choice(sweep: Sequence[Answered], errors: Sequence[float]) -> Choice:
    """The choice between the draft lengths of a sweep and no draft, whose speedup is 1.

    - errors: the log errors of the predicted speedups.
    """
    gammas = [None, *(a.run.gamma for a in sweep)]
    measured = [1.0, *(a.measured for a in sweep)]
    predicted = [1.0]
    for a, error in zip(sweep, errors, strict=True):
        predicted.append(a.measured * math.exp(error))
    chosen = int(np.argmax(predicted))
    best = int(np.argmax(measured))
    return Choice(sweep[0].run, gammas[chosen], measured[chosen], gammas[best], measured[best])
