"""`advise` without a load: finds the best batch and draft length among those that fit in memory and meet the
bounds.
"""

from collections.abc import Iterator
from dataclasses import replace

from perfmodel.answers.advice.advice import Advice, Objective
from perfmodel.answers.advice.advise_query import READING_S, AdviseQuery
from perfmodel.answers.advice.alternatives import Alternative
from perfmodel.answers.advice.beside_choice import layouts_beside, with_no_bound, with_shorter_draft
from perfmodel.answers.advice.better_changes import better_changes
from perfmodel.answers.advice.decision import Decision, decide
from perfmodel.answers.advice.in_all import for_batch_in_all
from perfmodel.answers.advice.infeasible import why_infeasible
from perfmodel.answers.advice.instead import instead
from perfmodel.answers.advice.likely import break_even_point, small_model
from perfmodel.answers.advice.on_off import on_off, seats_of
from perfmodel.answers.advice.one_server import line_of, remedies_of, serve, warnings_of
from perfmodel.answers.advice.other_texts import other_texts
from perfmodel.answers.advice.own_layer import own_layer
from perfmodel.answers.advice.picks import Pick, pick_of
from perfmodel.answers.advice.ranking import Fronts, PricedPoint, best_of_each_layout, front
from perfmodel.answers.advice.reasons import reason_of
from perfmodel.answers.advice.room_for_draft import room_for_draft
from perfmodel.answers.advice.run_first import run_first
from perfmodel.answers.advice.search import Search
from perfmodel.answers.advice.servers_instead import NOTHING
from perfmodel.answers.advice.shorter_draft import ShorterDraft, shorter_draft
from perfmodel.answers.advice.switch_to_measure import SwitchToMeasure, switch_to_measure
from perfmodel.answers.advice.tree_drafts import tree_drafts
from perfmodel.answers.point.calibrated import Calibrated
from perfmodel.answers.point.remedies import used_backend
from perfmodel.answers.point.whatif_answer import Remedy
from perfmodel.answers.question import common_doubts
from perfmodel.speculation import memory_of


def at_batches(query: AdviseQuery) -> Advice:
    """The answer of `advise` without a load, for one kind of device."""
    query = query.for_its_users
    search = Search.of(query)
    top = search.best
    if top is None:
        return _infeasible(search)
    if query.leaves_pace_open and top.tpot_s > READING_S and search.readable:
        bounded = at_batches(replace(query, max_tpot_ms=1e3 * READING_S))
        alternatives = (*bounded.alternatives, with_no_bound(query, top))
        return replace(bounded, query=query, unbounded=pick_of(top, query), alternatives=alternatives)
    return _feasible(search, decide(search, top))


def _feasible(search: Search, decision: Decision) -> Advice:
    """The answer with a choice."""
    query = search.query
    chosen = decision.chosen
    seats = seats_of(query, chosen)
    line = serve(query, chosen, seats, undecided=decision.verdict == "unknown_acceptance")
    tried = decision.option or decision.to_measure or decision.without_draft
    runs = chosen.candidate.runs
    if tried is None and runs is not None and not runs.runs:
        tried = decision.baseline
    line_to_try = None if tried is None else serve(query, tried, seats_of(query, tried))
    switch = None if decision.rival is None else on_off(decision.rival, query)
    layouts = [pick_of(point, query) for point in best_of_each_layout(decision.weighed)]
    better_not_run = [point for point in search.not_allowed if point.value > chosen.value]
    remedies = _remedies(search, decision)
    changes = list(better_changes(search, decision, remedies))
    with_changes = [alternative for _, alternative in changes]
    shorter = shorter_draft(query, decision.option or chosen)
    trees, trees_skipped = tree_drafts(query, search.drafted, chosen.value)
    texts = other_texts(query, search.candidates.drafted)
    warnings = (*search.candidates.left_out(query), *warnings_of(chosen, query), *texts)
    to_measure = switch_to_measure(query, chosen, decision.likely) if decision.likely else None
    choice = Advice(
        query=query,
        verdict=decision.verdict,
        reason=reason_of(query, decision, search.drafted, to_measure),
        objective=Objective.of(query),
        chosen=pick_of(chosen, query, seats),
        runner_up=_first(decision.others, query),
        option=_pick(decision.option, query),
        baseline=_pick(decision.baseline, query),
        not_run=_first(better_not_run, query),
        layouts=tuple(layouts),
        on_off=switch,
        serve=line,
        serve_option=line_to_try,
        calibration=Calibrated.of(search.candidates.baselines[0].scenario),
        attention_backend=used_backend(chosen.candidate.scenario),
        warnings=warnings,
    )
    in_all = for_batch_in_all(search, chosen)
    alternatives = (
        *(() if in_all is None else (in_all,)),
        *with_changes,
        *_alternatives(query, decision, shorter, to_measure),
    )
    better = tuple(change for change, _ in changes)
    first = None
    if decision.verdict == "unknown_acceptance" and (line_to_try or any(each.line for each in alternatives)):
        with_draft = None if tried is None or line_to_try is None else line_of(line_to_try, tried)
        plain = None if line is None else line_of(line, chosen)
        first = run_first(query, decision.likely, decision.would_pay, to_measure, plain, with_draft)
    return replace(
        choice,
        alternatives=alternatives,
        robustness=decision.robustness,
        pareto=Fronts(front(search.baseline), front(search.searched)),
        candidates=search.points,
        skipped=tuple(search.candidates.skips),
        unmeasured=decision.would_pay,
        likely=decision.likely,
        remedies=remedies,
        better_changes=better,
        shorter=shorter,
        run_first=None if first is None else first.text,
        first_line=None if first is None else first.line,
        trees=trees,
        trees_skipped=trees_skipped,
    )


def _remedies(search: Search, decision: Decision) -> tuple[Remedy, ...]:
    """The changes with which the best draft pays off, or with which a draft fits in memory."""
    query = search.query
    doubtful = not decision.chosen.gamma or decision.verdict == "too_close_to_call"
    if doubtful and (switches := remedies_of(query, decision.rival)):
        return switches
    return room_for_draft(query, decision.chosen, search.searched)


def _alternatives(
    query: AdviseQuery,
    decision: Decision,
    shorter: ShorterDraft | None,
    to_measure: SwitchToMeasure | None,
) -> Iterator[Alternative]:
    """Other layouts, a shorter draft and a switch that a reader may prefer to the choice."""
    if to_measure is not None and (measured := to_measure.alternative).line is not None:
        yield measured
    if (model := _small_model(query, decision)) is not None:
        yield model
    yield from layouts_beside(query, decision)
    if shorter is not None:
        yield with_shorter_draft(shorter)
    if decision.rival is not None and (own := own_layer(query, decision.baseline)) is not None:
        yield own


def _small_model(query: AdviseQuery, decision: Decision) -> Alternative | None:
    """A small model of the target's maker as the draft to measure (`small_model`)."""
    even = small_model(query, decision.would_pay)
    point = None if even is None else break_even_point(query, decision.chosen, even)
    if even is None or point is None:
        return None
    pays = f"pays off from alpha {even.smallest_alpha:.2f}"
    text = f"{even.draft}, a small model with the same vocabulary, {pays}; to measure it"
    return Alternative.of(text, query, point, seats_of(query, point))


def _infeasible(search: Search) -> Advice:
    """The answer if no chain and no baseline fits in memory and meets the bounds."""
    query = search.query
    trees, trees_skipped = tree_drafts(query, search.drafted, None)
    infeasible = why_infeasible(
        query, search.baseline, search.searched, search.candidates.skips, trees=bool(trees)
    )
    calibration = None
    doubts: tuple[str, ...] = ()
    if search.candidates.baselines:
        scenario = search.candidates.baselines[0].scenario
        calibration = Calibrated.of(scenario)
        context = float(query.context)
        room = memory_of(scenario, 1.0, context, 0.0, query.memory_fraction).single()
        in_reason = room.shortage(1.0)
        found = common_doubts(query, scenario, 1.0, context, 0, room)
        doubts = tuple(doubt for doubt in found if doubt not in in_reason)
    changed = NOTHING if trees else instead(search, infeasible.ways)
    first = changed.run_first()
    return Advice(
        query=query,
        verdict="infeasible",
        reason=infeasible.reason,
        objective=Objective.of(query),
        pareto=Fronts(front(search.baseline), front(search.searched)),
        candidates=search.points,
        skipped=tuple(search.candidates.skips),
        alternatives=changed.alternatives,
        run_first=None if first is None else first.text,
        first_line=None if first is None else first.line,
        calibration=calibration,
        warnings=doubts,
        trees=trees,
        trees_skipped=trees_skipped,
    )


def _first(points: list[PricedPoint], query: AdviseQuery) -> Pick | None:
    return _pick(points[0], query) if points else None


def _pick(point: PricedPoint | None, query: AdviseQuery) -> Pick | None:
    return None if point is None else pick_of(point, query)
