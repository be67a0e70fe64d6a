"""The choice of `advise` without a load. The choice is the best point, which is a layout with draft, batch
and draft length. If the gain of the best draft is doubtful, the choice is the best baseline.
"""

from dataclasses import dataclass, replace

from perfmodel.answers.advice.advice import ON, AdviseVerdict
from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.likely import cautious_point, likely_gains, named_point
from perfmodel.answers.advice.margins import BreakEven, Robustness, break_evens, robustness_of, surest_draft
from perfmodel.answers.advice.one_server import point_verdict
from perfmodel.answers.advice.ranking import PricedPoint
from perfmodel.answers.advice.search import Search
from perfmodel.answers.question.typical import TypicalGain
from perfmodel.speculation import is_measured


@dataclass(frozen=True, slots=True)
class Decision:
    """The choice and the points that explain it.

    - chosen: the best point, or the best baseline if the gain of the best draft is doubtful.
    - option: the point with this draft, if the baseline was chosen instead.
    - baseline: the best point without a draft.
    - rival: the best point with a draft.
    - to_measure: the point with the draft to measure, if no acceptance is known.
    - weighed: the points from which the choice was selected.
    """

    chosen: PricedPoint
    option: PricedPoint | None
    baseline: PricedPoint | None
    rival: PricedPoint | None
    to_measure: PricedPoint | None
    verdict: AdviseVerdict
    robustness: Robustness
    would_pay: tuple[BreakEven, ...]
    likely: tuple[TypicalGain, ...]
    weighed: list[PricedPoint]

    @property
    def without_draft(self) -> PricedPoint | None:
        """The best baseline if the choice has a draft whose gain is too close to call, otherwise None."""
        return self.baseline if self.chosen.gamma and self.verdict == "too_close_to_call" else None

    @property
    def others(self) -> list[PricedPoint]:
        """The other points of `weighed` that are not better than the choice, in the order of `weighed`."""
        chosen = self.chosen
        return [p for p in self.weighed if p is not chosen and p.value <= chosen.value]


def decide(search: Search, chosen: PricedPoint) -> Decision:
    """Decides between the best point and the best baseline.

    - chosen: the best point. The gain of its draft may be doubtful.
    """
    query = search.query
    baseline = search.best_baseline
    rival = search.rival
    would_pay = break_evens(query, chosen) if rival is None else ()
    likely = likely_gains(query, chosen) if would_pay else ()
    robustness = robustness_of(query, chosen, baseline, search.baseline, search.searched)
    verdict = _verdict(query, chosen, rival, robustness, would_pay)
    option = None
    weighed = search.allowed
    if baseline is not None and _doubtful(chosen, verdict, robustness):
        option = chosen
        chosen = baseline
        weighed = [p for p in weighed if not p.gamma]
    to_measure = None
    if option is None:
        to_measure = cautious_point(query, chosen, likely) or named_point(query, chosen, would_pay)
    decision = Decision(
        chosen=chosen,
        option=option,
        baseline=baseline,
        rival=rival,
        to_measure=to_measure,
        verdict=verdict,
        robustness=robustness,
        would_pay=would_pay,
        likely=likely,
        weighed=weighed,
    )
    return replace(decision, robustness=robustness.over(chosen, decision.others, query))


def quick_choice(search: Search) -> PricedPoint | None:
    """The point that `decide` would choose. The other fields of a decision are not computed. The result is
    None if no point meets the bounds.
    """
    query, baseline, chosen = search.query, search.best_baseline, search.best
    if chosen is None or not chosen.gamma or baseline is None:
        return chosen
    robustness = robustness_of(query, chosen, baseline, search.baseline, search.searched)
    verdict = _verdict(query, chosen, search.rival, robustness, ())
    return baseline if _doubtful(chosen, verdict, robustness) else chosen


def _doubtful(chosen: PricedPoint, verdict: AdviseVerdict, robustness: Robustness) -> bool:
    """Whether the best point has a draft whose gain is too close to call and not worth its risk."""
    return bool(chosen.gamma) and verdict == "too_close_to_call" and not robustness.worth_the_risk


def _verdict(
    query: AdviseQuery,
    chosen: PricedPoint,
    rival: PricedPoint | None,
    robustness: Robustness,
    would_pay: tuple[BreakEven, ...],
) -> AdviseVerdict:
    """The verdict of the choice.

    - rival: the best point with a draft.

    A draft must pay off at its own batch, as in `whatif`, and must beat the best baseline. If no draft has a
    known acceptance, and none pays off with any, the verdict is that of the acceptance 1, as in `whatif`.
    """
    if would_pay:
        return "unknown_acceptance"
    if rival is None:
        rival = surest_draft(query, chosen)
    if rival is None:
        return "do_not_speculate"
    at_its_batch = point_verdict(query, rival)
    if at_its_batch == "too_close_to_call":
        return "too_close_to_call"
    if not chosen.gamma:
        measured = is_measured(rival.candidate.scenario)
        return "do_not_speculate" if measured else "likely_do_not_speculate"
    interval = robustness.gain_over_baseline_interval
    if interval is None or interval[0] > 1:
        return ON.get(at_its_batch, "too_close_to_call")
    return "too_close_to_call"
