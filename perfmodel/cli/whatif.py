"""``perfmodel whatif``: one question, or a few side by side."""

from dataclasses import replace
from functools import partial
from typing import Annotated

import typer

from perfmodel.answers.point.whatif import WhatIf
from perfmodel.answers.point.whatif import whatif as answer
from perfmodel.answers.question.query import Query
from perfmodel.cli import panel
from perfmodel.cli.help import LLAMA, OUTPUT
from perfmodel.cli.options import App, Json, Verbose, takes
from perfmodel.cli.output import each, show, show_rows

app = App()
Sensitivity = Annotated[
    bool,
    typer.Option(
        "--sensitivity",
        help="Also move each uncertain input by itself and rank what that does.",
        rich_help_panel=OUTPUT,
    ),
]


@app.command(example=f"{LLAMA} --batch 16 --context 32k")
@takes(Query, "batch", "context", "gamma")
def whatif(
    queries: list[Query], sensitivity: Sensitivity = False, verbose: Verbose = False, json: Json = False
) -> None:
    """Does speculation pay for this model, device, batch and context, and why?

    Several --batch, --context or --gamma values give a table.
    """

    def answered(query: Query) -> WhatIf:
        found = answer(query)
        if not sensitivity or found.speedup is None:
            return found
        from perfmodel.answers.point.sensitivity import sensitivity as ranked  # seldom asked for

        return replace(found, sensitivity=tuple(ranked(query)))

    answers = each(answered, queries)
    if len(answers) > 1:
        show_rows(answers, json, panel.several)
    else:
        show(answers[0], json, partial(panel.single, verbose=verbose))
