"""Finds a shorter draft length that is nearly as fast as the chosen length. If fewer tokens are accepted than
expected, a shorter draft wastes less time.
"""

from dataclasses import dataclass

import numpy as np

from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.ranking import PricedPoint
from perfmodel.speculation import speedups

NEARLY = 0.9
"""Smallest share of the speedup that a shorter draft must keep."""
LEAST_SHORTER = 2
"""The shorter draft has at least this many tokens fewer than the chosen draft."""


@dataclass(frozen=True, slots=True)
class ShorterDraft:
    """A shorter draft length that is nearly as fast as the chosen length.

    - gamma: the shorter length.
    - share: its speedup divided by that of the chosen length, at the same batch. It is at most 1, because the
      chosen length is the best one over the whole load, not at this batch.
    """

    gamma: int
    share: float


def shorter_draft(query: AdviseQuery, point: PricedPoint | None) -> ShorterDraft | None:
    """The smallest draft length that keeps the share `NEARLY` of the speedup of a point. The result is None
    if this length is shorter by fewer than `LEAST_SHORTER` tokens, or if the point has no draft.
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
    return ShorterDraft(shortest, min(1.0, float(shares[shortest])))
