"""``print(answer)``: the text of the answer's command."""

from collections.abc import Callable
from contextlib import redirect_stdout
from importlib import import_module
from io import StringIO
from typing import Any

from perfmodel.cli import panel


def as_text(answer: Any) -> str:
    """What the command line prints for an answer, wrapped as for a pipe; one line for an answer without a
    command of its own.
    """
    name = type(answer).__name__
    printer = _PRINTERS.get(name)
    if printer is None:
        return repr(answer)
    with redirect_stdout(StringIO()) as text:
        printer(answer)
    return text.getvalue().strip("\n")


def _of(module: str, **settings: Any) -> Callable[[Any], None]:
    """The printer of a command's module, which is loaded when it is first needed."""
    return lambda answer: import_module(f"perfmodel.cli.{module}")._print(answer, **settings)


def _of_several(module: str) -> Callable[[Any], None]:
    """The same of a command that prints several answers as a table."""
    return lambda answer: import_module(f"perfmodel.cli.{module}")._print([answer])


_PRINTERS: dict[str, Callable[[Any], None]] = {
    "WhatIf": lambda answer: panel.single(answer, query=answer.query, verbose=False),
    "Advice": _of("advise", verbose=False),
    "Schedule": _of("schedule"),
    "Traffic": _of("traffic"),
    "Ops": _of("ops"),
    "Comparison": _of_several("compare"),
    "Hierarchy": _of_several("hierarchy"),
    "Inflection": _of_several("inflection"),
    "TreeAnswer": _of_several("tree"),
}
"""Class of an answer -> the function that prints it."""
