"""Tables of a server's load over time, as Grafana and scripts export them: the running requests, the
generated tokens per second, and the accepted tokens if the server drafts.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import NamedTuple

from perfmodel.errors import InputError
from perfmodel.validate.engine.drafting_words import accepted_tokens, stated
from perfmodel.validate.engine.formats.fields import step
from perfmodel.validate.engine.load_words import load
from perfmodel.validate.engine.pastes.base import PROMPT_HEADING, TextForm, number
from perfmodel.validate.engine.timing import GivenFacts, Timing, needed, speculation, stated_lengths

ALIKE = 1.25
"""Largest ratio of the numbers of running requests in one load. The value is a choice."""
FEWEST_ROWS = 3
"""A load of at least this many rows is used without its first and its last one, which are partly idle."""
_TIME = re.compile(r"(?:date)?time(?:[ _]?stamp)?|date|ts|elapsed.*|t ?\(?s?\)?|sec(?:onds)?", re.I)
_RUNNING = re.compile(r"running|in[ _-]flight|active|concurren", re.I)
_RATE = re.compile(
    r"(?:gen\w*|decode\w*|output)[ _:-]*(?:tokens?|toks?|throughput|tps|rate)"
    r"|tokens?[ _:-]*(?:rate|(?:/|_per_) ?s)|\btps\b|tok/s|throughput",
    re.I,
)
_ACCEPTED = re.compile(r"acc(?:ept\w*)?(?![a-z])", re.I)

Cells = Mapping[str, str]
"""Heading of a column -> cell."""


class _Head(NamedTuple):
    """The columns in use. Those of running requests and of accepted tokens can be empty."""

    running: str
    rate: str
    accepted: str


class _Row(NamedTuple):
    """The figures of a busy interval.

    - accepted: the cell of accepted tokens.
    """

    running: float
    tokens_per_s: float
    accepted: str


class TimeSeries(TextForm):
    """A step is a load: consecutive rows with about the same number of running requests (`ALIKE`). Its
    figures are medians. If the table does not have the running requests, the user gives ``batch=N``.
    """

    title = "table of a server's running requests and tokens per second over time"

    def has(self, text: str) -> bool:
        """See `TextForm.has`."""
        return _head(_table(text)) is not None

    def read(self, where: str, text: str, facts: GivenFacts) -> list[Timing]:
        """See `TextForm.read`."""
        table = _table(text)
        head = _head(table)
        assert head
        facts = facts.over(load(text))
        batch = None if head.running else needed(where, "batch", facts.batch)
        rows = [*_rows(where, table, head, batch)]
        loads = [*_loads(rows)]
        if not loads:
            raise InputError(f"{where}: {head.rate}: must be above 0 in a row with running requests")
        long = [rows for rows in loads if len(rows) >= FEWEST_ROWS]
        steady = [rows[1:-1] for rows in long] or loads
        return [_step(where, rows, head, facts) for rows in steady]

    def note(self, text: str, facts: GivenFacts) -> str:
        """See `TextForm.note`."""
        return "the rates are averages over intervals, with the time of prompts in them"


def _table(text: str) -> list[list[str]]:
    """The cells of each line with bars."""
    return [
        [cell.strip().strip('"*` ') for cell in line.strip().strip("|").split("|")]
        for line in text.splitlines()
        if "|" in line and re.search(r"\w", line)
    ]


def _head(table: Sequence[Sequence[str]]) -> _Head | None:
    """The columns of a table whose first column is the time; None for any other table."""
    if not table or not _TIME.fullmatch(table[0][0]):
        return None
    columns = table[0][1:]
    rates = [name for name in columns if _RATE.search(name) and not PROMPT_HEADING.search(name)]
    rates = [name for name in rates if not _ACCEPTED.search(name)]
    if not rates:
        return None
    return _Head(_first(_RUNNING, columns), rates[0], _first(_ACCEPTED, columns))


def _first(pattern: re.Pattern[str], names: Sequence[str]) -> str:
    """The first name that a pattern matches; empty if it matches none."""
    return next(filter(pattern.search, names), "")


def _rows(where: str, table: Sequence[Sequence[str]], head: _Head, batch: float | None) -> Iterator[_Row]:
    """The figures of each row. An interval without a value counts as idle. Raises InputError.

    - batch: the running requests of all rows, if no column states them.
    """
    names = table[0]
    for cells in table[1:]:
        if len(cells) != len(names):
            continue
        row = dict(zip(names, cells, strict=True))
        running = batch if batch is not None else number(where, head.running, row[head.running] or "0")
        rate = number(where, head.rate, row[head.rate] or "0")
        yield _Row(running, rate, row.get(head.accepted, ""))


def _loads(rows: Sequence[_Row]) -> Iterator[list[_Row]]:
    """The busy rows of each load. An idle row ends a load."""
    rows_of_load: list[_Row] = []
    for row in rows:
        busy = row.running > 0 and row.tokens_per_s > 0
        if rows_of_load and not (busy and _is_alike(rows_of_load[0].running, row.running)):
            yield rows_of_load
            rows_of_load = []
        if busy:
            rows_of_load.append(row)
    if rows_of_load:
        yield rows_of_load


def _is_alike(one: float, other: float) -> bool:
    return max(one, other) <= ALIKE * min(one, other)


def _step(where: str, rows: Sequence[_Row], head: _Head, facts: GivenFacts) -> Timing:
    """The medians of the rows of a load."""
    length = facts.gamma or stated(head.accepted).gamma
    counted = None
    if head.accepted:
        length = round(needed(where, "gamma", length))
        cells = [accepted_tokens(head.accepted, row.accepted, length) for row in rows]
        counted = median(cell for cell in cells if cell is not None) if any(cells) else None
    drafted = speculation(where, facts, counted, length)
    tpot_s = median(row.running / row.tokens_per_s for row in rows)
    iteration_s = drafted.tokens_per_iteration * tpot_s
    batch = median(row.running for row in rows)
    return step(where, iteration_s, batch, stated_lengths(where, facts), drafted, how="median interval")
