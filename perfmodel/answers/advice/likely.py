"""The likely gain of drafts without a known acceptance, by the acceptance that is typical of their kind."""

from dataclasses import dataclass, replace

from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.candidates import find_candidates, without_acceptance
from perfmodel.answers.advice.prices import price
from perfmodel.answers.advice.ranking import PricedPoint, best
from perfmodel.answers.question import Named
from perfmodel.answers.question.engine_support import ORDER
from perfmodel.answers.question.typical import how_to_measure, typical_acceptance
from perfmodel.drafts import make_draft
from perfmodel.drafts.base import Draft


@dataclass(frozen=True, slots=True)
class LikelyGain:
    """Gains over the best baseline if a draft accepts as little, or as much, as published drafts of its kind.

    first_rates: acceptance of the first token at both ends. measure: the command for the draft's own
    acceptance.
    """

    draft: str
    gains: tuple[float, float]
    first_rates: tuple[float, float]
    measure: str

    @property
    def text(self) -> str:
        """``1.3x to 2.2x with a typical eagle3 draft (first token accepted at 0.62 to 0.83)``."""
        low, high = self.gains
        first_low, first_high = self.first_rates
        accepted = f"first token accepted at {first_low:.2f} to {first_high:.2f}"
        return f"{low:.1f}x to {high:.1f}x with a typical {self.draft} draft ({accepted})"


def likely_gains(query: AdviseQuery, baseline: PricedPoint) -> tuple[LikelyGain, ...]:
    """The likely gain of each draft without a known acceptance that the engine runs, on the devices of the
    best baseline. The preferred kinds come first.
    """
    named = Named.of(query)
    precision = named.precision(query)
    gains = []
    for name, kv in without_acceptance(query):
        if name not in ORDER:
            continue
        draft = make_draft(name, named.target, precision, 1, kv)
        if (gain := _likely_gain(query, baseline, draft)) is not None:
            gains.append(gain)
    return tuple(sorted(gains, key=lambda gain: ORDER.index(gain.draft)))


def _likely_gain(query: AdviseQuery, baseline: PricedPoint, draft: Draft) -> LikelyGain | None:
    """The gains at both ends; None without published results, or if the engine does not run the draft."""
    typical = typical_acceptance(draft)
    if typical is None:
        return None
    low = _gain_at(query, baseline, draft, typical.low)
    high = _gain_at(query, baseline, draft, typical.high)
    if low is None or high is None:
        return None
    first_rates = (typical.low[0], typical.high[0])
    return LikelyGain(draft.name, (low, high), first_rates, how_to_measure(query.model, draft))


def _gain_at(
    query: AdviseQuery, baseline: PricedPoint, draft: Draft, rates: tuple[float, ...]
) -> float | None:
    """The best gain of a draft that accepts these rates by position; at least 1, that of no draft."""
    accepted = replace(
        query,
        rate={draft.name: "/".join(map(str, rates))},
        draft=None,
        draft_kv=None,
        acceptance=None,
    )
    found = find_candidates(accepted, [baseline.layout])
    runnable = [c for c in found.drafted if query.may_choose(c.runs)]
    if not runnable:
        return None
    _, drafted = price(found.baselines, runnable, accepted)
    points = [best(priced, accepted) for priced in drafted]
    gains = [point.times(baseline, query) for point in points if point is not None]
    return max(1.0, *gains) if gains else None
