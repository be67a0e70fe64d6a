"""Sorts the servers that serve a load: which of them an operator would run."""

from collections.abc import Sequence

from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.ranking import ALIKE
from perfmodel.answers.advice.served import Served


def order(served: Served, question: AdviseQuery) -> tuple[float, float]:
    """Sorts layouts: fewer GPUs first, then the earlier end of a request; for latency the TPOT alone."""
    if question.objective == "latency":
        return served.tpot_s, 0.0
    return float(served.candidate.layout.gpus), served.request_s


def simplest_of_best(served: Sequence[Served], question: AdviseQuery) -> Served | None:
    """The first by `order`; of layouts with as many GPUs and a time at most `ALIKE` longer, the simplest."""
    if not served:
        return None

    def time_s(of: Served) -> float:
        return of.tpot_s if question.objective == "latency" else of.request_s

    first = min(served, key=lambda s: order(s, question))
    gpus = first.candidate.layout.gpus
    as_many = [s for s in served if s.candidate.layout.gpus == gpus]
    close = [s for s in as_many if time_s(s) <= time_s(first) * (1.0 + ALIKE)]
    return min(close, key=lambda s: (s.candidate.layout.simplicity, time_s(s)))


def better(baseline: Served | None, rival: Served | None, question: AdviseQuery) -> Served | None:
    """The better of two; the baseline on a tie."""
    if baseline is None or rival is None:
        return baseline or rival
    return rival if order(rival, question) < order(baseline, question) else baseline
