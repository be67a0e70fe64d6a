"""The steady state of a birth-death chain whose births come in bunches.

The states are n = 0 ... seats requests. Requests leave state n at the rate mu(n). The flow between n - 1 and
n is balanced, where m is the mean size of a bunch:

    pi(n) mu(n) m = pi(n-1) (rate + (m - 1) mu(n-1))

Beyond the last state, requests wait. They leave at the rate mu(seats), so the weights fall by a constant
factor.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from perfmodel.operations import Array

TINY = 1e-12
"""Keeps a divisor from 0."""
MOST_LOG_WEIGHTS = 60.0
"""If the logarithm of the ratio of two weights is above this number, the smaller weight does not change their
sum.
"""


class Stationary(NamedTuple):
    """The steady state of a chain.

    - share: share of time with n requests, over ``[rate, n]``. The last n includes the time during which more
      requests wait.
    - waiting: mean number of requests that wait, over ``[rate]``.
    """

    share: Array
    waiting: Array


def stationary(load: Array, bunch: Array) -> Stationary:
    """The steady state for n = 0 ... seats.

    - load: rate / mu(n), over ``[rate, n]`` from n = 1.
    - bunch: m, over ``[rate, 1]``. A value below 1 stands for arrivals that are more regular than a Poisson
      process.

    If the weights rise up to the last seat, a small and a large number of requests are both possible at one
    rate. The small number is reported, so such weights are kept constant.
    """
    ratio = _ratios(load, bunch)
    every_rate_is_served = (load[:, -1] < 1).all()
    reached = _reached(ratio) if every_rate_is_served else ratio.shape[1]
    weight = _weights(ratio[:, :reached], load[:, -1:] >= 1)
    factor = (load[:, -1] + bunch[:, 0] - 1.0) / bunch[:, 0]
    factor = np.where(factor < 1, factor, 0.0)
    # the weights beyond the last seat are a geometric series
    tail = weight[:, -1] * factor / (1 - factor)
    total = weight.sum(1) + tail
    share = np.zeros((load.shape[0], load.shape[1] + 1))
    share[:, : reached + 1] = weight / total[:, None]
    share[:, -1] += tail / total
    return Stationary(share, tail / total / (1 - factor))


def _ratios(load: Array, bunch: Array) -> Array:
    """The weight of n divided by the weight of n - 1, over ``[rate, n]`` from n = 1."""
    # mu(n-1) / mu(n), and mu(0) = 0
    steps = load[:, 1:] / load[:, :-1]
    slower = np.concatenate([np.zeros_like(bunch), steps], 1)
    return np.asarray(np.maximum(load + slower * (bunch - 1.0), TINY) / bunch)


def _reached(ratio: Array) -> int:
    """The number of seats beyond which all weights are negligible compared with the largest.

    - ratio: the result of `_ratios`.

    The largest ratio over all rates is used for each n, because the weights then fall the least.
    """
    log_weight = np.cumsum(np.log(ratio.max(0)))
    peak = max(float(log_weight.max()), 0.0)
    counts = np.flatnonzero(log_weight > peak - MOST_LOG_WEIGHTS)
    return int(counts[-1]) + 1 if counts.size else 1


def _weights(ratio: Array, overfull: NDArray[np.bool_]) -> Array:
    """The weights of n = 0 ..., divided by the largest of them, over ``[rate, n]``.

    - ratio: the result of `_ratios`, or its first columns.
    - overfull: whether requests arrive at least as fast as they leave the last seat, over ``[rate, 1]``. The
      weights that rise up to the last seat are then kept constant.
    """
    rises_from_the_end = np.logical_and.accumulate((ratio > 1)[:, ::-1], 1)
    rises_to_the_end = rises_from_the_end[:, ::-1]
    change = np.where(rises_to_the_end & overfull, 0.0, np.log(ratio))
    log_weight = np.concatenate([np.zeros((ratio.shape[0], 1)), np.cumsum(change, 1)], 1)
    return np.asarray(np.exp(log_weight - log_weight.max(1, keepdims=True)))
