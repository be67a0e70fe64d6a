"""Servers of one candidate under a load, as `traffic` predicts them, and how many of them the load needs."""

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.candidates import Candidate
from perfmodel.answers.advice.prices import room
from perfmodel.answers.advice.ranking import PricedPoint
from perfmodel.answers.load.closed_form_range import OPEN
from perfmodel.answers.load.load_verdict import TrafficVerdict
from perfmodel.answers.load.rows_by_load import compared
from perfmodel.answers.load.slo import SHARE_WANTED
from perfmodel.answers.load.traffic import traffic
from perfmodel.answers.load.traffic_query import TrafficQuery
from perfmodel.answers.load.traffic_rows import TrafficRow
from perfmodel.answers.load.traffic_words import RATES
from perfmodel.speculation import Workload, predict

HEADROOM = OPEN.saturation
"""Largest share of the saturation rate at which a server runs, where no latency limits decide."""
OUT_OF_STEP = 0.05
"""Standard deviation of the output lengths between clients, as a share of their mean. Clients of a real load
do not stay in step, as those of equal answers do; from this share on their times no longer change.
"""
FEWER_CLIENTS = 44
"""Numbers of clients that are tried below one that is too large, each nine tenths of the one before."""
MOST_SERVERS = 64
"""Largest number of servers among which clients are divided, if the limits decide the number."""


@dataclass(frozen=True, slots=True)
class Served:
    """A layout that serves the load with one draft, or without.

    candidate: its layout has all servers. asked: the question to `traffic` about one server with its share of
    the load, and row its answer. speedup: the TPOT of the same server without a draft over its own. seats:
    requests that one server runs at once at most. needed_gpus: GPUs of such servers that the load needs; None
    if no number suffices. pays: whether `traffic` advises this draft, or none.
    """

    candidate: Candidate
    asked: TrafficQuery
    row: TrafficRow
    speedup: float
    seats: int
    needed_gpus: int | None
    pays: bool

    @property
    def tpot_s(self) -> float:
        """Mean time per output token of a request."""
        return self.row.tpot_s.mean

    @property
    def request_s(self) -> float:
        """Mean time from the arrival of a request to its last token; infinite if the server is saturated."""
        return math.inf if self.row.e2e_s is None else self.row.e2e_s.mean

    @property
    def warnings(self) -> tuple[str, ...]:
        """The notes of `traffic` about the question and the row."""
        answer = traffic(replace(self.asked, closed_form=True))
        return tuple(dict.fromkeys((*answer.warnings, *self.row.warnings)))

    @property
    def suffices(self) -> bool:
        """Whether no server is saturated and the latency limits are met."""
        share = self.row.slo_share
        return self.row.ttft_s is not None and (share is None or share >= SHARE_WANTED)

    @property
    def point(self) -> PricedPoint:
        """The point at the mean number of running requests."""
        row = self.row
        batch = max(1, round(row.running_mean))
        return PricedPoint(
            self.candidate, batch, int(row.gamma), row.tokens_per_iteration, self.tpot_s, -self.tpot_s
        )

    def at_its_batch(self, question: AdviseQuery) -> PricedPoint:
        """The point with the time per token of `whatif`, in which no prompt takes part."""
        point = self.point
        s = self.candidate.scenario
        workload = Workload.of(float(point.batch), float(question.context), point.gamma)
        tpot_s = float(predict(s, workload, point.gamma).tpot_s)
        return replace(point, tpot_s=tpot_s, value=-tpot_s)


def estimated(question: AdviseQuery, candidate: Candidate, drafts: bool) -> Served | None:
    """The load on servers of one candidate by the closed form alone; None if the candidate drafts nothing
    there, or no number of servers suffices.
    """
    replicas: int | None = candidate.layout.replicas
    if question.gpus is None:
        replicas = _replicas_needed(question, candidate, drafts)
    if replicas is None:
        return None
    asked = question_of(question, candidate, drafts, **_share_of_load(question, replicas))
    found = compared(asked, replays=False)
    candidate = _times(question, candidate, replicas)
    return _served(question, candidate, asked, found.by_load[0], found.verdict)


def replayed(question: AdviseQuery, estimate: Served) -> Served | None:
    """The same as `traffic` answers it, with replays where the closed form does not hold; None if the draft
    does not pay there, or no number of servers suffices.
    """
    candidate = estimate.candidate
    drafts = estimate.row.gamma != 0
    replicas: int | None = candidate.layout.replicas
    if question.gpus is None and question.clients is not None:
        replicas = _replicas_by_replays(question, candidate, drafts, candidate.layout.replicas)
    if replicas is None:
        return None
    asked = question_of(question, candidate, drafts, **_share_of_load(question, replicas))
    found = compared(asked, replays=True)
    candidate = _times(question, candidate, replicas)
    served = _served(question, candidate, asked, found.by_load[0], found.verdict)
    return served if served is not None and served.pays else None


def _times(question: AdviseQuery, candidate: Candidate, replicas: int) -> Candidate:
    """The candidate with as many servers as a load needs; with a given number of GPUs, as it is."""
    if question.gpus is not None:
        return candidate
    return replace(candidate, layout=candidate.layout.times(replicas))


def _served(
    question: AdviseQuery,
    candidate: Candidate,
    asked: TrafficQuery,
    rows: Sequence[TrafficRow],
    verdict: TrafficVerdict,
) -> Served | None:
    """The row of the verdict; where the draft of the question does not pay, its own row. None if nothing is
    drafted there.
    """
    baseline, *drafted = rows
    wanted = [baseline] if asked.stated_lengths == (0,) else drafted
    if not wanted:
        return None
    advised = [row for row in wanted if row.gamma == verdict.gamma]
    row = (advised or wanted)[0]
    fitting = int(room(candidate.scenario, 1.0, float(row.gamma), question).max_batch)
    at_once = max(asked.max_concurrency or (asked.limits.max_num_seqs,))
    return Served(
        candidate=candidate,
        asked=asked,
        row=row,
        speedup=baseline.tpot_s.mean / row.tpot_s.mean,
        seats=max(1, min(fitting, at_once)),
        needed_gpus=None if row.replicas is None else row.replicas * candidate.layout.gpus,
        pays=bool(advised),
    )


def question_of(question: AdviseQuery, candidate: Candidate, drafts: bool, **load: Any) -> TrafficQuery:
    """The question to `traffic` about one server of a candidate. Its command states the seats."""
    return _of_candidate(question, candidate, drafts, **load).planned


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


def _share_of_load(question: AdviseQuery, replicas: int) -> dict[str, Any]:
    """The load of one of several servers. A smaller rate than `traffic` takes is as good as its least."""
    if question.request_rate is not None:
        return {"request_rate": max(question.request_rate / replicas, RATES[0])}
    return _clients_each(question, [_share(question, replicas)])


def _replicas_needed(question: AdviseQuery, candidate: Candidate, drafts: bool) -> int | None:
    """The fewest servers that serve the load within the limits by the closed form; None if no number does."""
    if question.request_rate is not None:
        whole = _replicas_for(question, candidate, drafts, question.request_rate)
        if whole is not None or not drafts:
            return whole
        return _replicas_that_draft(question, candidate)
    asked = question_of(question, candidate, drafts, **_clients_each(question, _shares(question)))
    by_load = compared(asked, replays=False).by_load
    rows = (row for rows in by_load for row in rows)
    return _servers_for(question, _met(rows, drafts))


def _replicas_for(question: AdviseQuery, candidate: Candidate, drafts: bool, rate: float) -> int | None:
    """The fewest servers for a rate, by what one server of it serves; None if no number serves it, or if one
    server would not draft at this rate.
    """
    asked = question_of(question, candidate, drafts, request_rate=max(rate, RATES[0]))
    needed = [
        _for_rate(question, row, rate)
        for row in compared(asked, replays=False).by_load[0]
        if (row.gamma != 0) is drafts
    ]
    return min((number for number in needed if number is not None), default=None)


def _replicas_that_draft(question: AdviseQuery, candidate: Candidate) -> int | None:
    """The fewest servers which serve a rate with a draft that gains only at a share of it. Shares are halved
    until one server serves its share, and the fewest servers are searched between the last two.
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


def most_clients(question: AdviseQuery, candidate: Candidate, drafts: bool) -> int:
    """Nine tenths of the most clients that the servers of a candidate serve within the limits by the closed
    form, which replays may not quite confirm; 0 if they serve none.
    """
    each = _share(question, candidate.layout.replicas)
    shares = sorted({math.ceil(each * 0.9**fewer) for fewer in range(1, FEWER_CLIENTS)})
    asked = question_of(question, candidate, drafts, **_clients_each(question, shares))
    by_load = compared(asked, replays=False).by_load
    met = _met((row for rows in by_load for row in rows), drafts)
    return math.floor(0.9 * max(met, default=0)) * candidate.layout.replicas


def _replicas_by_replays(question: AdviseQuery, candidate: Candidate, drafts: bool, near: int) -> int | None:
    """The fewest servers that serve all clients within the limits, searched from a number near it. Fewer
    clients of a server meet the limits where more do.
    """
    shares = _shares(question)

    def meets(share: int) -> bool:
        asked = question_of(question, candidate, drafts, **_clients_each(question, [share]))
        return bool(_met(compared(asked, replays=True).by_load[0], drafts))

    at = shares.index(_share(question, near))
    if not meets(shares[at]):
        return _servers_for(question, [share for share in reversed(shares[:at]) if meets(share)][:1])
    while at + 1 < len(shares) and meets(shares[at + 1]):
        at += 1
    return _servers_for(question, [shares[at]])


def _shares(question: AdviseQuery) -> list[int]:
    """The clients of one server for each number of servers, the fewest first."""
    return sorted({_share(question, servers) for servers in range(1, MOST_SERVERS + 1)})


def _share(question: AdviseQuery, servers: int) -> int:
    """The clients of one of several servers."""
    assert question.clients is not None
    return math.ceil(question.clients / servers)


def _clients_each(question: AdviseQuery, shares: list[int]) -> dict[str, Any]:
    """The load of servers with these numbers of clients."""
    assert question.output_len is not None
    return {"max_concurrency": shares, "output_std": OUT_OF_STEP * question.output_len}


def _met(rows: Iterable[TrafficRow], drafts: bool) -> list[int]:
    """The numbers of clients which one server serves within the limits."""
    return [
        row.concurrency
        for row in rows
        if (row.gamma != 0) is drafts and row.concurrency and (row.slo_share or 0.0) >= SHARE_WANTED
    ]


def _servers_for(question: AdviseQuery, met: list[int]) -> int | None:
    """The fewest servers, of which each serves at most as many clients; None if none serves any."""
    assert question.clients is not None
    return math.ceil(question.clients / max(met)) if met else None


def _for_rate(question: AdviseQuery, row: TrafficRow, rate: float) -> int | None:
    """Servers that a rate needs: those of `traffic` within limits, else with some headroom."""
    if question.latency_limits_ms or not row.saturation_rate:
        return row.replicas
    return math.ceil(rate / (HEADROOM * row.saturation_rate))
