"""A policy that chooses a draft length for each running batch by policy iteration on the birth-death chain.
The policy includes the time that a change of length costs.

d(n) is the cost of running n requests instead of n - 1, in request-seconds. At a given request rate, it
follows from the mean batch of the chain (Howard 1960). The gain of a draft length at batch n is the product
of three numbers: the requests/s that leave, d(n), and the share of time at n. If the lengths at n - 1 and n
differ, every transition between these batches costs all n requests one pass. Each round improves the whole
table at once: it minimises the cost of transitions minus the gains, with the Viterbi algorithm.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from perfmodel.operations import Array, Floats
from perfmodel.queueing.load import Lengths
from perfmodel.queueing.policies.base import Choice, LengthPolicy, Replica
from perfmodel.queueing.steps import StepTimes
from perfmodel.queueing.switching import decode_times, leaving, shares_and_values, switched

PASSES_OF_A_CHANGE = 1.0
"""Number of passes that a change of length costs. The value is assumed: another CUDA graph has to run, and
the draft has to fill its cache for the tokens that it skipped.
"""
TABLE_ROUNDS = 8
"""Largest number of rounds in which the lengths of a table are improved."""


class LengthTable(NamedTuple):
    """The pass times of a server whose draft length depends on the running batch.

    - steps: the pass times of the server.
    - gammas: number of drafted tokens at each running batch from 1.
    """

    steps: StepTimes
    gammas: NDArray[np.int64]


class Table(LengthPolicy):
    """A draft length for each running batch. Together these lengths minimise the time per token, including
    the cost of changes.
    """

    help = "a length for each size of the running batch"
    noun = "the table"
    source = "num_speculative_tokens_per_batch_size of vLLM"

    def choices(self, replica: Replica) -> Sequence[Choice]:
        """One table of draft lengths, made for the largest rate of the question that every length can
        serve.
        """
        if not (rate := replica.sustained(replica.passes)):
            return [replica.switching(self, [], rate)]
        steps, lengths = by_batch(list(replica.passes.values()), replica.lengths, rate)
        return [Choice(self, self.name, steps, replica.everywhere, tuple(lengths.tolist()))]

    def replayed(self, choice: Choice, replica: Replica) -> StepTimes:
        """The pass times of a new table with the draft lengths of the choice. The table is made for the
        replayed requests and their rate.
        """
        if not choice.steps.table:
            return replica.passes[choice.steps.gamma]
        priced = [replica.passes[gamma] for gamma in sorted({t.gamma for t in choice.steps.table})]
        return by_batch(priced, replica.lengths, float(replica.loads[0])).steps


def walk(cost: Array, toll: Floats) -> NDArray[np.int64]:
    """The sequence of choices, one per step, with the smallest sum of costs and tolls. If two sequences cost
    the same, the sequence without a change is taken, then the sequence with the smaller choice.

    - cost: cost of each choice, over ``[step, choice]``.
    - toll: cost of a change of choice at the start of a step, as one number or as one number per step.
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


def by_batch(times: Sequence[StepTimes], lengths: Lengths, rate: float) -> LengthTable:
    """The best table of draft lengths at a request rate.

    - rate: requests/s, below the saturation rate of every length.
    """
    seats = min(t.seats for t in times)
    n = np.arange(1.0, seats + 1)
    at = np.arange(seats)
    decode = decode_times(times, seats)
    leave = leaving(times, lengths, rate, seats)
    chosen = np.argmax(leave, 1)
    for _ in range(TABLE_ROUNDS):
        share, worth = shares_and_values(leave[at, chosen], rate)
        crossed = np.roll(share, 1) * rate  # valid from the second batch
        toll = (
            2.0 * crossed * n * PASSES_OF_A_CHANGE * decode[at, chosen]
        )  # each change up is followed by one down
        better = walk(-share[:, None] * leave * worth[:, None], toll)
        if np.array_equal(better, chosen):
            break
        chosen = better
    return LengthTable(switched(times, lengths, rate, chosen), np.array([t.gamma for t in times])[chosen])
