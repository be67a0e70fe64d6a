"""A draft length for each running batch, where a change costs time: policy iteration on the birth-death
chain.

At a rate the chain's relative values follow from its mean batch (Howard 1960): what one request more costs,
d(n), in request-seconds. A length is worth its departures times d(n - 1), over the time that the server
spends at n; a change between n - 1 and n is paid at every crossing of that border, by all n requests. Each
round improves the whole table at once, by the least sum of both (Viterbi).
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from perfmodel.operations import Array, Floats
from perfmodel.queueing.load import Lengths
from perfmodel.queueing.steps import StepTimes

PASSES_OF_A_CHANGE = 1.0
"""Assumed: after a change one pass is lost, for graphs are other ones and a draft has to catch up with its
cache.
"""
LEAST_DECODING = 0.02
"""Share of a pass that decoding keeps beside the prompts, at the least; no rate that needs more is
sustained.
"""
ROUNDS = 8
SELDOM = 1e-3
"""Share of the largest share of time that every batch counts with, so that rare ones are chosen for too."""


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
    n = np.arange(1.0, seats + 1)
    gains = np.array([t.tokens_per_iteration for t in times])
    decode, prompt = (
        np.stack([getattr(t, name)[:seats] for t in times], 1) for name in ("decode_s", "prompt_s")
    )
    leave = n[:, None] * gains / (lengths.decoded * decode) * np.maximum(1.0 - rate * prompt, LEAST_DECODING)
    chosen, at = np.argmax(leave, 1), np.arange(seats)
    for _ in range(ROUNDS):
        share, worth = _values(leave[at, chosen], rate)
        crossed = np.concatenate([[0.0], share[:-1]]) * rate
        toll = 2.0 * crossed * n * PASSES_OF_A_CHANGE * decode[at, chosen]  # down as often as up
        better = walk(-share[:, None] * leave * worth[:, None], toll)
        if np.array_equal(better, chosen):
            break
        chosen = better
    gained, share = gains[chosen], _values(leave[at, chosen], rate)[0]
    mean = float(np.average(gained, weights=share))
    longest = max((times[k] for k in set(chosen.tolist())), key=lambda t: t.gamma)
    merged = replace(
        longest,
        tokens_per_iteration=mean,
        decode_s=decode[at, chosen] * mean / gained,
        prompt_s=prompt[at, chosen],
        seats=seats,
        table=tuple(times[k] for k in chosen.tolist()),
    )
    return merged, np.array([t.gamma for t in times])[chosen]


def _values(leave: Array, rate: float) -> tuple[Array, Array]:
    """Share of time at n = 1 ... seats, no less than `SELDOM`, and what a request more than n - 1 costs."""
    n = np.arange(1.0, leave.size + 1)
    logs = np.concatenate([[0.0], np.cumsum(np.log(rate / leave))])
    share = np.exp(logs - logs.max())
    share = share[1:] / share.sum()
    mean = float(share @ n)
    worth, later = np.empty(leave.size), 0.0
    for i in range(leave.size - 1, -1, -1):
        later = (n[i] - mean + rate * later) / leave[i]
        worth[i] = later
    return np.maximum(share, SELDOM * share.max()), np.maximum(worth, 0.0)
