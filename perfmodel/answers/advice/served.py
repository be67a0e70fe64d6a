"""Predicts servers of one candidate under a load, as `traffic` does, and finds how many servers the load
needs.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.candidates import Candidate
from perfmodel.answers.advice.ranking import PricedPoint
from perfmodel.answers.advice.replayed_servers import servers_by_replays
from perfmodel.answers.advice.servers_needed import (
    fitting_seats,
    question_of,
    queues,
    replicas_needed,
    replicas_without_queue,
    seats_of_group,
    share_of_load,
)
from perfmodel.answers.advice.traffic_command import command_of
from perfmodel.answers.load.fewer_seats import better_seats
from perfmodel.answers.load.largest_load import OneServer
from perfmodel.answers.load.load_verdict import TrafficVerdict
from perfmodel.answers.load.rows_by_load import Priced, compared
from perfmodel.answers.load.slo import SHARE_WANTED
from perfmodel.answers.load.traffic import traffic
from perfmodel.answers.load.traffic_query import TrafficQuery
from perfmodel.answers.load.traffic_rows import MadeBy, TrafficRow
from perfmodel.speculation import Workload, predict

AS_SOON = 1.01
"""Servers have the engine's default number of seats instead of a larger one if a request then takes at most
this many times as long. The value is an assumption.
"""
BETWEEN = (0.25, 0.5)
"""Numbers of seats that are tried if memory is full. 0 is the number of whole requests (prompt and output)
that fit in memory, and 1 the number of requests of the mean context. The values are assumptions.
"""


@dataclass(frozen=True, slots=True)
class Served:
    """The prediction for the servers of one candidate under the load, with or without a draft.

    - candidate: the candidate, with a layout that includes all servers.
    - asked: the question to `traffic` about one server with its share of the load.
    - row: the prediction for the chosen draft length.
    - speedup: the TPOT of this server without a draft divided by its TPOT with the draft.
    - seats: the largest number of requests that one server can run at once.
    - needed_gpus: number of GPUs of such servers that the load needs; None if no number is sufficient.
    - pays: whether `traffic` recommends this draft. For a baseline, whether it recommends no draft.
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
        """Mean time per output token of a request, in seconds."""
        return self.row.tpot_s.mean

    @property
    def request_s(self) -> float:
        """Mean time from the arrival of a request to its last token, in seconds; infinite if the server is
        saturated.
        """
        return math.inf if self.row.e2e_s is None else self.row.e2e_s.mean

    @property
    def ttft_s(self) -> float:
        """Mean time to the first token in seconds; infinite if the server is saturated."""
        return math.inf if self.row.ttft_s is None else self.row.ttft_s.mean

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warnings of `traffic` about the question and about the predicted row."""
        answer = traffic(replace(self.asked, closed_form=True))
        return tuple(dict.fromkeys((*answer.warnings, *self.row.warnings)))

    @property
    def suffices(self) -> bool:
        """Whether the servers are not saturated and enough requests meet the latency limits."""
        share = self.row.slo_share
        return self.row.ttft_s is not None and (share is None or share >= SHARE_WANTED)

    @property
    def queues(self) -> bool:
        """Whether requests wait because the server already runs its largest number of requests."""
        return queues(self.row, self.seats)

    @property
    def started_seats(self) -> int:
        """The largest number of requests at once in the command line of one server. For a request rate, it is
        that of the prediction.
        """
        return self.seats if self.asked.max_concurrency else self.asked.limits.max_num_seqs

    @property
    def command(self) -> str:
        """The ``perfmodel traffic`` command for one server. It predicts the same row."""
        return command_of(replace(self.asked, gamma=int(self.row.gamma)))

    @property
    def many_seats(self) -> tuple[str, ...]:
        """A warning if the command line gives an attention group more seats than the engine's default. Steps
        of so many sequences were hardly measured.
        """
        seats = math.ceil(self.started_seats / self.asked.dp)
        default = replace(self.asked, max_num_seqs=None).group_seats
        if not self.asked.max_concurrency or seats <= default:
            return ()
        known = f"{seats} seats are more than the engine's default of {default}"
        return (f"{known}: steps beyond the largest CUDA graph may take longer than predicted",)

    @property
    def point(self) -> PricedPoint:
        """The point of this candidate and draft length, with the TPOT under the load. The batch is the mean
        number of running requests.
        """
        row = self.row
        batch = max(1, round(row.running_mean))
        return PricedPoint(
            self.candidate,
            batch,
            int(row.gamma),
            row.tokens_per_iteration,
            self.tpot_s,
            -self.tpot_s,
            -self.tpot_s,
        )

    def at_its_batch(self, question: AdviseQuery, share: float = 1.0) -> PricedPoint:
        """The same point with the TPOT of `whatif`, which does not include the prefill of other requests.

        - share: factor for the batch.
        """
        point = self.point
        point = replace(point, batch=max(1, round(share * point.batch)))
        s = self.candidate.scenario
        workload = Workload.of(float(point.batch), float(question.context), point.gamma)
        tpot_s = float(predict(s, workload, point.gamma).tpot_s)
        return replace(point, tpot_s=tpot_s, value=-tpot_s, most=-tpot_s)


def estimated(question: AdviseQuery, candidate: Candidate, drafts: bool) -> Served | None:
    """Predicts the servers of one candidate with the closed form. The result is None if no number of servers
    is sufficient, or if the best draft length of a candidate with a draft is 0.
    """
    if question.gpus is not None:
        return on_servers(question, candidate, drafts, candidate.layout.replicas)
    replicas = replicas_needed(question, candidate, drafts)
    if replicas is None:
        return None
    served = on_servers(question, candidate, drafts, replicas)
    if served is None or not served.queues or question.request_rate is None:
        return served
    more = replicas_without_queue(question, candidate, drafts, replicas)
    return on_servers(question, candidate, drafts, more)


def on_servers(
    question: AdviseQuery,
    candidate: Candidate,
    drafts: bool,
    replicas: int,
    replays: bool = False,
    seats: int | None = None,
) -> Served | None:
    """Predicts a given number of servers (`replicas`) under the load. The result is None if the best draft
    length of a candidate with a draft is 0.

    - replays: whether to use a replay if the closed form is not accurate.
    - seats: the largest number of requests that an attention group runs at once; None for the engine's
      default.
    """
    load = share_of_load(question, replicas)
    if seats is not None:
        load["max_num_seqs"] = seats
    asked = question_of(question, candidate, drafts, **load)
    found = compared(asked, replays=replays)
    candidate = _times(question, candidate, replicas)
    return _served(question, candidate, asked, found.by_load[0], found.verdict)


def replayed(question: AdviseQuery, estimate: Served, most_s: float = math.inf) -> Served | None:
    """Predicts the servers of an estimate again, with a replay if the closed form is not accurate. The result
    is None if the draft does not pay off, or if no number of servers is sufficient.

    - most_s: the longest time of a request that helps the caller. If the time is certainly longer, the result
      is only a lower bound (`_rough`), because this takes fewer replays.
    """
    candidate = estimate.candidate
    drafts = estimate.row.gamma != 0
    replicas: int | None = candidate.layout.replicas
    if question.gpus is None:
        replicas = servers_by_replays(question, candidate, drafts, candidate.layout.replicas)
    if replicas is None:
        return None
    replay = partial(on_servers, question, candidate, drafts, replicas, True)
    line = _seats_of_line(question, estimate)
    default = _default_seats(question, estimate)
    wanted = [line, *_fewer_seats(question, estimate), *_better_seats(question, estimate)]
    tried = dict.fromkeys(wanted if default is None else [*wanted, default])
    if len(tried) == 1 and most_s == math.inf:
        found = replay(line)
        return found if found is not None and found.pays else None
    rough = {seats: _rough(question, candidate, drafts, replicas, seats) for seats in tried}
    least = {seats: served for seats, served in rough.items() if served is not None}
    by_time = sorted(least, key=lambda seats: least[seats].request_s)
    if by_time and least[by_time[0]].request_s > most_s:
        return least[by_time[0]]
    compares = default is not None and {line, default} <= least.keys()
    if compares and least[default].request_s <= AS_SOON * least[line].request_s:
        by_time = [default, *by_time]
    replays = (replay(seats) for seats in by_time)
    return next((served for served in replays if served is not None and served.pays), None)


def _rough(
    question: AdviseQuery, candidate: Candidate, drafts: bool, replicas: int, seats: int | None
) -> Served | None:
    """The servers of `on_servers`, with the least times that a replay can find. The replays at lower loads,
    and those of the baseline, are left out.
    """
    closed = on_servers(question, candidate, drafts, replicas, seats=seats)
    if closed is None:
        return None
    (load,) = closed.asked.loop.values.tolist()
    row = OneServer.of(closed.asked, drafts).row(load, rough=True)
    return None if row is None else replace(closed, row=row)


def confirmed(question: AdviseQuery, served: Served, most_s: float = math.inf) -> Served | None:
    """The same servers, predicted again with a replay if the closed form is not accurate at this load. The
    result is None if they are saturated or exceed the limits.

    - most_s: as in `replayed`.
    """
    found: Served | None = served
    if served.row.doubts and served.row.made_by is not MadeBy.REPLAY:
        found = replayed(question, served, most_s)
    return found if found is not None and found.suffices else None


def _seats_of_line(question: AdviseQuery, estimate: Served) -> int | None:
    """The largest number of requests that an attention group runs at once in the printed command line, if
    memory limits it or the load is a request rate; otherwise None. With more seats, the server would preempt
    requests and compute their caches again. For clients with latency limits, the result is None too, because
    fewer seats would keep a limit on TPOT by a long wait for the first token.
    """
    asked = estimate.asked
    seats = max(1, estimate.seats // asked.dp)
    if not asked.max_concurrency:
        return seats
    if question.latency_limits_ms or not estimate.queues:
        return None
    return None if estimate.seats >= asked.limits.max_num_seqs else seats


def _fewer_seats(question: AdviseQuery, estimate: Served) -> Iterator[int]:
    """Smaller numbers of seats of an attention group that may be faster in an offline job, if the seats of
    the line fill the memory at the mean context (`_seats_of_line`). Requests that started together end
    together. Their caches exceed this mean before, so a full server preempts some of them.
    """
    seats = _seats_of_line(question, estimate)
    if seats is None or not question.fills or question.max_num_seqs is not None:
        return
    lengths = estimate.asked.lengths
    whole = lengths.context / (lengths.input_mean + lengths.output_mean)
    for share in BETWEEN:
        yield max(1, math.floor(seats * (whole + share * (1.0 - whole))))


def _default_seats(question: AdviseQuery, served: Served) -> int | None:
    """The engine's default number of seats of an attention group, if the servers have more seats and requests
    still wait for one; otherwise None. Steps of more sequences were hardly measured.
    """
    if question.max_num_seqs is not None or not served.asked.max_concurrency or not served.queues:
        return None
    default = replace(served.asked, max_num_seqs=None).group_seats
    return default if served.seats > served.asked.dp * default else None


def _better_seats(question: AdviseQuery, estimate: Served) -> Iterator[int]:
    """The number of seats of an attention group with which servers without a draft have a higher throughput,
    by the warning of `traffic`, if clients are served without latency limits.
    """
    asked = estimate.asked
    if estimate.row.gamma or question.max_num_seqs is not None or not asked.max_concurrency:
        return
    if question.latency_limits_ms:
        return
    steps = Priced.of(asked).replica.passes[0]
    better = better_seats(steps, asked.lengths, min(asked.most_at_once, estimate.seats))
    if better is not None:
        yield max(1, better // asked.dp)


def _times(question: AdviseQuery, candidate: Candidate, replicas: int) -> Candidate:
    """The candidate with the number of servers that a load needs; unchanged if the number of GPUs is
    given.
    """
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
    """The prediction for the draft length that the verdict recommends. If the verdict recommends no draft
    length of this candidate, the first one is used. The result is None if a candidate with a draft has no
    draft length above 0.
    """
    baseline, *drafted = rows
    wanted = [baseline] if asked.stated_lengths == (0,) else drafted
    if not wanted:
        return None
    advised = [row for row in wanted if row.gamma == verdict.gamma]
    row = (advised or wanted)[0]
    fitting = fitting_seats(question, candidate, int(row.gamma))
    at_once = asked.limits.max_num_seqs
    if asked.max_concurrency:
        at_once = _seats_for(max(asked.max_concurrency), asked.dp, candidate.layout.replicas)
        if question.max_num_seqs is not None:
            at_once = min(at_once, asked.dp * question.max_num_seqs)
    return Served(
        candidate=candidate,
        asked=asked,
        row=row,
        speedup=baseline.tpot_s.mean / row.tpot_s.mean,
        seats=max(1, min(fitting, at_once, asked.limits.max_num_seqs)),
        needed_gpus=None if row.replicas is None else row.replicas * candidate.layout.gpus,
        pays=bool(advised),
    )


def _seats_for(clients: int, groups: int, replicas: int) -> int:
    """The largest number of requests that one server runs at once for `clients` clients. If several servers
    or attention groups share all clients, each group can run more than its equal share, because a router
    divides the clients unevenly.
    """
    if groups * replicas == 1:
        return clients
    return groups * seats_of_group(clients, groups)
