"""Servers of one candidate under a load, as `traffic` predicts them, and how many of them the load needs."""

import math
from dataclasses import dataclass, replace
from typing import Any

from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.candidates import Candidate
from perfmodel.answers.advice.prices import room
from perfmodel.answers.advice.ranking import PricedPoint
from perfmodel.answers.load.closed_form_range import OPEN
from perfmodel.answers.load.slo import SHARE_WANTED
from perfmodel.answers.load.traffic import traffic
from perfmodel.answers.load.traffic_query import TrafficQuery
from perfmodel.answers.load.traffic_rows import TrafficRow
from perfmodel.answers.load.traffic_words import RATES
from perfmodel.speculation import Workload, predict

HEADROOM = OPEN.saturation
"""Largest share of the saturation rate at which a server runs, where no latency limits decide."""
OUT_OF_STEP = 1.0
"""Standard deviation of the output lengths between clients, in tokens. Clients of a real load do not stay in
step, as those of equal answers do.
"""
MOST_SERVERS = 64
"""Largest number of servers among which clients are divided, if the limits decide the number."""


@dataclass(frozen=True, slots=True)
class Served:
    """A layout that serves the load with one draft, or without.

    candidate: its layout has all servers. row: one server with its share of the load. speedup: the TPOT of
    the same server without a draft over its own. seats: requests that one server runs at once at most.
    needed_gpus: GPUs of such servers that the load needs; None if no number suffices.
    """

    candidate: Candidate
    row: TrafficRow
    speedup: float
    seats: int
    needed_gpus: int | None
    warnings: tuple[str, ...]

    @property
    def tpot_s(self) -> float:
        """Mean time per output token of a request."""
        return self.row.tpot_s.mean

    @property
    def request_s(self) -> float:
        """Mean time from the arrival of a request to its last token; infinite if the server is saturated."""
        return math.inf if self.row.e2e_s is None else self.row.e2e_s.mean

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


def served_by(question: AdviseQuery, candidate: Candidate, drafts: bool) -> Served | None:
    """The load on servers of one candidate; None if its draft does not pay there, or no number suffices."""
    replicas: int | None = candidate.layout.replicas
    if question.gpus is None:
        replicas = _replicas_needed(question, candidate, drafts)
        if replicas is None:
            return None
        candidate = replace(candidate, layout=candidate.layout.times(replicas))
    assert replicas is not None
    asked = question_of(question, candidate, drafts, **_share_of_load(question, replicas))
    answer = traffic(asked)
    verdict = answer.verdicts[0]
    if (verdict.gamma == 0) is drafts:
        return None
    row = next(row for row in answer.rows if row.gamma == verdict.gamma)
    fitting = int(room(candidate.scenario, 1.0, float(row.gamma), question).max_batch)
    at_once = max(asked.max_concurrency or (asked.limits.max_num_seqs,))
    each = row.replicas
    return Served(
        candidate=candidate,
        row=row,
        speedup=verdict.speedup,
        seats=max(1, min(fitting, at_once)),
        needed_gpus=None if each is None else each * candidate.layout.times(replicas).gpus,
        warnings=tuple(dict.fromkeys((*answer.warnings, *row.warnings))),
    )


def question_of(question: AdviseQuery, candidate: Candidate, drafts: bool, **load: Any) -> TrafficQuery:
    """The question to `traffic` about one server of a candidate."""
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
    assert question.clients is not None
    return {"max_concurrency": math.ceil(question.clients / replicas), "output_std": OUT_OF_STEP}


def _replicas_needed(question: AdviseQuery, candidate: Candidate, drafts: bool) -> int | None:
    """The fewest servers that serve the load within the limits; None if no number does."""
    if question.request_rate is not None:
        answer = traffic(question_of(question, candidate, drafts, **_share_of_load(question, 1)))
        needed = [
            _for_rate(question, row, question.request_rate)
            for row in answer.rows
            if (row.gamma != 0) is drafts
        ]
        return min((number for number in needed if number is not None), default=None)
    assert question.clients is not None
    shares = {math.ceil(question.clients / servers) for servers in range(1, MOST_SERVERS + 1)}
    load = {"max_concurrency": sorted(shares), "output_std": OUT_OF_STEP}
    answer = traffic(question_of(question, candidate, drafts, **load))
    met = [
        row.concurrency
        for row in answer.rows
        if (row.gamma != 0) is drafts and row.concurrency and (row.slo_share or 0.0) >= SHARE_WANTED
    ]
    return math.ceil(question.clients / max(met)) if met else None


def _for_rate(question: AdviseQuery, row: TrafficRow, rate: float) -> int | None:
    """Servers that a rate needs: those of `traffic` within limits, else with some headroom."""
    if question.latency_limits_ms or not row.saturation_rate:
        return row.replicas
    return math.ceil(rate / (HEADROOM * row.saturation_rate))
