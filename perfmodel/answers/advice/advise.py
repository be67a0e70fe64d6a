"""Finds the best layout of GPUs, draft, KV method and draft length, or finds that no speculation is best.

Every candidate is priced over all batches and draft lengths at once. Points that do not fit in memory, or
exceed the bound on time per token, are dropped. The answer has the best point by the objective, the
runner-up, the best baseline of the same GPUs, the best point of each layout, the Pareto fronts of throughput
against time per token, the term that decides, and the margins.
"""

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.candidates import Skip, find_candidates
from perfmodel.answers.advice.draft_lengths import LengthTable
from perfmodel.answers.advice.engine_lines import Export, export, served_with
from perfmodel.answers.advice.infeasible import why_infeasible
from perfmodel.answers.advice.likely import LikelyGain, likely_gains
from perfmodel.answers.advice.llama_server import DEFAULT_LENGTH
from perfmodel.answers.advice.margins import BreakEven, Robustness, break_evens, robustness_of
from perfmodel.answers.advice.on_off import OnOff, on_off
from perfmodel.answers.advice.picks import Pick, pick_of
from perfmodel.answers.advice.prices import price, room
from perfmodel.answers.advice.ranking import (
    Fronts,
    PricedPoint,
    best,
    best_of_each_layout,
    choose,
    front,
)
from perfmodel.answers.answer import Answer
from perfmodel.answers.declaration import asks
from perfmodel.answers.point.remedies import Remedy, remedies
from perfmodel.answers.point.verdict import SENTENCES, Calibrated, Verdict, reason, verdict, warnings
from perfmodel.answers.question import UNUSED, common_doubts, of_draft, of_power, resolve, slowing
from perfmodel.answers.text import ratio_text
from perfmodel.errors import InputError
from perfmodel.specs import engine_of
from perfmodel.speculation import Workload, memory_of, predict, speedup_interval, speedups

UNITS = {"throughput": "tokens/s per device", "latency": "s per token", "cost": "$ per million tokens"}


@dataclass(frozen=True, slots=True)
class Objective:
    """The quantity to maximise or minimise, and its unit."""

    name: str
    unit: str


@dataclass(frozen=True, repr=False)
class Advice(Answer):
    """The best configuration that the engine runs, its alternatives and the reason. The fields are None where
    nothing fits.

    layouts: the best point of each layout, the best first. by_hardware: the choice on each kind of device,
    the best first; empty for one kind. on_off: the batches of one server at which the best draft is on, None
    if it never is. not_run: a better configuration that the engine does not run. serve: the engine's command
    line for one server of the choice. unmeasured, likely: the break-even alpha of each draft, and its gain
    with a typical acceptance, where no allowed draft has a known acceptance. remedies: switches with which
    the best draft would pay at its batch, where it does not.
    """

    query: AdviseQuery
    verdict: Literal["speculate", "too_close_to_call", "do_not_speculate", "unknown_acceptance", "infeasible"]
    reason: str
    objective: Objective
    chosen: Pick | None
    runner_up: Pick | None
    baseline: Pick | None
    not_run: Pick | None
    layouts: tuple[Pick, ...]
    by_hardware: tuple[Pick, ...]
    on_off: OnOff | None
    serve: Export | None
    robustness: Robustness | None
    pareto: Fronts
    candidates: int
    skipped: tuple[Skip, ...]
    unmeasured: tuple[BreakEven, ...]
    likely: tuple[LikelyGain, ...]
    remedies: tuple[Remedy, ...]
    calibration: Calibrated | None
    warnings: tuple[str, ...]

    def gain(self, pick: Pick) -> float | None:
        """Ratio to the best baseline by the objective; None where no baseline is allowed."""
        if (b := self.baseline) is None:
            return None
        if self.objective.name == "throughput":
            return pick.objective / b.objective
        return b.objective / pick.objective

    @property
    def failed(self) -> bool:
        """Whether nothing fits, or nothing is decided."""
        return self.verdict in ("infeasible", "unknown_acceptance")

    def headline(self) -> str:
        if (p := self.chosen) is None or self.verdict == "unknown_acceptance":
            return f"{SENTENCES[self.verdict]}: {self.reason}"
        draft = "baseline" if p.draft is None else f"{p.draft} through {p.draft_kv}, gamma {p.gamma}"
        gain = self.gain(p)
        over = "" if gain is None or not p.gamma else f", {ratio_text(gain)} the best baseline"
        where = f"batch {p.batch} per server, {p.layout} on {p.gpus} device{'s' * (p.gpus > 1)}"
        rate = f"{p.throughput_tokens_per_s_per_device:.0f} tokens/s per device"
        return f"{SENTENCES[self.verdict]}: {draft}, {where}: {rate}{over}"


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
    question = question.with_slots
    candidates = find_candidates(question)
    baseline, drafted = price(candidates.baselines, candidates.drafted, question)
    found = [best(priced, question) for priced in (*baseline, *drafted)]
    ranked = [point for point in found if point is not None]
    ranked.sort(key=lambda p: -p.value)  # stable: the earlier candidate on a tie, the baseline first
    allowed = [p for p in ranked if question.may_choose(p.candidate.runs)]
    best_baseline = choose([p for p in allowed if not p.gamma], question)
    rival = choose([p for p in allowed if p.gamma], question)
    chosen = _better(best_baseline, rival)
    others = [p for p in allowed if chosen is not None and p is not chosen and p.value <= chosen.value]
    if chosen is not None and rival is None:
        would_pay = break_evens(question, chosen)
    else:
        would_pay = ()
    likely = likely_gains(question, chosen) if chosen is not None and would_pay else ()
    better = next((p for p in ranked if chosen is not None and p.value > chosen.value), None)
    if better is not None and question.may_choose(better.candidate.runs):
        better = None
    searched = [x for x in drafted if question.may_choose(x.candidate.runs)]
    robustness = None
    if chosen is not None:
        robustness = robustness_of(question, chosen, others, best_baseline, searched)
    return Advice(
        query=question,
        verdict=_verdict(question, chosen, rival, robustness, would_pay),
        reason=why_infeasible(question, baseline, drafted, candidates.skips)
        if chosen is None
        else _reason(question, chosen, rival, would_pay, likely, bool(drafted)),
        objective=Objective(question.objective, UNITS[question.objective]),
        chosen=_pick(chosen, question),
        runner_up=_pick(others[0], question) if others else None,
        baseline=_pick(best_baseline, question),
        not_run=_pick(better, question),
        layouts=tuple(pick_of(p, question) for p in best_of_each_layout(allowed)),
        by_hardware=(),
        on_off=None if rival is None else on_off(rival, question),
        serve=None if chosen is None else _serve(question, chosen),
        robustness=robustness,
        pareto=Fronts(front(baseline), front(searched)),
        candidates=int(sum(x.tpot_s.size for x in (*baseline, *drafted))),
        skipped=tuple(candidates.skips),
        unmeasured=would_pay,
        likely=likely,
        remedies=() if chosen is None or chosen.gamma else _remedies(question, rival),
        calibration=Calibrated.of(candidates.baselines[0].scenario) if candidates.baselines else None,
        warnings=_warnings(chosen, question)
        if chosen is not None
        else tuple(
            note
            for candidate in candidates.baselines[:1]
            for note in common_doubts(question, candidate.scenario, 1.0, float(question.context), 0)
        ),
    )


def _better(baseline: PricedPoint | None, rival: PricedPoint | None) -> PricedPoint | None:
    """The better of two points; the baseline on a tie."""
    if baseline is None or rival is None:
        return rival or baseline
    return rival if rival.value > baseline.value else baseline


def _pick(point: PricedPoint | None, query: AdviseQuery) -> Pick | None:
    return None if point is None else pick_of(point, query)


def _verdict(
    query: AdviseQuery,
    chosen: PricedPoint | None,
    rival: PricedPoint | None,
    robustness: Robustness | None,
    would_pay: tuple[BreakEven, ...],
) -> Any:
    """The verdict of the choice. rival: the best point with a draft.

    A draft must pay at its own batch, as in `whatif`, and must beat the best baseline.
    """
    if chosen is None or robustness is None:
        return "infeasible"
    if rival is None:
        return "unknown_acceptance" if would_pay else "do_not_speculate"
    at_its_batch = _point_verdict(query, rival)
    if not chosen.gamma:
        return "too_close_to_call" if at_its_batch == "too_close_to_call" else "do_not_speculate"
    interval = robustness.gain_over_baseline_interval
    if at_its_batch == "pays" and (interval is None or interval[0] > 1):
        return "speculate"
    return "too_close_to_call"


def _remedies(query: AdviseQuery, rival: PricedPoint | None) -> tuple[Remedy, ...]:
    """The switches with which the best draft pays at its batch."""
    if rival is None:
        return ()
    s = rival.candidate.scenario
    point = query.query(
        batch=rival.batch,
        draft=s.draft.name,
        draft_kv=s.draft.kv.label(),
        draft_tp=s.draft.tensor_parallel,
        **rival.layout.arguments(),
    )
    baseline_s = float(s.target_pass_s(float(rival.batch), float(query.context)))
    return remedies(point, s, baseline_s / rival.tpot_s)


def _point_verdict(query: AdviseQuery, point: PricedPoint) -> Verdict:
    """The verdict of `whatif` for the point, against the baseline at the same batch."""
    s = point.candidate.scenario
    batch = float(point.batch)
    context = float(query.context)
    speedup = float(s.target_pass_s(batch, context)) / point.tpot_s
    return verdict(
        speedup,
        speedup_interval(s, batch, context, point.gamma, speedup),
        point.gamma,
        defect=slowing(s, context),
    )


def _serve(query: AdviseQuery, chosen: PricedPoint) -> Export | None:
    """Command lines for the choice, with the draft length of the chosen batch. None without an engine."""
    s = chosen.candidate.scenario
    if engine_of(s.machine.calibration) not in ("vllm", "sglang", "llamacpp"):
        return None
    context = query.context
    most = s.longest(max(chosen.gamma, DEFAULT_LENGTH)) if chosen.gamma else 0
    by_length = tuple(speedups(s, float(chosen.batch), float(context), np.arange(most + 1)).tolist())
    table = LengthTable.at(chosen.batch, context, chosen.gamma, by_length)
    return export(table, s.draft, *served_with(query, s, s.draft.name if chosen.gamma else None))


def _warnings(chosen: PricedPoint, query: AdviseQuery) -> tuple[str, ...]:
    s = chosen.candidate.scenario
    batch = float(chosen.batch)
    gamma = chosen.gamma
    context = float(query.context)
    memory = memory_of(s, batch, context, float(gamma), query.memory_fraction)
    notes = [*warnings(query, s, batch, context, gamma, memory.single()), *of_power(s, batch)]
    for name in query.draft or ():  # chosen or not
        with suppress(InputError):  # listed among the skipped
            named = query.query(
                batch=1, draft=name, draft_kv="full", draft_tp=None, **chosen.layout.arguments()
            )
            notes += of_draft(resolve(named, UNUSED), context)
    return tuple(dict.fromkeys(notes))


def _reason(
    query: AdviseQuery,
    chosen: PricedPoint,
    rival: PricedPoint | None,
    would_pay: tuple[BreakEven, ...],
    likely: tuple[LikelyGain, ...],
    drafted: bool,
) -> str:
    stops = f"batch {chosen.batch}: {_why_no_larger_batch(query, chosen)}"
    if chosen.gamma:
        return f"{_why(chosen, query)}; {stops}"
    if rival is None and not would_pay and drafted:
        return f"the engine runs no draft with a known acceptance; {stops}"
    if rival is None:
        return f"no acceptance is known for {query.model}{_likely(likely)}{_would_pay(would_pay)}; {stops}"
    why = _why(rival, query)
    draft = rival.candidate.scenario.draft
    return (
        f"the best draft ({draft.name}, {draft.kv.label()}, gamma {rival.gamma}, batch "
        f"{rival.batch}) reaches {rival.times(chosen, query):.3f} of the baseline: {why}; {stops}"
    )


def _likely(likely: tuple[LikelyGain, ...]) -> str:
    """The likely gains of the two preferred drafts."""
    if not likely:
        return ""
    gains = " or ".join(gain.text for gain in likely[:2])
    return f": likely {gains}, not decided until measured"


def _would_pay(would_pay: tuple[BreakEven, ...]) -> str:
    """Names the target's own MTP layer, the drafts that need the least acceptance, and the flag that supplies
    one.
    """
    if not would_pay:
        return "; no draft pays at any acceptance"
    needs = [
        f"{b.smallest_alpha:.2f} "
        f"({b.draft}{'' if b.draft_kv == 'full' else ' through ' + b.draft_kv.partition(',')[0]}"
        f", gamma {b.gamma}, batch {b.batch})"
        for b in sorted(would_pay, key=lambda b: b.draft != "mtp")[:3]
    ]
    return f". Pays from alpha {', '.join(needs)}; supply one with --rate DRAFT=ALPHA or --acceptance"


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
        return "the end of the batch range"
    if not bool(room(chosen.candidate.scenario, float(larger[0]), float(chosen.gamma), query).fits):
        return "memory is full"
    return "the bound on time per token" if query.max_tpot_ms is not None else "larger ones give no more"
