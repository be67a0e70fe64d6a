"""What the command line prints: one writer of JSON, one of tables, sentences wrapped to the terminal, and progress.

Where there is no terminal, and no COLUMNS in the environment, a sentence is one line however long: what reads it then
is a file, `grep`, or a program.
"""

import json as json_module
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

from perfmodel.answers.answer import Answer, Rows

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

WIDTH, WIDEST = 112, 250
"""Of sentences at the most, and of tables where there is no terminal."""
GAP, EDGES = 3, 2
"""Blanks between the columns of a table, and around them."""
FAIR = 24
"""Width that a column of text should have before others are left out for its sake."""


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


def console(width: int | None = None) -> "Console":
    """As wide as the terminal unless `width` is given; where there is none, as wide as any table needs."""
    from rich.console import Console

    return Console(width=width if width or _has_width() else WIDEST, highlight=False, markup=False)


def _has_width() -> bool:
    return sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit()


def _line(longest: int) -> int:
    """Width that lines are wrapped at; longest: what is to be printed takes at the most."""
    return min(console().width, WIDTH) if _has_width() else longest


def _put(made: "RenderableType", width: int) -> None:
    """Print; without the blanks at the ends of lines where it is no terminal that is printed to."""
    out = console(width)
    if out.is_terminal:
        return out.print(made)
    with out.capture() as written:
        out.print(made)
    for line in written.get().splitlines():
        typer.echo(line.rstrip())


def say(text: str, style: str = "") -> None:
    """Print a sentence, on a terminal wrapped at `WIDTH` at the latest."""
    from rich.text import Text

    _put(Text(text, style=style), width=_line(max(map(len, text.splitlines()), default=1)))


def say_whole(text: str) -> None:
    """Print a line to be copied: never wrapped."""
    from rich.text import Text

    console().print(Text(text), soft_wrap=True)


def warn(notes: Iterable[str]) -> None:
    """Print warnings, each once."""
    for note in dict.fromkeys(notes):
        say(f"warning: {note}", "yellow")


def warn_where(noted: Sequence[tuple[str, Iterable[str]]]) -> None:
    """Print the warnings of several answers, each once, and which answers have it where not all do.

    noted: what an answer is of, such as ``batch 8, context 4096``, and its warnings.
    """
    places: dict[str, list[str]] = {}
    for place, notes in noted:
        for note in dict.fromkeys(notes):
            places.setdefault(note, []).append(place)
    warn(note if len(at) == len(noted) else f"{'; '.join(at)}: {note}" for note, at in places.items())


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table. left: text, which may be broken between words, unlike a number. spare: left out where the
    terminal is too narrow, the largest first.
    """

    name: str
    left: bool = False
    spare: int = 0


def table(columns: Sequence[Column | str], rows: Sequence[Sequence[str]], bold_last: bool = False) -> None:
    """Print rows of cells below their columns, the first to the left and numbers to the right."""
    kept = [c if isinstance(c, Column) else Column(c, left=not number) for number, c in enumerate(columns)]
    places, width = list(range(len(kept))), console().width
    while True:
        sizes = [_Sizes.of(kept[place], [row[place] for row in rows]) for place in places]
        room = width - GAP * (len(places) - 1) - EDGES
        spare = [place for place in places if kept[place].spare]
        if not spare or sum(s.fair for s in sizes) <= room:
            break
        places.remove(max(spare, key=lambda place: kept[place].spare))
    cells = [[row[place] for place in places] for row in rows]
    made = _table([kept[place] for place in places], cells, _widths(sizes, room), bold_last)
    _put(made, width=max(width, sum(s.least for s in sizes) + width - room))


def facts(pairs: dict[str, str]) -> None:
    """Print names and what is said of them, without a head."""
    from rich.table import Table

    made = Table(box=None, show_header=False, pad_edge=False)
    made.add_column(style="dim", no_wrap=True)
    made.add_column(overflow="fold")
    for name, text in pairs.items():
        made.add_row(name, text)
    longest = max(map(len, pairs), default=0) + GAP + max(map(len, pairs.values()), default=0)
    _put(made, width=_line(longest))


def fit(fits: bool, max_batch: int) -> str:
    """Whether a batch fits, and the largest that does, as a cell of a table."""
    return "yes" if fits else f"no, {max_batch}"


@dataclass(frozen=True, slots=True)
class _Sizes:
    """Widths of a column: the least, which breaks no number or word, a fair one, its widest cell's, its heading's."""

    least: int
    fair: int
    cells: int
    heading: int

    @classmethod
    def of(cls, column: Column, cells: Sequence[str]) -> "_Sizes":
        word = max(map(len, column.name.split()), default=0)
        whole = max([word, *map(len, cells)])
        words = [len(part) for cell in cells for part in cell.split()]
        least = max([word, *words]) if column.left else whole
        return cls(least, max(least, min(whole, FAIR)) if column.left else whole, whole, max(whole, len(column.name)))


def _widths(sizes: Sequence[_Sizes], room: int) -> list[int]:
    """The least widths, grown while there is room: to whole cells where most is missing first, then to headings."""
    widths = [s.least for s in sizes]
    for goals in ([s.fair for s in sizes], [s.cells for s in sizes]):
        while sum(widths) < room and widths != goals:
            lacks = [goal - width for goal, width in zip(goals, widths, strict=True)]
            widths[lacks.index(max(lacks))] += 1
    for number, s in enumerate(sizes):
        if sum(widths) - widths[number] + s.heading <= room:
            widths[number] = s.heading
    return widths


def _table(columns: Sequence[Column], rows: Sequence[Sequence[str]], widths: list[int], bold_last: bool) -> "Table":
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    made = Table(box=SIMPLE_HEAD, pad_edge=False)
    for number, (column, width) in enumerate(zip(columns, widths, strict=True)):
        side: Any = "left" if column.left or not number else "right"
        made.add_column(column.name, justify=side, overflow="fold", width=width, vertical="top")
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
