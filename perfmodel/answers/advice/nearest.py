"""Finds the largest part of a load that the given devices can serve, if they cannot serve all of it."""

from dataclasses import dataclass, replace

from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.candidates import Candidates
from perfmodel.answers.advice.limits_used import limits_used
from perfmodel.answers.advice.one_server import point_speedup
from perfmodel.answers.advice.picks import Pick
from perfmodel.answers.advice.reach import Carried, Reach, at_load, carried, load_of, reaches
from perfmodel.answers.advice.served import Served, on_servers
from perfmodel.answers.advice.served_pick import pick_under_load
from perfmodel.answers.load.closed_form_range import Doubt
from perfmodel.answers.load.traffic import traffic
from perfmodel.answers.load.traffic_rows import TrafficRow
from perfmodel.answers.point.verdict import Verdict, verdict
from perfmodel.answers.text import clients, request_rate

FAR = 0.7
"""If the 90th percentile is below this share of a limit, the load is limited by saturation and not by this
limit.
"""


@dataclass(frozen=True, slots=True)
class Nearest:
    """The configuration that serves the largest load within the latency limits.

    - request_rate, clients: this load, for all servers together.
    - alone: the largest load without a draft; 0 if no load can be served.
    - limit: the limit that a higher load exceeds (``ttft``, ``tpot``, ``e2e`` or ``saturation``).
    - seats: number of requests that fit in the memory of a server, if memory is the reason; otherwise None.
    - verdict, speedup, speedup_interval: as in `whatif` at the mean batch; None without a draft.
    - tpot_interval: 90 % interval of the mean TPOT.
    - pick: the configuration under this load.
    """

    request_rate: float | None
    clients: int | None
    alone: float
    limit: str
    seats: int | None
    verdict: Verdict | None
    speedup: float | None
    speedup_interval: tuple[float, float] | None
    tpot_interval: tuple[float, float] | None
    warnings: tuple[str, ...]
    pick: Pick

    @property
    def load_text(self) -> str:
        """The largest load in words, such as ``1.46 requests/s``."""
        return in_words(self.request_rate, self.clients or 0)

    @property
    def alone_text(self) -> str:
        """The largest load without a draft, in words."""
        if not self.alone:
            return "none"
        return in_words(None if self.request_rate is None else self.alone, round(self.alone))

    @property
    def limit_text(self) -> str:
        """The limit that a higher load exceeds, in words."""
        if self.limit == "saturation":
            return "the servers are then near saturation"
        held = f", as the memory of a server holds {self.seats} requests" if self.seats else ""
        return f"the limit on {self.limit.upper()} then binds{held}"


def in_words(rate: float | None, number: int) -> str:
    """A load in words: a request rate with three digits, or a number of clients."""
    return clients(number) if rate is None else request_rate(rate, ".3g")


@dataclass(frozen=True, slots=True)
class NearestServers:
    """The servers that `nearest` describes.

    - question: the question, with the load that these servers can serve.
    - whole: whether this is the whole load of the original question.
    """

    question: AdviseQuery
    served: Served
    nearest: Nearest
    whole: bool

    @property
    def load(self) -> float:
        """The load that these servers can serve, in requests per second or as a number of clients."""
        return load_of(self.question)


def nearest_servers(question: AdviseQuery, alone: list[Reach], drafted: list[Reach]) -> NearestServers | None:
    """The servers that can serve the largest load within the limits. The result is None if no servers can
    serve any load. The servers only have a draft if the draft makes the load larger.

    - alone, drafted: the largest load of each candidate, without a draft and with a draft.
    """
    without = carried(question, alone)
    least = 0.0 if without is None else without.load
    best = carried(question, drafted, least) or without
    if best is None:
        return None
    asked = at_load(question, best.load)
    served = served_by(asked, best.reach, best.reach.candidate.layout.replicas)
    if served is None:
        return None
    nearest = _nearest(asked, best, served, least)
    return NearestServers(asked, served, nearest, best.load >= load_of(question))


def reaches_of(question: AdviseQuery, candidates: Candidates) -> tuple[list[Reach], list[Reach]]:
    """The largest load of each candidate. The first list is for servers without a draft, the second for
    servers with a draft.
    """
    return reaches(question, candidates, drafts=False), reaches(question, candidates, drafts=True)


def served_by(question: AdviseQuery, reach: Reach, replicas: int) -> Served | None:
    """The prediction for a given number of servers (`replicas`) of one candidate, under the load of the
    question. The baseline is not replayed. The result is None if the servers exceed the limits, or if the
    best draft length of a candidate with a draft is 0.
    """
    server = reach.server.priced.question
    seats = server.group_seats if server.opens else None
    estimate = on_servers(question, reach.candidate, reach.drafts, replicas, seats=seats)
    row = reach.row(load_of(question), replicas)
    if estimate is None or row is None:
        return None
    speedup = estimate.speedup * estimate.tpot_s / row.tpot_s.mean
    served = replace(estimate, row=row, speedup=speedup)
    return served if served.suffices else None


def _nearest(question: AdviseQuery, best: Carried, served: Served, alone: float) -> Nearest:
    """Describes the servers: their load, verdict and intervals, and the limit that a higher load exceeds."""
    decided: Verdict | None = None
    speedup = interval = None
    if served.row.gamma:
        point = served.at_its_batch(question)
        speedup, interval = point_speedup(question, point)
        scenario = point.candidate.scenario
        decided = verdict(scenario, float(question.context), speedup, interval, point.gamma)
    row = served.row
    limit = _limit(question, best.reach.largest.above or row)
    without = served.asked if question.clients else replace(served.asked, max_num_seqs=question.max_num_seqs)
    in_memory = served.seats < without.limits.max_num_seqs
    memory_binds = limit == "ttft" and Doubt.CROWDED in row.doubts and in_memory
    answer = traffic(replace(served.asked, closed_form=True))
    closed = next(each for each in answer.rows if each.gamma == row.gamma)
    ends = closed.tpot_interval
    scale = row.tpot_s.mean / closed.tpot_s.mean
    return Nearest(
        request_rate=question.request_rate,
        clients=question.clients,
        alone=alone,
        limit=limit,
        seats=served.seats if memory_binds else None,
        verdict=decided,
        speedup=speedup,
        speedup_interval=interval,
        tpot_interval=None if ends is None else (scale * ends[0], scale * ends[1]),
        warnings=tuple(dict.fromkeys((*answer.warnings, *row.warnings))),
        pick=pick_under_load(served, question),
    )


def _limit(question: AdviseQuery, above: TrafficRow) -> str:
    """The limit that a slightly higher load exceeds most. The result is ``saturation`` if its 90th
    percentiles are far below all limits.

    - above: the prediction for the slightly higher load.
    """
    used = limits_used(question, above)
    binding = max(used, key=lambda name: used[name], default="")
    if above.ttft_s is None or not binding or used[binding] < FAR:
        return "saturation"
    return binding
