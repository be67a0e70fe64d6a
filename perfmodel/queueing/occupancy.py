"""The number of concurrently decoding requests at a request rate. It is modelled as a birth-death chain in
which requests arrive in bunches.

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
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from perfmodel.operations import Array
from perfmodel.queueing.chain import TINY, stationary
from perfmodel.queueing.load import Lengths
from perfmodel.queueing.steps import StepTimes

NEGLIGIBLE = 1e-9
"""A smaller share of time counts as 0. A rate also stays below an unreachable limit by at least this relative
distance.
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


class EvenArrivals(NamedTuple):
    """The steady state of a chain whose arrivals are more regular than a Poisson process.

    - share: share of time with n requests, over ``[rate, n]``.
    - dispersion: variance of the number of arrivals divided by its mean, over ``[rate, 1]``.
    """

    share: Array
    dispersion: Array


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
    - dispersion: variance of the number of arrivals divided by its mean (index of dispersion),
      over ``[rate, 1]``. The chain uses it as the mean size of a bunch.
    """

    share: Array
    running: Array
    pass_s: Array
    saturated: NDArray[np.bool_]
    metastable: NDArray[np.bool_]
    load: Array
    dispersion: Array

    def queue(self) -> Waiting:
        """The share of time with all seats taken, and the mean number of requests that wait for a seat.

        The queue is served in the order of arrival. On average, a request therefore waits for only half of
        the requests that arrive in the same burst.
        """
        full = np.zeros_like(self.running)
        waiting = np.zeros_like(self.running)
        crowded = self.share[:, -1] > NEGLIGIBLE
        if crowded.any():
            lined_up = stationary(self.load[crowded], (self.dispersion[crowded] + 1.0) / 2.0)
            full[crowded] = lined_up.share[:, -1]
            waiting[crowded] = lined_up.waiting
        return Waiting(full, np.where(self.saturated, 0.0, waiting))


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
    dispersion = _dispersion(
        steps,
        lengths,
        rate=kept,
        prompts=np.take_along_axis(prompts, balanced, 1),
        pass_s=np.take_along_axis(pass_s, balanced, 1),
        prompt_s=steps.prompt_s[balanced],
        burstiness=burstiness,
    )
    share = stationary(load, dispersion).share
    even = dispersion[:, 0] < 1
    if even.any():
        binomial = _binomial(load[even], dispersion[even])
        share[even] = binomial.share
        dispersion[even] = binomial.dispersion
    n = np.arange(share.shape[1])
    share[saturated] = n == n[-1]
    metastable = ~saturated & (load[:, -1] >= 1)
    return Occupancy(share, share @ n, pass_s, saturated, metastable, load, dispersion)


def _dispersion(
    steps: StepTimes,
    lengths: Lengths,
    rate: Array,
    prompts: Array,
    pass_s: Array,
    prompt_s: Array,
    burstiness: float,
) -> Array:
    """Index of dispersion of the arrivals while a request decodes, on a clock that counts only decoding. All
    arrays are over ``[rate, 1]``.

    - prompts: share of the time that prompts take.
    - pass_s, prompt_s: seconds of a pass and of a prompt.
    - burstiness: shape of the gamma distribution of the gaps between arrivals. It is 1 for a Poisson process.
    """
    stay_s = steps.iterations(lengths) * pass_s
    arrivals = rate * stay_s
    of_gaps = 1.0 + (1.0 / burstiness - 1.0) * arrivals / (arrivals + SEEN)
    of_gaps_and_prompts = of_gaps / (1.0 - prompts) ** 2
    stay_in_prompts = stay_s / (prompt_s + TINY) * (1.0 - prompts)
    # the part of a bunch of prompts that arrives during the same stay
    same_stay = 1.0 + np.expm1(-stay_in_prompts) / np.maximum(stay_in_prompts, TINY)
    return 1.0 + np.maximum((of_gaps_and_prompts - 1.0) * same_stay, LEAST_EXCESS)


def _binomial(load: Array, dispersion: Array) -> EvenArrivals:
    """The chain for arrivals that are more regular than a Poisson process. The number of requests then has a
    binomial distribution.

    The number of trials with the wanted variance is rarely whole. Two neighbouring whole numbers are
    therefore mixed, with weights that change without jumps, so TPOT rises with the rate.
    """
    wanted = load[:, :1] / np.maximum(1.0 - dispersion, TINY)
    fewer = np.ceil(wanted)
    more = wanted - np.floor(wanted)
    low = 1.0 - load[:, :1] / fewer
    high = 1.0 - load[:, :1] / (fewer + 1.0)
    low_share = stationary(load, low).share
    high_share = stationary(load, high).share
    share = low_share * (1.0 - more) + high_share * more
    return EvenArrivals(share, low * (1.0 - more) + high * more)
