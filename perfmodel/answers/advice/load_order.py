"""The order in which an operator would prefer servers that can serve a load."""

from collections.abc import Sequence

from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.limits_used import limits_used
from perfmodel.answers.advice.ranking import ALIKE
from perfmodel.answers.advice.served import Served
from perfmodel.speculation.length_to_run import NEAR, most_given_up

NEAR_TIE = 0.05
"""Servers whose latencies are farther below the limits are preferred, if a request takes longer on them by at
most this share. The value is an assumption. It is less than half of the mean error of a step.
"""
PATIENCE = 1.15
"""Servers with a seat for every request are preferred to servers with a queue, if a request takes at most
this many times as long on them. A queue adds its wait to every TTFT. The value is an assumption, about the
mean error of a step.
"""
EASY = 0.7
"""A 90th percentile below this share of its limit counts as equal to this share. The value is an
assumption.
"""


def order(served: Served, question: AdviseQuery) -> tuple[float, float]:
    """A sort key for servers. The smallest number of GPUs comes first, and for equal numbers the shortest
    mean time of a request. If the objective is latency, the lowest TPOT comes first.
    """
    if question.objective == "latency":
        return served.tpot_s, 0.0
    return float(served.candidate.layout.gpus), served.request_s


def safest_of_best(served: Sequence[Served], question: AdviseQuery) -> Served | None:
    """The first servers by `order`, or safer servers on the same number of GPUs that are nearly as fast.
    Among nearly equal servers, the first criterion is the distance of the latencies from the limits. The
    second is that no request waits for others to finish. The third is simplicity. If no limit includes the
    TTFT, servers on which no request waits are preferred to servers that are up to `PATIENCE` times as fast.
    """
    if not served:
        return None
    first = min(served, key=lambda s: order(s, question))
    gpus = first.candidate.layout.gpus
    as_many = [s for s in served if s.candidate.layout.gpus == gpus]
    if minds_queues(question):
        least_s = min(time_s(s, question) for s in as_many)
        seated = [s for s in as_many if not s.queues]
        as_many = [s for s in seated if time_s(s, question) <= PATIENCE * least_s] or as_many
    close = _within(as_many, near_tie(question), question)
    least = min(used(s, question) for s in close)
    alike = _within([s for s in close if used(s, question) == least], ALIKE, question)
    return min(alike, key=lambda s: (s.queues, s.candidate.layout.simplicity, time_s(s, question)))


def minds_queues(question: AdviseQuery) -> bool:
    """Whether the wait for a seat counts although no latency limit includes it."""
    return question.objective != "latency" and not {"ttft", "e2e"} & question.latency_limits_ms.keys()


def _within(served: Sequence[Served], share: float, question: AdviseQuery) -> list[Served]:
    """The servers whose time is longer than the shortest time by at most the share `share`. The shortest time
    does not include the part that its server may have lost with a shorter draft than the fastest one
    (`given_up`).
    """
    least_s = min(time_s(s, question) / (1.0 + given_up(s)) for s in served)
    most_s = max(least_s * (1.0 + share), min(time_s(s, question) for s in served))
    return [s for s in served if time_s(s, question) <= most_s]


def time_s(served: Served, question: AdviseQuery) -> float:
    """The time by which servers on the same number of GPUs are compared: the TPOT if the objective is
    latency, and the time of a request otherwise.
    """
    return served.tpot_s if question.objective == "latency" else served.request_s


def decoding_share(served: Served, question: AdviseQuery) -> float:
    """The share of the compared time (`time_s`) in which servers decode. The rest is prefill."""
    share = min(1.0, served.at_its_batch(question).tpot_s / served.tpot_s)
    if question.objective == "latency" or served.queues:
        return share
    return share * (1.0 - served.ttft_s / served.request_s)


def given_up(served: Served) -> float:
    """The largest share of its speed that a server may have lost because its draft is shorter than the
    fastest one. In a comparison of layouts, at most the share `NEAR` counts.
    """
    if not served.row.gamma:
        return 0.0
    return min(most_given_up(served.candidate.scenario, served.asked.lengths.context), NEAR)


def near_tie(question: AdviseQuery) -> float:
    """The share by which a time may be longer than another time and still count as equal."""
    return NEAR_TIE if _weighs_limits(question) else ALIKE


def used(served: Served, question: AdviseQuery) -> tuple[float, float]:
    """A sort key for servers by the used part of their latency limits. Smaller numbers leave more room. The
    first number is the percentage of requests that exceed a limit. The second is the largest ratio of a 90th
    percentile to its limit, in tenths. Ratios below `EASY` count as equal.
    """
    if not _weighs_limits(question):
        return 0.0, 0.0
    missed = round(100.0 * (1.0 - (served.row.slo_share or 0.0)))
    return missed, round(10.0 * max(EASY, *limits_used(question, served.row).values()))


def _weighs_limits(question: AdviseQuery) -> bool:
    return question.objective != "latency" and bool(question.latency_limits_ms)


def better(baseline: Served | None, rival: Served | None, question: AdviseQuery) -> Served | None:
    """Chooses between the best servers with a draft (`rival`) and without a draft (`baseline`). If both have
    the same number of GPUs, the baseline may be slower by the share `ALIKE` and is still chosen. Servers
    without a draft are simpler and have more memory for the cache.
    """
    if baseline is None or rival is None:
        return baseline or rival
    as_many = rival.candidate.layout.gpus == baseline.candidate.layout.gpus
    if as_many and time_s(baseline, question) <= (1.0 + ALIKE) * time_s(rival, question):
        return baseline
    return rival if order(rival, question) < order(baseline, question) else baseline
