"""The choice of `advise` under a load."""

from dataclasses import dataclass

from perfmodel.answers.advice.accepted_drafts import without_acceptance
from perfmodel.answers.advice.advice import ON, AdviseVerdict
from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.likely import cautious_point, likely_gains
from perfmodel.answers.advice.load_order import better, order
from perfmodel.answers.advice.load_search import LoadSearch
from perfmodel.answers.advice.margins import worth_the_risk
from perfmodel.answers.advice.one_request import at_batch
from perfmodel.answers.advice.one_server import point_speedup, point_verdict
from perfmodel.answers.advice.ranking import PricedPoint
from perfmodel.answers.advice.served import Served
from perfmodel.answers.question.typical import TypicalGain

MOST_TIMES_THE_GPUS = 2
"""An answer lists layouts with at most this many times the GPUs of the choice."""
SHARES_OF_BATCH = (1.0, 0.75, 0.5, 0.25)
"""Shares of the mean batch at which typical drafts are tried. In a question without a load, requests share no
prefix, so fewer of them fit.
"""


@dataclass(frozen=True, slots=True)
class LoadDecision:
    """The choice, and the servers with which it was compared.

    - chosen: the best servers, or the best servers without a draft if the gain of the best draft is doubtful.
      The field is None if no servers can serve the load.
    - option: the servers with the doubtful draft.
    - baseline, rival: the best servers without a draft and with a draft.
    - others: the other servers that can serve the load, the best first.
    - none_runs: whether the acceptance of a draft is known, but the engine runs no such draft.
    - likely, to_measure: the typical gains at the mean batch, and the point with the draft to measure. Both
      are only given if no acceptance is known.
    """

    chosen: Served | None
    option: Served | None
    baseline: Served | None
    rival: Served | None
    others: list[Served]
    verdict: AdviseVerdict
    none_runs: bool = False
    likely: tuple[TypicalGain, ...] = ()
    to_measure: PricedPoint | None = None

    @property
    def without_draft(self) -> Served | None:
        """The best servers without a draft if the choice has a draft whose gain is too close to call,
        otherwise None.
        """
        drafts = self.chosen is not None and self.chosen.row.gamma
        return self.baseline if drafts and self.verdict == "too_close_to_call" else None

    @property
    def layouts(self) -> list[Served]:
        """The best servers in each layout. The choice comes first. Layouts that need many more GPUs are left
        out.
        """
        if self.chosen is None:
            return []
        most = MOST_TIMES_THE_GPUS * self.chosen.candidate.layout.gpus
        layouts: dict[str, Served] = {}
        for served in [self.chosen, *(s for s in self.others if s.candidate.layout.gpus <= most)]:
            layouts.setdefault(served.candidate.layout.label(), served)
        return list(layouts.values())


def decide_under_load(search: LoadSearch) -> LoadDecision:
    """Chooses among the servers that can serve the load within the limits."""
    question = search.question
    baseline, rival = search.baseline, search.rival
    chosen = better(baseline, rival, question)
    verdict = _verdict(search, chosen)
    option = None
    if chosen and baseline and verdict == "too_close_to_call" and not _worth_the_risk(question, chosen):
        option = chosen
        chosen = baseline
    weighed = [s for s in search.sufficient if s is not chosen and (option is None or not s.row.gamma)]
    others = sorted(weighed, key=lambda s: order(s, question))
    none_runs = bool(search.candidates.drafted) and not search.drafted
    likely: tuple[TypicalGain, ...] = ()
    to_measure = None
    if chosen is not None and verdict == "unknown_acceptance":
        likely, to_measure = _to_measure(question, chosen)
    return LoadDecision(chosen, option, baseline, rival, others, verdict, none_runs, likely, to_measure)


def _verdict(search: LoadSearch, chosen: Served | None) -> AdviseVerdict:
    """The verdict of `traffic` for the choice, limited by the verdict of `whatif` at its mean batch."""
    if chosen is None:
        return "infeasible"
    if chosen.row.gamma:
        at_its_batch = point_verdict(search.question, chosen.at_its_batch(search.question))
        return ON.get(at_its_batch, "too_close_to_call")
    if not search.drafted and without_acceptance(search.question):
        return "unknown_acceptance"
    return "do_not_speculate"


def _to_measure(question: AdviseQuery, chosen: Served) -> tuple[tuple[TypicalGain, ...], PricedPoint | None]:
    """The typical gains of drafts at the mean batch, and the point with the draft to measure. For clients,
    the gains are those of the whole load. If a draft does not fit at this batch because the requests share a
    prefix, a smaller batch is taken.
    """
    for share in SHARES_OF_BATCH if question.prefix_len else SHARES_OF_BATCH[:1]:
        point = chosen.at_its_batch(question, share)
        alone = at_batch(question, point.batch)
        if gains := likely_gains(alone, point):
            share_shortened = _decode_share(question, chosen)
            likely = tuple(gain.within(share_shortened) for gain in gains)
            return likely, cautious_point(alone, point, likely)
    return (), None


def _decode_share(question: AdviseQuery, chosen: Served) -> float:
    """The part of the time of a token that a draft can shorten. For clients, this is decoding alone, because
    faster clients send more prompts. For a request rate, it is the whole time, because the rate of prompts
    and so their share of the time stay the same.
    """
    if question.clients is None:
        return 1.0
    return min(1.0, chosen.at_its_batch(question).tpot_s / chosen.tpot_s)


def _worth_the_risk(question: AdviseQuery, chosen: Served) -> bool:
    """Whether to recommend a draft although its gain in `whatif` at its mean batch is too close to call. In
    an offline job, nobody waits for an answer, so the simpler server is preferred unless the gain is sure.
    """
    if question.fills:
        return False
    speedup, interval = point_speedup(question, chosen.at_its_batch(question))
    return interval is None or worth_the_risk(speedup, interval)
