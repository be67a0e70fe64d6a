"""The pass times of a server whose draft length depends on the running batch."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from perfmodel.operations import Array, Floats
from perfmodel.queueing.load import Lengths
from perfmodel.queueing.moments import shares_of
from perfmodel.queueing.steps import StepTimes

LEAST_DECODING = 0.02
"""Smallest share of a pass that is left to decoding. A request rate whose prompts leave less cannot be
sustained.
"""
ENDLESS = 1e100
"""Upper limit of the cost of a request. It applies if more requests arrive than leave at hundreds of batch
sizes.
"""
TINY = 1e-12
"""A loss of hits is divided by at least this hit rate."""
SELDOM = 1e-3
"""Every batch size counts with at least this share of the largest weight, so rare batch sizes get a length
too.
"""


class BatchValues(NamedTuple):
    """The weight and value of each running batch n = 1 ... seats.

    - share: share of time at n. It is at least `SELDOM` times the largest share.
    - value: cost of running n requests instead of n - 1, in request-seconds.
    """

    share: Array
    value: Array


def switched(
    times: Sequence[StepTimes], lengths: Lengths, rate: float, chosen: NDArray[np.int64]
) -> StepTimes:
    """The pass times of a server whose draft length depends on its running batch.

    - chosen: index into `times` at each running batch from 1.
    - rate: requests/s of the server. This rate determines the weight of each batch in the mean of
      `tokens_per_iteration`.
    """
    at = np.arange(chosen.size)
    gained = np.array([t.tokens_per_iteration for t in times])[chosen]
    decode = decode_times(times, chosen.size)[at, chosen]
    prompt = prompt_times(times, chosen.size)[at, chosen]
    leave = leaving(times, lengths, rate, chosen.size)[at, chosen]
    share = shares_and_values(leave, rate).share
    mean = float(np.average(gained, weights=share))
    used = [times[k] for k in set(chosen.tolist())]
    longest = max(used, key=lambda t: t.gamma)
    return replace(
        longest,
        tokens_per_iteration=mean,
        decode_s=decode * mean / gained,
        prompt_s=prompt,
        seats=chosen.size,
        table=tuple(times[k] for k in chosen.tolist()) if np.ptp(chosen) else (),
    )


def decode_times(times: Sequence[StepTimes], seats: int) -> Array:
    """Decoding times of all passes, in seconds, over ``[running batch, draft length]``."""
    return np.stack([t.decode_s[:seats] for t in times], 1)


def prompt_times(times: Sequence[StepTimes], seats: int) -> Array:
    """Times that a prompt adds to all passes, in seconds, over ``[running batch, draft length]``.

    If a server drafts at some batches, its prefix cache loses blocks at every batch. At batches without a
    draft it therefore computes more prompt tokens than a server that never drafts. The number of additional
    tokens is known for an idle server. For each batch, it is multiplied by the hit rate at this batch,
    divided by the hit rate on an idle server.
    """
    cached = max(times, key=lambda t: t.gamma).cached
    columns = []
    for t in times:
        more: Floats = 1.0
        if t.cached is not None and cached is not None and not t.gamma:
            lost = (cached.read[0] - t.cached.read[0]) / max(t.cached.hit_rate[0], TINY)
            more = 1.0 + lost * (t.cached.hit_rate / t.cached.read)[:seats]
        columns.append(t.prompt_s[:seats] * more)
    return np.stack(columns, 1)


def leaving(times: Sequence[StepTimes], lengths: Lengths, rate: float, seats: int) -> Array:
    """Requests per second that finish if prompts arrive at the given rate, over ``[running batch, draft
    length]``.
    """
    iterations = np.array([t.iterations(lengths) for t in times])
    decode = decode_times(times, seats)
    prompt = prompt_times(times, seats)
    decoding = np.maximum(1.0 - rate * prompt, LEAST_DECODING)
    return np.arange(1.0, seats + 1)[:, None] / (iterations * decode) * decoding


def shares_and_values(leave: Array, rate: float) -> BatchValues:
    """The weight and value of each running batch in a birth-death process.

    - leave: requests/s that finish at each batch.
    - rate: requests/s that arrive.
    """
    batches = np.arange(1.0, leave.size + 1)
    logs = np.cumsum(np.log(rate / leave))
    share = shares_of(np.concatenate([[0.0], logs]))[1:]
    mean = float(share @ batches)
    worth = np.empty(leave.size)
    later = 0.0
    for i in range(leave.size - 1, -1, -1):
        later = (batches[i] - mean + rate * later) / leave[i]
        later = min(max(later, 0.0), ENDLESS)
        worth[i] = later
    return BatchValues(np.maximum(share, SELDOM * share.max()), worth)
