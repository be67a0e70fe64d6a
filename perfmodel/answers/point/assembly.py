"""Makes the answer about one point: the prediction with its intervals, verdict, memory and warnings."""

import math
from dataclasses import replace
from typing import Any

import numpy as np

from perfmodel.answers.advice.best import best_batch
from perfmodel.answers.point.calibrated import Calibrated
from perfmodel.answers.point.judged_length import JudgedLength, least_loss
from perfmodel.answers.point.reason import reason
from perfmodel.answers.point.verdict import MAY_NOT_PAY, Verdict, does_not_fit, verdict
from perfmodel.answers.point.warnings import warnings
from perfmodel.answers.point.whatif_answer import NONE_ACCEPTED, Accepted, CostRatios, Remedy, WhatIf
from perfmodel.answers.question import Query, of_power, runs_in
from perfmodel.costs.pass_time import PassTime
from perfmodel.specs import COVERAGE, VERSION_SEPARATOR, engine_of
from perfmodel.specs.models.variants import asked_name
from perfmodel.speculation import (
    ContextLengths,
    Passes,
    Prediction,
    Scenario,
    Workload,
    acceptance_log_error,
    alpha_from_tokens_per_iteration,
    chance_above_one,
    context_lengths,
    fraction_of,
    interval_of,
    interval_of_speedup,
    iteration_log_error,
    kv_cache_of,
    memory_bound_context,
    memory_of,
    predict,
    ratio_log_error,
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
"""Fields of a prediction that an answer has under the same name."""


def assembled(query: Query, scenario: Scenario, prediction: Prediction) -> WhatIf:
    """The answer of `whatif` to a question.

    - prediction: the prediction of the question's single point.
    """
    batch = float(prediction.batch)
    context = float(query.context)
    gamma = int(prediction.gamma)
    passes = Passes(scenario, batch, context, np.array([gamma]))
    target_step, draft_step, verify_step = _steps(scenario, prediction, context)
    intervals = _intervals(scenario, prediction, passes, target_step, context)
    memory = memory_of(scenario, batch, context, gamma, query.memory_fraction).single()
    least = _least_loss(query, scenario, gamma)
    speedup = float(prediction.speedup)
    interval = intervals["speedup_interval"]
    why = _reason(scenario, prediction, context, str(target_step.limiter), least)
    if not memory.fits:
        otherwise = verdict(scenario, context, speedup, interval, gamma)
        why = f"{does_not_fit(memory, gamma, otherwise, scenario.account.margin_bytes)}; {why}"
    word = verdict(scenario, context, speedup, interval, gamma, memory.fits)
    if least is not None and memory.fits:
        word = least.verdict
    doubts = (
        *warnings(query, scenario, batch, context, gamma, memory),
        *of_power(scenario, batch),
    )
    part = None
    if not memory.fits:
        from perfmodel.answers.point.admitted import admitted, of_states  # most questions fit

        part = admitted(query, scenario, gamma, memory)
        doubts += tuple(of_states(query, scenario, gamma, memory))
    ratios = CostRatios(float(prediction.draft_to_target), float(prediction.verify_to_target))
    cache = kv_cache_of(scenario, gamma, query.memory_fraction)
    best = best_batch(scenario, context, query.max_gamma, query.memory_fraction)
    figures = {name: np.asarray(getattr(prediction, name)).item() for name in FIGURES}
    return WhatIf(
        query=_resolved(query, scenario, gamma),
        shape=scenario.target.name,
        verdict=word,
        reason=why,
        target_step=target_step,
        draft_step=draft_step,
        verify_step=verify_step,
        cost_ratios=ratios,
        acceptance=_accepted(scenario, prediction, gamma),
        **figures,
        **intervals,
        break_even_alpha=_break_even(prediction, gamma),
        **_set_up(scenario, prediction, context),
        **_lengths_and_engine(query, scenario, batch, gamma),
        memory=memory,
        admitted=part,
        kv_cache=cache,
        calibration=Calibrated.of(scenario),
        best=best,
        **passes.energy(scenario),
        remedies=_remedies(query, scenario, prediction, word),
        warnings=doubts,
    )


def _steps(
    scenario: Scenario, prediction: Prediction, context: float
) -> tuple[PassTime[float], PassTime[float], PassTime[float]]:
    """One pass of the baseline, of the draft and of the verification. With a power limit, the passes have the
    longer times of the prediction.
    """
    batch = float(prediction.batch)
    gamma = int(prediction.gamma)
    draft_tokens = float(scenario.draft.query(max(gamma, 1.0)))
    target = scenario.target_step_at(batch, context, 1.0)
    verify = scenario.target_step_at(batch, context, gamma + 1.0)
    draft = scenario.draft_step_at(batch, context, draft_tokens)
    if scenario.power_limit_w is None:
        return target, draft, verify
    target_slower = float(prediction.target_s) / target.predicted_s
    # a limit slows the whole iteration, so the draft is slowed by the same factor as the verification
    iteration_slower = float(prediction.verify_s) / verify.predicted_s
    return target.slowed(target_slower), draft.slowed(iteration_slower), verify.slowed(iteration_slower)


def _intervals(
    scenario: Scenario,
    prediction: Prediction,
    passes: Passes,
    target_step: PassTime[float],
    context: float,
) -> dict[str, Any]:
    """The intervals of speedup, baseline TPOT and iteration time, and the chance that speculation is faster
    than the baseline. They are None if no error of the
    calibration is known.
    """
    ratio_error = ratio_log_error(scenario, passes, float(prediction.iteration_s / prediction.target_s))
    speedup = interval_of_speedup(
        scenario,
        int(prediction.gamma),
        float(prediction.tokens_per_iteration),
        float(prediction.speedup),
        ratio_error,
    )
    baseline = iteration = None
    step_error = step_log_error(scenario, target_step, float(prediction.batch), context)
    if step_error is not None:
        iteration_error = iteration_log_error(scenario, float(step_error), ratio_error or 0.0)
        baseline = interval_of(float(prediction.ar_tpot_s), float(step_error))
        iteration = interval_of(float(prediction.iteration_s), iteration_error)
    return {
        "speedup_interval": speedup,
        "interval_coverage": None if speedup is None else COVERAGE,
        "chance_above_one": None if speedup is None else chance_above_one(speedup),
        "ar_tpot_interval": baseline,
        "iteration_interval": iteration,
    }


def _set_up(scenario: Scenario, prediction: Prediction, context: float) -> dict[str, Any]:
    """The time that a draft adds before the first token, in seconds. The second value is the number of output
    tokens after which the draft has saved this time.
    """
    setup_s = 0.0
    if prediction.gamma:
        setup_s = float(scenario.setup_s(float(prediction.batch), context))
    saved_s = float(prediction.ar_tpot_s - prediction.tpot_s)  # per token
    break_even = math.ceil(setup_s / saved_s) if saved_s > 0 else None
    return {"draft_setup_s": setup_s, "break_even_new_tokens": break_even}


def _lengths_and_engine(query: Query, scenario: Scenario, batch: float, gamma: int) -> dict[str, Any]:
    """The context lengths, and the engine that runs the draft. For a question about the baseline, only the
    memory-bound length is computed.
    """
    if not gamma:
        only_memory = ContextLengths(memory_bound_context(scenario, batch), None, None)
        return {"inflection": only_memory, "runs_in": None}
    engine = engine_of(scenario.machine.calibration)
    vendor = scenario.machine.gpu.vendor
    runs = runs_in(engine, scenario.draft, query.engine, query.dp, vendor)
    return {
        "inflection": context_lengths(scenario, batch, gamma, query.batch_range),
        "runs_in": None if runs is None else runs.text,
    }


def _remedies(query: Query, scenario: Scenario, prediction: Prediction, word: Verdict) -> tuple[Remedy, ...]:
    """The changes with which the draft would pay off. They are only searched if the draft may not pay off,
    and not for a question about the baseline.
    """
    if query.gamma == 0 or word not in MAY_NOT_PAY:
        return ()
    from perfmodel.answers.point.remedies import remedies  # most drafts pay

    return remedies(query, scenario, float(prediction.speedup_at_gamma_optimal))


def _accepted(scenario: Scenario, prediction: Prediction, gamma: int) -> Accepted:
    """The acceptance in use, with the interval of its tokens per iteration if they are uncertain."""
    acceptance = scenario.acceptance
    if acceptance is None:
        return NONE_ACCEPTED
    gained = float(prediction.tokens_per_iteration)
    log_error = float(acceptance_log_error(scenario, gamma))
    interval = None
    if log_error > 0:
        low, high = interval_of(gained, log_error)
        interval = (max(low, 1.0), min(high, gamma + 1.0))
    return Accepted(acceptance.alpha, gained, acceptance.source, interval)


def _break_even(prediction: Prediction, gamma: int) -> float | None:
    """The constant acceptance at which the gain equals the cost of an iteration, in baseline tokens."""
    needed = float(prediction.tokens_per_iteration) / float(prediction.speedup)
    if not gamma or needed > gamma + 1:
        return None
    return float(alpha_from_tokens_per_iteration(max(needed, 1.0), gamma))


def _resolved(query: Query, scenario: Scenario, gamma: int) -> Query:
    """The question with all names resolved and all defaults filled in."""
    draft = scenario.draft
    machine = scenario.machine
    precision = scenario.precision
    head = scenario.target.head
    engine = query.engine
    if VERSION_SEPARATOR not in (engine or ""):  # otherwise the question states a version, which is kept
        engine = engine_of(machine.calibration)
    group = max((a.layout.group for a in scenario.target_shard.attentions), default=1.0)
    reread = float(machine.attention.reread(gamma + 1.0, head, precision.narrow_kv, group))
    return replace(
        query,
        model=asked_name(query.model, scenario.target),
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
    """The draft length that loses least, if the search found no draft length that gains; otherwise None."""
    if gamma or query.gamma is not None:
        return None
    return least_loss(query, scenario)


def _reason(
    scenario: Scenario, prediction: Prediction, context: float, limiter: str, least: JudgedLength | None
) -> str:
    """The reason of the verdict. If no draft length pays off, the text also has the reason for the length
    that loses least, or else for length 1. Without an acceptance, the text asks for one.
    """
    if scenario.acceptance is None:
        return (
            "gamma 0 is the baseline; give an acceptance, such as an alpha, to see whether a draft pays off"
        )
    if int(prediction.gamma) or int(prediction.gamma_optimal):
        return reason(prediction, limiter)
    tried = 1 if least is None else least.gamma
    workload = Workload.of(prediction.batch, context, tried)
    why = reason(predict(scenario, workload, tried), limiter)
    words = f"at gamma {tried}" if least is None else f"{least.text}:"
    return f"{reason(prediction, limiter)}; {words} {why}"
