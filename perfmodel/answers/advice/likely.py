"""The likely gain of drafts without a known acceptance, by the acceptance that is typical of their kind."""

from dataclasses import replace

from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.candidates import find_candidates, without_acceptance
from perfmodel.answers.advice.prices import price
from perfmodel.answers.advice.ranking import PricedPoint, best
from perfmodel.answers.question import Named
from perfmodel.answers.question.engine_support import ORDER
from perfmodel.answers.question.typical import TypicalGain, typical_acceptance
from perfmodel.drafts import make_draft
from perfmodel.drafts.base import Draft


def likely_gains(query: AdviseQuery, baseline: PricedPoint) -> tuple[TypicalGain, ...]:
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


def _likely_gain(query: AdviseQuery, baseline: PricedPoint, draft: Draft) -> TypicalGain | None:
    """The gains at both ends; None without published results, or if the engine does not run the draft."""
    typical = typical_acceptance(draft)
    if typical is None:
        return None
    low = _gain_at(query, baseline, draft, typical.low)
    high = _gain_at(query, baseline, draft, typical.high)
    if low is None or high is None:
        return None
    return TypicalGain.of(query.model, draft, typical, low, high)


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
    candidates = find_candidates(accepted, [baseline.layout])
    runnable = [c for c in candidates.drafted if query.may_choose(c.runs)]
    if not runnable:
        return None
    _, drafted = price(candidates.baselines, runnable, accepted)
    points = [best(priced, accepted) for priced in drafted]
    gains = [point.times(baseline, query) for point in points if point is not None]
    return max(1.0, *gains) if gains else None
