"""The saturation rate of a server, which is the largest request rate that it can serve."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from perfmodel.operations import Array
from perfmodel.queueing.load import Lengths, Limits
from perfmodel.queueing.steps import StepTimes


class Capacity(NamedTuple):
    """The capacity of a server. Both fields are 0 if not one request fits in memory.

    - requests_per_s: the saturation rate.
    - full_batch: number of running requests of a saturated server.
    """

    requests_per_s: float
    full_batch: int


@lru_cache(maxsize=64)
def capacity(steps: StepTimes, lengths: Lengths, limits: Limits) -> Capacity:
    """The saturation rate of a server, and its running batch at this rate.

    The saturation rate is the maximum over n of 1 / ((D - 1) T(n) / (n A) + tau(n)). The prompts at this rate
    must fit in the part of the token budget that decoding does not use. The condition is n A / (D - 1) <=
    (budget - n (K + 1)) / P.

    - K: drafted tokens.
    - P: prompt tokens per request.

    `queueing.occupancy` defines T, tau, A and D.
    """
    if not steps.seats:
        return Capacity(0.0, 0)
    n = steps.batches
    iterations = steps.iterations(lengths)
    rate = 1.0 / (iterations * steps.decode_s / n + steps.prompt_s)
    fit = prompts_per_pass(steps, lengths, limits, n)
    rate = np.where(n / iterations <= fit, rate, 0.0)
    if not rate.any():  # a single request already ends before the next prompt is read
        room = float(prompts_per_pass(steps, lengths, limits, n[:1])[0])
        seconds = steps.decode_s[0] / room + steps.prompt_s[0]
        return Capacity(float(1.0 / seconds), 1)
    last = int(np.flatnonzero(rate)[-1])
    return Capacity(float(rate.max()), last + 1)


def prompts_per_pass(steps: StepTimes, lengths: Lengths, limits: Limits, batch: Array) -> Array:
    """Number of prompts that fit in the token budget of a pass, next to a decoding batch of size `batch`.
    Decoding leaves at least one token of the budget.
    """
    left = limits.max_num_batched_tokens - np.asarray(batch) * (steps.gamma + 1.0)
    return np.maximum(left, 1.0) / steps.prompt_tokens(lengths, batch)
