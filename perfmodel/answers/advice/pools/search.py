"""Searches one pool and two pools for a rate within limits."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.candidates import Candidate, Candidates
from perfmodel.answers.advice.pools.command import command_of
from perfmodel.answers.advice.pools.instances import Drafting, drafting_of
from perfmodel.answers.advice.pools.option import PoolAdvice, PoolOption
from perfmodel.answers.advice.pools.pairs import Pair, SizedPools, best_on, pairs_of, pools_for
from perfmodel.answers.advice.pools.servers import Server, most_on, servers_for, servers_of
from perfmodel.answers.advice.served import HEADROOM
from perfmodel.answers.load.traffic_query import TrafficQuery
from perfmodel.errors import InputError
from perfmodel.queueing.closed import serve

SHORTLIST = 6
"""Layouts of one pool, with and without a draft each, that `traffic` answers for the asked rate."""
TIMES = ("ttft_s", "ttft_p90_s", "tpot_s", "tpot_p90_s", "slo_share")


def advise_pools(question: AdviseQuery, candidates: Candidates) -> tuple[PoolAdvice, Candidates]:
    """The best of one pool and of two pools, each with and without a draft, for the asked rate; and the
    candidates of one pool with the lowest TPOT there.
    """
    assert question.gpus is not None
    assert question.request_rate is not None
    made = drafting_of(question, candidates)
    plain = [each for each in made if each.draft is None]
    drafted = [each for each in made if each.draft is not None]
    search = Search(question.gpus, question.request_rate)
    options = [search.one(plain), search.one(drafted)]
    notes: list[str] = []
    if not question.latency_limits_ms:
        notes.append(f"without limits on latency, the highest rate is {HEADROOM:g} of the capacity")
    if question.draft_tp is not None and drafted:
        notes.append("pools have the draft on all devices of an instance, whatever --draft-tp says")
    try:
        options += [search.two(plain), search.two(drafted)]
    except InputError as error:
        notes.append(f"two pools were not searched: {error}")
    kept = [option for option in options if option is not None]
    kept.sort(key=lambda option: -option.most_requests_per_s)
    advice = PoolAdvice(
        gpus=question.gpus,
        request_rate=question.request_rate,
        options=tuple(kept),
        one_would_do=any(option.serves for option in kept if not option.two),
        searched=sum(len(instance.steps) for each in made for instance in each.instances),
        notes=tuple(notes),
    )
    shortlist = replace(candidates, baselines=search.fastest(plain), drafted=search.fastest(drafted))
    return advice, shortlist


@dataclass(frozen=True, slots=True)
class Search:
    """A number of devices, and the asked rate."""

    gpus: int
    rate: float

    def one(self, made: Sequence[Drafting]) -> PoolOption | None:
        """The servers that do both with the highest rate within the limits."""
        servers = [server for each in made for server in servers_of(each)]
        best = most_on(servers, self.gpus)
        if best is None:
            return None
        layout = replace(best.instance.layout, count=self.gpus // best.gpus)
        most = layout.count * best.highest
        share = self.rate / layout.count
        fewest = servers_for(servers, self.rate)
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
            **(_times_of_server(best, share) if self.rate <= most else dict.fromkeys(TIMES)),
            check=_check(best.question, best.steps.gamma, share, best.instance.layout.layout),
        )

    def fastest(self, made: Sequence[Drafting]) -> list[Candidate]:
        """The candidates of one pool with the lowest TPOT at the rate, by the mean batch; of those that do
        not serve it, the ones with the highest capacity.
        """
        order: dict[int, tuple[float, float]] = {}
        candidates: dict[int, Candidate] = {}
        for server in (server for each in made for server in servers_of(each)):
            candidate = server.instance.candidate
            count = self.gpus // server.gpus
            place = (server.tpot_s(self.rate / count), -count * server.most)
            known = order.setdefault(id(candidate), place)
            order[id(candidate)] = min(known, place)
            candidates[id(candidate)] = candidate
        first = sorted(candidates, key=lambda each: order[each])[:SHORTLIST]
        return [candidates[each] for each in first]

    def two(self, made: Sequence[Drafting]) -> PoolOption | None:
        """The two pools with the highest rate within the limits. Raises InputError without a link."""
        best: tuple[Drafting, list[Pair], SizedPools] | None = None
        for drafting in made:
            limits_s = drafting.question.limits_s
            pairs = pairs_of(drafting, limits_s)
            sized = best_on(pairs, self.gpus, limits_s)
            if sized is not None and (best is None or sized.rate > best[-1].rate):
                best = drafting, pairs, sized
        return None if best is None else self._of_pools(*best)

    def _of_pools(self, drafting: Drafting, pairs: list[Pair], sized: SizedPools) -> PoolOption:
        asked = drafting.question
        pools = sized.pools
        prefill = str(pools.prefill)
        decode = str(pools.decode)
        fewest = pools_for(pairs, self.rate, asked.limits_s)
        row = pools.at(self.rate, asked.limits_s)
        shown = self.rate <= sized.rate
        return PoolOption(
            servers=None,
            prefill=prefill,
            decode=decode,
            draft=drafting.draft,
            gamma=pools.steps.gamma,
            most_requests_per_s=sized.rate,
            most_requests_per_s_per_gpu=sized.rate / self.gpus,
            ratio=sized.pair.ratio,
            needed=None if fewest is None else f"prefill {fewest.prefill}, decode {fewest.decode}",
            needed_gpus=None if fewest is None else fewest.devices,
            **{name: getattr(row, name) if shown else None for name in TIMES},
            check=_check(asked, pools.steps.gamma, self.rate, {"prefill": prefill, "decode": decode}),
        )


def _times_of_server(server: Server, rate: float) -> dict[str, float | None]:
    """The times of one server at its share of the rate."""
    at = np.array([rate])
    question = server.question
    served = serve(server.steps, question.loop.load(at), server.limits, question.spread)
    return {
        "ttft_s": float(np.ravel(served.ttft.mean)[0]),
        "ttft_p90_s": float(served.ttft.quantiles(0.9)[0, 0]),
        "tpot_s": float(np.ravel(served.tpot.mean)[0]),
        "tpot_p90_s": float(served.tpot.quantiles(0.9)[0, 0]),
        "slo_share": float(server.shares(at)[0]) if question.limits_s else None,
    }


def _check(question: TrafficQuery, gamma: int, rate: float, layout: dict[str, Any]) -> str:
    """The command of `traffic` with the figures of an option."""
    alone: dict[str, Any] = {"tp": 1, "dp": 1, "ep": 1}
    return command_of(
        replace(question, gamma=str(gamma), closed_form=True, request_rate=rate, **alone | layout)
    )
