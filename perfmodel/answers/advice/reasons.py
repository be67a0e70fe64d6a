"""The reason of an answer of `advise` without a load, in words."""

from collections.abc import Iterator

from perfmodel.answers.advice.accepted_drafts import left_out_by_rates, without_acceptance
from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.decision import Decision
from perfmodel.answers.advice.likely import exists_for, small_model, to_be_named, to_be_trained
from perfmodel.answers.advice.margins import BreakEven
from perfmodel.answers.advice.one_server import point_speedup
from perfmodel.answers.advice.prices import Priced, room
from perfmodel.answers.advice.ranking import PricedPoint
from perfmodel.answers.advice.switch_to_measure import SwitchToMeasure
from perfmodel.answers.point.reason import reason
from perfmodel.answers.question.engine_support import ORDER
from perfmodel.answers.question.typical import TypicalGain
from perfmodel.drafts import LOOKUPS
from perfmodel.speculation import Workload, predict

SEEN = 1.05
"""A smaller speedup would be printed as 1.0x."""


def reason_of(
    query: AdviseQuery,
    decision: Decision,
    drafted: list[Priced],
    to_measure: SwitchToMeasure | None = None,
) -> str:
    """The reason as a part of a sentence.

    - drafted: the candidates with a draft.
    - to_measure: an engine flag with which a draft likely gains.
    """
    chosen, rival = decision.chosen, decision.rival
    would_pay, likely = decision.would_pay, decision.likely
    gain = decision.robustness.gain_over_baseline_interval
    stops = f"batch {chosen.batch}: {_why_no_larger_batch(query, chosen)}"
    if chosen.gamma:
        return f"{_why(chosen, query)}; {stops}{_of_its_batch(query, chosen, gain)}"
    if rival is None and not would_pay and drafted:
        return f"{_why_no_draft(query, drafted)}; {stops}"
    if rival is None and not would_pay and not without_acceptance(query):
        return f"no draft runs here; {stops}"
    if rival is None:
        typical = likely_text(query, likely) + _at_larger_batches(query, likely)
        typical += "" if to_measure is None else f"; {to_measure.text}"
        unknown = _why_no_draft(query, drafted) if drafted else f"no acceptance is known for {query.model}"
        return f"{unknown}{typical}{_would_pay(query, would_pay)}; {stops}"
    why = _why(rival, query)
    draft = rival.candidate.scenario.draft
    share = rival.times(chosen, query)
    best = f"{draft.name}, {draft.kv.label()}, gamma {rival.gamma}, batch {rival.batch}"
    others = others_to_compare(query)
    return f"the best draft ({best}) reaches {share:.2f} times the baseline{others}: {why}; {stops}"


def _of_its_batch(query: AdviseQuery, chosen: PricedPoint, gain: tuple[float, float] | None) -> str:
    """The speedup over the baseline of the same batch, if only this speedup makes the choice too close to
    call.
    """
    speedup, interval = point_speedup(query, chosen)
    if gain is None or interval is None or gain[0] <= 1.0 or interval[0] > 1.0:
        return ""
    low, high = interval
    return f"; {speedup:.2f} times the baseline of the same batch ({low:.2f} to {high:.2f})"


def _why_no_draft(query: AdviseQuery, drafted: list[Priced]) -> str:
    """The reason why no draft with a known acceptance may be chosen."""
    searched = [x for x in drafted if query.may_choose(x.candidate.runs)]
    if not searched:
        return no_draft_runs(query)
    if not any(x.fits.any() for x in searched):
        return "no draft with a known acceptance fits in memory"
    return "no draft with a known acceptance meets the bound on time per token"


def no_draft_runs(query: AdviseQuery) -> str:
    """The reason why drafts are not compared although the acceptance of some is known."""
    if not query.chain_rates:
        return "the engine runs no draft with a known acceptance"
    return f"the engine runs no draft of --rate{others_to_compare(query)}"


def others_to_compare(query: AdviseQuery) -> str:
    """A clause with the drafts that the rates of the question exclude from the search although their
    acceptance is published. The clause is empty if there are none.
    """
    names = left_out_by_rates(query)
    if not names:
        return ""
    flags = " ".join(f"--draft {name}" for name in names)
    return f" ({flags} adds {' and '.join(names)}, with published acceptance)"


def likely_text(query: AdviseQuery, likely: tuple[TypicalGain, ...]) -> str:
    """The likely gains of the drafts of `to_be_named`, in words; empty without drafts."""
    if not likely:
        return ""
    named = [gain for gain in to_be_named(query, likely) if gain.speedups[1] >= SEEN]
    gains = [f"{gain.text}{to_be_trained(query, gain.draft)}" for gain in named]
    if not gains:
        return ", and no draft is likely to gain with a typical acceptance"
    return f": likely {' or '.join(gains)}; measure the acceptance to decide"


def _at_larger_batches(query: AdviseQuery, likely: tuple[TypicalGain, ...]) -> str:
    """A remark that the gain compares tokens per second within the bound on TPOT. Within this bound, a draft
    allows larger batches.
    """
    if not likely or query.max_tpot_ms is None or query.objective == "latency":
        return ""
    return "; this compares tokens/s within the bound, which allows larger batches with a draft"


def _would_pay(query: AdviseQuery, would_pay: tuple[BreakEven, ...]) -> str:
    """Names the drafts of `_one_of_each_sort`, and the flag that supplies an acceptance."""
    if not would_pay:
        return "; no draft is predicted to pay off at any acceptance"
    needs = []
    for b in tuple(_one_of_each_sort(query, would_pay)) or would_pay[:1]:
        draft = b.draft
        if b.draft_kv != "full":
            draft += " with " + b.draft_kv.partition(",")[0]
        if draft in ORDER and not exists_for(query, draft):
            draft = f"a trained {draft}"
        needs.append(f"{b.smallest_alpha:.2f} ({draft}, gamma {b.gamma}, batch {b.batch})")
    given = "give yours with --rate DRAFT=ALPHA or --acceptance"
    return f". A draft pays off from alpha {', '.join(needs)}; {given}"


def _one_of_each_sort(query: AdviseQuery, would_pay: tuple[BreakEven, ...]) -> Iterator[BreakEven]:
    """The target's own MTP layer, and the draft without weights, the head and the small model that need the
    least acceptance. A head that must be trained is left out if there is an MTP layer or a small model. If
    the question names its drafts, the result is the first three of these.
    """
    if query.draft is not None:
        yield from would_pay[:3]
        return
    heads = [b for b in would_pay if b.draft in ORDER and b.draft != "mtp"]
    known = [b for b in heads if exists_for(query, b.draft)]
    own = [b for b in would_pay if b.draft == "mtp"]
    free = [b for b in would_pay if b.draft in LOOKUPS]
    model = small_model(query, would_pay)
    for sort in (own, free, known or (() if own or model else heads)):
        yield from sort[:1]
    if model is not None:
        yield model


def _why(point: PricedPoint, query: AdviseQuery) -> str:
    """The time that an iteration saves and the time that it adds."""
    s = point.candidate.scenario
    batch = float(point.batch)
    context = float(query.context)
    prediction = predict(s, Workload.of(batch, context, point.gamma), query.max_gamma)
    return reason(prediction, str(s.target_step(batch, context).limiter))


def _why_no_larger_batch(query: AdviseQuery, chosen: PricedPoint) -> str:
    """The reason why the next larger batch was not chosen."""
    batches = query.batches(chosen.layout)
    if query.objective == "latency":
        return "the smallest batch is the fastest" if chosen.batch == batches[0] else "the fastest allowed"
    larger = batches[batches > chosen.batch]
    if larger.size == 0:
        return "the largest in the search"
    if not bool(room(chosen.candidate.scenario, float(larger[0]), float(chosen.gamma), query).fits):
        return "memory is full"
    bounded = query.max_tpot_ms is not None
    return "limited by the bound on time per token" if bounded else "larger batches give no more tokens/s"
