"""``perfmodel ops``: what one pass does, operation by operation."""

import json as json_module
from dataclasses import replace
from typing import Annotated, Any

import typer

from perfmodel.answers.query import Query, resolve
from perfmodel.answers.whatif import step_dict
from perfmodel.cli.options import Json, Question, asks
from perfmodel.costs.roofline import Machine
from perfmodel.errors import unknown_name
from perfmodel.ops import Op
from perfmodel.speculation.chain import predict
from perfmodel.speculation.workload import Workload

PASSES = ("target", "draft", "verify")
app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
Pass = Annotated[
    str, typer.Option("--pass", metavar="|".join(PASSES), help="A plain step, a draft step, or a verification.")
]


@app.command()
@asks
def ops(question: Question, which: Pass = "target", json: Json = False) -> None:
    """Every operation of one pass on one device: FLOPs, bytes by kind, intensity, time and what limits it."""
    if which not in PASSES:
        raise unknown_name("--pass", "pass", which, PASSES)
    (query,) = question.queries()
    found = counted(query, which)
    if json:
        typer.echo(json_module.dumps(found, indent=2, allow_nan=False))
    else:
        _print(found)


def counted(query: Query, which: str) -> dict[str, Any]:
    """The operations of one pass of a question, in JSON types."""
    needs_best = which == "verify" and query.gamma is None
    given = (query.alpha, query.tokens_per_iteration, query.acceptance)
    # A pass costs the same whatever is accepted: none is looked up unless the best gamma depends on it.
    scenario = resolve(query if needs_best or given != (None, None, None) else replace(query, alpha=0.0))
    workload = Workload.of(query.batch, query.context, query.gamma or 0)
    gamma = int(predict(scenario, workload, query.max_gamma).gamma_optimal) if needs_best else query.gamma or 0
    tokens = gamma + 1.0 if which == "verify" else 1.0
    if which == "draft":
        tokens = float(scenario.draft.query(max(gamma, 1.0)))
        machine, listed = scenario.draft_machine, scenario.draft_ops(query.batch, query.context, tokens)
    else:
        machine, listed = scenario.machine, scenario.target_ops(query.batch, query.context, tokens)
    return {
        "schema_version": 1,
        "pass": which,
        "query_tokens": tokens,
        "model": scenario.draft.model.name if which == "draft" else scenario.target.name,
        "hardware": machine.gpu.name,
        "tp": machine.tensor_parallel,
        "batch": query.batch,
        "context": query.context,
        "ops": [_row(machine, op) for op in listed],
        "total": step_dict(machine.time(listed, query.batch * tokens)),
    }


def _row(machine: Machine, op: Op) -> dict[str, Any]:
    c = op.cost
    moved = float(c.bytes)
    return {
        "name": op.name,
        "kind": op.kind,
        "kernels": float(op.kernels),
        "flops": float(c.flops),
        "weight_bytes": float(c.weight_bytes),
        "kv_bytes": float(c.kv_bytes),
        "activation_bytes": float(c.activation_bytes),
        "message_bytes": float(op.message_bytes),
        "flops_per_byte": float(c.flops) / moved if moved else None,
        "lower_s": float(machine.op_lower_s(op)),
        "predicted_s": float(machine.op_predicted_s(op)),
        "limiter": machine.op_limiter(op),
    }


def _print(found: dict[str, Any]) -> None:
    from perfmodel.cli.panel import console, grid, say
    from perfmodel.cli.units import count, limiter, seconds, size

    out = console()
    devices = f"{found['tp']} x {found['hardware']}" if found["tp"] > 1 else found["hardware"]
    title = f"{found['pass']} pass of {found['model']} on {devices}: batch {found['batch']}, context {found['context']}"
    say(out, f"{title}, {found['query_tokens']:.0f} new token(s) per sequence; counts of one device", "bold")
    made = grid("op", "kernels", "FLOPs", "weights", "KV", "other", "FLOP/B", "lower", "predicted", "limited by")
    for row in found["ops"]:
        moved = [size(row[name]) if row[name] else "-" for name in ("weight_bytes", "kv_bytes", "activation_bytes")]
        if row["message_bytes"]:
            moved[2] = f"{size(row['message_bytes'])} each"
        intensity = f"{row['flops_per_byte']:.1f}" if row["flops"] else "-"
        times = (seconds(row["lower_s"]), seconds(row["predicted_s"]))
        made.add_row(
            row["name"],
            f"{row['kernels']:.0f}",
            count(row["flops"]),
            *moved,
            intensity,
            *times,
            limiter(row["limiter"]),
        )
    total = found["total"]
    times = (seconds(total["lower_s"]), seconds(total["predicted_s"]))
    made.add_row("whole pass", *[""] * 6, *times, limiter(total["limiter"]), style="bold")
    out.print(made)
