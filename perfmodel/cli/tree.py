"""``perfmodel tree``: which tree of drafted tokens, for each batch and context."""

import json as json_module
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from perfmodel.answers.query import resolve
from perfmodel.cli.counts import parse_numbers
from perfmodel.cli.options import Json, Question, _option, asks, fit
from perfmodel.errors import InputError, refuse
from perfmodel.specs.files import read_mapping
from perfmodel.speculation.capacity import memory_of
from perfmodel.speculation.tree import TreeAcceptance
from perfmodel.speculation.tree_cost import DEFAULT_LEVELS, DEFAULT_SIZE, choose, growth, levels_within

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@dataclass(frozen=True, kw_only=True)
class TreeQuestion(Question):
    """A question whose acceptance is by rank of the child, not by position in a chain."""

    rates: Annotated[
        str,
        _option(
            "--rates",
            "RATES|FILE",
            "P(accepted) of a node's 1st, 2nd, ... child with commas, or a file with `source` and `rates` by level.",
        ),
    ]
    size: Annotated[int, _option("--size", "N", "Most nodes, the root included: query tokens of a verification.")] = (
        DEFAULT_SIZE
    )
    levels: Annotated[
        int | None,
        _option(
            "--levels", "N", f"Most levels, the root's included (default: {DEFAULT_LEVELS}, or as many as are drafted)."
        ),
    ] = None


@app.command()
@asks
def tree(question: TreeQuestion, json: Json = False) -> None:
    """The tree of drafted tokens with the largest speedup, by Sequoia's dynamic programme and the model's costs.

    Several --batch or --context values give a tree for each; a tree of size 1 is plain decoding.
    """
    for name in ("alpha", "tokens_per_iteration", "acceptance"):
        if getattr(question, name) is not None:
            flag = "--" + name.replace("_", "-")
            raise InputError(f"{flag}: is a chain's acceptance; a tree takes --rates")
    acceptance = _rates(question.rates)
    # the chain's acceptance is not used; 0 stands in for it
    plain = {name: getattr(question, name) for name in Question.__dataclass_fields__}
    queries = Question(**plain | {"alpha": "0", "gamma": "0"}).queries("batch", "context")
    rows: list[dict[str, Any]] = []
    for query in queries:
        scenario = resolve(query)
        found = choose(scenario, acceptance, query.batch, query.context, question.size, question.levels)
        most = levels_within(scenario, acceptance, question.size, question.levels)
        shape = growth(acceptance, question.size, most).best(int(found.size), int(found.levels))
        room = memory_of(scenario, query.batch, query.context, shape.size - 1, query.memory_fraction)
        rows.append(
            {
                "batch": query.batch,
                "context": query.context,
                "size": shape.size,
                "levels": shape.levels,
                "widths": list(shape.widths),
                "parents": list(shape.parents),
                "tokens_per_iteration": float(found.tokens_per_iteration),
                "speedup": float(found.speedup),
                "tpot_s": float(found.iteration_s / found.tokens_per_iteration),
                "ar_tpot_s": float(found.target_s),
                "first_order_rule": {"size": int(found.rule_size), "speedup": float(found.rule_speedup)},
                "source": acceptance.source,
            }
            | fit(query.batch, room)
        )
    if json:
        typer.echo(json_module.dumps(rows if len(rows) > 1 else rows[0], indent=2, allow_nan=False))
        return
    from perfmodel.cli.panel import console, fit_text, grid, warn
    from perfmodel.cli.units import seconds

    made = grid(
        "batch", "context", "nodes", "levels", "widths", "tokens", "speedup", "TPOT", "rule's nodes", "rule", "fits"
    )
    for r in rows:
        rule = r["first_order_rule"]
        shape_text = (str(r["size"]), str(r["levels"]), "-".join(map(str, r["widths"])))
        gain = (f"{r['tokens_per_iteration']:.2f}", f"{r['speedup']:.2f}x", seconds(r["tpot_s"]))
        first_order = (str(rule["size"]), f"{rule['speedup']:.2f}x")
        made.add_row(str(r["batch"]), str(r["context"]), *shape_text, *gain, *first_order, fit_text(r))
    out = console()
    out.print(made)
    warn(out, [note for r in rows for note in r["warnings"]])


def _rates(text: str) -> TreeAcceptance:
    if not text.endswith((".json", ".yaml", ".yml")):
        return _named("--rates", parse_numbers(text, "--rates"), "--rates")
    data = read_mapping(Path(text))
    if set(data) != {"source", "rates"} or not isinstance(data["source"], str):
        raise refuse(
            text, None, "a mapping with source (text) and rates (numbers, or lists of them by level)", list(data)
        )
    return _named(text, np.asarray(data["rates"], object).tolist(), f"{data['source']} ({text})")


def _named(where: str, rates: Any, source: str) -> TreeAcceptance:
    try:
        return TreeAcceptance.of(rates, source)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
