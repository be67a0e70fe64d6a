"""The number of concurrently decoding requests at a request rate. It is modelled as a birth-death chain in
which requests arrive in bunches. This module also computes the saturation rate.

- T(n): seconds of decoding in a pass with n decoding requests.
- tau(n): seconds that a prompt adds to this pass.
- A: tokens per iteration.
- D: output tokens of a request.

Prompts arrive at the same rate for every n, so a pass lasts s(n) = T(n) / (1 - rate tau(n)). Requests leave
at the rate mu(n) = n A / ((D - 1) s(n)). If requests arrive one at a time, the share of time with n requests,
pi(n), is proportional to the product of rate / mu(k) for k = 1 ... n. As in processor sharing, this holds for
every distribution of lengths (Kelly 1979). If all seats are taken, more requests wait for a seat, and
requests continue to leave at the rate mu(seats).

While prompts are read, no request decodes, but more requests arrive. On a clock that counts only decoding,
requests therefore arrive in bunches. The number of arrivals is then a branching process. Its variance divided
by its mean tends to 1 / (1 - rate tau)^2 (Hawkes and Oakes 1974).
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from perfmodel.operations import Array
from perfmodel.queueing.load import Lengths, Limits
from perfmodel.queueing.steps import StepTimes

NEGLIGIBLE = 1e-9
"""A smaller share of time counts as 0. A rate also stays below an unreachable limit by at least this relative
distance.
"""
TINY = 1e-12
"""Keeps a divisor from 0."""
MOST_LOG_WEIGHTS = 60.0
"""If the logarithm of the ratio of two weights is above this number, the smaller weight does not change their
sum.
"""
SEEN = 0.4
"""Number of arrivals in a time window at which their variance has half of its excess over Poisson arrivals,
for gamma-distributed gaps (counted for shapes from 0.1 to 10).
"""
LEAST_EXCESS = -0.9
"""Lower limit of the variance of the arrivals divided by their mean, minus 1. Without this limit, regular
arrivals would need a binomial distribution without variance. The value is assumed.
"""


class Waiting(NamedTuple):
    """Requests that wait for a seat, over ``[rate]``.

    - full: share of time during which all seats are taken.
    - requests: mean number of waiting requests. It is set to 0 if the server is saturated.
    """

    full: Array
    requests: Array


class Stationary(NamedTuple):
    """The steady state of a chain.

    - share: share of time with n requests, over ``[rate, n]``.
    - waiting: mean number of requests without a seat, over ``[rate]``.
    """

    share: Array
    waiting: Array


class EvenArrivals(NamedTuple):
    """The steady state of a chain whose arrivals are more regular than a Poisson process.

    - share: share of time with n requests, over ``[rate, n]``.
    - bunching: variance of the number of arrivals divided by its mean, over ``[rate, 1]``.
    """

    share: Array
    bunching: Array


@dataclass(frozen=True, slots=True)
class Occupancy:
    """The steady state of the chain at several request rates.

    - share: share of time with n decoding requests, over ``[rate, n]`` for n = 0 ... seats. The last n
      includes the time during which more requests wait for a seat.
    - running: mean number of requests that decode, over ``[rate]``.
    - pass_s: seconds of a pass, including its prompts, over ``[rate, n]`` from n = 1.
    - saturated: whether requests arrive at least as fast as they can leave.
    - metastable: whether requests arrive faster than they leave while all seats are taken, although the
      server is not saturated.
    - load: arrival rate divided by the rate at which requests leave, over ``[rate, n]`` from n = 1.
    - index: variance of the number of arrivals divided by its mean.
    """

    share: Array
    running: Array
    pass_s: Array
    saturated: NDArray[np.bool_]
    metastable: NDArray[np.bool_]
    load: Array
    index: Array

    def queue(self) -> Waiting:
        """The share of time with all seats taken, and the mean number of requests that wait for a seat.

        The queue is served in the order of arrival. On average, a request therefore waits for only half of
        the requests that arrive in the same burst.
        """
        full = np.zeros_like(self.running)
        waiting = np.zeros_like(self.running)
        crowded = self.share[:, -1] > NEGLIGIBLE
        if crowded.any():
            lined_up = _stationary(self.load[crowded], (self.index[crowded] + 1.0) / 2.0)
            full[crowded] = lined_up.share[:, -1]
            waiting[crowded] = lined_up.waiting
        return Waiting(full, np.where(self.saturated, 0.0, waiting))


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
    - P: prompt tokens per request. For T, tau, A and D, see the module.
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
    """Number of prompts that fit in the token budget of a pass, next to a decoding batch of size `batch`."""
    left = limits.max_num_batched_tokens - np.asarray(batch) * (steps.gamma + 1.0)
    return np.maximum(left, 1.0) / steps.prompt_tokens(lengths, batch)


def occupancy(steps: StepTimes, lengths: Lengths, rate: Array, most: float, burstiness: float) -> Occupancy:
    """The steady state of the chain at each request rate.

    - most: the saturation rate. At this rate and above, all seats are taken.
    """
    rate = np.asarray(rate, float)[:, None]
    saturated = rate[:, 0] >= most
    kept = np.where(saturated[:, None], most * (1 - NEGLIGIBLE), rate)
    prompts = np.minimum(kept * steps.prompt_s, 1 - NEGLIGIBLE)
    pass_s = steps.decode_s / (1.0 - prompts)
    load = kept * steps.iterations(lengths) * pass_s / steps.batches
    # the first batch from which requests leave as fast as they arrive; at smaller batches, a single prompt
    # may take as long as many prompts at this batch
    balanced = np.argmax(load <= 1, 1)[:, None]
    index = _bunching(
        steps,
        lengths,
        rate=kept,
        prompts=np.take_along_axis(prompts, balanced, 1),
        pass_s=np.take_along_axis(pass_s, balanced, 1),
        prompt_s=steps.prompt_s[balanced],
        burstiness=burstiness,
    )
    share = _stationary(load, index).share
    even = index[:, 0] < 1
    if even.any():
        binomial = _binomial(load[even], index[even])
        share[even] = binomial.share
        index[even] = binomial.bunching
    n = np.arange(share.shape[1])
    share[saturated] = n == n[-1]
    metastable = ~saturated & (load[:, -1] >= 1)
    return Occupancy(share, share @ n, pass_s, saturated, metastable, load, index)


def _bunching(
    steps: StepTimes,
    lengths: Lengths,
    rate: Array,
    prompts: Array,
    pass_s: Array,
    prompt_s: Array,
    burstiness: float,
) -> Array:
    """Variance divided by mean of the arrivals while a request decodes, on a clock that counts only decoding.

    - prompts: share of the time that prompts take.
    - pass_s, prompt_s: seconds of a pass and of a prompt.
    """
    stay_s = steps.iterations(lengths) * pass_s
    gaps = 1.0 + (1.0 / burstiness - 1.0) * rate * stay_s / (rate * stay_s + SEEN)
    stay = stay_s / (prompt_s + TINY) * (1.0 - prompts)
    # the part of a bunch of prompts that arrives during the same stay
    lasting = 1.0 + np.expm1(-stay) / np.maximum(stay, TINY)
    return 1.0 + np.maximum((gaps / (1.0 - prompts) ** 2 - 1.0) * lasting, LEAST_EXCESS)


def _binomial(load: Array, index: Array) -> EvenArrivals:
    """The chain for arrivals that are more regular than a Poisson process. The number of requests then has a
    binomial distribution.

    The number of trials with the wanted variance is rarely whole. Two neighbouring whole numbers are
    therefore mixed, with weights that change without jumps, so TPOT rises with the rate.
    """
    wanted = load[:, :1] / np.maximum(1.0 - index, TINY)
    fewer = np.ceil(wanted)
    more = wanted - np.floor(wanted)
    low = 1.0 - load[:, :1] / fewer
    high = 1.0 - load[:, :1] / (fewer + 1.0)
    low_share = _stationary(load, low).share
    high_share = _stationary(load, high).share
    share = low_share * (1.0 - more) + high_share * more
    return EvenArrivals(share, low * (1.0 - more) + high * more)


def _stationary(load: Array, index: Array) -> Stationary:
    """The steady state of the chain for n = 0 ... seats, if requests arrive in bunches of geometric size.

    - index: m, the effective mean size of a bunch.

    The flow between n - 1 and n is balanced: pi(n) mu(n) m = pi(n-1) (rate + (m - 1) mu(n-1)). Beyond the
    last seat, the weights fall by a constant factor. If the weights rise up to the last seat, a small and a
    large number of running requests are both possible at one rate. The small number is reported, so such
    weights are kept constant.
    """
    # mu(n-1) / mu(n), and mu(0) = 0
    steps = load[:, 1:] / load[:, :-1]
    slower = np.concatenate([np.zeros_like(index), steps], 1)
    ratio = np.maximum(load + slower * (index - 1.0), TINY) / index
    held = _reached(ratio) if (load[:, -1] < 1).all() else ratio.shape[1]
    ratio = ratio[:, :held]
    backwards = (ratio > 1)[:, ::-1]
    to_the_end = np.logical_and.accumulate(backwards, 1)[:, ::-1]
    rises = to_the_end & (load[:, -1:] >= 1)
    change = np.where(rises, 0.0, np.log(ratio))
    log_weight = np.concatenate([np.zeros_like(index), np.cumsum(change, 1)], 1)
    weight = np.exp(log_weight - log_weight.max(1, keepdims=True))
    beyond = (load[:, -1] + index[:, 0] - 1.0) / index[:, 0]
    beyond = np.where(beyond < 1, beyond, 0.0)
    tail = weight[:, -1] * beyond / (1 - beyond)
    total = weight.sum(1) + tail
    share = np.zeros((load.shape[0], load.shape[1] + 1))
    share[:, : held + 1] = weight / total[:, None]
    share[:, -1] += tail / total
    return Stationary(share, tail / total / (1 - beyond))


def _reached(ratio: Array) -> int:
    """The number of seats beyond which all weights are negligible compared with the largest.

    - ratio: the weight at n divided by the weight at n - 1, ``[rate, n]``.

    The largest ratio over all rates is used for each n, because the weights then fall the least.
    """
    log_weight = np.cumsum(np.log(ratio.max(0)))
    peak = max(float(log_weight.max()), 0.0)
    counts = np.flatnonzero(log_weight > peak - MOST_LOG_WEIGHTS)
    return int(counts[-1]) + 1 if counts.size else 1
