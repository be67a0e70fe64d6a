"""A draft length for each running batch, where a change costs time: policy iteration on the birth-death
chain.

At a rate the chain's relative values follow from its mean batch (Howard 1960): what one request more costs,
d(n), in request-seconds. A length is worth its departures times d(n - 1), over the time that the server
spends at n; a change between n - 1 and n is paid at every crossing of that border, by all n requests. Each
round improves the whole table at once, by the least sum of both (Viterbi).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from perfmodel.operations import Array, Floats
from perfmodel.queueing.load import Lengths
from perfmodel.queueing.policies.base import Choice, LengthPolicy, Replica
from perfmodel.queueing.steps import StepTimes
from perfmodel.queueing.switching import decode_times, leaving, switched, values

PASSES_OF_A_CHANGE = 1.0
"""Assumed: after a change one pass is lost, for graphs are other ones and a draft has to catch up with its
cache.
"""
ROUNDS = 8


@dataclass(frozen=True, slots=True)
class Table(LengthPolicy):
    """A length for each running batch, so that the time per token is least, changes included."""

    help: ClassVar[str] = "a length by running batch"
    noun: ClassVar[str] = "the table"
    source: ClassVar[str] = "num_speculative_tokens_per_batch_size of vLLM"

    def choices(self, replica: Replica) -> Sequence[Choice]:
        """One table, made at the largest rate of the question that every length sustains."""
        rate = replica.sustained(replica.passes)
        if not rate:
            return [replica.switching(self, [], rate)]
        steps, lengths = by_batch(list(replica.passes.values()), replica.lengths, rate)
        return [Choice(self, self.name, steps, replica.everywhere, tuple(lengths.tolist()))]

    def replayed(self, choice: Choice, replica: Replica) -> StepTimes:
        """A table of the same lengths, made at the rate of those requests."""
        if not choice.steps.table:
            return replica.passes[choice.steps.gamma]
        priced = [replica.passes[gamma] for gamma in sorted({t.gamma for t in choice.steps.table})]
        return by_batch(priced, replica.lengths, float(replica.loads[0]))[0]


def walk(cost: Array, toll: Floats) -> NDArray[np.int64]:
    """Choice by step, ``[step, choice]``: the least sum of costs and of a toll per change; on a tie none,
    then fewer.

    toll: one, or for each step, of changing as it begins.
    """
    steps, choices = cost.shape
    tolls = np.broadcast_to(toll, steps)
    came = np.zeros((steps, choices), np.int64)
    total = cost[0].copy()
    for b in range(1, steps):
        cheapest = int(np.argmin(total))
        change = total[cheapest] + tolls[b] < total
        came[b] = np.where(change, cheapest, np.arange(choices))
        total = np.where(change, total[cheapest] + tolls[b], total) + cost[b]
    path = np.empty(steps, np.int64)
    path[-1] = int(np.argmin(total))
    for b in range(steps - 1, 0, -1):
        path[b - 1] = came[b, path[b]]
    return path


def by_batch(
    times: Sequence[StepTimes], lengths: Lengths, rate: float
) -> tuple[StepTimes, NDArray[np.int64]]:
    """Passes of a server that changes its draft length with the running batch, and the length at each n from
    1.

    rate: at which it runs, below all saturation rates.
    """
    seats = min(t.seats for t in times)
    n, at = np.arange(1.0, seats + 1), np.arange(seats)
    decode, leave = decode_times(times, seats), leaving(times, lengths, rate, seats)
    chosen = np.argmax(leave, 1)
    for _ in range(ROUNDS):
        share, worth = values(leave[at, chosen], rate)
        crossed = np.concatenate([[0.0], share[:-1]]) * rate
        toll = 2.0 * crossed * n * PASSES_OF_A_CHANGE * decode[at, chosen]  # down as often as up
        better = walk(-share[:, None] * leave * worth[:, None], toll)
        if np.array_equal(better, chosen):
            break
        chosen = better
    return switched(times, lengths, rate, chosen), np.array([t.gamma for t in times])[chosen]
