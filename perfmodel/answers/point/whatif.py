"""Does speculation pay at one point?"""

import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from perfmodel.answers.advice.best import best_batch
from perfmodel.answers.declaration import asks
from perfmodel.answers.point.judged_length import JudgedLength, least_loss
from perfmodel.answers.point.remedies import Remedy, remedies
from perfmodel.answers.point.verdict import (
    LIKELY,
    MAY_NOT_PAY,
    Calibrated,
    Verdict,
    does_not_fit,
    reason,
    verdict,
    warnings,
)
from perfmodel.answers.point.whatif_answer import NONE_ACCEPTED, Accepted, CostRatios, WhatIf
from perfmodel.answers.question import (
    Query,
    of_power,
    resolve,
    resolve_costs,
    runs_in,
    with_draft,
)
from perfmodel.answers.question.typical import TypicalGain, typical_acceptance
from perfmodel.errors import InputError
from perfmodel.specs import COVERAGE, DRIFT, UnknownAcceptance, engine_of
from perfmodel.speculation import (
    Acceptance,
    ContextLengths,
    Memory,
    Passes,
    Prediction,
    Scenario,
    Workload,
    acceptance_log_error,
    alpha_from_tokens_per_iteration,
    context_lengths,
    fraction_of,
    interval_of,
    interval_of_speedup,
    is_measured,
    iteration_log_error,
    kv_cache_of,
    memory_bound_context,
    memory_of,
    predict,
    ratio_log_error,
    speedups,
    step_log_error,
)

FIGURES = (
    "overhead_s",
    "speedup",
    "tpot_s",
    "ar_tpot_s",
    "iteration_s",
    "throughput_tokens_per_s",
    "ar_throughput_tokens_per_s",
    "gamma_optimal",
    "speedup_at_gamma_optimal",
)
"""Figures of a prediction that an answer states under the same name."""
UNKNOWN: dict[str, Any] = dict.fromkeys(
    (
        "speedup",
        "speedup_interval",
        "tpot_s",
        "throughput_tokens_per_s",
        "gamma_optimal",
        "speedup_at_gamma_optimal",
        "break_even_new_tokens",
        "best",
        "joules_per_token",
    )
)
"""Fields that are None where no acceptance is known."""


@asks(Query)
def whatif(query: Query) -> WhatIf:
    """Does speculation pay for this model, device, batch and context, and why? Raises InputError."""
    workload = Workload.of(query.batch, query.context, 0 if query.gamma is None else query.gamma)
    try:
        scenario = resolve(query)
    except UnknownAcceptance as unknown:
        return _undecided(query, unknown)
    if scenario.acceptance is None:
        with suppress(InputError):  # the baseline needs no acceptance, but the best gamma does
            scenario = resolve(replace(query, gamma=None))
    return _assemble(
        query, scenario, predict(scenario, workload, _longest(query, scenario), at_best=query.gamma is None)
    )


def _undecided(query: Query, unknown: UnknownAcceptance) -> WhatIf:
    """The answer without a known acceptance: everything that does not depend on it, and the break-even
    acceptance.
    """
    drafted_query = with_draft(query)
    batch = float(query.batch)
    context = float(query.context)
    gamma, alpha = _least_break_even(resolve_costs(drafted_query), query)
    # figures that depend on the acceptance are computed at the break-even acceptance, and then removed
    assumed = Acceptance.from_alpha(1.0 if alpha is None else alpha, source="unknown")
    assumed = assumed.replace(measured_at=(float(gamma),))
    scenario = resolve(drafted_query, assumed)
    prediction = predict(scenario, Workload.of(batch, context, gamma), query.max_gamma)
    a = _assemble(replace(query, gamma=gamma), scenario, prediction)
    lengths = f"gamma {gamma}" if query.gamma else "any gamma"
    if alpha is None:
        pays = f"does not pay at {lengths}, whatever the acceptance"
    else:
        pays = f"pays from alpha {alpha:.2f} (gamma {gamma})"
    why = f"{unknown.why}; {pays}"
    word: Verdict = "unknown_acceptance"
    if alpha is None:
        word = "does_not_pay" if is_measured(scenario) else LIKELY["does_not_pay"]
    typical = None if alpha is None else _typical(query, scenario)
    if typical is not None:
        why = f"{typical.sentence}; {pays}"
    answered = word
    if not a.memory.fits:
        answered = a.verdict
        why = f"{does_not_fit(a.memory, gamma, word)}; {why}"
    return replace(
        a,
        verdict=answered,
        reason=why,
        acceptance=Accepted(None, None, f"none is known; {unknown.known}".removesuffix("; ")),
        break_even_alpha=alpha,
        typical=typical,
        inflection=replace(a.inflection, break_even_context=None, inflection_context=None),
        remedies=(),
        **UNKNOWN,
    )


def _typical(query: Query, scenario: Scenario) -> TypicalGain | None:
    """The gain with a typical acceptance of the draft's kind; None if too few were published."""
    typical = typical_acceptance(scenario.draft)
    if typical is None:
        return None
    longest = min(query.max_gamma, len(typical.low))
    lengths = np.array([query.gamma] if query.gamma else range(longest + 1))
    if lengths.max() > len(typical.low):
        return None
    ends = [scenario.with_acceptance(acceptance) for acceptance in typical.acceptances()]
    low, high = (speedups(end, float(query.batch), float(query.context), lengths).max() for end in ends)
    return TypicalGain.of(query.model, scenario.draft, typical, float(low), float(high))


def _least_break_even(scenario: Scenario, query: Query) -> tuple[int, float | None]:
    """The draft length with the smallest break-even acceptance, and this acceptance (constant; None if even 1
    is too low). If the question states a draft length, it is the only one.

    Each sequence advances by its own count, so an iteration must gain iteration time / step time tokens.
    """
    most = max(scenario.longest(query.max_gamma), 1)
    gammas = np.array([query.gamma] if query.gamma else range(1, most + 1))
    certain = scenario.with_acceptance(Acceptance.from_alpha(1.0))
    needed = (gammas + 1.0) / speedups(certain, float(query.batch), float(query.context), gammas)
    alphas = alpha_from_tokens_per_iteration(np.clip(needed, 1.0, gammas + 1.0), gammas.astype(float))
    reached = np.where(needed <= gammas + 1.0, alphas, np.inf)
    at = int(np.argmin(reached))
    return int(gammas[at]), float(reached[at]) if np.isfinite(reached[at]) else None


def _longest(query: Query, scenario: Scenario) -> int:
    """The longest draft to try. Where verification keeps a state for each token, it is the longest one that
    fits.
    """
    most = query.max_gamma
    if scenario.target_shard.states is None:
        return most
    batch = float(query.batch)
    context = float(query.context)
    fits = memory_of(scenario, batch, context, np.arange(1.0, most + 1.0), query.memory_fraction).fits
    return int(np.sum(fits)) or most


def _break_even(p: Prediction, gamma: int) -> float | None:
    """The constant acceptance at which the gain equals the cost of an iteration, in baseline tokens."""
    needed = float(p.tokens_per_iteration) / float(p.speedup)
    if not gamma or needed > gamma + 1:
        return None
    return float(alpha_from_tokens_per_iteration(max(needed, 1.0), gamma))


def _assemble(query: Query, scenario: Scenario, p: Prediction) -> WhatIf:
    batch = float(p.batch)
    context = float(query.context)
    gamma = int(p.gamma)
    passes = Passes(scenario, batch, context, np.array([gamma]))
    target_step = scenario.target_step_at(batch, context, 1.0)
    verify_step = scenario.target_step_at(batch, context, gamma + 1.0)
    draft_step = scenario.draft_step_at(batch, context, float(scenario.draft.query(max(gamma, 1.0))))
    if scenario.power_limit_w is not None:
        slower = float(p.verify_s) / verify_step.predicted_s
        draft_step = draft_step.slowed(slower)
        verify_step = verify_step.slowed(slower)
        target_step = target_step.slowed(float(p.target_s) / target_step.predicted_s)
    ratio = ratio_log_error(scenario, passes, float(p.iteration_s / p.target_s))
    step_off = step_log_error(scenario, target_step, batch, context)
    gained = float(p.tokens_per_iteration)
    interval = interval_of_speedup(scenario, gamma, gained, float(p.speedup), ratio)
    ar_tpot = iteration = None
    if step_off is not None:
        ar_tpot = interval_of(float(p.ar_tpot_s), float(step_off))
        iteration_off = iteration_log_error(scenario, float(step_off), ratio or 0.0)
        iteration = interval_of(float(p.iteration_s), iteration_off)
    setup = float(scenario.setup_s(batch, context)) if gamma else 0.0
    saved = float(p.ar_tpot_s - p.tpot_s)
    repaid_tokens = math.ceil(setup / saved) if saved > 0 else None
    room = memory_of(scenario, batch, context, gamma, query.memory_fraction).single()
    least = _least_loss(query, scenario, gamma)
    why = _reason(scenario, p, context, str(target_step.limiter), least)
    if not room.fits:
        otherwise = verdict(scenario, context, float(p.speedup), interval, gamma)
        why = f"{does_not_fit(room, gamma, otherwise)}; {why}"
    word = verdict(scenario, context, float(p.speedup), interval, gamma, room.fits)
    if least is not None and room.fits:
        word = least.verdict
    if gamma:
        lengths = context_lengths(scenario, batch, gamma, query.batch_range)
        runs = runs_in(engine_of(scenario.machine.calibration), scenario.draft, query.engine)
    else:
        lengths = ContextLengths(memory_bound_context(scenario, batch), None, None)
        runs = None
    switches: tuple[Remedy, ...] = ()
    asks_for_draft = query.gamma != 0 and scenario.acceptance is not None
    if asks_for_draft and word in MAY_NOT_PAY:
        switches = remedies(query, scenario, float(p.speedup_at_gamma_optimal))
    doubts = (
        *warnings(query, scenario, batch, context, gamma, room),
        *of_power(scenario, batch),
        *_of_states(query, scenario, gamma, room),
    )
    figures = {name: np.asarray(getattr(p, name)).item() for name in FIGURES}
    ratios = CostRatios(float(p.draft_to_target), float(p.verify_to_target))
    best = best_batch(scenario, context, query.max_gamma, query.memory_fraction)
    cache = kv_cache_of(scenario, gamma, query.memory_fraction)
    return WhatIf(
        query=_resolved(query, scenario, gamma),
        verdict=word,
        reason=why,
        target_step=target_step,
        draft_step=draft_step,
        verify_step=verify_step,
        cost_ratios=ratios,
        acceptance=_accepted(scenario, p, gamma),
        **figures,
        speedup_interval=interval,
        interval_coverage=None if interval is None else COVERAGE,
        ar_tpot_interval=ar_tpot,
        iteration_interval=iteration,
        break_even_alpha=_break_even(p, gamma),
        inflection=lengths,
        draft_setup_s=setup,
        break_even_new_tokens=repaid_tokens,
        memory=room,
        kv_cache=cache,
        calibration=Calibrated.of(scenario),
        runs_in=None if runs is None else runs.text,
        best=best,
        **passes.energy(scenario),
        remedies=switches,
        warnings=doubts,
    )


def _of_states(query: Query, scenario: Scenario, gamma: int, room: Memory[float]) -> Iterator[str]:
    """A warning if the batch fits only with one state of the recurrent layers for each sequence."""
    if room.fits or not gamma or not scenario.target_shard.states or query.state_rollback != "keep":
        return
    one_state = resolve_costs(replace(with_draft(query), state_rollback="replay"))
    batch = float(query.batch)
    holds = memory_of(one_state, batch, float(query.context), gamma, query.memory_fraction).single()
    if holds.fits:
        yield (
            f"the prediction keeps a recurrent state for each of the {gamma + 1} verified tokens; an engine "
            f"with one state per sequence has room for batch {holds.max_batch} (--state-rollback replay)"
        )


def _accepted(scenario: Scenario, p: Prediction, gamma: int) -> Accepted:
    acceptance = scenario.acceptance
    if acceptance is None:
        return NONE_ACCEPTED
    gained = float(p.tokens_per_iteration)
    off = float(acceptance_log_error(scenario, gamma))
    low, high = interval_of(gained, off)
    return Accepted(
        acceptance.alpha,
        gained,
        acceptance.source,
        (max(low, 1.0), min(high, gamma + 1.0)) if off > 0 else None,
    )


def _resolved(query: Query, scenario: Scenario, gamma: int) -> Query:
    draft = scenario.draft
    machine = scenario.machine
    precision = scenario.precision
    head = scenario.target.head
    engine = query.engine
    if DRIFT not in (engine or ""):
        engine = engine_of(machine.calibration)
    group = max((a.layout.group for a in scenario.target_shard.attentions), default=1.0)
    reread = float(machine.attention.reread(gamma + 1.0, head, precision.narrow_kv, group))
    return replace(
        query,
        model=scenario.target.name,
        hardware=machine.gpu.label,
        gamma=gamma,
        draft=draft.name,
        draft_tp=draft.tensor_parallel,
        draft_kv=draft.kv.label(),
        weights=precision.weights.name,
        draft_weights=draft.precision.weights.name,
        kv_dtype=precision.kv.name,
        draft_kv_dtype=draft.precision.kv.name,
        kv_reread=reread,
        attention_backend=machine.attention.backend(head, precision.narrow_kv),
        engine=engine,
        calibration=machine.calibration.name,
        memory_fraction=fraction_of(scenario, gamma, query.memory_fraction),
        max_model_len=scenario.account.length(scenario.target_shard),
    )


def _least_loss(query: Query, scenario: Scenario, gamma: int) -> JudgedLength | None:
    """The draft length that loses least, if the search for one found none that gains; else None."""
    if gamma or query.gamma is not None or scenario.acceptance is None:
        return None
    return least_loss(query, scenario)


def _reason(
    scenario: Scenario, p: Prediction, context: float, limiter: str, least: JudgedLength | None
) -> str:
    """`reason`; if no draft pays, why the one that loses least does not (the shortest one if none is given);
    or that the acceptance is unknown.
    """
    if scenario.acceptance is None:
        return (
            "gamma 0 is the baseline; give an acceptance, such as an alpha, to see whether a draft would pay"
        )
    if int(p.gamma) or int(p.gamma_optimal):
        return reason(p, limiter)
    tried = 1 if least is None else least.gamma
    workload = Workload.of(p.batch, context, tried)
    why = reason(predict(scenario, workload, tried), limiter)
    words = f"at gamma {tried}" if least is None else f"{least.text}:"
    return f"{reason(p, limiter)}; {words} {why}"
