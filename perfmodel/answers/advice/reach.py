"""Finds the largest load that the servers of a candidate can serve within the limits (its *reach*)."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.candidates import Candidate, Candidates
from perfmodel.answers.advice.servers_needed import HEADROOM, clients_each, fitting_seats, question_of
from perfmodel.answers.load.largest_load import Largest, OneServer
from perfmodel.answers.load.slo import SHARE_WANTED
from perfmodel.answers.load.traffic_rows import TrafficRow
from perfmodel.answers.load.traffic_words import RATES
from perfmodel.errors import InputError

CLOSE = 1.02
"""The search for the largest load ends if the smallest load that cannot be served is at most this many times
the largest load that can be served.
"""
MORE = 1.1
"""If the closed form may be inaccurate, a candidate's load is multiplied by this factor. The candidate is
only tried if the result is above the load that is already confirmed.
"""
SHARES = (1.0, 0.95, 0.85, 0.7, 0.5, 0.25, 1.06, 1.15, 1.3)
"""Multiples of the closed form's load, in the order in which they are tried. If the closed form is accurate,
only the first two are tried.
"""
TRIED = 3
"""Largest number of candidates that are tried, beginning with the candidate with the largest load."""


@dataclass(frozen=True, slots=True)
class Reach:
    """The largest load that one server of a candidate can serve within the limits, according to the closed
    form.
    """

    candidate: Candidate
    server: OneServer
    largest: Largest

    @property
    def load(self) -> float:
        """The largest load of all servers of the layout together."""
        return self.candidate.layout.replicas * self.largest.load

    @property
    def doubted(self) -> bool:
        """Whether the closed form may be inaccurate here. A replay may then find another largest load."""
        rows = (self.largest.row, self.largest.above)
        return any(row is not None and row.doubts for row in rows)

    @property
    def drafts(self) -> bool:
        """Whether the server uses a draft."""
        return self.server.drafts

    def keeps(self, load: float, replicas: int) -> bool:
        """Whether `replicas` servers can serve the load within the limits. The latencies differ from those of
        `traffic` by at most about one per cent.
        """
        row = self.row(load, replicas, rough=True)
        return row is not None and keeps(row)

    def row(self, load: float, replicas: int, rough: bool = False) -> TrafficRow | None:
        """The prediction of `traffic` for one of `replicas` servers under the load. The result is None if the
        candidate has a draft but its best draft length is 0.

        - rough: whether an accuracy of about one per cent is sufficient. The rows of clients are always
          exact, because a lower rung raises their times by more.
        """
        opens = self.server.priced.question.opens
        each = load / replicas
        each = max(each, RATES[0]) if opens else math.ceil(each)
        return self.server.row(each, rough and opens)


@dataclass(frozen=True, slots=True)
class Carried:
    """The largest load that the servers of a candidate can serve within the limits, confirmed by
    `traffic`.
    """

    reach: Reach
    load: float


def reaches(question: AdviseQuery, candidates: Candidates, drafts: bool) -> list[Reach]:
    """The reach of each candidate, with the largest load first.

    - drafts: whether to take the candidates with a draft or those without.
    """
    wanted: Iterable[Candidate] = candidates.baselines
    if drafts:
        wanted = (c for c in candidates.drafted if question.may_choose(c.runs))
    found = [each for candidate in wanted for each in _reach(question, candidate, drafts)]
    return sorted(found, key=lambda each: -each.load)


def _reach(question: AdviseQuery, candidate: Candidate, drafts: bool) -> Iterator[Reach]:
    """The reach of a candidate. There is none if `traffic` refuses the candidate, or if it cannot serve any
    load.
    """
    most = load_of(question)
    if question.request_rate is None:
        load = clients_each(question, [round(most)])
    else:
        load = {"request_rate": max(most, RATES[0])}
    asked = question_of(question, candidate, drafts, **load)
    if asked.opens:
        fitting = fitting_seats(question, candidate, int(drafts)) // asked.dp
        asked = replace(asked, max_num_seqs=max(1, min(asked.group_seats, fitting)))
    try:
        server = OneServer.of(asked, drafts)
    except InputError:
        return
    largest = server.largest(most, keeps)
    if largest.load:
        yield Reach(candidate, server, largest)


def keeps(row: TrafficRow) -> bool:
    """Whether enough requests meet the limits in a prediction of `traffic`. Without limits, whether the
    request rate is at most the share `HEADROOM` of the saturation rate.
    """
    if row.ttft_s is None:
        return False
    if row.slo_share is not None:
        return row.slo_share >= SHARE_WANTED
    return row.request_rate is None or row.request_rate <= HEADROOM * row.saturation_rate


def carried(question: AdviseQuery, found: Iterable[Reach], least: float = 0.0) -> Carried | None:
    """The servers with the largest load that `traffic` confirms. The result is None if this load is not
    clearly above `least`.

    - found: the reaches, with the largest load first.
    """
    best = None
    for reach in list(found)[:TRIED]:
        if reach.load * (MORE if reach.doubted else 1.0) > CLOSE * least:
            confirmed = _confirmed(question, reach, least)
            if confirmed:
                best = Carried(reach, confirmed)
                least = confirmed
    return best


def _confirmed(question: AdviseQuery, reach: Reach, least: float) -> float:
    """The largest load above `least` that the servers of a layout can serve according to `traffic`; 0 if
    there is none.
    """
    replicas = reach.candidate.layout.replicas
    kept = _rounded(question, CLOSE * least)
    if kept and not reach.keeps(kept, replicas):
        return 0.0
    above = math.inf
    for load in _tried(question, reach):
        if kept < load < above:
            if reach.keeps(load, replicas):
                kept = load
            else:
                above = load
    while kept and CLOSE * kept < above < math.inf:
        load = _rounded(question, math.sqrt(kept * above))
        if not kept < load < above:
            break
        if reach.keeps(load, replicas):
            kept = load
        else:
            above = load
    return kept


def _tried(question: AdviseQuery, reach: Reach) -> Iterator[float]:
    """The loads to try: the load of the closed form, and a slightly smaller one. If the closed form may be
    inaccurate, much smaller and larger loads are tried too.
    """
    shares = SHARES if reach.doubted else SHARES[:2]
    most = load_of(question)
    return (_rounded(question, min(share * reach.load, most)) for share in shares)


def load_of(question: AdviseQuery) -> float:
    """The load of a question, in requests per second or as a number of clients."""
    return float(question.clients or 0) if question.request_rate is None else question.request_rate


def at_load(question: AdviseQuery, load: float) -> AdviseQuery:
    """The question with another request rate or number of clients."""
    if question.request_rate is None:
        return replace(question, clients=round(load))
    return replace(question, request_rate=load)


def _rounded(question: AdviseQuery, load: float) -> float:
    """Rounds a load down to whole clients or to a rate with three digits, as in an answer."""
    if question.request_rate is None:
        return float(math.floor(load))
    digits = 2 - math.floor(math.log10(load)) if load > 0 else 0
    return math.floor(load * 10.0**digits + 1e-9) / 10.0**digits
