"""The load for which pools are searched: a request rate or a number of clients."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.pools.pairs import (
    MORE,
    Pair,
    cheapest,
    highest,
    splits_at_capacity,
    splits_of,
)
from perfmodel.answers.advice.pools.servers import PoolServer, servers_for
from perfmodel.answers.advice.servers_needed import HEADROOM, OUT_OF_STEP
from perfmodel.answers.load.pool_loads import row_at_rate, row_with_clients
from perfmodel.answers.load.pool_question import Instances
from perfmodel.answers.load.pool_row import PoolRow
from perfmodel.answers.load.slo import SHARE_WANTED
from perfmodel.answers.load.two_pools import TwoPools
from perfmodel.answers.text import clients, request_rate
from perfmodel.operations import Array
from perfmodel.queueing.closed_form import mean_tpot_s

MOST_TRIED = 8
"""For clients, each pool is tried with up to this many instances more than the smallest possible number."""


class PoolLoad(ABC):
    """The load of all devices together, and the search for options that serve it."""

    @property
    @abstractmethod
    def words(self) -> str:
        """The load in words."""

    @property
    @abstractmethod
    def arguments(self) -> dict[str, Any]:
        """The load as arguments of `traffic`."""

    @abstractmethod
    def of_each(self, servers: int) -> Array:
        """The load of each of `servers` equal servers, as an array of shape [1]."""

    @abstractmethod
    def split(self, pair: Pair, gpus: int) -> list[tuple[int, int]]:
        """The pairs of numbers (prefill instances, decode instances) to try on `gpus` devices."""

    @abstractmethod
    def bound(self, pair: Pair, prefill: int, decode: int) -> float:
        """An upper bound on `rate_of_pools` for these numbers of instances."""

    @abstractmethod
    def rate_of_pools(self, pools: TwoPools, limits_s: dict[str, float], bound: float) -> float:
        """The request rate by which options with two pools are compared, in requests per second. The result
        is 0 if these pools exceed the limits.
        """

    @abstractmethod
    def rate_of_servers(self, server: PoolServer, count: int) -> float:
        """The request rate by which options with `count` equal servers are compared, in requests per second.
        The result is 0 if these servers exceed the limits.
        """

    @abstractmethod
    def place(self, server: PoolServer, count: int) -> tuple[float, float]:
        """A sort key for options of equal servers. The first criterion is the TPOT under the load, even if
        the servers exceed the limits. The second is the capacity, with the largest first.
        """

    @abstractmethod
    def suffices(self, rate: float) -> bool:
        """Whether an option serves the load within the limits.

        - rate: its `rate_of_pools` or `rate_of_servers`.
        """

    @abstractmethod
    def row(self, pools: TwoPools, limits_s: dict[str, float]) -> PoolRow:
        """The predicted latencies of two pools under the load."""

    @abstractmethod
    def fewest_pools(self, pairs: Sequence[Pair], limits_s: dict[str, float]) -> TwoPools | None:
        """The two pools on the fewest devices that serve the load within the limits. The result is None if
        there are no such pools.
        """

    @abstractmethod
    def fewest_servers(self, servers: Sequence[PoolServer]) -> Instances | None:
        """The equal servers on the fewest devices that serve the load within the limits. The result is None
        if there are no such servers.
        """


@dataclass(frozen=True, slots=True)
class AtRate(PoolLoad):
    """A load in requests per second. Options are compared by the highest rate that they serve within the
    limits.
    """

    rate: float

    @property
    def words(self) -> str:
        """The request rate in words."""
        return request_rate(self.rate)

    @property
    def arguments(self) -> dict[str, Any]:
        """The request rate as an argument of `traffic`."""
        return {"request_rate": self.rate}

    def of_each(self, servers: int) -> Array:
        """An equal share of the rate for each server."""
        return np.array([self.rate / servers])

    def split(self, pair: Pair, gpus: int) -> list[tuple[int, int]]:
        """The splits near the split at which both pools reach their capacity at the same rate."""
        return splits_at_capacity(pair, gpus)

    def bound(self, pair: Pair, prefill: int, decode: int) -> float:
        """The lower one of the bounds for the two pools, in requests per second."""
        return pair.bound(prefill, decode)

    def rate_of_pools(self, pools: TwoPools, limits_s: dict[str, float], bound: float) -> float:
        """The highest rate within the limits, found by bisection up to the bound."""
        return highest(pools, limits_s, bound)

    def rate_of_servers(self, server: PoolServer, count: int) -> float:
        """The highest rate of one server within the limits, times `count`."""
        return count * server.highest

    def place(self, server: PoolServer, count: int) -> tuple[float, float]:
        """A sort key: the TPOT of a server with an equal share of the rate, then the capacity."""
        return server.tpot_s(self.rate / count), -count * server.usable_rate

    def suffices(self, rate: float) -> bool:
        """Whether `rate` is at least the rate of the question."""
        return self.rate <= rate

    def row(self, pools: TwoPools, limits_s: dict[str, float]) -> PoolRow:
        """The latencies of both pools at the rate of the question."""
        return row_at_rate(pools, self.rate, limits_s)

    def fewest_pools(self, pairs: Sequence[Pair], limits_s: dict[str, float]) -> TwoPools | None:
        """The pools on the fewest devices that serve the rate. In each pool, the search tries the smallest
        number of instances that the rate can need, and up to `MORE` more.
        """
        counts = [
            (pair, math.ceil(self.rate / pair.prefill_rate), math.ceil(self.rate / pair.decode_rate), MORE)
            for pair in pairs
        ]
        return cheapest(counts, lambda pools: self._serve(pools, limits_s))

    def _serve(self, pools: TwoPools, limits_s: dict[str, float]) -> bool:
        if self.rate > HEADROOM * pools.max_rate:
            return False
        return not limits_s or pools.share_within(limits_s, self.rate) >= SHARE_WANTED

    def fewest_servers(self, servers: Sequence[PoolServer]) -> Instances | None:
        """The equal servers on the fewest devices that serve the rate."""
        return servers_for(servers, self.rate)


@dataclass(frozen=True, slots=True)
class OfClients(PoolLoad):
    """A load of clients. Each client waits for its output before its next request. Options are compared by
    the requests per second that they serve for these clients.

    - output_len: mean number of output tokens.
    """

    clients: int
    output_len: int

    @property
    def words(self) -> str:
        """The number of clients in words."""
        return clients(self.clients)

    @property
    def arguments(self) -> dict[str, Any]:
        """The clients as arguments of `traffic`. The output lengths vary, because clients with outputs of
        equal length would all send their requests at the same time.
        """
        return {"max_concurrency": self.clients, "output_std": OUT_OF_STEP * self.output_len}

    def of_each(self, servers: int) -> Array:
        """An equal number of clients for each server, rounded up."""
        return np.array([float(math.ceil(self.clients / servers))])

    def split(self, pair: Pair, gpus: int) -> list[tuple[int, int]]:
        """The splits near the split at which both pools reach their capacity. Splits whose number of prefill
        instances is a power of two are added, because a few clients may only need a few instances.
        """
        every = splits_of(pair, gpus)
        powers = [every[2**k - 1] for k in range(len(every).bit_length()) if 2**k <= len(every)]
        return sorted({*powers, *splits_at_capacity(pair, gpus)})

    def bound(self, pair: Pair, prefill: int, decode: int) -> float:
        """The lowest of three bounds on the request rate: the lower capacity of the two pools, the rate if
        all clients were in the decode pool, and the rate if no client ever waited in a queue.
        """
        each = pair.each
        batch = self.clients / decode
        alone = float(each.rising[0]) * min(batch, 1.0)
        decoding = decode * max(float(np.interp(batch, each.steps.batches, each.rising, left=0.0)), alone)
        idle_s = each.prompts.alone_s + each.transfer_s + each.iterations * float(each.steps.decode_s[0])
        return min(pair.bound(prefill, decode) / HEADROOM, decoding, self.clients / idle_s)

    def rate_of_pools(self, pools: TwoPools, limits_s: dict[str, float], bound: float) -> float:
        """The request rate of these clients on the pools, in requests per second. The result is 0 if the
        pools exceed the limits.
        """
        row = self.row(pools, limits_s)
        kept = row.slo_share is None or row.slo_share >= SHARE_WANTED
        return row.request_rate if kept and not row.saturated else 0.0

    def rate_of_servers(self, server: PoolServer, count: int) -> float:
        """The request rate of one server with its share of the clients, times `count`. The result is 0 if the
        server exceeds the limits.
        """
        share, rate = server.under(self.of_each(count))
        return count * float(rate[0]) if share[0] >= SHARE_WANTED else 0.0

    def place(self, server: PoolServer, count: int) -> tuple[float, float]:
        """A sort key: the TPOT of one server with its share of the clients, then the capacity."""
        load = server.question.loop.load(self.of_each(count))
        return float(mean_tpot_s(server.steps, load, server.limits)[0]), -count * server.usable_rate

    def suffices(self, rate: float) -> bool:
        """Whether `rate` is above 0. The rate is 0 if the clients are not served within the limits."""
        return rate > 0.0

    def row(self, pools: TwoPools, limits_s: dict[str, float]) -> PoolRow:
        """The latencies of both pools with all clients. A client sends its next request as soon as it has
        its output.
        """
        return row_with_clients(pools, float(self.clients), 0.0, limits_s)

    def fewest_pools(self, pairs: Sequence[Pair], limits_s: dict[str, float]) -> TwoPools | None:
        """The pools on the fewest devices that serve the clients within the limits. The result is None
        without limits, because any number of instances then serves the clients.
        """
        if not limits_s:
            return None
        counts = []
        for pair in pairs:
            least = self._least_rate(pair, limits_s)
            prefill = max(math.ceil(least / pair.prefill_rate), 1)
            decode = max(math.ceil(least / pair.decode_rate), 1)
            counts.append((pair, prefill, decode, MOST_TRIED))
        return cheapest(counts, lambda pools: self.rate_of_pools(pools, limits_s, math.inf) > 0.0)

    def _least_rate(self, pair: Pair, limits_s: dict[str, float]) -> float:
        """A lower bound on the requests per second of pools that meet the limits, because no request then
        takes longer than the limits allow. The bound is 0 if neither TTFT nor the time of a whole request has
        a limit.
        """
        each = pair.each
        batch = each.state(min(pair.decode_rate, each.max_rate)).batch
        decoding_s = batch / pair.decode_rate
        first_s = limits_s.get("ttft", math.inf)
        return self.clients / min(first_s + decoding_s, limits_s.get("e2e", math.inf))

    def fewest_servers(self, servers: Sequence[PoolServer]) -> Instances | None:
        """The equal servers on the fewest devices that serve the clients within the limits. The result is
        None if there are no such servers, and without limits.
        """
        best: Instances | None = None
        bounds = [(server, math.ceil(self.clients / server.clients_bound)) for server in servers]
        for server, least in sorted(bounds, key=lambda each: each[1] * each[0].gpus):
            if not server.question.limits_s or (best and least * server.gpus >= best.devices):
                break
            most = server.most_clients(self.clients)
            needed = math.ceil(self.clients / most) if most else math.inf
            if best is None or needed * server.gpus < best.devices:
                best = replace(server.instance.layout, count=int(needed)) if most else best
        return best


def load_of(question: AdviseQuery) -> PoolLoad:
    """The load of the question as a `PoolLoad`."""
    if question.request_rate is not None:
        return AtRate(question.request_rate)
    assert question.clients is not None
    assert question.output_len is not None
    return OfClients(question.clients, question.output_len)
