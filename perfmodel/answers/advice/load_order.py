"""Sorts the servers that serve a load by which of them an operator would run."""

from collections.abc import Sequence

from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.limits_used import limits_used
from perfmodel.answers.advice.ranking import ALIKE
from perfmodel.answers.advice.served import Served
from perfmodel.speculation.length_to_run import most_given_up

NEAR_TIE = 0.05
"""Servers with more room under the limits are preferred if a request takes longer on them by at most this
share. It is less than half of the mean error of a step (an assumption).
"""
EASY = 0.7
"""Below this used share of a limit, at the 90th percentile, more room is of no use (an assumption)."""


def order(served: Served, question: AdviseQuery) -> tuple[float, float]:
    """Sorts layouts: fewer GPUs first, then the earlier end of a request; for latency the TPOT alone."""
    if question.objective == "latency":
        return served.tpot_s, 0.0
    return float(served.candidate.layout.gpus), served.request_s


def safest_of_best(served: Sequence[Served], question: AdviseQuery) -> Served | None:
    """The first layout by `order`. Among near ties with the same number of GPUs, the one with the most
    room under the latency limits, of these one whose requests wait for no seat, and of these the simplest.
    """
    if not served:
        return None
    first = min(served, key=lambda s: order(s, question))
    gpus = first.candidate.layout.gpus
    as_many = [s for s in served if s.candidate.layout.gpus == gpus]
    close = _within(as_many, near_tie(question), question)
    least = min(used(s, question) for s in close)
    alike = _within([s for s in close if used(s, question) == least], ALIKE, question)
    return min(alike, key=lambda s: (s.queues, s.candidate.layout.simplicity, time_s(s, question)))


def _within(served: Sequence[Served], share: float, question: AdviseQuery) -> list[Served]:
    """The layouts whose time is longer than the shortest by at most a share. The shortest time is taken
    without the share that its server may have lost with a shorter draft than the fastest (`given_up`).
    """
    most_s = min(time_s(s, question) / (1.0 + given_up(s)) for s in served) * (1.0 + share)
    return [s for s in served if time_s(s, question) <= most_s]


def time_s(served: Served, question: AdviseQuery) -> float:
    """The time by which servers on the same number of GPUs are compared."""
    return served.tpot_s if question.objective == "latency" else served.request_s


def given_up(served: Served) -> float:
    """The share by which a server may be slower because it runs a shorter draft than the fastest."""
    context = served.asked.lengths.context
    return most_given_up(served.candidate.scenario, context) if served.row.gamma else 0.0


def near_tie(question: AdviseQuery) -> float:
    """The share by which a time may be longer in a near tie."""
    return NEAR_TIE if _weighs_limits(question) else ALIKE


def used(served: Served, question: AdviseQuery) -> tuple[float, float]:
    """The share of requests beyond the limits in percent, and the largest used share of a limit in tenths;
    smaller numbers mean more room. Used shares below `EASY` count as equal.
    """
    if not _weighs_limits(question):
        return 0.0, 0.0
    missed = round(100.0 * (1.0 - (served.row.slo_share or 0.0)))
    return missed, round(10.0 * max(EASY, *limits_used(question, served.row).values()))


def _weighs_limits(question: AdviseQuery) -> bool:
    return question.objective != "latency" and bool(question.latency_limits_ms)


def better(baseline: Served | None, rival: Served | None, question: AdviseQuery) -> Served | None:
    """The better of the best draft and the baseline; the baseline on a tie."""
    if baseline is None or rival is None:
        return baseline or rival
    return rival if order(rival, question) < order(baseline, question) else baseline
