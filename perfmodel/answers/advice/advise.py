"""Finds the best layout of GPUs, draft, KV method and draft length, or finds that no speculation is best.

Every candidate is priced over all batches and draft lengths at once. Points that do not fit in memory, or
exceed the bound on time per token, are dropped. The answer has the best point by the objective, the
runner-up, the best baseline of the same GPUs, the best point of each layout, the Pareto fronts of throughput
against time per token, the term that decides, and the margins.
"""

from dataclasses import replace

from perfmodel.answers.advice.advice import UNITS, Advice, AdviseVerdict, Objective
from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.candidates import Candidates, find_candidates
from perfmodel.answers.advice.first_token import within_ttft
from perfmodel.answers.advice.infeasible import why_infeasible
from perfmodel.answers.advice.likely import cautious_point, likely_gains, named_point
from perfmodel.answers.advice.margins import BreakEven, Robustness, break_evens, robustness_of
from perfmodel.answers.advice.on_off import on_off, seats_of
from perfmodel.answers.advice.one_server import point_verdict, remedies_of, serve, warnings_of
from perfmodel.answers.advice.picks import Pick, pick_of
from perfmodel.answers.advice.prices import Priced, price
from perfmodel.answers.advice.ranking import (
    Fronts,
    PricedPoint,
    best,
    best_of_each_layout,
    choose,
    front,
)
from perfmodel.answers.advice.reasons import reason_of
from perfmodel.answers.advice.room_for_draft import room_for_draft
from perfmodel.answers.advice.shorter_draft import shorter_draft
from perfmodel.answers.advice.smaller_weights import smaller_weights
from perfmodel.answers.advice.tree_drafts import tree_drafts
from perfmodel.answers.advice.under_load import under_load
from perfmodel.answers.declaration import asks
from perfmodel.answers.point.verdict import PAYS, Calibrated
from perfmodel.answers.question import common_doubts
from perfmodel.speculation import is_measured, memory_of

READING_S = 0.1
"""Time per token up to which a text appears faster than people read it: ten tokens a second."""


@asks(AdviseQuery)
def advise(question: AdviseQuery) -> Advice:
    """Find the best layout of GPUs, draft, KV method and budget, gamma and batch, or keep the baseline.

    Only drafts whose acceptance was measured are searched: by rate, by a file, or in the bundled rows. Raises
    InputError for what the user got wrong.
    """
    answers = [_of_one_kind(each) for each in question.by_kind]
    feasible = [a for a in answers if a.chosen is not None]
    if not feasible or len(answers) == 1:
        return answers[0]
    feasible.sort(key=_by_worth)
    picks = tuple(a.chosen for a in feasible if a.chosen is not None)
    return replace(feasible[0], by_hardware=picks)


def _by_worth(answer: Advice) -> float:
    """Sorts the answers for several kinds of device: by price, else by the objective."""
    p = answer.chosen
    assert p is not None
    if answer.objective.name == "latency":
        return p.tpot_s
    if p.cost_per_million_tokens is not None:
        return p.cost_per_million_tokens
    return -p.throughput_tokens_per_s_per_device


def _of_one_kind(question: AdviseQuery) -> Advice:
    """The answer for one kind of device."""
    if question.has_load:
        return under_load(question)
    question = question.for_its_users
    candidates = within_ttft(question, find_candidates(question))
    baseline, drafted = price(candidates.baselines, candidates.drafted, question)
    points = [best(priced, question) for priced in (*baseline, *drafted)]
    ranked = [point for point in points if point is not None]
    ranked.sort(key=lambda p: -p.value)  # stable: the earlier candidate on a tie, the baseline first
    allowed = [p for p in ranked if question.may_choose(p.candidate.runs)]
    not_allowed = [p for p in ranked if not question.may_choose(p.candidate.runs)]
    searched = [x for x in drafted if question.may_choose(x.candidate.runs)]
    best_baseline = choose([p for p in allowed if not p.gamma], question)
    rival = choose([p for p in allowed if p.gamma], question)
    chosen = _better(best_baseline, rival)
    if chosen is None:
        return _infeasible(question, candidates, baseline, drafted)
    if question.leaves_pace_open and chosen.tpot_s > READING_S and _any_readable(baseline + searched):
        bounded = _of_one_kind(replace(question, max_tpot_ms=1e3 * READING_S))
        return replace(bounded, query=question, unbounded=pick_of(chosen, question))
    better = [p for p in not_allowed if p.value > chosen.value]
    would_pay = break_evens(question, chosen) if rival is None else ()
    likely = likely_gains(question, chosen) if would_pay else ()
    robustness = robustness_of(question, chosen, best_baseline, baseline, searched)
    verdict = _verdict(question, chosen, rival, robustness, would_pay)
    option = None
    if best_baseline and chosen.gamma and verdict == "too_close_to_call" and not robustness.worth_the_risk:
        option = chosen
        chosen = best_baseline
    tried = option or cautious_point(question, chosen, likely) or named_point(question, chosen, would_pay)
    weighed = allowed if option is None else [p for p in allowed if not p.gamma]
    others = [p for p in weighed if p is not chosen and p.value <= chosen.value]
    robustness = robustness.over(chosen, others, question)
    gain = robustness.gain_over_baseline_interval
    reason = reason_of(question, chosen, rival, would_pay, likely, drafted, gain)
    layouts = [pick_of(p, question) for p in best_of_each_layout(weighed)]
    remedies = () if chosen.gamma else remedies_of(question, rival)
    remedies = remedies or room_for_draft(question, chosen, searched)
    objective = Objective(question.objective, UNITS[question.objective])
    fronts = Fronts(front(baseline), front(searched))
    switch = None if rival is None else on_off(rival, question)
    trees, trees_skipped = tree_drafts(question, drafted, chosen.value)
    seats = seats_of(question, chosen)
    serve_option = None
    if tried is not None:
        serve_option = serve(question, tried, seats_of(question, tried))
    runner_up = _first(others)
    not_run = _first(better)
    calibration = Calibrated.of(candidates.baselines[0].scenario)
    warnings = (*candidates.left_out(question), *warnings_of(chosen, question))
    return Advice(
        query=question,
        verdict=verdict,
        reason=reason,
        objective=objective,
        chosen=pick_of(chosen, question, seats),
        runner_up=_pick(runner_up, question),
        option=_pick(option, question),
        baseline=_pick(best_baseline, question),
        not_run=_pick(not_run, question),
        layouts=tuple(layouts),
        on_off=switch,
        serve=serve(question, chosen, seats),
        serve_option=serve_option,
        robustness=robustness,
        pareto=fronts,
        candidates=_points(baseline, drafted),
        skipped=tuple(candidates.skips),
        unmeasured=would_pay,
        likely=likely,
        remedies=remedies,
        smaller_weights=smaller_weights(question, best_baseline),
        shorter=shorter_draft(question, option or chosen),
        calibration=calibration,
        warnings=warnings,
        trees=trees,
        trees_skipped=trees_skipped,
    )


def _any_readable(priced: list[Priced]) -> bool:
    """Whether any point is fast enough that people do not wait for the next word."""
    return any(bool((x.fits & (x.tpot_s <= READING_S)).any()) for x in priced)


def _infeasible(
    question: AdviseQuery, candidates: Candidates, baseline: list[Priced], drafted: list[Priced]
) -> Advice:
    """The answer where no chain and no baseline fits, or none keeps the bounds."""
    searched = [x for x in drafted if question.may_choose(x.candidate.runs)]
    trees, trees_skipped = tree_drafts(question, drafted, None)
    calibration = None
    doubts: tuple[str, ...] = ()
    if candidates.baselines:
        scenario = candidates.baselines[0].scenario
        calibration = Calibrated.of(scenario)
        context = float(question.context)
        room = memory_of(scenario, 1.0, context, 0.0, question.memory_fraction).single()
        told = room.shortage(1.0)  # the reason tells it
        doubts = tuple(d for d in common_doubts(question, scenario, 1.0, context, 0, room) if d not in told)
    return Advice(
        query=question,
        verdict="infeasible",
        reason=why_infeasible(question, baseline, searched, candidates.skips, bool(trees)),
        objective=Objective(question.objective, UNITS[question.objective]),
        pareto=Fronts(front(baseline), front(searched)),
        candidates=_points(baseline, searched),
        skipped=tuple(candidates.skips),
        calibration=calibration,
        warnings=doubts,
        trees=trees,
        trees_skipped=trees_skipped,
    )


def _points(baseline: list[Priced], drafted: list[Priced]) -> int:
    """The number of prices."""
    return sum(priced.tpot_s.size for priced in (*baseline, *drafted))


def _first(points: list[PricedPoint]) -> PricedPoint | None:
    return points[0] if points else None


def _better(baseline: PricedPoint | None, rival: PricedPoint | None) -> PricedPoint | None:
    """The better of two points; the baseline on a tie."""
    if baseline is None or rival is None:
        return rival or baseline
    return rival if rival.value > baseline.value else baseline


def _pick(point: PricedPoint | None, query: AdviseQuery) -> Pick | None:
    return None if point is None else pick_of(point, query)


def _verdict(
    query: AdviseQuery,
    chosen: PricedPoint,
    rival: PricedPoint | None,
    robustness: Robustness,
    would_pay: tuple[BreakEven, ...],
) -> AdviseVerdict:
    """The verdict of the choice. rival: the best point with a draft.

    A draft must pay at its own batch, as in `whatif`, and must beat the best baseline.
    """
    if rival is None:
        return "unknown_acceptance" if would_pay else "do_not_speculate"
    at_its_batch = point_verdict(query, rival)
    if at_its_batch == "too_close_to_call":
        return "too_close_to_call"
    measured = is_measured(rival.candidate.scenario)
    if not chosen.gamma:
        return "do_not_speculate" if measured else "likely_do_not_speculate"
    interval = robustness.gain_over_baseline_interval
    if at_its_batch in PAYS and (interval is None or interval[0] > 1):
        return "speculate" if measured else "likely_speculate"
    return "too_close_to_call"
