"""``perfmodel inverse``: the question turned round."""

import json as json_module
from dataclasses import asdict
from typing import Annotated, Any

import typer

from perfmodel.answers.inverse import solve
from perfmodel.cli.options import Json, Question, asks

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
Speedup = Annotated[float, typer.Option("--speedup", metavar="X", help="The speedup to reach; 1 is break even.")]


@app.command()
@asks
def inverse(question: Question, speedup: Speedup = 1.0, json: Json = False) -> None:
    """What must hold for speculation to reach a wanted speedup, each alone with all else as asked.

    Smallest acceptance, largest draft cost, largest KV re-read factor of verification, smallest context.
    """
    rows: list[dict[str, Any]] = []
    for query in question.queries("batch", "context", "gamma"):
        rows.append({"batch": query.batch, "context": query.context} | asdict(solve(query, speedup)))
    if json:
        typer.echo(json_module.dumps(rows if len(rows) > 1 else rows[0], indent=2, allow_nan=False))
        return
    from perfmodel.cli.panel import console, grid
    from perfmodel.cli.units import NONE, tokens

    made = grid(
        "batch",
        "context",
        "gamma",
        "speedup",
        "wanted",
        "alpha from",
        "draft/plain to",
        "KV re-read to",
        "context from",
    )
    for row in rows:
        limits = [row[name] for name in ("smallest_alpha", "largest_draft_to_target", "largest_kv_reread")]
        asked = (str(row["batch"]), str(row["context"]), str(row["gamma"]))
        reach = [NONE if limit is None else f"{limit:.3f}" for limit in limits]
        made.add_row(*asked, f"{row['speedup']:.2f}x", f"{row['wanted']:.2f}x", *reach, tokens(row["smallest_context"]))
    console().print(made)
