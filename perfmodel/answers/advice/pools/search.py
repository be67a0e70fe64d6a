"""Finds the best single pool and the best two pools for a load within latency limits."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.candidates import Candidate, Candidates
from perfmodel.answers.advice.pools.instances import Drafting, drafting_of
from perfmodel.answers.advice.pools.lines import lines_of, router_of
from perfmodel.answers.advice.pools.load import PoolLoad, load_of
from perfmodel.answers.advice.pools.option import PoolAdvice, PoolOption
from perfmodel.answers.advice.pools.pairs import Pair, SizedPools, pairs_of
from perfmodel.answers.advice.pools.servers import PoolServer, servers_of
from perfmodel.answers.advice.servers_needed import HEADROOM
from perfmodel.answers.advice.traffic_command import command_of
from perfmodel.answers.load.traffic_query import TrafficQuery
from perfmodel.errors import InputError
from perfmodel.operations import Array, Floats
from perfmodel.queueing.closed_form import serve

SHORTLIST = 6
"""Number of layouts of one pool, each with and without a draft, that are predicted as in `traffic` at the
given rate.
"""
TIMES = ("ttft_s", "ttft_p90_s", "tpot_s", "tpot_p90_s", "slo_share")
"""Fields of `PoolOption` that describe the latencies under the load of the question."""


def advise_pools(question: AdviseQuery, candidates: Candidates) -> tuple[PoolAdvice, Candidates]:
    """Compares one pool with two pools, each with and without a draft. The second result has the candidates
    for one pool that have the lowest TPOT under the load.
    """
    assert question.gpus is not None
    load = load_of(question)
    made = drafting_of(question, candidates, load.arguments)
    plain = [each for each in made if each.draft is None]
    drafted = [each for each in made if each.draft is not None]
    search = Search(question, question.gpus, load)
    options = [search.one(plain), search.one(drafted)]
    notes: list[str] = []
    if not question.latency_limits_ms and question.clients is None:
        notes.append(f"without limits on latency, the highest rate is {HEADROOM:g} of the capacity")
    if question.draft_tp is not None and drafted:
        notes.append("in pools the draft runs on all devices of an instance; --draft-tp has no effect")
    try:
        options += [search.two(plain), search.two(drafted)]
    except InputError as error:
        notes.append(f"two pools were not searched: {error}")
    kept = [option for option in options if option is not None]
    if not kept:
        notes += search.beyond(plain, drafted)
    kept.sort(key=lambda option: -option.most_requests_per_s)
    advice = PoolAdvice(
        gpus=question.gpus,
        load=load.words,
        request_rate=question.request_rate,
        clients=question.clients,
        options=tuple(kept),
        one_would_do=any(option.serves for option in kept if not option.two),
        searched=sum(len(instance.steps) for each in made for instance in each.instances),
        notes=tuple(notes),
        router=router_of(question),
    )
    shortlist = replace(candidates, baselines=search.fastest(plain), drafted=search.fastest(drafted))
    return advice, shortlist


@dataclass(frozen=True, slots=True)
class Search:
    """A search for pools on a number of devices under a load."""

    question: AdviseQuery
    gpus: int
    load: PoolLoad

    def one(self, made: Sequence[Drafting]) -> PoolOption | None:
        """The best option with one pool of equal servers that do both prefill and decoding. The result is
        None if no such servers meet the limits.
        """
        servers = [server for each in made for server in servers_of(each)]
        best, most = self._best_server(servers)
        if best is None:
            return None
        layout = replace(best.instance.layout, count=self.gpus // best.gpus)
        each = self.load.of_each(layout.count)
        fewest = self.load.fewest_servers(servers)
        times: dict[str, Any] = dict.fromkeys(TIMES)
        if self.load.suffices(most):
            times = _times_of_server(best, each)
        return PoolOption(
            servers=str(layout),
            prefill=None,
            decode=None,
            draft=best.draft,
            gamma=best.steps.gamma,
            most_requests_per_s=most,
            most_requests_per_s_per_gpu=most / self.gpus,
            ratio=None,
            needed=None if fewest is None else str(fewest),
            needed_gpus=None if fewest is None else fewest.devices,
            **times,
            check=_check(best.question, best.steps.gamma, each, best.instance.layout.layout),
        )

    def _best_server(self, servers: Sequence[PoolServer]) -> tuple[PoolServer | None, float]:
        """The server with which the devices serve the highest rate within the limits, and this rate in
        requests per second.
        """
        best: PoolServer | None = None
        rate = 0.0
        for server in sorted(servers, key=lambda each: -(self.gpus // each.gpus) * each.usable_rate):
            count = self.gpus // server.gpus
            if count * server.usable_rate / HEADROOM <= rate:
                break
            found = self.load.rate_of_servers(server, count)
            if found > rate:
                best = server
                rate = found
        return best, rate

    def beyond(self, *made: Sequence[Drafting]) -> Iterator[str]:
        """Notes for a load that the given devices cannot serve within the limits. The notes name the smallest
        number of devices that can.
        """
        for each in (drafting for several in made for drafting in several):
            with_draft = f"with {each.draft}" if each.draft else "without a draft"
            servers = self.load.fewest_servers(servers_of(each))
            if servers is not None:
                yield f"one pool {with_draft} meets the limits on {servers.devices} GPUs: {servers}"
            with suppress(InputError):  # the link between the pools is not known
                limits_s = each.question.limits_s
                pools = self.load.fewest_pools(pairs_of(each, limits_s), limits_s)
                if pools is not None:
                    where = f"prefill {pools.prefill}, decode {pools.decode}"
                    yield f"two pools {with_draft} meet the limits on {pools.devices} GPUs: {where}"

    def fastest(self, made: Sequence[Drafting]) -> list[Candidate]:
        """Up to `SHORTLIST` candidates for one pool. The first one serves the highest rate within the limits.
        The others have the lowest TPOT under the load. The TPOT is estimated from the mean batch. Candidates
        with too little capacity come last, sorted by capacity with the largest first.
        """
        placed = []
        every: list[PoolServer] = []
        for drafting in made:
            servers = servers_of(drafting)
            every += servers
            for instance in drafting.instances:
                of_instance = [server for server in servers if server.instance is instance]
                places = [self.load.place(server, self.gpus // server.gpus) for server in of_instance]
                if places:
                    placed.append((min(places), instance.candidate))
        placed.sort(key=lambda each: each[0])
        best, _ = self._best_server(every)
        first = None if best is None else best.instance.candidate
        others = [candidate for _, candidate in placed if candidate is not first]
        return ([] if first is None else [first]) + others[: SHORTLIST - 1]

    def two(self, made: Sequence[Drafting]) -> PoolOption | None:
        """The option with two pools that serves the highest request rate within the limits. The result is
        None if no two pools meet the limits. Raises InputError if no link between the pools is known.
        """
        best: tuple[Drafting, list[Pair], SizedPools] | None = None
        for drafting in made:
            limits_s = drafting.question.limits_s
            pairs = pairs_of(drafting, limits_s)
            sized = self._best_pools(pairs, limits_s)
            if sized is not None and (best is None or sized.rate > best[-1].rate):
                best = drafting, pairs, sized
        return None if best is None else self._of_pools(*best)

    def _best_pools(self, pairs: Sequence[Pair], limits_s: dict[str, float]) -> SizedPools | None:
        """The pools that serve the highest rate within the limits."""
        tried = [
            (self.load.bound(pair, *split), pair, split)
            for pair in pairs
            for split in self.load.split(pair, self.gpus)
        ]
        tried.sort(key=lambda each: -each[0])
        best: SizedPools | None = None
        for bound, pair, split in tried:
            if best is not None and bound <= best.rate:
                break
            pools = pair.each.with_counts(*split)
            rate = self.load.rate_of_pools(pools, limits_s, bound)
            if rate and (best is None or rate > best.rate):
                best = SizedPools(pair, pools, rate)
        return best

    def _of_pools(self, drafting: Drafting, pairs: list[Pair], sized: SizedPools) -> PoolOption:
        """The option with two pools of these sizes."""
        asked = drafting.question
        pools = sized.pools
        prefill = str(pools.prefill)
        decode = str(pools.decode)
        fewest = self.load.fewest_pools(pairs, asked.limits_s)
        row = self.load.row(pools, asked.limits_s)
        shown = self.load.suffices(sized.rate)
        times = {name: getattr(row, name) if shown else None for name in TIMES}
        words = {"prefill": prefill, "decode": decode}
        check = _check(asked, pools.steps.gamma, self.load.of_each(1), words)
        needed = None
        needed_gpus = None
        if fewest is not None:
            needed = f"prefill {fewest.prefill}, decode {fewest.decode}"
            needed_gpus = fewest.devices
        return PoolOption(
            servers=None,
            prefill=prefill,
            decode=decode,
            draft=drafting.draft,
            gamma=pools.steps.gamma,
            most_requests_per_s=sized.rate,
            most_requests_per_s_per_gpu=sized.rate / self.gpus,
            ratio=sized.pair.ratio,
            needed=needed,
            needed_gpus=needed_gpus,
            **times,
            check=check,
            start=lines_of(self.question, drafting, pools, row.request_rate),
        )


def _times_of_server(server: PoolServer, load: Array) -> dict[str, float | None]:
    """The times of one server under its share of the load."""
    question = server.question
    served = serve(server.steps, question.loop.load(load), server.limits, question.spread)
    return {
        "ttft_s": _first(served.ttft.mean),
        "ttft_p90_s": _first(served.ttft.quantiles(0.9)),
        "tpot_s": _first(served.tpot.mean),
        "tpot_p90_s": _first(served.tpot.quantiles(0.9)),
        "slo_share": _first(server.shares(load)) if question.limits_s else None,
    }


def _first(values: Floats) -> float:
    """The value of the first load."""
    return float(np.ravel(values)[0])


def _check(question: TrafficQuery, gamma: int, load: Array, layout: dict[str, Any]) -> str:
    """The `traffic` command that prints the latencies of an option."""
    alone: dict[str, Any] = {"tp": 1, "dp": 1, "ep": 1}
    name = "request_rate" if question.opens else "max_concurrency"
    value = float(load[0]) if question.opens else int(load[0])
    asked = {name: value, "gamma": str(gamma), "closed_form": True}
    return command_of(replace(question, **asked | alone | layout))
