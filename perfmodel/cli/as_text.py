"""The text of ``print(answer)``, which is the output of the command for this answer."""

from collections.abc import Callable
from contextlib import redirect_stdout
from importlib import import_module
from io import StringIO
from typing import Any

from perfmodel.answers.text import context_text, ratio_text, seconds
from perfmodel.cli import panel
from perfmodel.cli.output import say, table


def as_text(answer: Any) -> str:
    """The text that the command line prints for an answer, wrapped as for a pipe. An answer without its own
    command gives one line, its `repr`.
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
    """The printer of a command that prints several answers as a table."""
    return lambda answer: import_module(f"perfmodel.cli.{module}")._print([answer])


def _sensitivity(rows: Any) -> None:
    """Prints a table of the inputs that change a speedup, or one line for rows of another kind."""
    if all(type(row).__name__ == "Move" for row in rows):
        panel.moves(rows)
    else:
        say(repr(rows))


def _sweep(answer: Any) -> None:
    """Prints the first rows of a sweep, and the number of the other rows."""
    cells: list[tuple[str, ...]] = []
    for block in answer.blocks:
        figures = block.typed()
        method = str(block.labels["draft_kv"]).partition(",")[0]
        labels = (str(block.labels["model"]), str(block.labels["hardware"]), method)
        for place in range(min(block.rows, SHOWN - len(cells))):
            row = {name: column[place] for name, column in figures.items()}
            point = (f"{row['batch']}", context_text(row["context_tokens"]), f"{row['gamma']}")
            fits = "yes" if row["fits"] else "no"
            cells.append((*labels, *point, ratio_text(row["speedup"]), seconds(row["tpot_s"]), fits))
    table(("model", "hardware", "draft KV", "batch", "context", "gamma", "speedup", "TPOT", "fits"), cells)
    if len(answer) > len(cells):
        say(f"{len(answer) - len(cells)} more rows; to_frame() has all of them")


SHOWN = 20
"""Largest number of rows of a sweep that are printed."""
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
    "Rows": _sensitivity,
    "Sweep": _sweep,
}
"""Class of an answer -> the function that prints it."""
