"""The draft lengths of SGLang's adaptive speculation in its steady state, by running requests and accepted
tokens.
"""

from collections.abc import Mapping, Sequence

from perfmodel.queueing.policies.base import Choice, LengthPolicy, Replica

CANDIDATES = {1: (1, 3, 5, 7), 8: (0, 1, 3), 32: (0, 1), 64: (0,)}
"""Least number of running requests -> the candidate steps."""
DOWN = {1: -0.25, 8: 0.0, 32: 0.0, 64: 0.0}
"""Least number of running requests -> distance of accepted tokens from the threshold at which the server
takes the next smaller candidate.
"""
FIRST, HALF = 3, 0.5
"""Steps of a server at its start, and the distance between a candidate and a threshold."""


class Adaptive(LengthPolicy):
    """One number of steps for each range of running requests, from the mean number of accepted tokens.

    Fluctuations between two candidates, and the start of a server, are left out.
    """

    help = "the steps at which SGLang's adaptive speculation settles"
    noun = "the adaptive steps"
    source = "defaults of adaptive_spec_params.py in SGLang 0.5.23"

    def lengths(self, longest: int) -> Sequence[int]:
        """All candidates that the draft can reach."""
        return sorted({k for steps in CANDIDATES.values() for k in steps if k <= longest})

    def choices(self, replica: Replica) -> Sequence[Choice]:
        """One table for every load."""
        accepted = {k: times.tokens_per_iteration - 1.0 for k, times in replica.passes.items()}
        settled = {first: settles(steps, DOWN[first], accepted) for first, steps in CANDIDATES.items()}
        seats = min(replica.passes[k].seats for k in settled.values())
        table = []
        for n in range(1, seats + 1):
            first = max(first for first in settled if first <= n)
            table.append(settled[first])
        sustained = replica.sustained(set(table)) if table else 0.0
        return [replica.switching(self, table, sustained)]


def settles(candidates: Sequence[int], down: float, accepted: Mapping[int, float]) -> int:
    """The number of steps at which a server settles.

    candidates: rising numbers of steps. down: see `DOWN`. accepted: candidate -> mean number of accepted
    tokens; a candidate without one is not used.
    """
    steps = [k for k in candidates if k in accepted]
    first = steps.index(FIRST) if FIRST in steps else len(steps) // 2
    at = first
    while at and accepted[steps[at]] <= abs(steps[at - 1] - HALF) + down:
        at -= 1
    while first <= at < len(steps) - 1 and accepted[steps[at]] > steps[at] - HALF:
        at += 1
    return steps[at]
