"""Decisions by predictions for public runs: whether to speculate, and how many tokens to draft."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from perfmodel.validate.fit.errors import same_side
from perfmodel.validate.studies.judged_runs import errors_left_out
from perfmodel.validate.studies.public_runs import Answered

SURE = ("pays", "does_not_pay")
"""Verdicts that a prediction is certain of."""
NEAR = 0.03
"""Part of the throughput that a draft length close to the best one may lose."""


def side_counts(speedups: Sequence[Answered]) -> dict[str, int]:
    """Speedups predicted on the correct side of 1, and sure verdicts on the wrong one."""
    right = [same_side(a.predicted, a.measured) for a in speedups]
    sure = [side for a, side in zip(speedups, right, strict=True) if a.verdict in SURE]
    return {
        "rows": len(speedups),
        "right": sum(right),
        "sure": len(sure),
        "sure_and_wrong": len(sure) - sum(sure),
    }


def best_length_loss(rows: Sequence[Answered]) -> dict[str, Any]:
    """What the predicted best draft length loses of the throughput of the measured best one."""
    errors = errors_left_out("speedup")
    several = [sweep for sweep in _sweeps(rows) if len(sweep) > 1]
    lost = []
    lost_shipped = []
    for sweep in several:
        lost.append(_lost(sweep, [errors.get(a.run.id, a.off) for a in sweep]))
        lost_shipped.append(_lost(sweep, [a.off for a in sweep]))
    return {
        "sweeps": len(several),
        "lost": float(np.mean(lost)),
        "worst": max(lost),
        "near": sum(share <= NEAR for share in lost),
        "near_shipped": sum(share <= NEAR for share in lost_shipped),
    }


def _sweeps(rows: Sequence[Answered]) -> list[list[Answered]]:
    """Speedups by the server, load and draft, which differ in the draft length. Runs of one length belong to
    different sweeps, in their order.
    """
    runs_of = Counter[Any]()
    sweeps: dict[Any, list[Answered]] = {}
    for a in rows:
        settings = a.run.server, a.run.batch, a.run.draft
        at_length = settings, a.run.gamma
        runs_of[at_length] += 1
        sweeps.setdefault((settings, runs_of[at_length]), []).append(a)
    return list(sweeps.values())


def _lost(sweep: Sequence[Answered], errors: Sequence[float]) -> float:
    """Share of the best measured throughput that the predicted best length loses. No draft, with a speedup of
    1, is one of the lengths. errors: log errors of the speedups.
    """
    measured = [1.0, *(a.measured for a in sweep)]
    predicted = [1.0]
    for a, error in zip(sweep, errors, strict=True):
        predicted.append(a.measured * math.exp(error))
    best = int(np.argmax(predicted))
    return 1.0 - measured[best] / max(measured)
