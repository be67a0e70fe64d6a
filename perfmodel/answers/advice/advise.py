"""Finds the best draft, KV method, draft length and number of devices, or finds that no speculation is best.

Every candidate is priced over all batches and draft lengths at once. Points that do not fit in memory, or
exceed the bound on time per token, are dropped. The answer has the best point by the objective, the
runner-up, the best baseline, the Pareto fronts of throughput against time per token, the term that decides,
and the margins.
"""

from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from perfmodel.answers.advice.candidates import AdviseQuery, Skip, find_candidates
from perfmodel.answers.advice.draft_lengths import LengthTable
from perfmodel.answers.advice.engine_lines import Export, export, served_with
from perfmodel.answers.advice.infeasible import why_infeasible
from perfmodel.answers.advice.likely import LikelyGain, likely_gains
from perfmodel.answers.advice.llama_server import DEFAULT_LENGTH
from perfmodel.answers.advice.margins import BreakEven, Robustness, break_evens, robustness_of
from perfmodel.answers.advice.prices import Fronts, PricedPoint, best, fits, front, price
from perfmodel.answers.answer import Answer
from perfmodel.answers.declaration import asks
from perfmodel.answers.point.remedies import Remedy, remedies
from perfmodel.answers.point.verdict import SENTENCES, Calibrated, Verdict, reason, verdict, warnings
from perfmodel.answers.question import UNUSED, common_doubts, of_draft, of_power, resolve, slowing
from perfmodel.answers.text import ratio_text
from perfmodel.errors import InputError
from perfmodel.specs import engine_of
from perfmodel.speculation import Passes, Workload, memory_of, predict, speedup_interval, speedups

UNITS = {"throughput": "tokens/s", "latency": "s per token", "cost": "$ per million tokens"}


@dataclass(frozen=True, slots=True)
class Objective:
    """The quantity to maximise or minimise, and its unit."""

    name: str
    unit: str


@dataclass(frozen=True, slots=True)
class Pick:
    """One configuration; draft, draft_kv and draft_tp are None for the baseline.

    runs_in: the engine that runs the draft, in words. It is None for the baseline and for a stack that is not
    a serving engine. `speedup` is over the baseline at the same batch and degree. `objective` is the value of
    the objective. joules_per_token: energy per token. power_w: mean power of one device. Both are None if the
    power of the device was not measured.
    """

    tp: int
    draft: str | None
    draft_kv: str | None
    draft_tp: int | None
    gamma: int
    batch: int
    tpot_s: float
    throughput_tokens_per_s: float
    throughput_tokens_per_s_per_device: float
    cost_per_million_tokens: float | None
    speedup: float
    tokens_per_iteration: float
    acceptance_source: str | None
    runs_in: str | None
    objective: float
    joules_per_token: float | None
    power_w: float | None


@dataclass(frozen=True, repr=False)
class Advice(Answer):
    """The best configuration that the engine runs, its alternatives and the reason. The fields are None where
    nothing fits.

    not_run: a better configuration that the engine does not run. serve: the engine's command line for the
    choice. unmeasured, likely: the break-even alpha of each draft, and its gain with a typical acceptance,
    where no allowed draft has a known acceptance. remedies: switches with which the best draft would pay at
    its batch, where it does not.
    """

    query: AdviseQuery
    verdict: Literal["speculate", "too_close_to_call", "do_not_speculate", "unknown_acceptance", "infeasible"]
    reason: str
    objective: Objective
    chosen: Pick | None
    runner_up: Pick | None
    baseline: Pick | None
    not_run: Pick | None
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
        larger, smaller = (pick, b) if self.objective.name == "throughput" else (b, pick)
        return larger.objective / smaller.objective

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
        where = f"batch {p.batch} on {p.tp} device{'s' * (p.tp > 1)}"
        return f"{SENTENCES[self.verdict]}: {draft}, {where}: {p.throughput_tokens_per_s:.0f} tokens/s{over}"


@asks(AdviseQuery)
def advise(question: AdviseQuery) -> Advice:
    """Find the best draft, KV method and budget, gamma, batch and tensor-parallel degree, or keep the
    baseline.

    Only drafts whose acceptance was measured are searched: by rate, by a file, or in the bundled rows. Raises
    InputError for what the user got wrong.
    """
    question = question.with_slots
    alone, candidates, skips = find_candidates(question)
    baseline, drafted = price(alone, candidates, question)
    found = [best(priced, question) for priced in (*baseline, *drafted)]
    ranked = [point for point in found if point is not None]
    ranked.sort(key=lambda p: -p.value)  # stable: the earlier candidate on a tie, the baseline first
    allowed = [p for p in ranked if question.may_choose(p.candidate.runs)]
    best_baseline = next((p for p in allowed if p.gamma == 0), None)
    chosen = allowed[0] if allowed else None
    if chosen is not None and all(p.gamma == 0 for p in allowed):
        would_pay = break_evens(question, chosen)
    else:
        would_pay = ()
    likely = likely_gains(question, chosen) if chosen is not None and would_pay else ()
    better = next((p for p in ranked if chosen is not None and p.value > chosen.value), None)
    searched = [x for x in drafted if question.may_choose(x.candidate.runs)]
    robustness = None if chosen is None else robustness_of(question, chosen, allowed, best_baseline, searched)
    return Advice(
        query=question,
        verdict=_verdict(question, allowed, robustness, would_pay),
        reason=why_infeasible(question, baseline, drafted, skips)
        if chosen is None
        else _reason(question, chosen, allowed, would_pay, likely, bool(drafted)),
        objective=Objective(question.objective, UNITS[question.objective]),
        chosen=_pick(chosen, question),
        runner_up=_pick(allowed[1], question) if len(allowed) > 1 else None,
        baseline=_pick(best_baseline, question),
        not_run=_pick(better, question),
        serve=None if chosen is None else _serve(question, chosen),
        robustness=robustness,
        pareto=Fronts(front(baseline, question.batches), front(searched, question.batches)),
        candidates=int(sum(x.tpot_s.size for x in (*baseline, *drafted))),
        skipped=tuple(skips),
        unmeasured=would_pay,
        likely=likely,
        remedies=_remedies(question, allowed),
        calibration=Calibrated.of(alone[0].scenario) if alone else None,
        warnings=_warnings(chosen, question)
        if chosen is not None
        else tuple(
            note
            for candidate in alone[:1]
            for note in common_doubts(question, candidate.scenario, 1.0, float(question.context), 0)
        ),
    )


def _verdict(
    query: AdviseQuery,
    allowed: list[PricedPoint],
    robustness: Robustness | None,
    would_pay: tuple[BreakEven, ...],
) -> Any:
    """The verdict of the choice. A draft must pay at its own batch, as in `whatif`, and must beat the best
    baseline.
    """
    if robustness is None:
        return "infeasible"
    if (rival := next((p for p in allowed if p.gamma), None)) is None:
        return "unknown_acceptance" if would_pay else "do_not_speculate"
    at_its_batch = _point_verdict(query, rival)
    if not allowed[0].gamma:
        return "too_close_to_call" if at_its_batch == "too_close_to_call" else "do_not_speculate"
    interval = robustness.gain_over_baseline_interval
    if at_its_batch == "pays" and (interval is None or interval[0] > 1):
        return "speculate"
    return "too_close_to_call"


def _remedies(query: AdviseQuery, allowed: list[PricedPoint]) -> tuple[Remedy, ...]:
    """The switches with which the best draft pays at its batch, if the baseline is chosen over it."""
    rival = next((p for p in allowed if p.gamma), None)
    if rival is None or allowed[0].gamma:
        return ()
    s = rival.candidate.scenario
    point = query.query(
        batch=rival.batch,
        tp=rival.candidate.tp,
        draft=s.draft.name,
        draft_kv=s.draft.kv.label(),
        draft_tp=s.draft.tensor_parallel,
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
    room = memory_of(s, batch, context, float(gamma), query.memory_fraction)
    notes = [*warnings(query, s, batch, context, gamma, room.single()), *of_power(s, batch)]
    for name in query.draft or ():  # chosen or not
        with suppress(InputError):  # listed among the skipped
            named = query.query(batch=1, tp=chosen.candidate.tp, draft=name, draft_kv="full", draft_tp=None)
            notes += of_draft(resolve(named, UNUSED), context)
    return tuple(dict.fromkeys(notes))


def _pick(point: PricedPoint | None, query: AdviseQuery) -> Pick | None:
    if point is None:
        return None
    s = point.candidate.scenario
    tp = point.candidate.tp
    baseline = float(s.target_pass_s(float(point.batch), float(query.context)))
    throughput = point.batch / point.tpot_s
    energy = Passes(s, float(point.batch), float(query.context), np.array([point.gamma])).energy(s)
    return Pick(
        tp=tp,
        draft=s.draft.name if point.gamma else None,
        draft_kv=s.draft.kv.label() if point.gamma else None,
        draft_tp=s.draft.tensor_parallel if point.gamma else None,
        gamma=point.gamma,
        batch=point.batch,
        tpot_s=point.tpot_s,
        throughput_tokens_per_s=throughput,
        throughput_tokens_per_s_per_device=throughput / tp,
        cost_per_million_tokens=None if query.price is None else query.price * tp / 3600.0 * 1e6 / throughput,
        speedup=baseline / point.tpot_s,
        tokens_per_iteration=point.gained,
        acceptance_source=s.acceptance.source if point.gamma else None,
        runs_in=None if not point.gamma or point.candidate.runs is None else point.candidate.runs.text,
        objective=point.value if query.objective == "throughput" else -point.value,
        joules_per_token=energy.get("joules_per_token"),
        power_w=energy.get("power_w"),
    )


def _reason(
    query: AdviseQuery,
    chosen: PricedPoint,
    ranked: list[PricedPoint],
    would_pay: tuple[BreakEven, ...],
    likely: tuple[LikelyGain, ...],
    drafted: bool,
) -> str:
    stops = f"batch {chosen.batch}: {_why_no_larger_batch(query, chosen)}"
    if chosen.gamma:
        return f"{_why(chosen, query)}; {stops}"
    rival = next((p for p in ranked if p.gamma), None)
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
    larger = query.batches[query.batches > chosen.batch]
    if query.objective == "latency":
        return (
            "the smallest batch is the fastest" if chosen.batch == query.batches[0] else "the fastest allowed"
        )
    if larger.size == 0:
        return "the end of the batch range"
    if not bool(fits(chosen.candidate.scenario, float(larger[0]), float(chosen.gamma), query)):
        return "memory is full"
    return "the bound on time per token" if query.max_tpot_ms is not None else "larger ones give no more"
