"""Output of the command line: JSON, tables, sentences wrapped to the width of the terminal, and progress
bars.

Piped output is wrapped at `PIPED` columns, or at the number in the environment variable COLUMNS. Programs
should use ``--json``.
"""

import json as json_module
import os
import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import click

from perfmodel.answers.answer import Answer, Rows
from perfmodel.answers.text import Note
from perfmodel.immutable import Immutable

WIDTH = 112
"""Largest number of columns of a sentence."""
PIPED = 100
"""Columns of all output without a terminal."""
TERMINAL = 80
"""Assumed columns of a terminal that does not report them."""
GAP = 3
"""Blanks between the columns of a table."""
TIGHT = (2, 1)
"""Smaller gaps to try for a table that is too wide, the larger one first."""
EDGES = 2
"""Blanks around a table."""
FAIR = 24
"""Width that a column of text should have. Below it, columns move closer together first."""
BROKEN = 8
"""A column of text does not shrink below this width."""
NARROWEST = 20
"""Least width of wrapped text, used if the terminal or the rest of a line is narrower."""
SHOWN = 12
"""Largest number of warnings of a grid that are printed."""
STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33"}
"""Style -> its ANSI code."""


def show(answer: Answer, json: bool, text: Callable[[Any], None]) -> None:
    """Prints an answer as JSON or with the function `text`. The command exits with status 1 if the answer is
    negative (`Answer.failed`).
    """
    if json:
        print_json(answer.as_dict())
    else:
        text(answer)
    if answer.failed:
        raise click.exceptions.Exit(1)


def show_rows(answers: Sequence[Any], json: bool, text: Callable[[Any], None]) -> None:
    """Prints several answers, in the same way as `show` prints one answer. The JSON always has rows."""
    show(Rows(tuple(answers)), json, text)


def print_json(data: Any) -> None:
    """Prints data as JSON. All commands use this function."""
    click.echo(json_module.dumps(data, indent=2, allow_nan=False))


def width() -> int:
    """Columns of the output."""
    usual = TERMINAL if sys.stdout.isatty() else PIPED
    return max(_stated_width() or _terminal_width() or usual, NARROWEST)


def _stated_width() -> int:
    """The columns that the environment states; 0 if it states none."""
    stated = os.environ.get("COLUMNS", "")
    return int(stated) if stated.isdecimal() else 0


def _terminal_width() -> int:
    """The columns of the terminal; 0 without a terminal. `shutil.get_terminal_size` is slow to import."""
    try:
        return os.get_terminal_size(sys.__stdout__.fileno()).columns if sys.__stdout__ else 0
    except (OSError, ValueError):
        return 0


def _styled(text: str, style: str) -> str:
    """The text with the codes of a style, if a terminal shows them and no setting forbids them."""
    if not sys.stdout.isatty() or os.environ.get("TERM") == "dumb" or os.environ.get("NO_COLOR"):
        return text
    codes = ";".join(STYLES[word] for word in style.split())
    if not codes or not text:
        return text
    return f"\x1b[{codes}m{text}\x1b[0m"


def _wrapped(text: str, columns: int) -> list[str]:
    """The lines of a text. Only words longer than a line are broken."""
    wrapped = []
    for line in text.splitlines() or [""]:
        wrapped += textwrap.wrap(line, columns, break_on_hyphens=False) or [""]
    return wrapped


def say(text: str, style: str = "") -> None:
    """Prints a sentence, wrapped at the width of the output but not above `WIDTH` columns."""
    for line in _wrapped(text, min(width(), WIDTH)):
        click.echo(_styled(line, style))


def say_whole(text: str) -> None:
    """Prints a line without wrapping, so that users can copy it."""
    click.echo(text)


def say_command(line: str, remark: str) -> None:
    """Prints a command line and, if it is not empty, the remark about it."""
    say_whole(line)
    if remark:
        say(f"{remark}.")


def warn(notes: Iterable[str]) -> None:
    """Prints warnings and then notes, each text once. A second line of a text is a command to copy."""
    each = dict.fromkeys(notes)
    for text in sorted(each, key=lambda text: isinstance(text, Note)):
        sentence, _, command = text.partition("\n")
        if isinstance(text, Note):
            say(f"note: {sentence}", "dim")
        else:
            say(f"warning: {sentence}", "yellow")
        if command:
            say_whole(command)


def warn_some(notes: Sequence[str]) -> None:
    """Prints the warnings of a grid on stderr: at most `SHOWN` of them, and then the number of the others."""
    more = [f"{len(notes) - SHOWN} more"] if len(notes) > SHOWN else []
    for note in (*notes[:SHOWN], *more):
        word = "note" if isinstance(note, Note) else "warning"
        click.echo(f"{word}: {note}", err=True)


def warn_where(noted: Sequence[tuple[str, Iterable[str]]]) -> None:
    """Prints each warning of several answers once. Unless it applies to all answers, the line names those to
    which it applies.

    - noted: for each answer, its place, such as ``batch 8, context 4096``, and its warnings.
    """
    places: dict[str, list[str]] = {}
    for place, notes in noted:
        for note in dict.fromkeys(notes):
            places.setdefault(note, []).append(place)
    for note, where in places.items():
        everywhere = len(where) == len(noted)
        placed = note if everywhere else f"{'; '.join(where)}: {note}"
        warn([Note(placed) if isinstance(note, Note) else placed])


class Column(Immutable):
    """One column of a table.

    - left: whether the column has text, which is aligned to the left and may be broken between words.
    - spare: if not 0, a narrow terminal may drop the column. The column with the largest value is dropped
      first.
    """

    name: str
    left: bool = False
    spare: int = 0


def table(columns: Sequence[Column | str], rows: Sequence[Sequence[str]], bold_last: bool = False) -> None:
    """Prints a table. The first column is left-aligned.

    Other columns are right-aligned unless they have text. A column whose cells are all empty is left out.
    """
    named = [c if isinstance(c, Column) else Column(c) for c in columns]
    if not isinstance(columns[0], Column):
        named[0] = Column(columns[0], left=True)
    filled = [place for place in range(len(named)) if not rows or any(row[place] for row in rows)]
    whole = width()
    places, sizes, gap = _layout(named, rows, filled, whole)
    shown = [named[place] for place in places]
    gaps = gap * (len(places) - 1)
    room = whole - gaps - EDGES
    widths = _widths(sizes, room)
    _narrow(widths, shown, room)
    click.echo()
    _print_row([c.name for c in shown], shown, widths, gap, "bold", low=True)
    click.echo(f" {'─' * (sum(widths) + gaps)}")
    for number, row in enumerate(rows):
        style = "bold" if bold_last and number == len(rows) - 1 else ""
        _print_row([row[place] for place in places], shown, widths, gap, style)
    click.echo()
    if left_out := [named[place].name for place in filled if place not in places]:
        say(f"not shown in {whole} columns: {', '.join(left_out)}", "dim")


class _Layout(NamedTuple):
    """The columns of a table that are printed, by their places, the widths of each, and the gap between
    them.
    """

    places: list[int]
    sizes: "list[Widths]"
    gap: int


def _layout(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], filled: Sequence[int], whole: int
) -> _Layout:
    """The layout of a table. While the columns do not fit, the one with the largest `spare` is dropped.

    - filled: the places of the columns that are not empty.
    - whole: the columns of the output.
    """
    places = [*filled]
    while True:
        sizes = [_sizes(columns[place], [row[place] for row in rows]) for place in places]
        gap = _widest_gap(sizes, whole)
        spare = [place for place in places if columns[place].spare]
        if gap is not None or not spare:
            return _Layout(places, sizes, gap or TIGHT[-1])
        places.remove(max(spare, key=lambda place: columns[place].spare))


def _widest_gap(sizes: "Sequence[Widths]", whole: int) -> int | None:
    """The widest gap with which columns of these widths fit in `whole` columns of output; None if none does.
    With the usual gap, the columns have their fair widths, and with smaller gaps their least widths.
    """
    fair = sum(each.fair for each in sizes)
    least = sum(each.least for each in sizes)
    for gap, need in ({GAP: fair} | dict.fromkeys(TIGHT, least)).items():
        if need + gap * (len(sizes) - 1) + EDGES <= whole:
            return gap
    return None


def _print_row(
    cells: Sequence[str],
    columns: Sequence[Column],
    widths: Sequence[int],
    gap: int,
    style: str,
    low: bool = False,
) -> None:
    """Prints one row. The cells are broken into lines.

    - low: whether the lines of the cells align at the bottom instead of at the top.
    """
    broken = [_wrapped(cell, size) for cell, size in zip(cells, widths, strict=True)]
    high = max(map(len, broken))
    for lines in broken:
        blank = [""] * (high - len(lines))
        lines[:] = blank + lines if low else lines + blank
    left = [column.left for column in columns]
    left[0] = True
    for line in zip(*broken, strict=True):
        aligned = []
        for text, is_left, size in zip(line, left, widths, strict=True):
            aligned.append(text.ljust(size) if is_left else text.rjust(size))
        click.echo(_styled(f" {(' ' * gap).join(aligned)}".rstrip(), style))


def facts(pairs: dict[str, str]) -> None:
    """Prints names and their values without a heading."""
    indent = max(map(len, pairs)) + EDGES
    for name, text in pairs.items():
        first, *more = _wrapped(text, max(min(width(), WIDTH) - indent, NARROWEST))
        click.echo(_styled(name.ljust(indent), "dim") + first)
        for line in more:
            click.echo(" " * indent + line)


def fit(fits: bool, max_batch: int) -> str:
    """The text of a table cell: whether a batch fits in memory, and if not, the largest batch that fits."""
    return "yes" if fits else f"no, {max_batch}"


class Widths(NamedTuple):
    """Four possible widths of a column.

    - least: the smallest width at which no number or word is broken.
    - fair: the width of the widest cell, but at most `FAIR` unless a word is longer.
    - whole: the width of the widest cell.
    - heading: the width of the widest cell including the heading.
    """

    least: int
    fair: int
    whole: int
    heading: int


def _sizes(column: Column, cells: Sequence[str]) -> Widths:
    """The widths of a column with these cells."""
    word = max(map(len, column.name.split()), default=0)
    whole = max([word, *map(len, cells)])
    if column.left:
        least = max([word, *(len(part) for cell in cells for part in cell.split())])
    else:
        least = whole
    return Widths(
        least=least,
        fair=max(least, min(whole, FAIR)),
        whole=whole,
        heading=max(whole, len(column.name)),
    )


def _widths(sizes: Sequence[Widths], room: int) -> list[int]:
    """The widths of the columns. They begin at the least widths and grow as far as the room allows: first to
    the fair widths, then to the widest cells, and then to the headings. The column that lacks most grows
    first.
    """
    widths = [each.least for each in sizes]
    for goal in ([each.fair for each in sizes], [each.whole for each in sizes]):
        while sum(widths) < room and widths != goal:
            lacks = [wanted - width for wanted, width in zip(goal, widths, strict=True)]
            widths[lacks.index(max(lacks))] += 1
    for number, each in enumerate(sizes):
        if sum(widths) - widths[number] + each.heading <= room:
            widths[number] = each.heading
    return widths


def _narrow(widths: list[int], columns: Sequence[Column], room: int) -> None:
    """Narrows the widest columns of text until all columns fit, or until all have the width `BROKEN`, where
    words are broken.
    """
    text = [number for number, column in enumerate(columns) if column.left or not number]
    while sum(widths) > room and max(widths[number] for number in text) > BROKEN:
        widths[max(text, key=lambda number: widths[number])] -= 1


def progress(length: int, unit: str) -> Any:
    """click's progress bar over `length` units, as a context manager. The bar is shown on stderr if that is a
    terminal.
    """
    return click.progressbar(
        length=length, label=unit, show_pos=True, file=sys.stderr, hidden=not sys.stderr.isatty()
    )


def each(answer: Callable[[Any], Any], questions: Sequence[Any]) -> list[Any]:
    """Answers the questions one by one. If there are several, a progress bar is shown."""
    if len(questions) == 1:
        return [answer(questions[0])]
    answers = []
    with progress(len(questions), "answers") as bar:
        for question in questions:
            answers.append(answer(question))
            bar.update(1)
    return answers
