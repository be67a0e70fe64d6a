"""``perfmodel moe``: what a mixture of experts does to speculation, by batch size."""

import json as json_module
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np
import typer

from perfmodel.answers.moe import (
    MAX_BATCH,
    experts_of,
    independence_of,
    peak,
    target_efficiency,
    touched,
    with_independence,
)
from perfmodel.answers.query import Query, resolve
from perfmodel.cli.options import COUNTS, Json, Question, _option, asks, fit
from perfmodel.errors import InputError, refuse
from perfmodel.speculation.capacity import memory_of
from perfmodel.speculation.chain import speedups
from perfmodel.speculation.scenario import Scenario

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@dataclass(frozen=True, kw_only=True)
class MoEQuestion(Question):
    """A question over batch sizes at one context and draft length."""

    batch: Annotated[str, _option("--batch --batch-size -b", COUNTS, "Batch sizes to look at.")] = "1..512x2"
    gamma: Annotated[str, _option("--gamma -g", "N", "Drafted tokens per iteration.")] = field()
    independence: Annotated[
        float | None,
        _option("--routing-independence", "SHARE", "1: tokens of a sequence route independently; 0: all alike."),
    ] = None
    fewer: Annotated[
        float | None,
        _option(
            "--fewer-experts", "SHARE", "Instead: by how much fewer distinct experts a verification was seen to touch."
        ),
    ] = None
    fewer_at: Annotated[int, _option("--fewer-experts-at", "N", "The batch size at which that was seen.")] = 1


@app.command()
@asks
def moe(question: MoEQuestion, json: Json = False) -> None:
    """Experts that a verification touches, target efficiency, and the batch where speculation peaks.

    Target efficiency is T_T(1)/T_T(gamma + 1). At small batches each drafted token drags in experts of its own; once
    all are read anyway, drafting is cheap again.
    """
    plain = {name: getattr(question, name) for name in Question.__dataclass_fields__}
    queries = Question(**plain).queries("batch", most=1024)
    first = queries[0]
    if first.gamma is None or first.gamma < 1:
        raise refuse("--gamma", None, "a whole number from 1 here", question.gamma)
    batches = sorted({int(q.batch) for q in queries})
    if batches[-1] > MAX_BATCH:
        raise refuse("--batch", None, "whole numbers from 1 to 2^20", batches[-1])
    scenario = resolve(first)
    experts = experts_of(scenario)
    if question.fewer is not None:
        if question.independence is not None:
            raise InputError("--fewer-experts: stands for --routing-independence; give one of them")
        independence = independence_of(experts, question.fewer_at, first.gamma, question.fewer)
    else:
        independence = 1.0 if question.independence is None else question.independence
    scenario = with_independence(scenario, independence)
    found = _answer(scenario, first, first.gamma, batches)
    if json:
        typer.echo(json_module.dumps(found, indent=2, allow_nan=False))
        return
    _print(found)


def _answer(scenario: Scenario, query: Query, gamma: int, batches: list[int]) -> dict[str, Any]:
    at, experts, independence = np.array(batches), experts_of(scenario), scenario.routing_independence
    context = float(query.context)
    efficiency = np.asarray(target_efficiency(scenario, at.astype(float), context, gamma))
    fast = speedups(scenario, at.astype(float), np.asarray(context), np.array([gamma]))[..., 0]
    best = peak(scenario, context, gamma, np.arange(1, batches[-1] + 1))
    room, room_at_peak = (
        memory_of(scenario, batch, context, gamma, query.memory_fraction) for batch in (at, best.batch)
    )
    rows = [
        {
            "batch": int(batch),
            "experts_decoding": float(touched(experts, float(batch), 0)),
            "experts_verifying": float(touched(experts, float(batch), gamma, independence)),
            "target_efficiency": float(efficiency[i]),
            "speedup": float(fast[i]),
            "fits": bool(room.fits[i]),
        }
        for i, batch in enumerate(batches)
    ]
    return {
        "schema_version": 1,
        "model": scenario.target.name,
        "hardware": scenario.machine.gpu.name,
        "tp": query.tp,
        "draft": scenario.draft.name,
        "context": context,
        "gamma": gamma,
        "experts": experts.num_experts,
        "experts_per_token": experts.experts_per_token,
        "routing_independence": independence,
        "rows": rows,
        "peak": {
            "batch": best.batch,
            "speedup": best.speedup,
            "round_cost": best.round_cost,
            "target_efficiency": best.efficiency,
        }
        | fit(best.batch, room_at_peak),
        "calibration": scenario.machine.calibration.name,
    }


def _print(found: dict[str, Any]) -> None:
    from perfmodel.cli.panel import console, grid, say, warn

    out, p = console(), found["peak"]
    subject = f"{found['model']} on {found['tp']} x {found['hardware']}, drafted by {found['draft']}"
    say(out, f"{subject}; context {found['context']:g}, gamma {found['gamma']}", "bold")
    made = grid("batch", "experts decoding", "verifying", "target efficiency", "speedup", "fits")
    for r in found["rows"]:
        made.add_row(
            str(r["batch"]),
            f"{r['experts_decoding']:.1f} of {found['experts']}",
            f"{r['experts_verifying']:.1f}",
            f"{r['target_efficiency']:.3f}",
            f"{r['speedup']:.2f}x",
            "yes" if r["fits"] else "no",
        )
    out.print(made)
    say(
        out,
        f"Of batches 1 to {found['rows'][-1]['batch']} speculation pays most at {p['batch']}: {p['speedup']:.2f}x, a "
        f"round costing {p['round_cost']:.2f} plain steps.",
    )
    say(out, f"routing independence {found['routing_independence']:.3f}; calibration {found['calibration']}", "dim")
    warn(out, p["warnings"])
