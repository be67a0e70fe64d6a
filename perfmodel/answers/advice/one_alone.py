"""Predicts one request alone on a server, to explain latency limits that no servers can meet."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.candidates import Candidates
from perfmodel.answers.advice.limits_used import limits_used
from perfmodel.answers.advice.served import Served, on_servers
from perfmodel.answers.text import seconds
from perfmodel.errors import InputError


@dataclass(frozen=True, slots=True)
class OneAlone:
    """The prediction for one request alone.

    - served: the prediction for the servers.
    - limit: the latency limit that the request exceeds most, such as ``ttft``.
    """

    served: Served
    limit: str

    @property
    def text(self) -> str:
        """The result in words, such as ``one request alone exceeds the limit on TTFT: 5.0 s on TP 2``."""
        time_s = self.served.row.by_limit[self.limit]
        assert time_s is not None
        where = self.served.candidate.layout.label()
        limit = self.limit.upper()
        return f"one request alone exceeds the limit on {limit}: {seconds(time_s.p90)} on {where}"


def one_alone(question: AdviseQuery, candidates: Candidates) -> OneAlone | None:
    """The servers on which one request alone exceeds the limits least. The result is None if the request
    meets the limits on some servers, or if it does not fit in memory on any servers.
    """
    found = [served for served in _served(question, candidates) if served.row.ttft_s is not None]
    if not found or not question.latency_limits_ms:
        return None
    used = [limits_used(question, served.row) for served in found]
    best = min(range(len(found)), key=lambda at: max(used[at].values()))
    limit = max(used[best], key=lambda name: used[best][name])
    return OneAlone(found[best], limit) if used[best][limit] > 1.0 else None


def _served(question: AdviseQuery, candidates: Candidates) -> Iterator[Served]:
    """The prediction for one request on each server of each candidate, with the closed form."""
    drafted = [candidate for candidate in candidates.drafted if question.may_choose(candidate.runs)]
    for drafts, wanted in ((False, candidates.baselines), (True, drafted)):
        for candidate in wanted:
            replicas = candidate.layout.replicas
            alone = replace(question, request_rate=None, clients=replicas)
            try:
                served = on_servers(alone, candidate, drafts, replicas)
            except InputError:
                continue
            if served is not None:
                yield served
