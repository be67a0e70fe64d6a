"""Prefill and decode instances in steady state at one draft length: their capacities, their state at a
request rate, and the times of a request. `pool_loads` makes the rows of an answer from them.

Each of the n instances of a pool serves 1/n of the requests. The mean number of requests on a decode instance
is its request rate times the decoding time of a request (Little's law). A prefill instance is modelled as a
queue with one server (Kingman 1961; exact for Poisson arrivals). TTFT is the sum of the waiting time in the
queue, the prefill, the transfer of the cache and the first decode step.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from perfmodel.answers.load.pool_question import Instances
from perfmodel.answers.load.pool_state import PoolState, PoolTimes, Prompts
from perfmodel.answers.load.slo import slo_share
from perfmodel.operations import Array
from perfmodel.queueing.load import Lengths
from perfmodel.queueing.moments import Moments, sometimes, uniform
from perfmodel.queueing.per_token import per_token
from perfmodel.queueing.steps import StepTimes

MOST_USED = 0.999
"""Largest share of a pool's capacity that is used. At full capacity, the queue would grow without limit."""
FIXED = Moments(0.0)
ONCE = np.ones(1)


@dataclass(frozen=True)
class TwoPools:
    """The two pools at one draft length.

    - transfer_s: time to send the cache of one prompt, in seconds.
    - first_alone: whether the first decode step has no drafted tokens, because the prefill pool does not run
      the draft.
    - arrivals: variance of the number of arrivals divided by that of Poisson arrivals.
    - spread: standard deviation of acceptance between requests.
    """

    prefill: Instances
    decode: Instances
    lengths: Lengths
    steps: StepTimes
    prompts: Prompts
    transfer_s: float
    first_alone: bool = False
    arrivals: float = 1.0
    spread: float = 0.0

    @property
    def devices(self) -> int:
        """The number of devices of both pools."""
        return self.prefill.devices + self.decode.devices

    @cached_property
    def iterations(self) -> float:
        """The mean number of iterations per request."""
        gained = self.steps.tokens_per_iteration
        return self.steps.iterations(self.lengths) + (1.0 - 1.0 / gained) * self.first_alone

    @cached_property
    def rates(self) -> Array:
        """Requests per second of all decode instances together, for each batch size of one instance."""
        return self.decode.count * self.steps.batches / (self.iterations * self.steps.decode_s)

    @cached_property
    def rising(self) -> Array:
        """For each batch size, the largest of the `rates` up to this batch size. It therefore never falls."""
        return np.maximum.accumulate(self.rates)

    @property
    def decode_rate(self) -> float:
        """The largest request rate that the decode pool can serve, in requests per second. The rate is 0 if
        not even one request fits in memory.
        """
        return float(self.rising[-1]) if self.steps.seats else 0.0

    @property
    def prefill_rate(self) -> float:
        """The largest request rate that the prefill pool can serve, in requests per second."""
        return self.prefill.count / self.prompts.each_s

    @property
    def max_rate(self) -> float:
        """The largest request rate that both pools can serve with a queue of finite length, in requests per
        second.
        """
        return MOST_USED * min(self.prefill_rate, self.decode_rate)

    @property
    def ratio(self) -> float:
        """The number of prefill devices per decode device with which both pools reach their capacity at the
        same rate.
        """
        if not self.decode_rate:
            return float("nan")
        prefill = self.prefill.devices / self.prefill_rate
        return prefill / (self.decode.devices / self.decode_rate)

    @property
    def best_split(self) -> tuple[int, int]:
        """The numbers of prefill and decode instances that serve the highest request rate on these devices.
        Among equally good splits, the split with the smallest prefill pool is the best.
        """
        each_prefill = self.prefill_rate / self.prefill.count
        each_decode = self.decode_rate / self.decode.count
        splits = [
            (count, (self.devices - count * self.prefill.gpus) // self.decode.gpus)
            for count in range(1, self.devices // self.prefill.gpus + 1)
        ]
        return max(
            splits, key=lambda split: (min(split[0] * each_prefill, split[1] * each_decode), -split[0])
        )

    def with_counts(self, prefill: int, decode: int) -> "TwoPools":
        """The same pools with these numbers of instances."""
        return replace(
            self, prefill=replace(self.prefill, count=prefill), decode=replace(self.decode, count=decode)
        )

    def slowed(self, factor: float) -> "TwoPools":
        """The pools with the times of all decode passes multiplied by a factor."""
        return replace(self, steps=self.steps.slowed(factor))

    def state(self, rate: float) -> PoolState:
        """The state of the pools at a request rate that both can serve."""
        rising = self.rising
        batch = rate / float(rising[0])
        if batch > 1.0:
            batch = float(np.interp(rate, rising, self.steps.batches))
        step = float(self.steps.decode_at(np.asarray(max(batch, 1.0))))
        used = rate / self.prefill_rate
        # arrivals that are divided at random among instances are closer to Poisson arrivals at each of them
        arriving = 1.0 + (self.arrivals - 1.0) / self.prefill.count
        varied = (arriving + self.prompts.cv**2) / 2.0
        queue = used / (1.0 - used) * varied * self.prompts.each_s
        tpot = self.iterations * step / self.lengths.decoded
        ttft = queue + self.prompts.alone_s + self.transfer_s + step
        return PoolState(rate, batch, step, tpot, ttft, queue, used)

    def times(self, state: PoolState) -> PoolTimes:
        """The distributions of TTFT and TPOT over requests. The waiting time in the queue is exponential.
        Prefill times are proportional to the prompt lengths. A request also waits for the end of the running
        decode step.
        """
        waits = sometimes(state.used, state.queue_s / state.used) if state.used else FIXED
        prompt = Moments(self.prompts.alone_s, (self.prompts.cv * self.prompts.alone_s) ** 2)
        sent = Moments(self.transfer_s, (self.lengths.input_cv * self.transfer_s) ** 2)
        first = uniform(state.step_s) + Moments(state.step_s / 2.0)
        ttft = Moments(state.waiting_s) + waits + prompt + sent + first
        tpot = self.tpot_at(np.asarray(state.batch))
        return PoolTimes(ttft, tpot, self.lengths)

    @cached_property
    def tpot_percentiles(self) -> Array:
        """The 90th and the 99th percentile of TPOT for each of the `batches`, in an array of shape ``[2,
        batches]``. The percentiles never fall as the batch grows.
        """
        at_batches = self.tpot_at(self.batches).quantiles(0.9, 0.99)
        return np.maximum.accumulate(at_batches, axis=1)

    @property
    def batches(self) -> Array:
        """Batch size 0, and the batch sizes of `steps`."""
        return np.append(0.0, self.steps.batches)

    def tpot_at(self, batch: Array) -> Moments:
        """The distribution of TPOT over requests, with a mean of `batch` decoding requests on an instance.

        Requests arrive at random, so the batch is assumed to have a Poisson distribution. The time of a step
        is computed for two batches: one standard deviation above the mean, and one below. Half the difference
        of the two times is taken as the standard deviation of the time of a step.
        """
        step = self.steps.decode_at(np.maximum(batch, 1.0))
        deviation = np.sqrt(batch)
        above = self.steps.decode_at(batch + deviation)
        below = self.steps.decode_at(np.maximum(batch - deviation, 1.0))
        each = np.maximum(above - below, 0.0) / (2.0 * step)
        varied = Moments(1.0, each**2, each**3 / np.maximum(deviation, 1.0))
        mean = self.iterations * step / self.lengths.decoded
        return per_token(
            self.steps, self.lengths, mean, FIXED, np.zeros_like(mean), varied, self.spread, ONCE
        )

    def share_within(self, limits_s: dict[str, float], rate: float) -> float:
        """The share of requests within all latency limits (in seconds); 0 at a rate above the capacity."""
        if rate > self.max_rate:
            return 0.0
        return float(slo_share(limits_s, self.times(self.state(rate))))
