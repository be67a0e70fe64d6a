"""The answer to one question, as the contract of ``perfmodel whatif --json`` (docs/cli.md) spells it."""

import math
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from perfmodel.answers.inflection import inflection, memory_bound_context
from perfmodel.answers.query import NO_ACCEPTANCE, Query, resolve
from perfmodel.costs.roofline import LIMITERS, PassTime
from perfmodel.errors import InputError
from perfmodel.specs.formats import weight_format
from perfmodel.speculation import capacity
from perfmodel.speculation.chain import Prediction, predict
from perfmodel.speculation.scenario import Scenario
from perfmodel.speculation.uncertainty import speedup_interval
from perfmodel.speculation.workload import Workload

SCHEMA_VERSION = 1


def answer(query: Query) -> dict[str, Any]:
    """Answer one question completely; plain JSON types, None where there is none. Raises InputError."""
    workload = Workload.of(query.batch, query.context, 0 if query.gamma is None else query.gamma)
    if workload.batch.size != 1 or workload.context.size != 1 or workload.gamma.size != 1:
        raise InputError("whatif: one batch, context and gamma a question; ask `perfmodel sweep` for grids")
    scenario = resolve(query)
    if scenario.acceptance.source == NO_ACCEPTANCE:
        with suppress(InputError):  # plain decoding needs none, but the best gamma beside it does
            scenario = resolve(replace(query, gamma=None))
    prediction = predict(scenario, workload, query.max_gamma)
    if query.gamma is None:
        workload = replace(workload, gamma=np.asarray(prediction.gamma_optimal))
        prediction = predict(scenario, workload, query.max_gamma)
    return _assemble(query, scenario, workload, prediction)


def _assemble(query: Query, scenario: Scenario, workload: Workload, p: Prediction) -> dict[str, Any]:
    batch, context, gamma = float(workload.batch), float(workload.context), int(workload.gamma)
    interval = speedup_interval(scenario, batch, context, gamma, float(p.speedup))
    setup = float(scenario.setup_s(batch, context)) if gamma else 0.0
    saved = float(p.ar_tpot_s - p.tpot_s)
    room = capacity.memory_of(scenario, batch, context, gamma, query.memory_fraction)
    target_step = step_dict(scenario.target_step(batch, context))
    verdict = _verdict(float(p.speedup), interval, gamma)
    return {
        "schema_version": SCHEMA_VERSION,
        "query": _resolved(query, scenario, gamma),
        "verdict": verdict,
        "reason": _reason(scenario, workload, p, target_step["limiter"]),
        "target_step": target_step,
        "draft_step": step_dict(scenario.draft_step(batch, context, scenario.draft.query(max(gamma, 1)))),
        "verify_step": step_dict(scenario.target_step(batch, context, gamma + 1.0)),
        "overhead_s": float(p.overhead_s),
        "cost_ratios": {"draft_to_target": float(p.draft_to_target), "verify_to_target": float(p.verify_to_target)},
        "acceptance": {
            "alpha": scenario.acceptance.alpha,
            "tokens_per_iteration": float(p.tokens_per_iteration),
            "source": scenario.acceptance.source,
        },
        "speedup": float(p.speedup),
        "speedup_interval": None if interval is None else [interval.low, interval.high],
        "interval_coverage": None if interval is None else interval.coverage,
        "tpot_s": float(p.tpot_s),
        "ar_tpot_s": float(p.ar_tpot_s),
        "throughput_tokens_per_s": float(p.throughput_tokens_per_s),
        "ar_throughput_tokens_per_s": float(p.ar_throughput_tokens_per_s),
        "gamma_optimal": int(p.gamma_optimal),
        "speedup_at_gamma_optimal": float(p.speedup_at_gamma_optimal),
        "inflection": _lengths(scenario, batch, gamma, query),
        "draft_setup_s": setup,
        "break_even_new_tokens": math.ceil(setup / saved) if saved > 0 else None,
        "memory": {
            "weight_bytes": float(room.weight_bytes),
            "kv_bytes": float(room.kv_bytes),
            "draft_weight_bytes": float(room.draft_weight_bytes),
            "draft_kv_bytes": float(room.draft_kv_bytes),
            "available_bytes": float(room.available_bytes),
            "fits": bool(room.fits),
            "max_batch": int(room.max_batch),
            "ar_max_batch": int(room.ar_max_batch),
        },
        "calibration": calibration_dict(scenario),
        "warnings": warnings(scenario, batch, context, gamma, room),
    }


def step_dict(time: PassTime) -> dict[str, Any]:
    """One pass as the contract spells it."""
    names = (*(name for name in PassTime.__dataclass_fields__ if name != "terms"), "comm_s", "fixed_s")
    terms = {name: float(seconds) for name, seconds in time.terms.items()}
    return {name: float(getattr(time, name)) for name in names} | {"terms_s": terms, "limiter": str(time.limiter)}


def calibration_dict(scenario: Scenario) -> dict[str, Any]:
    """Which calibration answered, and whether it is this device's own."""
    c = scenario.machine.calibration
    return {"name": c.name, "kind": calibration_kind(scenario), "fitted_on": list(c.fitted_on)}


def calibration_kind(scenario: Scenario) -> str:
    """``transferred`` where the calibration is another device's, else what its file says."""
    c = scenario.machine.calibration
    return "transferred" if c.gpu is not None and c.gpu != scenario.machine.gpu.name else c.kind


def _resolved(query: Query, scenario: Scenario, gamma: int) -> dict[str, Any]:
    draft = scenario.draft
    return query.as_dict() | {
        "model": scenario.target.name,
        "hardware": scenario.machine.gpu.name,
        "gamma": gamma,
        "draft": draft.name,
        "draft_tp": draft.tensor_parallel,
        "draft_kv": draft.kv.label(),
        "weights": scenario.precision.weights.name,
        "draft_weights": draft.precision.weights.name,
        "kv_dtype": scenario.precision.kv.name,
        "draft_kv_dtype": draft.precision.kv.name,
        "kv_reread": float(scenario.machine.reread(gamma + 1.0)),
        "calibration": scenario.machine.calibration.name,
        "batch_range": list(query.batch_range),
    }


def _lengths(scenario: Scenario, batch: float, gamma: int, query: Query) -> dict[str, float | None]:
    if gamma == 0:
        return {
            "memory_bound_context": memory_bound_context(scenario, batch),
            "break_even_context": None,
            "inflection_context": None,
        }
    found = inflection(scenario, batch, gamma, query.batch_range)
    return {name: getattr(found, name) for name in found.__dataclass_fields__}


def _verdict(speedup: float, interval: Any, gamma: int) -> str:
    if gamma == 0:
        return "does_not_pay"
    low, high = (speedup, speedup) if interval is None else (interval.low, interval.high)
    if low > 1:
        return "pays"
    return "does_not_pay" if high <= 1 else "too_close_to_call"


def _reason(scenario: Scenario, workload: Workload, p: Prediction, limiter: str) -> str:
    """`reason`; where no draft pays also why not the shortest, and where no acceptance is known that it is not."""
    if scenario.acceptance.source == NO_ACCEPTANCE:
        return "gamma 0 is plain decoding; whether a draft would pay takes an acceptance, such as --alpha"
    if int(p.gamma) or int(p.gamma_optimal):
        return reason(p, limiter)
    one = predict(scenario, replace(workload, gamma=np.asarray(1)), 1)
    return f"{reason(p, limiter)}; at gamma 1 {reason(one, limiter)}"


def reason(p: Prediction, limiter: str) -> str:
    """One sentence: what an iteration saves against what it adds, and which term decides.

    limiter: what limits a plain decoding step (`roofline.LIMITERS`).
    """
    best = float(p.speedup_at_gamma_optimal)
    if int(p.gamma) == 0:
        if int(p.gamma_optimal) == 0:
            return "no draft length is faster than plain decoding here, so gamma is 0"
        return f"gamma 0 is plain decoding; gamma {int(p.gamma_optimal)} would give {best:.2f}x"
    terms = {
        "draft steps": float(p.gamma * p.draft_s),
        "verifying more than one token": float(p.verify_s - p.target_s),
        "overhead outside the passes": float(p.overhead_s),
    }
    added, gained = sum(terms.values()), (float(p.tokens_per_iteration) - 1.0) * float(p.target_s)
    worst = max(terms, key=lambda name: terms[name])
    relation = "more" if gained > added else "no more"
    return (
        f"an iteration saves {gained * 1e3:.2f} ms of plain decoding ({float(p.tokens_per_iteration):.2f} tokens; "
        f"limited by {LIMITERS[limiter]}), {relation} than the {added * 1e3:.2f} ms it adds, of which "
        f"{worst}: {terms[worst] * 1e3:.2f} ms"
    )


def warnings(scenario: Scenario, batch: float, context: float, gamma: int, room: capacity.Memory) -> list[str]:
    """What the user should know before believing the numbers."""
    notes: list[str] = []
    target, draft = scenario.target, scenario.draft
    for model in {m.name: m for m in ((target, draft.model) if gamma else (target,))}.values():
        if context + gamma + 1 > model.max_position_embeddings:
            most = model.max_position_embeddings
            notes.append(f"context {context:.0f} (+{gamma + 1}) is beyond {model.name}'s maximum of {most}")
    own, run = weight_format(target.weights), scenario.precision.weights
    if run != own and run == own.within(scenario.machine.gpu.peak):
        notes.append(
            f"{scenario.machine.gpu.name} has no peak for the checkpoint's {own.name}: weight-only, as {run.name}"
        )
    notes += room.shortage(batch)
    if gamma and draft.kv.budget is not None and draft.kv.budget >= context:
        notes.append(f"KV budget {draft.kv.budget} is not below the context: the draft reads the full cache")
    if gamma and draft.model.vocab_size != target.vocab_size:
        notes.append(
            f"{draft.model.name} has {draft.model.vocab_size} vocabulary entries, {target.name} {target.vocab_size}"
        )
    if calibration_kind(scenario) == "transferred":
        c, gpu = scenario.machine.calibration, scenario.machine.gpu
        notes.append(f"calibration {c.name} is transferred from {c.gpu}: it was not made for {gpu.name}")
    return notes
