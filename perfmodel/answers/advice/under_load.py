"""`advise` under a load: how many GPUs, in which layout, with which draft, as `traffic` predicts it."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from perfmodel.answers.advice.advice import UNITS, Advice, AdviseVerdict, Objective
from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.candidates import (
    Candidate,
    Candidates,
    Skip,
    find_candidates,
    without_acceptance,
)
from perfmodel.answers.advice.likely import cautious_point, likely_gains
from perfmodel.answers.advice.load_reasons import at_batch, load_reason, why_insufficient
from perfmodel.answers.advice.margins import worth_the_risk
from perfmodel.answers.advice.on_off import on_off
from perfmodel.answers.advice.one_server import point_speedup, point_verdict, serve
from perfmodel.answers.advice.picks import Pick, pick_of
from perfmodel.answers.advice.pools.search import advise_pools
from perfmodel.answers.advice.ranking import ALIKE
from perfmodel.answers.advice.served import Served, estimated, replayed
from perfmodel.answers.advice.shorter_draft import shorter_draft
from perfmodel.answers.load.closed_form_range import Doubt
from perfmodel.answers.load.rows_by_load import check_positions
from perfmodel.answers.point.verdict import Calibrated, Verdict
from perfmodel.answers.question.typical import TypicalGain
from perfmodel.errors import InputError, as_names
from perfmodel.specs import load_model

MOST_OFF = 1.1
"""Factor by which times of the closed form may be longer than those of a replay. For 148 candidates with
doubts (five models, 0.2 to 12 requests/s) it is at most 1.03, but up to 12 on crowded servers, which are
always replayed.
"""
LEAST_SHARE = 0.6
"""Share of requests within the limits by the closed form from which a replay may find enough of them. Of the
same candidates, those with enough have at least 0.93.
"""
ON: dict[Verdict, AdviseVerdict] = {"pays": "speculate", "likely_pays": "likely_speculate"}
"""Verdict of `whatif` at the mean batch -> the verdict of a draft that `traffic` chooses."""


def under_load(question: AdviseQuery) -> Advice:
    """The fewest GPUs that serve the load within the limits, and of these the layout and draft with which a
    request ends first; with a given number of GPUs, the latter alone. Raises InputError for requests that are
    longer than the model's positions.
    """
    assert question.input_len is not None
    assert question.output_len is not None
    tokens = question.input_len + question.output_len
    context = question.input_len + question.output_len // 2
    question = replace(question, context=context)
    stated = f"--input-len {question.input_len} and --output-len {question.output_len}"
    check_positions(tokens, stated, load_model(question.model))
    candidates = find_candidates(question)
    pools = None
    if question.searches_pools:
        pools, candidates = advise_pools(question, candidates)
    drafted = [c for c in candidates.drafted if question.may_choose(c.runs)]
    served = [*_served(question, candidates, drafts=False), *_served(question, candidates, drafts=True)]
    sufficient = [s for s in served if s.suffices]
    baseline = _choose([s for s in sufficient if not s.row.gamma], question)
    rival = _choose([s for s in sufficient if s.row.gamma], question)
    chosen = _better(baseline, rival, question)
    verdict = _verdict(question, chosen, drafted)
    option = None
    if chosen and baseline and verdict == "too_close_to_call" and not _worth_the_risk(question, chosen):
        option = chosen
        chosen = baseline
    weighed = [s for s in sufficient if s is not chosen and (option is None or not s.row.gamma)]
    others = sorted(weighed, key=lambda s: _order(s, question))
    layouts: dict[str, Served] = {}
    for s in ([chosen] if chosen else []) + others:
        layouts.setdefault(s.candidate.layout.label(), s)
    likely: tuple[TypicalGain, ...] = ()
    option_line = None if option is None else serve(question, option.point, option.seats)
    if chosen is None:
        reason = why_insufficient(question, served, candidates)
        line = None
        warnings: tuple[str, ...] = ()
    else:
        if verdict == "unknown_acceptance":
            at_its_batch = chosen.at_its_batch(question)
            alone = at_batch(question, at_its_batch.batch)
            likely = likely_gains(alone, at_its_batch)
            measured = cautious_point(alone, at_its_batch, likely)
            option_line = None if measured is None else serve(question, measured, chosen.seats)
        reason = load_reason(question, chosen, baseline, rival, likely)
        line = serve(question, chosen.point, chosen.seats)
        warnings = chosen.warnings
    calibration = None
    if candidates.baselines:
        calibration = Calibrated.of(candidates.baselines[0].scenario)
    switch = None if rival is None else on_off(rival.point, question)
    drafting = option or chosen
    shorter = shorter_draft(question, None if drafting is None else drafting.point)
    runner_up = _pick(others[0], question) if others else None
    shown = tuple(_picked(s, question) for s in layouts.values())
    return Advice(
        query=question,
        verdict=verdict,
        reason=reason,
        objective=Objective(question.objective, UNITS[question.objective]),
        chosen=_pick(chosen, question),
        runner_up=runner_up,
        option=_pick(option, question),
        baseline=_pick(baseline, question),
        layouts=shown,
        on_off=switch,
        serve=line,
        serve_option=option_line,
        likely=likely,
        shorter=shorter,
        candidates=len(served),
        skipped=tuple(candidates.skips),
        calibration=calibration,
        warnings=(*candidates.left_out(question), *warnings),
        pools=pools,
    )


def _served(question: AdviseQuery, candidates: Candidates, drafts: bool) -> list[Served]:
    """The load on the servers of each candidate, without or with drafts. One that may be the best is answered
    by `traffic`; others, by the closed form alone.
    """
    estimates = list(_estimates(question, candidates, drafts))
    by_worth = sorted(range(len(estimates)), key=lambda at: _order(estimates[at], question))
    served: dict[int, Served | None] = {}
    sufficient: list[Served] = []
    for at in by_worth:
        estimate = estimates[at]
        if not _may_suffice(estimate) or any(_is_beaten(estimate, s, question) for s in sufficient):
            served[at] = estimate if estimate.pays else None
            continue
        served[at] = found = replayed(question, estimate)
        if found is not None and found.suffices:
            sufficient.append(found)
    if estimates and not sufficient:
        nearest = max(range(len(estimates)), key=lambda at: estimates[at].row.slo_share or 0.0)
        if not _may_suffice(estimates[nearest]):  # all others are replayed
            served[nearest] = replayed(question, estimates[nearest])
    return [found for _, found in sorted(served.items()) if found is not None]


def _estimates(question: AdviseQuery, candidates: Candidates, drafts: bool) -> Iterator[Served]:
    """Each candidate by the closed form. One that `traffic` refuses is skipped."""
    drafted = [c for c in candidates.drafted if question.may_choose(c.runs)]
    for candidate in drafted if drafts else candidates.baselines:
        try:
            estimate = estimated(question, candidate, drafts)
        except InputError as error:
            skip = Skip(candidate.layout.label(), "any", as_names(error.as_flags))
            candidates.skips.append(skip)
            continue
        if estimate is not None:
            yield estimate


def _may_suffice(estimate: Served) -> bool:
    """Whether a replay may find that the servers suffice."""
    share = estimate.row.slo_share
    return estimate.row.ttft_s is not None and (share is None or share >= LEAST_SHARE)


def _is_beaten(estimate: Served, served: Served, question: AdviseQuery) -> bool:
    """Whether a candidate cannot be better than an answer of `traffic`, as far as the closed form may err."""
    gpus = served.candidate.layout.gpus
    estimated_gpus = estimate.candidate.layout.gpus
    by_tpot = question.objective == "latency"
    if not by_tpot and estimated_gpus > MOST_OFF * gpus:
        return True
    if Doubt.CROWDED in estimate.row.doubts:
        return False
    off = MOST_OFF if estimate.row.doubts else 1.0 + ALIKE
    if by_tpot:
        return estimate.tpot_s > off * served.tpot_s
    return estimated_gpus >= gpus and estimate.request_s > off * served.request_s


def _order(served: Served, question: AdviseQuery) -> tuple[float, float]:
    """Sorts layouts: fewer GPUs first, then the earlier end of a request; for latency the TPOT alone."""
    if question.objective == "latency":
        return served.tpot_s, 0.0
    return float(served.candidate.layout.gpus), served.request_s


def _choose(served: Sequence[Served], question: AdviseQuery) -> Served | None:
    """The first by `_order`; of layouts with as many GPUs and a time at most `ALIKE` longer, the simplest."""
    if not served:
        return None

    def time_s(of: Served) -> float:
        return of.tpot_s if question.objective == "latency" else of.request_s

    first = min(served, key=lambda s: _order(s, question))
    gpus = first.candidate.layout.gpus
    as_many = [s for s in served if s.candidate.layout.gpus == gpus]
    close = [s for s in as_many if time_s(s) <= time_s(first) * (1.0 + ALIKE)]
    return min(close, key=lambda s: (s.candidate.layout.simplicity, time_s(s)))


def _better(baseline: Served | None, rival: Served | None, question: AdviseQuery) -> Served | None:
    """The better of two; the baseline on a tie."""
    if baseline is None or rival is None:
        return baseline or rival
    return rival if _order(rival, question) < _order(baseline, question) else baseline


def _verdict(question: AdviseQuery, chosen: Served | None, drafted: Sequence[Candidate]) -> AdviseVerdict:
    """The verdict of `traffic` for the choice, which also needs that of `whatif` at its mean batch."""
    if chosen is None:
        return "infeasible"
    if chosen.row.gamma:
        at_its_batch = point_verdict(question, chosen.at_its_batch(question))
        return ON.get(at_its_batch, "too_close_to_call")
    if not drafted and without_acceptance(question):
        return "unknown_acceptance"
    return "do_not_speculate"


def _worth_the_risk(question: AdviseQuery, chosen: Served) -> bool:
    """Whether a draft is advised although its gain by `whatif` at its mean batch is too close to call."""
    speedup, interval = point_speedup(question, chosen.at_its_batch(question))
    return interval is None or worth_the_risk(speedup, interval)


def _pick(served: Served | None, question: AdviseQuery) -> Pick | None:
    return None if served is None else _picked(served, question)


def _picked(served: Served, question: AdviseQuery) -> Pick:
    """The configuration with the rates of `traffic`."""
    row = served.row
    layout = served.candidate.layout
    total = layout.replicas * row.output_tokens_per_s
    per_gpu = total / layout.gpus
    cost = None if question.dollars is None else question.dollars / 3600.0 * 1e6 / per_gpu
    worth = {"throughput": per_gpu, "latency": served.tpot_s, "cost": cost or 0.0}
    load_share = None
    if row.saturation_rate:
        load_share = row.requests_per_s / row.saturation_rate
    return replace(
        pick_of(served.point, question, served.seats),
        throughput_tokens_per_s=row.output_tokens_per_s,
        throughput_tokens_per_s_per_device=per_gpu,
        all_servers_tokens_per_s=total,
        cost_per_million_tokens=cost,
        speedup=served.speedup,
        objective=worth[question.objective],
        ttft_s=None if row.ttft_s is None else row.ttft_s.mean,
        slo_share=row.slo_share,
        load_share=load_share,
    )
