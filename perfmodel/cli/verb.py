"""A verb whose flags are the arguments of one answer. It prints the answer or its JSON."""

import re
from collections.abc import Callable
from inspect import getdoc, unwrap
from typing import Any

import click

from perfmodel.answers.declaration import Verb, flag
from perfmodel.cli.help import command
from perfmodel.cli.options import MAX_POINTS, Json, takes
from perfmodel.cli.output import each, show, show_rows


def verb(
    answer: Verb[..., Any],
    text: Callable[[Any], None],
    *several: str,
    example: str,
    max_points: int = MAX_POINTS,
) -> click.Command:
    """The command of `answer`, whose docstring becomes the help. `text` prints the answer.

    several: arguments that may be lists; `text` then gets a sequence of answers, and the JSON has rows.
    """
    told = re.split(r"\s+Raises\s+InputError", getdoc(unwrap(answer)) or "")[0]
    if several:
        told += f"\n\nSeveral values of {', '.join(map(flag, several))} give one row each."

    @command(help=told, example=example)
    @takes(answer.question, *several, max_points=max_points)
    def app(question: Any, json: Json = False) -> None:
        if several:
            show_rows(each(answer, question), json, text)
        else:
            show(answer(question), json, text)

    return app
