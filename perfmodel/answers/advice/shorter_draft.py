"""A shorter draft that is nearly as fast as the chosen one, and loses less if fewer tokens are accepted."""

from dataclasses import dataclass

import numpy as np

from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.ranking import PricedPoint
from perfmodel.speculation import speedups

NEARLY = 0.9
"""Smallest share of the speedup that a shorter draft must keep."""
LEAST_SHORTER = 2
"""The shorter draft has at least this many tokens fewer."""


@dataclass(frozen=True, slots=True)
class ShorterDraft:
    """The shortest draft with nearly the speedup of the chosen length at its batch, and the share of this
    speedup that it keeps.
    """

    gamma: int
    share: float


def shorter_draft(query: AdviseQuery, point: PricedPoint | None) -> ShorterDraft | None:
    """The shorter draft of a point with a draft; None if no shorter draft is nearly as fast, or without a
    draft.
    """
    if point is None or point.gamma <= LEAST_SHORTER:
        return None
    lengths = np.arange(point.gamma + 1)
    s = point.candidate.scenario
    by_length = speedups(s, float(point.batch), float(query.context), lengths).ravel()
    shares = by_length / by_length[-1]
    near = np.flatnonzero(shares[1:] >= NEARLY) + 1
    shortest = int(near[0])
    if shortest > point.gamma - LEAST_SHORTER:
        return None
    return ShorterDraft(shortest, float(shares[shortest]))
