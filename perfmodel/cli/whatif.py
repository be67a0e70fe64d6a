"""``perfmodel whatif``: one question, or a few beside each other."""

import json as json_module
from typing import Annotated

import typer

from perfmodel.answers.whatif import answer
from perfmodel.cli.measured import measured
from perfmodel.cli.options import Json, Question, asks

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


Sensitivity = Annotated[
    bool, typer.Option("--sensitivity", help="Also move each uncertain input by itself and rank what that does.")
]


@app.command()
@asks
def whatif(question: Question, sensitivity: Sensitivity = False, json: Json = False) -> None:
    """Does speculation pay for this model, device, batch and context, and why?

    Several --batch, --context or --gamma values give a table (with --json a list).
    """
    answers = []
    for query in question.queries("batch", "context", "gamma"):
        found = answer(query)
        found |= {"measured": measured(query, found)}
        if sensitivity:
            from perfmodel.answers.sensitivity import sensitivity as ranked

            found["sensitivity"] = ranked(query)
        answers.append(found)
    if json:
        typer.echo(json_module.dumps(answers if len(answers) > 1 else answers[0], indent=2, allow_nan=False))
        return
    from perfmodel.cli import panel  # loads rich

    if len(answers) > 1:
        panel.table(answers)
    else:
        panel.panel(answers[0])
