"""Finds how many servers of one layout a load needs, and the share of the load that each server gets."""

import math
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.candidates import Candidate
from perfmodel.answers.advice.prices import room
from perfmodel.answers.load.closed_form_range import OPEN
from perfmodel.answers.load.rows_by_load import closed_rows_of
from perfmodel.answers.load.slo import SHARE_WANTED
from perfmodel.answers.load.traffic_query import TrafficQuery
from perfmodel.answers.load.traffic_rows import TrafficRow
from perfmodel.answers.load.traffic_words import RATES
from perfmodel.answers.question import resolve_costs
from perfmodel.answers.question.arguments import MOST_SEATS
from perfmodel.queueing.kv_room import with_prefix_once
from perfmodel.queueing.load import Lengths
from perfmodel.queueing.prefix import Reuse
from perfmodel.speculation import memory_of

HEADROOM = OPEN.saturation
"""Largest share of the saturation rate at which a server runs, if there are no latency limits."""
OUT_OF_STEP = 0.05
"""Standard deviation of the output lengths between clients, as a share of their mean. Clients with outputs of
equal length would all send at the same time, but real clients do not. Larger shares do not change the
latencies further.
"""
UNEVEN = 1.25
"""The largest number of requests that a server (or attention group) runs at once is its equal share of all
clients times this factor. This is an assumption.
"""
MOST_SERVERS = 64
"""Largest number of servers among which clients are divided, if the latency limits decide the number."""
SPARE = 2.0
"""Memory counts as short if fewer requests than the clients times this factor fit. This is an assumption."""
QUEUE = 1.1
"""Requests count as waiting if the mean number of requests at a server is more than this many times the
largest number that it runs at once.
"""


def question_of(question: AdviseQuery, candidate: Candidate, drafts: bool, **load: Any) -> TrafficQuery:
    """The question to `traffic` about one server of a candidate.

    - load: the load as arguments of `traffic`.

    The question states the largest number of requests at once, as the printed command does. Clients get a
    seat each, even if they are more than the engine's default number of seats, up to `MOST_SEATS`. If memory
    is short, they are the only seats, because seats that are never used take memory from the cache.
    """
    asked = _of_candidate(question, candidate, drafts, **load)
    if asked.max_num_seqs is None and asked.max_concurrency:
        clients = max(asked.max_concurrency)
        alone = asked.dp == 1 and clients == question.clients
        seats = min(clients if alone else seats_of_group(clients, asked.dp), MOST_SEATS)
        if seats > asked.group_seats or _is_memory_short(question, candidate, asked):
            return replace(asked, max_num_seqs=seats)
    return asked.planned


def _is_memory_short(question: AdviseQuery, candidate: Candidate, asked: TrafficQuery) -> bool:
    """Whether few more requests than the clients of a server fit in its memory with the engine's default
    number of seats. With latency limits, the number of servers is searched, and the seats are not changed.
    """
    if question.latency_limits_ms:
        return False
    scenario = resolve_costs(replace(candidate.asked, max_num_seqs=asked.group_seats))
    fitting = float(room(scenario, 1.0, 0.0, question).max_batch)
    return fitting < SPARE * asked.most_at_once


def seats_of_group(clients: int, groups: int) -> int:
    """The largest number of requests that an attention group runs at once for the clients of its server. If
    several groups share the clients, it is more than an equal share, because they are divided unevenly.
    """
    return math.ceil(UNEVEN * math.ceil(clients / groups))


def _of_candidate(question: AdviseQuery, candidate: Candidate, drafts: bool, **load: Any) -> TrafficQuery:
    layout = candidate.layout.arguments()
    if not drafts:
        return question.traffic(gamma=0, **layout, **load)
    asked = candidate.asked
    draft = {"draft": asked.draft, "draft_kv": asked.draft_kv, "draft_tp": asked.draft_tp}
    if candidate.rate is not None:
        return question.traffic(rate=candidate.rate, **draft, **layout, **load)
    known = {"acceptance": question.acceptance, "task": question.task}
    return question.traffic(**known, **draft, **layout, **load)


def share_of_load(question: AdviseQuery, replicas: int) -> dict[str, Any]:
    """The load of one of `replicas` equal servers, as arguments of `traffic`. A request rate is at least the
    smallest rate that `traffic` accepts.
    """
    if question.request_rate is not None:
        return {"request_rate": max(question.request_rate / replicas, RATES[0])}
    return clients_each(question, [_share(question, replicas)])


def replicas_needed(question: AdviseQuery, candidate: Candidate, drafts: bool) -> int | None:
    """The smallest number of servers that serves the load within the limits, according to the closed form.
    The result is None if no number is sufficient.
    """
    if question.request_rate is not None:
        whole = _replicas_for(question, candidate, drafts, question.request_rate)
        if whole is not None or not drafts:
            return whole
        return _replicas_that_draft(question, candidate)
    asked = question_of(question, candidate, drafts, **clients_each(question, _shares(question)))
    rows = (row for rows in closed_rows_of(asked, drafts) for row in rows)
    return _servers_for(question, _met(question, candidate, rows))


def _replicas_for(question: AdviseQuery, candidate: Candidate, drafts: bool, rate: float) -> int | None:
    """The smallest number of servers for a rate, computed from the rate that one server can serve. The result
    is None if no number is sufficient, or if a server would not draft at this rate.
    """
    asked = question_of(question, candidate, drafts, request_rate=max(rate, RATES[0]))
    needed = [_for_rate(question, row, rate) for row in closed_rows_of(asked, drafts)[0]]
    return min((number for number in needed if number is not None), default=None)


def _replicas_that_draft(question: AdviseQuery, candidate: Candidate) -> int | None:
    """The smallest number of servers for a rate, with a draft that only gains at a smaller rate per server.
    The number is doubled until one server can serve its share of the rate. The smallest sufficient number is
    then searched between the last two numbers.
    """
    assert question.request_rate is not None
    rate = question.request_rate

    def serves(servers: int) -> bool:
        return _replicas_for(question, candidate, True, rate / servers) == 1

    most = 2
    while not serves(most):
        most *= 2
        if most > MOST_SERVERS:
            return None
    between = range(most // 2 + 1, most)
    return between.start + bisect_left(between, True, key=serves)


def _shares(question: AdviseQuery) -> list[int]:
    """The clients of one server for each number of servers, the fewest first."""
    return sorted({_share(question, servers) for servers in range(1, MOST_SERVERS + 1)})


def _share(question: AdviseQuery, servers: int) -> int:
    """The clients of one of several servers."""
    assert question.clients is not None
    return math.ceil(question.clients / servers)


def clients_each(question: AdviseQuery, shares: list[int]) -> dict[str, Any]:
    """The load of servers with these numbers of clients each, as arguments of `traffic`."""
    assert question.output_len is not None
    return {"max_concurrency": shares, "output_std": OUT_OF_STEP * question.output_len}


def _met(question: AdviseQuery, candidate: Candidate, rows: Iterable[TrafficRow]) -> list[int]:
    """The numbers of clients that one server can serve within the limits and without a queue."""
    return [
        row.concurrency
        for row in rows
        if row.concurrency
        and (row.slo_share or 0.0) >= SHARE_WANTED
        and not queues(row, fitting_seats(question, candidate, int(row.gamma)))
    ]


def fitting_seats(question: AdviseQuery, candidate: Candidate, gamma: int) -> int:
    """The largest number of requests that fit in the memory of one server at once, with a draft of `gamma`
    tokens. Prompt tokens that the prefix cache finds are in memory once per attention group.
    """
    scenario = candidate.scenario
    whole = room(scenario, 1.0, float(gamma), question)
    if not question.prefix_len or not question.prefix_hits or not whole.max_batch:
        return int(whole.max_batch)
    lengths = Lengths(float(question.input_len or 0), float(question.output_len or 0))
    reuse = Reuse(lengths, float(question.prefix_len), question.prefix_hits)
    shorter = question.context - reuse.shared(reuse.engine.law(scenario, gamma))
    unshared = memory_of(scenario, 1.0, shorter, float(gamma), question.memory_fraction)
    sequences = np.asarray(whole.sequences), np.asarray(unshared.sequences)
    each = with_prefix_once(*sequences, question.prefix_hits)
    return candidate.layout.dp * math.floor(each)


def queues(row: TrafficRow, seats: int) -> bool:
    """Whether requests wait for others to finish. This is assumed if the mean number of requests at the
    server (by Little's law) is more than `QUEUE` times `seats`.

    - seats: largest number of requests that the server runs at once.
    """
    at_once = float(row.concurrency or 0)
    if not row.concurrency and row.e2e_s is not None:
        at_once = row.requests_per_s * row.e2e_s.mean
    return at_once > QUEUE * seats


def replicas_without_queue(question: AdviseQuery, candidate: Candidate, drafts: bool, replicas: int) -> int:
    """The smallest number of servers that serves the request rate without a queue. The search goes upwards
    from `replicas`. If no tried number is sufficient, the result is `replicas`.
    """
    assert question.request_rate is not None
    rate = question.request_rate

    def free(servers: int) -> bool:
        asked = question_of(question, candidate, drafts, request_rate=max(rate / servers, RATES[0]))
        rows = closed_rows_of(asked, drafts)[0]
        return any(not queues(row, fitting_seats(question, candidate, int(row.gamma))) for row in rows)

    most = 2 * replicas
    while not free(most):
        most *= 2
        if most > MOST_SERVERS * replicas:
            return replicas
    between = range(max(most // 2, replicas) + 1, most)
    return between.start + bisect_left(between, True, key=free)


def _servers_for(question: AdviseQuery, met: list[int]) -> int | None:
    """The smallest number of servers for all clients; None if a server cannot serve even one client.

    - met: the numbers of clients that one server can serve.
    """
    assert question.clients is not None
    return math.ceil(question.clients / max(met)) if met else None


def _for_rate(question: AdviseQuery, row: TrafficRow, rate: float) -> int | None:
    """The number of servers for a rate. With latency limits, `traffic` determines the number. Without them,
    each server runs at no more than the share `HEADROOM` of its saturation rate.
    """
    if question.latency_limits_ms or not row.saturation_rate:
        return row.replicas
    return math.ceil(rate / (HEADROOM * row.saturation_rate))
