"""The load for which pools are searched: a rate of requests, or clients that each wait for their answer."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

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
from perfmodel.answers.load.pool_question import Instances
from perfmodel.answers.load.pool_row import PoolRow
from perfmodel.answers.load.slo import SHARE_WANTED
from perfmodel.answers.load.two_pools import TwoPools
from perfmodel.answers.text import clients, request_rate
from perfmodel.operations import Array
from perfmodel.queueing.closed_form import mean_tpot_s

MOST_TRIED = 8
"""For clients, pools are tried with up to this many instances more than the fewest."""


class PoolLoad(ABC):
    """The load of all devices together. arguments: those of a question to `traffic` about all devices."""

    @property
    @abstractmethod
    def words(self) -> str:
        """The load in words."""

    @property
    @abstractmethod
    def arguments(self) -> dict[str, Any]:
        """The arguments of a question to `traffic`."""

    @abstractmethod
    def of_each(self, servers: int) -> Array:
        """The load of one of several equal servers, of shape [1]."""

    @abstractmethod
    def split(self, pair: Pair, gpus: int) -> list[tuple[int, int]]:
        """The numbers of prefill and decode instances that are worth trying on this number of devices."""

    @abstractmethod
    def bound(self, pair: Pair, prefill: int, decode: int) -> float:
        """Upper bound of `rate_of_pools`."""

    @abstractmethod
    def rate_of_pools(self, pools: TwoPools, limits_s: dict[str, float], bound: float) -> float:
        """Requests per second by which pools are compared; 0 if the pools do not meet the limits."""

    @abstractmethod
    def rate_of_servers(self, server: PoolServer, count: int) -> float:
        """Requests per second by which a number of equal servers is compared; 0 if they do not meet the
        limits.
        """

    @abstractmethod
    def place(self, server: PoolServer, count: int) -> tuple[float, float]:
        """Sorts equal servers by TPOT under the load, without the limits; then by capacity."""

    @abstractmethod
    def suffices(self, rate: float) -> bool:
        """Whether devices with this rate serve the load within the limits."""

    @abstractmethod
    def row(self, pools: TwoPools, limits_s: dict[str, float]) -> PoolRow:
        """The pools under the load."""

    @abstractmethod
    def fewest_pools(self, pairs: Sequence[Pair], limits_s: dict[str, float]) -> TwoPools | None:
        """The pools on the fewest devices that serve the load within the limits; None if none does."""

    @abstractmethod
    def fewest_servers(self, servers: Sequence[PoolServer]) -> Instances | None:
        """The fewest devices of equal servers that serve the load within the limits; None if none does."""


@dataclass(frozen=True, slots=True)
class AtRate(PoolLoad):
    """Requests per second. Devices are compared by the highest rate that they serve within the limits."""

    rate: float

    @property
    def words(self) -> str:
        """The rate, as advice writes it."""
        return request_rate(self.rate)

    @property
    def arguments(self) -> dict[str, Any]:
        """The rate, for `traffic`."""
        return {"request_rate": self.rate}

    def of_each(self, servers: int) -> Array:
        """The same share of the rate for each server."""
        return np.array([self.rate / servers])

    def split(self, pair: Pair, gpus: int) -> list[tuple[int, int]]:
        """Splits near the ratio at which both pools are full."""
        return splits_at_capacity(pair, gpus)

    def bound(self, pair: Pair, prefill: int, decode: int) -> float:
        """The bound of the pool that is full first."""
        return pair.bound(prefill, decode)

    def rate_of_pools(self, pools: TwoPools, limits_s: dict[str, float], bound: float) -> float:
        """The highest rate within the limits, found by bisection up to the bound."""
        return highest(pools, limits_s, bound)

    def rate_of_servers(self, server: PoolServer, count: int) -> float:
        """As many times the highest rate of one server."""
        return count * server.highest

    def place(self, server: PoolServer, count: int) -> tuple[float, float]:
        """By the TPOT at an equal share of the rate."""
        return server.tpot_s(self.rate / count), -count * server.most

    def suffices(self, rate: float) -> bool:
        """Whether the rate is at least the rate of the question."""
        return self.rate <= rate

    def row(self, pools: TwoPools, limits_s: dict[str, float]) -> PoolRow:
        """Both pools at the rate of the question."""
        return pools.at(self.rate, limits_s)

    def fewest_pools(self, pairs: Sequence[Pair], limits_s: dict[str, float]) -> TwoPools | None:
        """Enough instances of each pool for the rate, and up to `MORE` beyond that bound."""
        counts = [
            (pair, math.ceil(self.rate / pair.prefill_rate), math.ceil(self.rate / pair.decode_rate), MORE)
            for pair in pairs
        ]
        return cheapest(counts, lambda pools: self._serve(pools, limits_s))

    def _serve(self, pools: TwoPools, limits_s: dict[str, float]) -> bool:
        if self.rate > HEADROOM * pools.most:
            return False
        return not limits_s or pools.share_within(limits_s, self.rate) >= SHARE_WANTED

    def fewest_servers(self, servers: Sequence[PoolServer]) -> Instances | None:
        """As many servers as the rate takes."""
        return servers_for(servers, self.rate)


@dataclass(frozen=True, slots=True)
class OfClients(PoolLoad):
    """Clients that each wait for their answer. Devices are compared by the rate at which these are served.
    output_len: mean tokens of an answer.
    """

    clients: int
    output_len: int

    @property
    def words(self) -> str:
        """The number of clients, as advice writes it."""
        return clients(self.clients)

    @property
    def arguments(self) -> dict[str, Any]:
        """The clients as `traffic` takes them. Their output lengths vary, because clients with equal outputs
        would send at the same time.
        """
        return {"max_concurrency": self.clients, "output_std": OUT_OF_STEP * self.output_len}

    def of_each(self, servers: int) -> Array:
        """An equal number of clients for each server, rounded up."""
        return np.array([float(math.ceil(self.clients / servers))])

    def split(self, pair: Pair, gpus: int) -> list[tuple[int, int]]:
        """Splits at which both pools are full, and others: with few clients, fewer prefill instances may be
        enough.
        """
        every = splits_of(pair, gpus)
        powers = [every[2**k - 1] for k in range(len(every).bit_length()) if 2**k <= len(every)]
        return sorted({*powers, *splits_at_capacity(pair, gpus)})

    def bound(self, pair: Pair, prefill: int, decode: int) -> float:
        """The lowest of three bounds: that of the pool that is full first, the rate with all clients in the
        decode pool, and the rate if no client ever waits in a queue.
        """
        each = pair.each
        batch = self.clients / decode
        alone = float(each.rising[0]) * min(batch, 1.0)
        decoding = decode * max(float(np.interp(batch, each.steps.batches, each.rising, left=0.0)), alone)
        idle_s = each.prompts.alone_s + each.transfer_s + each.iterations * float(each.steps.decode_s[0])
        return min(pair.bound(prefill, decode) / HEADROOM, decoding, self.clients / idle_s)

    def rate_of_pools(self, pools: TwoPools, limits_s: dict[str, float], bound: float) -> float:
        """The rate at which the clients are served; 0 beyond the limits."""
        row = self.row(pools, limits_s)
        kept = row.slo_share is None or row.slo_share >= SHARE_WANTED
        return row.request_rate if kept and not row.saturated else 0.0

    def rate_of_servers(self, server: PoolServer, count: int) -> float:
        """As many times the rate of one server with its clients; 0 beyond the limits."""
        share, rate = server.under(self.of_each(count))
        return count * float(rate[0]) if share[0] >= SHARE_WANTED else 0.0

    def place(self, server: PoolServer, count: int) -> tuple[float, float]:
        """By the TPOT of one server with its clients."""
        load = server.question.loop.load(self.of_each(count))
        return float(mean_tpot_s(server.steps, load, server.limits)[0]), -count * server.most

    def suffices(self, rate: float) -> bool:
        """Whether the rate is above 0: clients that are not served within the limits have the rate 0."""
        return rate > 0.0

    def row(self, pools: TwoPools, limits_s: dict[str, float]) -> PoolRow:
        """Both pools with all clients, who think for no time."""
        return pools.with_clients(float(self.clients), 0.0, limits_s)

    def fewest_pools(self, pairs: Sequence[Pair], limits_s: dict[str, float]) -> TwoPools | None:
        """The pools on the fewest devices; without limits any number of instances serves the clients."""
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
        """Requests per second of pools that just meet the limits: no request takes longer than they allow. 0
        without a limit on the time to the first token.
        """
        each = pair.each
        batch = each.state(min(pair.decode_rate, each.most)).batch
        decoding_s = batch / pair.decode_rate
        first_s = limits_s.get("ttft", math.inf)
        return self.clients / min(first_s + decoding_s, limits_s.get("e2e", math.inf))

    def fewest_servers(self, servers: Sequence[PoolServer]) -> Instances | None:
        """The fewest servers that serve their clients within the limits."""
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
