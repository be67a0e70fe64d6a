"""Prefill and decode instances in steady state: rate, batch and times of a request, at one draft length.

Each of the n instances of a pool serves a share 1/n of the requests. A decode instance holds on average b
requests: its rate times the time of an answer (Little's law). A prefill instance is a queue with one server
(Kingman 1961; exact for Poisson arrivals). TTFT = queue + prompt + transfer of the caches + first decode
step.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from perfmodel.answers.load.pool_question import Instances
from perfmodel.answers.load.pool_row import PoolRow
from perfmodel.answers.load.pool_state import PoolState, PoolTimes, Prompts
from perfmodel.answers.load.slo import slo_share
from perfmodel.operations import Array
from perfmodel.queueing.load import Lengths
from perfmodel.queueing.moments import Moments, sometimes, uniform
from perfmodel.queueing.per_token import per_token
from perfmodel.queueing.steps import StepTimes

HALVINGS = 60
MOST_USED = 0.999
"""Up to this share of a pool's capacity, its queue has a finite length."""
FIXED = Moments(0.0)
ONCE = np.ones(1)


@dataclass(frozen=True)
class TwoPools:
    """The two pools at one draft length. transfer_s: time to send the caches of one prompt. first_alone:
    whether the first step drafts nothing, because the prefill pool does not run the draft. arrivals: variance
    of the arrivals over that of Poisson arrivals. spread: standard deviation of acceptance between requests.
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
        """Devices of both pools."""
        return self.prefill.devices + self.decode.devices

    @cached_property
    def iterations(self) -> float:
        """Mean iterations of an answer."""
        gained = self.steps.tokens_per_iteration
        return self.steps.iterations(self.lengths) + (1.0 - 1.0 / gained) * self.first_alone

    @cached_property
    def rates(self) -> Array:
        """Requests per second of all decode instances, for each batch size of one instance."""
        return self.decode.count * self.steps.batches / (self.iterations * self.steps.decode_s)

    @cached_property
    def rising(self) -> Array:
        """The largest of the `rates` up to each batch size."""
        return np.maximum.accumulate(self.rates)

    @property
    def decode_rate(self) -> float:
        """The most requests per second that decoding serves; 0 if not one request fits."""
        return float(self.rising[-1]) if self.steps.seats else 0.0

    @property
    def prefill_rate(self) -> float:
        """The most requests per second that prefill serves."""
        return self.prefill.count / self.prompts.each_s

    @property
    def most(self) -> float:
        """The most requests per second that both pools serve."""
        return MOST_USED * min(self.prefill_rate, self.decode_rate)

    @property
    def ratio(self) -> float:
        """Prefill devices for each decode device at which both pools are full."""
        if not self.decode_rate:
            return float("nan")
        prefill = self.prefill.devices / self.prefill_rate
        return prefill / (self.decode.devices / self.decode_rate)

    @property
    def best_split(self) -> tuple[int, int]:
        """The numbers of instances that serve the highest rate on these devices; on a tie, those with the
        smallest prefill pool.
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
        """The same pools with other numbers of instances."""
        return replace(
            self, prefill=replace(self.prefill, count=prefill), decode=replace(self.decode, count=decode)
        )

    def slowed(self, factor: float) -> "TwoPools":
        """The pools with all decode passes multiplied by a factor."""
        return replace(self, steps=self.steps.slowed(factor))

    def state(self, rate: float) -> PoolState:
        """The pools at a rate that both serve."""
        rising = self.rising
        batch = rate / float(rising[0])
        if batch > 1.0:
            batch = float(np.interp(rate, rising, self.steps.batches))
        step = float(self.steps.decode_at(np.asarray(max(batch, 1.0))))
        used = rate / self.prefill_rate
        # of Poisson arrivals that are divided at random, a part is Poisson too; of others less so
        arriving = 1.0 + (self.arrivals - 1.0) / self.prefill.count
        varied = (arriving + self.prompts.cv**2) / 2.0
        queue = used / (1.0 - used) * varied * self.prompts.each_s
        tpot = self.iterations * step / self.lengths.decoded
        ttft = queue + self.prompts.alone_s + self.transfer_s + step
        return PoolState(rate, batch, step, tpot, ttft, queue, used)

    def times(self, state: PoolState) -> PoolTimes:
        """Times over requests: the wait in a queue is exponential, prompt times vary as their lengths, and
        an answer waits for a running step.
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
        """``[2, batches]``: p90 and p99 of the time per output token at batches from 0 on. They do not fall
        as the batch grows.
        """
        at_batches = self.tpot_at(self.batches).quantiles(0.9, 0.99)
        return np.maximum.accumulate(at_batches, axis=1)

    @property
    def batches(self) -> Array:
        """Batch size 0, and the batch sizes of the steps."""
        return np.append(0.0, self.steps.batches)

    def tpot_at(self, batch: Array) -> Moments:
        """Time per output token over requests, with `batch` decoding requests on an instance.

        Requests come at random, so the batch varies as a Poisson number. The standard deviation of a step
        is half the difference of the steps at one standard deviation of the batch above and below its
        mean.
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
        """Share of the requests within all limits (in seconds); 0 beyond the capacity."""
        if rate > self.most:
            return 0.0
        return float(slo_share(limits_s, self.times(self.state(rate))))

    def row(self, state: PoolState, clients: float | None, limits_s: dict[str, float]) -> PoolRow:
        """The figures of a state."""
        times = self.times(state)
        ttft_p90, ttft_p99 = times.ttft.quantiles(0.9, 0.99).tolist()
        tpot_p90, tpot_p99 = (
            float(np.interp(state.batch, self.batches, by_batch)) for by_batch in self.tpot_percentiles
        )
        tokens = state.rate * self.lengths.output_mean
        decode_used = float("inf")
        if self.decode_rate:
            decode_used = state.rate / self.decode_rate
        share_in_time = None
        if limits_s:
            share_in_time = float(slo_share(limits_s, times))
        return PoolRow(
            request_rate=state.rate,
            clients=clients,
            gamma=self.steps.gamma,
            decode_batch=state.batch,
            decode_batch_per_gpu=state.batch / self.decode.gpus,
            tpot_s=state.tpot_s,
            tpot_p90_s=tpot_p90,
            tpot_p99_s=tpot_p99,
            ttft_s=state.ttft_s,
            ttft_p90_s=ttft_p90,
            ttft_p99_s=ttft_p99,
            queue_s=state.queue_s + state.waiting_s,
            prefill_s=self.prompts.alone_s,
            transfer_s=self.transfer_s,
            first_step_s=state.step_s,
            prefill_used=state.used,
            decode_used=decode_used,
            limits="prefill" if self.prefill_rate < self.decode_rate else "decode",
            saturated=False,
            slo_share=share_in_time,
            output_tokens_per_s=tokens,
            output_tokens_per_s_per_gpu=tokens / self.devices,
        )

    def at(self, rate: float, limits_s: dict[str, float] | None = None) -> PoolRow:
        """The row of both pools at a rate of all requests together."""
        row = self.row(self.state(min(rate, self.most)), None, limits_s or {})
        if rate <= self.most:
            return row
        return replace(row, saturated=True, slo_share=0.0 if limits_s else None)

    def with_clients(
        self, clients: float, think_s: float = 0.0, limits_s: dict[str, float] | None = None
    ) -> PoolRow:
        """The pools with clients that each wait for their answer, and then for `think_s`: clients = rate x
        time between two requests of one client.
        """

        def inside(state: PoolState) -> float:
            """Clients at a rate."""
            return state.rate * (state.ttft_s + self.lengths.decoded * state.tpot_s + think_s)

        low = 0.0
        high = self.most
        for _ in range(HALVINGS):
            middle = (low + high) / 2.0
            if inside(self.state(middle)) < clients:
                low = middle
            else:
                high = middle
        state = self.state(low)
        if not low:  # not one request fits
            return replace(self.row(state, clients, limits_s or {}), saturated=True)
        above = self.state(high)
        if inside(above) > clients:
            # where larger batches are no faster, many numbers of clients send at the same rate
            state = state.between(above, (clients - inside(state)) / (inside(above) - inside(state)))
        waiting = clients - inside(state)
        if waiting > 1e-6 * clients:
            # a full pool: all other clients wait in front of it
            state = state.waited(waiting / low)
        return self.row(state, clients, limits_s or {})
