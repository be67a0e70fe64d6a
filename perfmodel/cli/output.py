"""What the command line prints: one writer of JSON, one of tables, sentences wrapped to the terminal, and progress."""

import json as json_module
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

from perfmodel.answers.answer import Answer, Rows

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

WIDTH, WIDEST = 112, 250


def show(answer: Answer, json: bool, text: Callable[[Any], None]) -> None:
    """Print an answer as JSON, or by `text`."""
    if json:
        print_json(answer.as_dict())
    else:
        text(answer)


def show_rows(answers: Sequence[Any], json: bool, text: Callable[[Any], None]) -> None:
    """As `show`, of several answers: in JSON always as rows."""
    show(Rows(tuple(answers)), json, text)


def print_json(data: Any) -> None:
    """The one way in which JSON is printed."""
    typer.echo(json_module.dumps(data, indent=2, allow_nan=False))


def console() -> "Console":
    """As wide as the terminal; where there is none, as wide as any table needs, so that files are all alike."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else WIDEST, highlight=False, markup=False)


def say(text: str, style: str = "") -> None:
    """Print a sentence, wrapped at `WIDTH` at the latest."""
    from rich.text import Text

    out = console()
    out.print(Text(text, style=style), width=min(out.width, WIDTH))


def say_whole(text: str) -> None:
    """Print a line to be copied: never wrapped."""
    from rich.text import Text

    console().print(Text(text), soft_wrap=True)


def warn(notes: Iterable[str]) -> None:
    """Print warnings, each once."""
    for note in dict.fromkeys(notes):
        say(f"warning: {note}", "yellow")


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table. left: text, not a number. spare: left out where the terminal is too narrow, the largest
    first.
    """

    name: str
    left: bool = False
    spare: int = 0


def table(columns: Sequence[Column | str], rows: Sequence[Sequence[str]], bold_last: bool = False) -> None:
    """Print rows of cells below their columns, the first to the left and numbers to the right."""
    kept = [c if isinstance(c, Column) else Column(c, left=not number) for number, c in enumerate(columns)]
    places, out = list(range(len(kept))), console()
    while True:
        made = _table([kept[place] for place in places], [[row[place] for place in places] for row in rows], bold_last)
        spare = [place for place in places if kept[place].spare]
        if not spare or out.measure(made).maximum <= out.width:
            break
        places.remove(max(spare, key=lambda place: kept[place].spare))
    out.print(made)


def facts(pairs: dict[str, str]) -> None:
    """Print names and what is said of them, without a head."""
    from rich.table import Table

    out, made = console(), Table(box=None, show_header=False, pad_edge=False)
    made.add_column(style="dim", no_wrap=True)
    made.add_column(overflow="fold")
    for name, text in pairs.items():
        made.add_row(name, text)
    out.print(made, width=min(out.width, WIDTH))


def fit(fits: bool, max_batch: int) -> str:
    """Whether a batch fits, and the largest that does, as a cell of a table."""
    return "yes" if fits else f"no, {max_batch}"


def _table(columns: Sequence[Column], rows: Sequence[Sequence[str]], bold_last: bool) -> "Table":
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    made = Table(box=SIMPLE_HEAD, pad_edge=False)
    for number, column in enumerate(columns):
        made.add_column(column.name, justify="left" if column.left or not number else "right", overflow="fold")
    for number, row in enumerate(rows):
        made.add_row(*row, style="bold" if bold_last and number == len(rows) - 1 else None)
    return made


class Progress:
    """How much is done, on stderr where that is a terminal."""

    def __init__(self, unit: str) -> None:
        self.unit, self.shown, self.begun = unit, sys.stderr.isatty(), False

    def __call__(self, done: int, of: int) -> None:
        """Tell it."""
        if self.shown:
            self.begun = True
            print(f"\r{done:,} of {of:,} {self.unit}", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        """Finish the line."""
        if self.begun:
            print(file=sys.stderr)


def each(answer: Callable[[Any], Any], questions: Sequence[Any]) -> list[Any]:
    """The answers to questions one by one, with progress where there are several."""
    bar, found = Progress("answers"), []
    try:
        for question in questions:
            found.append(answer(question))
            if len(questions) > 1:
                bar(len(found), len(questions))
    finally:
        bar.end()
    return found
