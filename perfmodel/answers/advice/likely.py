"""The likely gain of drafts whose acceptance is unknown. The gain is computed from the acceptance that is
typical of their kind in published results.
"""

from dataclasses import replace

from perfmodel.answers.advice.accepted_drafts import without_acceptance
from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.candidates import find_candidates
from perfmodel.answers.advice.margins import BreakEven
from perfmodel.answers.advice.prices import price
from perfmodel.answers.advice.ranking import PricedPoint, best_of
from perfmodel.answers.question import Named, known_head
from perfmodel.answers.question.engine_support import ORDER
from perfmodel.answers.question.typical import TypicalGain, typical_acceptance
from perfmodel.drafts import make_draft, names
from perfmodel.drafts.base import Draft
from perfmodel.kv import parse_kv

NO_WEIGHTS = "ngram"
"""The draft that every server can measure, because it has no weights and no cache."""

LIKELY_ALPHA = 0.85
"""Largest acceptance that a draft model may need to be named. Few published draft models accept more."""

JUST_ABOVE = 1.0 + 1e-9
"""A draft pays off with its break-even acceptance times this factor, whichever way numbers were rounded."""


def likely_gains(query: AdviseQuery, baseline: PricedPoint) -> tuple[TypicalGain, ...]:
    """The likely gain of each draft whose acceptance is unknown and that the engine runs. The layout is that
    of the best baseline. The drafts are in the order of `ORDER`.
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
    """The gains at both ends of the typical acceptance; None without published results, or if the engine
    does not run the draft.
    """
    typical = typical_acceptance(draft)
    if typical is None:
        return None
    low = _gain_at(query, baseline, draft, typical.low)
    high = _gain_at(query, baseline, draft, typical.high)
    if low is None or high is None:
        return None
    return TypicalGain.of(query.model, draft, typical, low, high)


def cautious_point(
    query: AdviseQuery, baseline: PricedPoint, likely: tuple[TypicalGain, ...]
) -> PricedPoint | None:
    """The best batch and draft length for `draft_to_measure`, if its acceptance is at the low end of the
    typical range. The result is None if there is no draft to measure.
    """
    sure = draft_to_measure(query, likely)
    if sure is None:
        return None
    return typical_point(query, baseline, sure.draft)


def typical_point(query: AdviseQuery, baseline: PricedPoint, name: str) -> PricedPoint | None:
    """The best batch and draft length for a draft whose acceptance is at the low end of the typical range.
    The result is None if no acceptance is typical of its kind, or if it cannot run or does not fit in memory.
    """
    named = Named.of(query)
    draft = make_draft(name, named.target, named.precision(query), 1, parse_kv("full"))
    typical = typical_acceptance(draft)
    return None if typical is None else _point_at(query, baseline, draft.name, typical.low)


def draft_to_measure(query: AdviseQuery, likely: tuple[TypicalGain, ...]) -> TypicalGain | None:
    """The first draft that a command line can start and that gains even with a low acceptance for its kind.
    The result is None if there is no such draft.
    """
    return next((gain for gain in likely if startable(query, gain) and gain.worth_measuring), None)


def startable(query: AdviseQuery, gain: TypicalGain) -> bool:
    """Whether a command line can start the draft (see `exists_for`)."""
    return exists_for(query, gain.draft)


def exists_for(query: AdviseQuery, kind: str) -> bool:
    """Whether weights of a kind of head are known for the target: in its checkpoint, at the path that the
    question gives, or as a published head.
    """
    if kind == "mtp" or query.draft_path is not None:
        return True
    named = Named.of(query)
    draft = make_draft(kind, named.target, named.precision(query), 1, parse_kv("full"))
    return known_head(query.model, draft) is not None


def small_model(query: AdviseQuery, would_pay: tuple[BreakEven, ...]) -> BreakEven | None:
    """The model of the target's maker that needs the least acceptance as a draft, if possible of the target's
    own series. The result is None if the question names its drafts, or if no such model pays off at a likely
    acceptance (`LIKELY_ALPHA`).
    """
    if query.draft is not None:
        return None
    models = [
        even
        for even in would_pay
        if even.draft not in (*names(), *ORDER) and even.smallest_alpha <= LIKELY_ALPHA
    ]
    series = Named.of(query).target.name.partition("-")[0]
    return min(models, key=lambda even: even.draft.partition("-")[0] != series, default=None)


def to_be_named(query: AdviseQuery, likely: tuple[TypicalGain, ...]) -> tuple[TypicalGain, ...]:
    """The typical gains to name: those of the first two kinds that exist for the target, or else that of the
    first kind, whose head can be trained.
    """
    existing = [gain for gain in likely if exists_for(query, gain.draft)]
    return tuple(existing[:2] or likely[:1])


def to_be_trained(query: AdviseQuery, kind: str) -> str:
    """A clause that says that a head must be trained first; empty if weights of its kind are known."""
    if exists_for(query, kind):
        return ""
    return f", which must be trained first or named with --draft-path: none is known for {query.model}"


def named_point(
    query: AdviseQuery, baseline: PricedPoint, would_pay: tuple[BreakEven, ...]
) -> PricedPoint | None:
    """The batch and draft length with which the acceptance of the draft of `named_to_measure` is measured. No
    typical acceptance is known for this draft, so they are those of its break-even acceptance. The result is
    None without such a draft.
    """
    even = named_to_measure(query, would_pay)
    return None if even is None else break_even_point(query, baseline, even)


def break_even_point(query: AdviseQuery, baseline: PricedPoint, even: BreakEven) -> PricedPoint | None:
    """The only batch and draft length with which a draft pays off from its break-even acceptance."""
    named = Named.of(query)
    precision = named.precision(query)
    for name, kv in without_acceptance(query):
        if make_draft(name, named.target, precision, 1, kv).name == even.draft:
            alpha = min(even.smallest_alpha * JUST_ABOVE, 1.0)
            return _point_at(query, baseline, name, (alpha,) * query.max_gamma)
    return None


def named_to_measure(query: AdviseQuery, would_pay: tuple[BreakEven, ...]) -> BreakEven | None:
    """The first draft in `would_pay` that is an n-gram draft or that the question names. The result is None
    if there is no such draft. The kinds in `ORDER` are left out, because their typical acceptance is known.
    """
    others = (
        even for even in would_pay if even.draft == NO_WEIGHTS or (query.draft and even.draft not in ORDER)
    )
    return next((even for even in others if even.draft_kv == "full"), None)


def _gain_at(
    query: AdviseQuery, baseline: PricedPoint, draft: Draft, rates: tuple[float, ...]
) -> float | None:
    """The best gain of a draft that accepts these rates by position; at least 1, because the server can
    run without a draft.
    """
    point = _point_at(query, baseline, draft.name, rates)
    return None if point is None else max(1.0, point.times(baseline, query))


def _point_at(
    query: AdviseQuery, baseline: PricedPoint, draft: str, rates: tuple[float, ...]
) -> PricedPoint | None:
    """The best point of a draft that accepts these rates by position; None if the draft cannot run or does
    not fit in memory.

    - draft: a name of the draft that the question accepts.
    """
    accepted = replace(
        query,
        rate={draft: "/".join(map(str, rates))},
        draft=None,
        draft_kv=None,
        acceptance=None,
    )
    candidates = find_candidates(accepted, [baseline.layout])
    drafted = price(candidates.baselines, candidates.runnable(query), accepted).drafted
    return best_of(drafted, accepted)
