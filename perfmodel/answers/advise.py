"""Which draft, how much cache, how many tokens, on how many devices, or no speculation at all.

Every candidate of `advise_space` is priced over all batches and draft lengths at once; what does not fit in memory or
misses the bound on time per token is out. The best by the objective is answered with its runner-up, the best plain
decoding, the fronts of throughput against time per token, the term that decides, and how far it would carry.
"""

from dataclasses import asdict
from typing import Any

import numpy as np

from perfmodel.answers.advise_price import Pick, Priced, best, fits, front, price_all
from perfmodel.answers.advise_space import Request, heads
from perfmodel.answers.whatif import calibration_dict, reason, step_dict, warnings
from perfmodel.ops import Array
from perfmodel.speculation.acceptance import alpha_from_tokens_per_iteration
from perfmodel.speculation.capacity import memory_of
from perfmodel.speculation.chain import Prediction, predict
from perfmodel.speculation.uncertainty import speedup_interval
from perfmodel.speculation.workload import Workload

SCHEMA_VERSION = 1
UNITS = {"throughput": "tokens/s", "latency": "s per token", "cost": "$ per million tokens"}


def advise(request: Request) -> dict[str, Any]:
    """Answer a request; plain JSON types, None where there is none. Raises InputError for what the user got wrong."""
    plain_heads, candidates, skips = heads(request)
    batches = np.asarray(sorted(set(request.batches)), float)
    plain, drafted = price_all(plain_heads, candidates, batches, request)
    picks = [p for p in (best(x, batches, request) for x in (*plain, *drafted)) if p is not None]
    picks.sort(key=lambda p: -p.value)  # stable: the earlier candidate on a tie, plain decoding first
    baseline = next((p for p in picks if p.gamma == 0), None)
    chosen = picks[0] if picks else None
    return {
        "schema_version": SCHEMA_VERSION,
        "request": asdict(request) | {"rates": dict(request.rates), "batches": [int(batches[0]), int(batches[-1])]},
        "verdict": "infeasible" if chosen is None else "speculate" if chosen.gamma else "do_not_speculate",
        "reason": _infeasible(request, plain, drafted) if chosen is None else _reason(request, chosen, batches, picks),
        "objective": {"name": request.objective, "unit": UNITS[request.objective]},
        "chosen": None if chosen is None else _point(chosen, request),
        "runner_up": _point(picks[1], request) if len(picks) > 1 else None,
        "plain": None if baseline is None else _point(baseline, request),
        "robustness": None if chosen is None else _robustness(request, chosen, picks, baseline),
        "pareto": {"plain": front(plain, batches), "speculating": front(drafted, batches)},
        "candidates": int(sum(x.tpot_s.size for x in (*plain, *drafted))),
        "skipped": [{"draft": s.draft, "draft_kv": s.draft_kv, "reason": s.reason} for s in skips],
        "calibration": calibration_dict(plain_heads[0].scenario) if plain_heads else None,
        "warnings": [] if chosen is None else _warnings(chosen, request),
    }


def _warnings(chosen: Pick, request: Request) -> list[str]:
    s, batch, gamma = chosen.head.scenario, float(chosen.batch), chosen.gamma
    room = memory_of(s, batch, request.context, float(gamma), request.memory_fraction)
    return warnings(s, batch, request.context, gamma, room)


def _gain(a: Pick, b: Pick, request: Request) -> float:
    """How many times better a is than b."""
    return a.value / b.value if request.objective == "throughput" else b.value / a.value


def _point(pick: Pick, request: Request) -> dict[str, Any]:
    s = pick.head.scenario
    plain = float(s.target_pass_s(float(pick.batch), request.context))
    throughput = pick.batch / pick.tpot_s
    price = request.price_per_gpu_hour
    return {
        "tp": pick.head.tp,
        "draft": s.draft.name if pick.gamma else None,
        "draft_kv": s.draft.kv.label() if pick.gamma else None,
        "draft_tp": s.draft.tensor_parallel if pick.gamma else None,
        "gamma": pick.gamma,
        "tree_levels": pick.levels or None,
        "batch": pick.batch,
        "tpot_s": pick.tpot_s,
        "throughput_tokens_per_s": throughput,
        "throughput_tokens_per_s_per_device": throughput / pick.head.tp,
        "cost_per_million_tokens": None if price is None else price * pick.head.tp / 3600.0 * 1e6 / throughput,
        "speedup": plain / pick.tpot_s,
        "tokens_per_iteration": pick.gained,
        "acceptance_source": s.acceptance.source if pick.gamma else None,
        "objective": pick.value if request.objective == "throughput" else -pick.value,
    }


def _reason(request: Request, chosen: Pick, batches: Array, picks: list[Pick]) -> str:
    stops = f"batch {chosen.batch}: {_stops(request, chosen, batches)}"
    limiter = step_dict(chosen.head.scenario.target_step(float(chosen.batch), request.context))["limiter"]
    if chosen.gamma:
        return f"{reason(_prediction(chosen, request), limiter)}; {stops}"
    rival = next((p for p in picks if p.gamma), None)
    if rival is None:
        return f"no candidate draft with a known acceptance is allowed here; {stops}"
    why = reason(_prediction(rival, request), limiter)
    draft, tree = rival.head.scenario.draft, f", {rival.levels} levels" if rival.levels else ""
    return (
        f"the best draft ({draft.name}, {draft.kv.label()}, gamma {rival.gamma}{tree}, batch {rival.batch}) reaches "
        f"{_gain(rival, chosen, request):.3f} of plain decoding: {why}; {stops}"
    )


def _prediction(pick: Pick, request: Request) -> Prediction:
    """The point's parts; a tree's draft passes count as a chain's would, at their mean time."""
    s, batch = pick.head.scenario, float(pick.batch)
    if not pick.levels:
        return predict(s, Workload.of(batch, request.context, pick.gamma), request.max_gamma)
    target, overhead = float(s.target_pass_s(batch, request.context)), float(s.overhead_s(batch, request.context))
    verify = float(s.target_pass_s(batch, request.context, pick.gamma + 1.0))
    drafts = pick.tpot_s * pick.gained - verify - overhead
    return Prediction(
        batch=np.asarray(batch),
        gamma=np.asarray(pick.levels - 1),
        target_s=np.asarray(target),
        draft_s=np.asarray(drafts / (pick.levels - 1)),
        verify_s=np.asarray(verify),
        overhead_s=np.asarray(overhead),
        tokens_per_iteration=np.asarray(pick.gained),
        gamma_optimal=np.asarray(pick.levels - 1),
        speedup_at_gamma_optimal=np.asarray(target / pick.tpot_s),
    )


def _stops(request: Request, chosen: Pick, batches: Array) -> str:
    """Why not the next larger batch."""
    larger = batches[batches > chosen.batch]
    if request.objective == "latency":
        return "the fewest sequences are the fastest" if chosen.batch == batches[0] else "the fastest allowed"
    if larger.size == 0:
        return "the end of the batch range"
    if not bool(fits(chosen.head.scenario, float(larger[0]), float(chosen.gamma), request)):
        return "memory is full"
    return "the bound on time per token" if request.max_tpot_s is not None else "larger ones give no more"


def _robustness(request: Request, chosen: Pick, picks: list[Pick], baseline: Pick | None) -> dict[str, Any]:
    """How far the choice carries: margins, the acceptance at which it would turn, and the calibration's scatter."""
    s = chosen.head.scenario
    over_plain = None if baseline is None else _gain(chosen, baseline, request)
    alpha = least = interval = None
    if chosen.gamma and not chosen.levels:
        alpha = float(alpha_from_tokens_per_iteration(chosen.gained, chosen.gamma))
    if chosen.gamma and over_plain is not None:
        if not chosen.levels:
            least = float(alpha_from_tokens_per_iteration(max(chosen.gained / over_plain, 1.0), chosen.gamma))
        found = speedup_interval(s, float(chosen.batch), request.context, chosen.gamma, over_plain)
        interval = None if found is None else [found.low, found.high]
    return {
        "gain_over_plain": over_plain,
        "gain_over_plain_interval": interval,
        "gain_over_runner_up": _gain(chosen, picks[1], request) if len(picks) > 1 else None,
        "alpha": alpha,
        "alpha_that_still_beats_plain": least,
        "tokens_per_iteration_that_still_beat_plain": (
            chosen.gained / over_plain if chosen.gamma and over_plain is not None else None
        ),
        "robust": None if interval is None else bool(interval[0] > 1),
    }


def _infeasible(request: Request, plain: list[Priced], drafted: list[Priced]) -> str:
    if not plain:
        return "no tensor-parallel degree asked for is possible here"
    fitting = [x.tpot_s[x.fits].min() for x in (*plain, *drafted) if x.fits.any()]
    if not fitting:
        room = [memory_of(x.head.scenario, 1.0, request.context, 0.0, request.memory_fraction) for x in plain]
        least, most = min(request.batches), max(int(r.ar_max_batch) for r in room)
        if most >= 1:
            return f"no batch asked for fits: the smallest is {least}, the largest that fits is {most}"
        weights = min(float(x.head.scenario.target_shard.stored_weight_bytes) for x in plain) / 1e9
        have = float(room[0].available_bytes) / 1e9
        return f"nothing fits: {weights:.1f} GB of weights a device and one sequence's cache against {have:.1f} GB"
    bound, least = (request.max_tpot_s or 0.0) * 1e3, min(fitting) * 1e3
    return f"the bound of {bound:g} ms per token is below the least reachable, {least:.2f} ms"
