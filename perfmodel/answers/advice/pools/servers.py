"""Finds the highest request rate within latency limits, for servers that do both prefill and decoding."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np

from perfmodel.answers.advice.pools.instances import Drafting, Instance
from perfmodel.answers.advice.servers_needed import HEADROOM
from perfmodel.answers.load.pool_prices import limits_of
from perfmodel.answers.load.pool_question import Instances
from perfmodel.answers.load.slo import SHARE_WANTED, slo_share
from perfmodel.answers.load.traffic_query import TrafficQuery
from perfmodel.operations import Array
from perfmodel.queueing.closed_form import serve
from perfmodel.queueing.load import Limits
from perfmodel.queueing.saturation import capacity
from perfmodel.queueing.steps import StepTimes

FULL = 0.99
"""The largest share of time that prefill may take."""
TRIED = 12
"""Number of rates that are computed at once. A second search computes as many rates between the best rate of
the first search and the next higher rate.
"""


@dataclass(frozen=True, eq=False)
class PoolServer:
    """One server at one draft length.

    - usable_rate: the share `HEADROOM` of the server's capacity, in requests per second, without latency
      limits.
    """

    question: TrafficQuery
    draft: str | None
    instance: Instance
    steps: StepTimes
    usable_rate: float

    @property
    def gpus(self) -> int:
        """The number of devices of the server."""
        return self.instance.layout.gpus

    @property
    def limits(self) -> Limits:
        """The limits of the server's scheduler, such as the largest number of requests at once."""
        return limits_of(self.question, self.instance.layout)

    def tpot_s(self, rate: float) -> float:
        """Mean time per output token at a request rate, in seconds. The time is estimated from the mean
        batch, and infinite above `usable_rate`.
        """
        if rate > self.usable_rate:
            return math.inf
        steps = self.steps
        iterations = steps.iterations(self.question.lengths)
        leaving = 1.0 / (iterations * steps.decode_s / steps.batches + steps.prompt_s)
        batch = np.asarray(1.0 + np.interp(rate, np.maximum.accumulate(leaving), steps.batches, left=0.0))
        pass_s = float(steps.decode_at(batch)) / (1.0 - min(rate * float(steps.prompt_at(batch)), FULL))
        return iterations * pass_s / self.question.lengths.decoded

    def shares(self, rates: Array) -> Array:
        """The share of requests within the latency limits at each request rate."""
        return self.under(rates)[0]

    def under(self, loads: Array) -> tuple[Array, Array]:
        """Two arrays over the loads: the share of requests within the latency limits, and the requests per
        second. The share is 1 without limits and 0 on a saturated server.
        """
        question = self.question
        served = serve(self.steps, question.loop.load(loads), self.limits, question.spread)
        limits_s = question.limits_s
        shares = slo_share(limits_s, served) if limits_s else np.ones(loads.shape)
        return np.where(served.saturated, 0.0, shares), served.requests_per_s

    def most_clients(self, most: int) -> int:
        """The largest number of clients, up to `most`, that are served within the limits. The result is 0 if
        not even one client is served.
        """
        low = 0
        above = most + 1
        while above - low > 1:
            tried = np.unique(np.round(np.linspace(low + 1, above - 1, TRIED)))
            enough = self.under(tried)[0] >= SHARE_WANTED
            met = enough.size if enough.all() else int(np.argmin(enough))
            if met:
                low = int(tried[met - 1])
            if met < enough.size:
                above = int(tried[met])
        return low

    @property
    def clients_bound(self) -> float:
        """An upper bound on `most_clients`: the capacity times the longest time of a request that the limits
        allow (Little's law). The bound is infinite if the limits do not bound the time of a request.
        """
        limits_s = self.question.limits_s
        answer_s = limits_s.get("tpot", math.inf) * self.question.lengths.decoded
        whole_s = min(limits_s.get("ttft", math.inf) + answer_s, limits_s.get("e2e", math.inf))
        return self.usable_rate / HEADROOM * whole_s

    @cached_property
    def highest(self) -> float:
        """The highest request rate at which the share `SHARE_WANTED` of the requests meets the limits.
        Without limits, the result is `usable_rate`.
        """
        if not self.question.limits_s:
            return self.usable_rate
        low = 0.0
        rates = np.linspace(self.usable_rate / TRIED, self.usable_rate, TRIED)
        for _ in range(2):
            enough = self.shares(rates) >= SHARE_WANTED
            met = int(np.argmin(enough)) if not enough.all() else enough.size
            if met == enough.size:
                return float(rates[-1])
            low = float(rates[met - 1]) if met else low
            rates = np.linspace(low, float(rates[met]), TRIED + 2)[1:-1]
        return low


@lru_cache(maxsize=4)
def servers_of(drafting: Drafting) -> tuple[PoolServer, ...]:
    """The servers of all instances at all draft lengths. Servers without any capacity are left out. The last
    results are cached, because a server remembers its highest rate.
    """
    return tuple(_servers_of(drafting))


def _servers_of(drafting: Drafting) -> Iterator[PoolServer]:
    question = drafting.question
    for instance in drafting.instances:
        for steps in instance.steps.values():
            limits = limits_of(question, instance.layout)
            usable_rate = HEADROOM * capacity(steps, question.lengths, limits).requests_per_s
            if usable_rate:
                yield PoolServer(question, drafting.draft, instance, steps, usable_rate)


def servers_for(servers: Iterable[PoolServer], rate: float) -> Instances | None:
    """The equal servers on the fewest devices that serve a request rate. The result is None if no server
    meets the limits.
    """
    best: Instances | None = None
    gpus = math.inf
    for server in sorted(servers, key=lambda each: math.ceil(rate / each.usable_rate) * each.gpus):
        if math.ceil(rate / server.usable_rate) * server.gpus >= gpus:
            break
        if server.highest and math.ceil(rate / server.highest) * server.gpus < gpus:
            best = replace(server.instance.layout, count=math.ceil(rate / server.highest))
            gpus = best.devices
    return best
