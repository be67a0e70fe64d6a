"""Predicts the servers of each layout under a load, with each draft and without a draft."""

from collections.abc import Iterator
from dataclasses import dataclass

from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.candidates import Candidate, Candidates, Skip
from perfmodel.answers.advice.load_order import PATIENCE, minds_queues, near_tie, order, safest_of_best
from perfmodel.answers.advice.reach import at_load, load_of
from perfmodel.answers.advice.served import Served, estimated, replayed
from perfmodel.answers.advice.servers_needed import replicas_needed
from perfmodel.answers.load.closed_form_range import Doubt
from perfmodel.errors import InputError, as_names

MOST_OFF = 1.03
"""Times of the closed form may be up to this many times as long as those of a replay. This bound holds for
148 candidates for which the closed form is doubtful (five models, 0.2 to 12 requests/s). On crowded servers
the factor reaches 12, so these are always replayed.
"""
MOST_GPUS_OFF = 1.1
"""The closed form may need this many times as many GPUs as a replay, or find this many times the load too
large for a server.
"""
LEAST_SHARE = 0.6
"""If the closed form finds at least this share of requests within the limits, a replay may find enough of
them. Of the 148 candidates, those with enough requests within the limits in a replay have a share of at least
0.93 in the closed form.
"""
HOPELESS = 0.005
"""If even the best servers have less than this share of requests within the limits, they are not replayed,
because the answer prints 0 % in any case.
"""


@dataclass(frozen=True, slots=True)
class LoadSearch:
    """The candidates of a question, and the predictions for their servers."""

    question: AdviseQuery
    candidates: Candidates
    served: list[Served]

    @classmethod
    def of(cls, question: AdviseQuery, candidates: Candidates) -> "LoadSearch":
        """Predicts the servers of all candidates under the load."""
        alone = served_by_all(question, candidates, drafts=False)
        return cls(question, candidates, [*alone, *served_by_all(question, candidates, drafts=True)])

    @property
    def drafted(self) -> list[Candidate]:
        """The candidates whose draft may be recommended."""
        return self.candidates.runnable(self.question)

    @property
    def sufficient(self) -> list[Served]:
        """The servers that can serve the load within the limits. If the question does not state the number of
        GPUs, servers with a queue are left out, unless all have a queue.
        """
        sufficient = [s for s in self.served if s.suffices]
        if self.question.gpus is not None:
            return sufficient
        return [s for s in sufficient if not s.queues] or sufficient

    @property
    def baseline(self) -> Served | None:
        """The best servers without a draft."""
        return safest_of_best([s for s in self.sufficient if not s.row.gamma], self.question)

    @property
    def rival(self) -> Served | None:
        """The best servers with a draft."""
        return safest_of_best([s for s in self.sufficient if s.row.gamma], self.question)


def served_by_all(question: AdviseQuery, candidates: Candidates, drafts: bool) -> list[Served]:
    """The predictions for the servers of each candidate. Candidates that may be the best are predicted with a
    replay if the closed form is not accurate. All others are predicted with the closed form.

    - drafts: whether to predict the candidates with a draft or those without.
    """
    estimates = list(_estimates(question, candidates, drafts))
    by_worth = sorted(range(len(estimates)), key=lambda at: order(estimates[at], question))
    served: dict[int, Served | None] = {}
    sufficient: list[Served] = []
    for at in by_worth:
        estimate = estimates[at]
        if not may_suffice(estimate) or any(_is_beaten(estimate, s, question) for s in sufficient):
            served[at] = estimate if estimate.pays else None
            continue
        served[at] = found = replayed(question, estimate)
        if found is not None and found.suffices and not (question.gpus is None and found.queues):
            sufficient.append(found)
    if estimates and not sufficient:
        nearest = max(range(len(estimates)), key=lambda at: estimates[at].row.slo_share or 0.0)
        if _is_worth_a_replay(estimates[nearest]):
            served[nearest] = replayed(question, estimates[nearest])
    return [found for _, found in sorted(served.items()) if found is not None]


def _is_worth_a_replay(estimate: Served) -> bool:
    """Whether the best servers are replayed although they cannot be sufficient, so that the answer prints the
    share of a replay. Servers that may be sufficient were replayed already.
    """
    share = estimate.row.slo_share
    hopeless = share is not None and share < HOPELESS
    return not hopeless and not may_suffice(estimate)


def _estimates(question: AdviseQuery, candidates: Candidates, drafts: bool) -> Iterator[Served]:
    """The prediction for each candidate with the closed form. Candidates that `traffic` refuses are added to
    the skips.
    """
    for candidate in candidates.runnable(question) if drafts else candidates.baselines:
        try:
            estimate = estimated(question, candidate, drafts)
        except InputError as error:
            skip = Skip(candidate.layout.label(), "any", as_names(error.as_flags))
            candidates.skips.append(skip)
            continue
        if estimate is not None:
            yield estimate


def may_suffice(estimate: Served) -> bool:
    """Whether a replay may find that the servers can serve the load within the limits.

    - estimate: their prediction with the closed form.
    """
    share = estimate.row.slo_share
    return estimate.row.ttft_s is not None and (share is None or share >= LEAST_SHARE)


def may_take(estimate: Served, most_s: float) -> bool:
    """Whether a replay may find that a request takes at most `most_s` seconds. The bound on the error of the
    closed form does not hold for crowded servers and for servers with a queue.

    - estimate: the prediction with the closed form.
    """
    doubts = estimate.row.doubts
    if estimate.queues or Doubt.CROWDED in doubts:
        return True
    return estimate.request_s <= (MOST_OFF if doubts else 1.0) * most_s


def _is_beaten(estimate: Served, served: Served, question: AdviseQuery) -> bool:
    """Whether another candidate is certainly better, even if the closed form has its largest error. A simpler
    layout, a layout with more room below the limits, or one without a queue may take longer
    (`safest_of_best`).

    - estimate: the prediction for the candidate with the closed form.
    - served: the answer of `traffic` for the other candidate.
    """
    layout, other = estimate.candidate.layout, served.candidate.layout
    by_tpot = question.objective == "latency"
    if not by_tpot:
        least_gpus = _least_gpus(estimate, question)
        if least_gpus < other.gpus or least_gpus == other.gpus < layout.gpus:
            return False
        if layout.gpus > MOST_GPUS_OFF * other.gpus:
            return True
    if Doubt.CROWDED in estimate.row.doubts:
        return False
    off = MOST_OFF if estimate.row.doubts else 1.0
    if layout.simplicity < other.simplicity or (not by_tpot and question.latency_limits_ms):
        off *= 1.0 + near_tie(question)
    if served.queues and not estimate.queues and minds_queues(question):
        off *= PATIENCE
    if by_tpot:
        return estimate.tpot_s > off * served.tpot_s
    return layout.gpus >= other.gpus and estimate.request_s > off * served.request_s


def _least_gpus(estimate: Served, question: AdviseQuery) -> int:
    """The number of GPUs that the load needs at least, even if the closed form has its largest error."""
    layout = estimate.candidate.layout
    if question.gpus is not None or layout.replicas == 1:
        return layout.gpus
    less = at_load(question, load_of(question) / MOST_GPUS_OFF)
    replicas = replicas_needed(less, estimate.candidate, estimate.row.gamma != 0)
    return layout.gpus if replicas is None else min(layout.gpus, layout.times(replicas).gpus)
