"""``perfmodel inflection``: the three lengths that people mix up."""

import json as json_module
from dataclasses import asdict, dataclass, field, replace
from typing import Annotated, Any

import typer

from perfmodel.answers.inflection import inflection as lengths
from perfmodel.answers.query import resolve
from perfmodel.answers.sweep import Grid
from perfmodel.cli.options import COUNTS, Json, Question, asks
from perfmodel.errors import InputError

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
LENGTHS = ("memory_bound_context", "break_even_context", "inflection_context")
CoreOps = Annotated[
    bool, typer.Option("--core-ops", help="Count linear and attention ops only, as the closed forms of the docs do.")
]
LOOKED_UP_AT = "Context at which the acceptance is looked up; not needed with --alpha."


@dataclass(frozen=True, kw_only=True)
class LengthQuestion(Question):
    """A question about contexts: the one typed serves the acceptance only."""

    gamma: Annotated[str, typer.Option("--gamma", "-g", metavar=COUNTS, help="Drafted tokens per iteration.")] = field()
    context: Annotated[str, typer.Option("--context", "--context-length", "-c", metavar=COUNTS, help=LOOKED_UP_AT)] = ""

    def grid(self) -> Grid:
        """See `Question.grid`."""
        known = self.alpha is not None or self.tokens_per_iteration is not None
        if not self.context and not known:
            raise InputError(
                "--context: must be given to look an acceptance up; or give --alpha or --tokens-per-iteration"
            )
        return Question.grid(self if self.context else replace(self, context="1"))


@app.command()
@asks
def inflection(question: LengthQuestion, core_ops: CoreOps = False, json: Json = False) -> None:
    """The three context lengths where something turns.

    memory_bound_context: from here on a step loads for longer than it computes. break_even_context: from here on
    speculation is faster than plain decoding. inflection_context: from here on a larger batch costs no speedup. Each
    on the calibration in use and, beside it, on the ideal roofline.
    """
    rows: list[dict[str, Any]] = []
    for query in question.queries("batch", "gamma"):
        if query.gamma is None:
            raise InputError("--gamma: must be a whole number here: the best one changes with the context")
        found = {}
        for calibration in (query.calibration, "ideal"):
            scenario = replace(resolve(replace(query, calibration=calibration)), core_ops=core_ops)
            turns = lengths(scenario, query.batch, query.gamma, query.batch_range)
            found[scenario.machine.calibration.name] = asdict(turns)
        name = next(iter(found))
        rows.append(
            {"batch": query.batch, "gamma": query.gamma, "calibration": name} | found[name] | {"ideal": found["ideal"]}
        )
    if json:
        typer.echo(json_module.dumps(rows if len(rows) > 1 else rows[0], indent=2, allow_nan=False))
        return
    from perfmodel.cli.panel import console, grid
    from perfmodel.cli.units import tokens

    made = grid(
        "batch", "gamma", "calibration", "memory-bound from", "breaks even at", "inflection at", left=["calibration"]
    )
    for row in rows:
        found = {row["calibration"]: row} | ({} if row["calibration"] == "ideal" else {"ideal": row["ideal"]})
        for name, at in found.items():
            cells = [tokens(at[length]) for length in LENGTHS]
            made.add_row(str(row["batch"]), str(row["gamma"]), name, *cells)
    console().print(made)
