"""Finds the highest request rate of a prefill pool and a decode pool within limits, and the smallest number
of devices for a rate.

Every pair of a prefill and a decode instance has an upper bound. The bound is the lower one of two rates. The
first is the rate that the decode instances alone can serve within the limit on TPOT. The second is the rate
that the prefill instances alone can serve within the limit on TTFT. Pairs are computed in the order of their
bounds, the highest first. The search ends when no other pair can be better than the best pair found.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from perfmodel.answers.advice.pools.instances import Drafting, Instance
from perfmodel.answers.advice.servers_needed import HEADROOM
from perfmodel.answers.load.pool_prices import two_pools
from perfmodel.answers.load.slo import SHARE_WANTED
from perfmodel.answers.load.two_pools import TwoPools
from perfmodel.queueing.steps import StepTimes

HALVINGS = 24
"""Number of bisection steps in the search for a rate."""
LIGHT = 0.2
"""Few requests wait if the load of a queue is at most this share of its capacity."""
MORE = 3
"""For a rate, each pool is tried with up to this many instances more than the lower bound."""


@dataclass(frozen=True, eq=False)
class Decoding:
    """A decode instance at one draft length.

    - rate: the highest request rate within the limits on TPOT and end-to-end time, in requests per second.
    """

    instance: Instance
    steps: StepTimes
    rate: float


@dataclass(frozen=True, eq=False)
class Pair:
    """A kind of prefill instance and a kind of decode instance.

    - each: two pools with one instance each.
    - prefill_rate, decode_rate: upper bounds on the request rate of one instance.
    """

    each: TwoPools
    prefill_rate: float
    decode_rate: float

    def bound(self, prefill: int, decode: int) -> float:
        """An upper bound on the request rate of these numbers of instances."""
        return min(prefill * self.prefill_rate, decode * self.decode_rate)

    @property
    def ratio(self) -> float:
        """The number of prefill devices per decode device with which both pools reach their bounds at the
        same rate.
        """
        prefill = self.each.prefill.gpus / self.prefill_rate
        return prefill / (self.each.decode.gpus / self.decode_rate)


@dataclass(frozen=True, eq=False)
class SizedPools:
    """Two pools of the instances of `pair`.

    - pools: the pools with their numbers of instances.
    - rate: the highest request rate within the limits.
    """

    pair: Pair
    pools: TwoPools
    rate: float


def highest(pools: TwoPools, limits_s: dict[str, float], bound: float) -> float:
    """The highest request rate up to `bound` at which the share `SHARE_WANTED` of the requests meets the
    limits. Without limits, the result is the share `HEADROOM` of the capacity.
    """
    most = min(bound, HEADROOM * pools.max_rate)
    if not limits_s or pools.share_within(limits_s, most) >= SHARE_WANTED:
        return most
    low = 0.0
    high = most
    for _ in range(HALVINGS):
        middle = (low + high) / 2.0
        if pools.share_within(limits_s, middle) >= SHARE_WANTED:
            low = middle
        else:
            high = middle
    return low


def pairs_of(drafting: Drafting, limits_s: dict[str, float]) -> list[Pair]:
    """All pairs of a prefill and a decode instance that can meet the limits, at each draft length."""
    instances = drafting.instances
    decoding = list(_decoding(drafting, limits_s))
    pairs = []
    for prefill in instances:
        for decode in decoding:
            each = two_pools(
                drafting.question,
                prefill.layout,
                decode.instance.layout,
                decode.instance.scenario,
                prefill.prompts,
                decode.steps,
            )
            rate = _prefill_bound(each, limits_s)
            if rate:
                pairs.append(Pair(each, rate, decode.rate))
    return pairs


def _decoding(drafting: Drafting, limits_s: dict[str, float]) -> Iterator[Decoding]:
    """The decode instances at each draft length, with the highest rate within the limits on TPOT and
    end-to-end time. The limit on the end-to-end time applies to the mean time of all tokens after the first.
    """
    limit = limits_s.get("tpot", math.inf)
    of_answer = limits_s.get("e2e", math.inf) / drafting.question.lengths.decoded
    for instance in drafting.instances:
        for steps in instance.steps.values():
            alone = two_pools(
                drafting.question,
                instance.layout,
                instance.layout,
                instance.scenario,
                instance.prompts,
                steps,
            )
            tpot = alone.tpot_at(steps.batches)
            within = np.asarray(tpot.mean) <= of_answer
            if math.isfinite(limit):
                within &= tpot.below(limit) >= SHARE_WANTED
            # a larger batch takes longer, so all batches below the largest one are within the limits too
            largest = np.flatnonzero(within)
            if largest.size:
                above = alone.rising[largest[-1] :][:2]  # the limit may lie between two batches
                rate = min(float(above[-1]), HEADROOM * alone.decode_rate)
                yield Decoding(instance, steps, rate)


def _prefill_bound(each: TwoPools, limits_s: dict[str, float]) -> float:
    """An upper bound on the requests per second of a prefill instance with TTFT within its limit. The bound
    is 0 if even a request that never waits exceeds the limit.
    """
    most = HEADROOM * each.prefill_rate
    limit = limits_s.get("ttft")
    if limit is None:
        return most
    idle = each.prompts.alone_s + each.transfer_s + float(each.steps.decode_s[0]) / 2.0
    room = limit - idle
    if room <= 0:
        return 0.0
    # where more than one in ten waits, the mean wait of a queue with an exponential tail is below `room`
    varied = (1.0 + each.prompts.cv**2) / 2.0 * each.prompts.each_s
    used = max(room / (room + varied), LIGHT)
    return min(most, used * each.prefill_rate)


def splits_at_capacity(pair: Pair, gpus: int) -> list[tuple[int, int]]:
    """The numbers of prefill and decode instances to try, near the split at which both pools reach their
    capacity at the same rate.
    """
    every = splits_of(pair, gpus)
    even = gpus * pair.ratio / (1.0 + pair.ratio) / pair.each.prefill.gpus
    first = min(max(math.floor(even), 1), len(every))
    return every[max(first - 2, 0) : first + 1]


def splits_of(pair: Pair, gpus: int) -> list[tuple[int, int]]:
    """All numbers of prefill and decode instances on `gpus` devices. The smallest prefill pool comes
    first.
    """
    prefill_gpus = pair.each.prefill.gpus
    decode_gpus = pair.each.decode.gpus
    most = (gpus - decode_gpus) // prefill_gpus
    return [(count, (gpus - count * prefill_gpus) // decode_gpus) for count in range(1, most + 1)]


def cheapest(
    counts: Iterable[tuple[Pair, int, int, int]], serve: Callable[[TwoPools], bool]
) -> TwoPools | None:
    """The pools on the fewest devices that serve a load. The result is None if no tried pools do.

    - counts: for each pair, the smallest numbers of prefill and decode instances, and how many more of each
      to try.
    - serve: a function that says whether two pools serve the load.
    """
    tried = [
        (_devices(pair, prefill + more, decode + extra), pair, prefill + more, decode + extra)
        for pair, prefill, decode, most in counts
        for more in range(most + 1)
        for extra in range(most + 1)
    ]
    tried.sort(key=lambda each: each[0])
    fewest_first = (pair.each.with_counts(prefill, decode) for _, pair, prefill, decode in tried)
    return next((pools for pools in fewest_first if serve(pools)), None)


def _devices(pair: Pair, prefill: int, decode: int) -> int:
    """The number of devices of these numbers of instances."""
    return prefill * pair.each.prefill.gpus + decode * pair.each.decode.gpus
