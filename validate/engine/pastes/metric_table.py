"""Tables that people write by hand, with one row per metric, a column with a draft and a column without. Rows
and columns can be exchanged.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from perfmodel.errors import refuse
from perfmodel.validate.engine.drafting_words import accepted_tokens, drafted_tokens, is_drafting, stated
from perfmodel.validate.engine.formats.fields import step
from perfmodel.validate.engine.load_words import load
from perfmodel.validate.engine.pastes.base import ACCEPTED_HEADING, TextForm, number, tpot_names
from perfmodel.validate.engine.timing import (
    NOT_SPECULATED,
    GivenFacts,
    SpeculatedTokens,
    Timing,
    needed,
    speculation,
    stated_lengths,
)

_AT_ONCE = re.compile(r"\b(?:concurren\w+|batch size|clients)\b", re.I)
_FIGURE = re.compile(r"\d[\d,]*(?:\.\d+)?")

Columns = Mapping[str, Mapping[str, str]]
"""Heading of a column -> metric -> cell."""


class MetricTable(TextForm):
    """A column is one step, with its median TPOT or else its mean TPOT. If the metrics are the columns, a row
    is one step. If the table does not have the number of concurrent requests, the user gives ``batch=N``. The
    lengths of requests come from ``input=N``.
    """

    title = "table of metrics with a draft and without"

    def has(self, text: str) -> bool:
        """See `TextForm.has`."""
        columns = _columns(text)
        kinds = {is_drafting(head) for head in columns}
        return kinds >= {True, False} and all(_tpot_metric(metrics) for metrics in columns.values())

    def read(self, where: str, text: str, facts: GivenFacts) -> list[Timing]:
        """See `TextForm.read`."""
        around = "\n".join(line for line in text.splitlines() if "|" not in line)
        facts = facts.over(load(text)).over(GivenFacts(accepted=stated(around).accepted))
        lengths = stated_lengths(where, facts)
        steps = []
        for head, metrics in _columns(text).items():
            name = _tpot_metric(metrics)
            tpot_ms = number(where, f"{name} of {head}", _figure(metrics[name]))
            if not tpot_ms:
                raise refuse(where, f"{name} of {head}", "above 0", metrics[name])
            drafted = _drafted(where, head, metrics, facts) if is_drafting(head) else NOT_SPECULATED
            seconds = drafted.tokens_per_iteration * tpot_ms / 1e3
            batch = needed(where, "batch", load(head).batch or facts.batch or _at_once(where, metrics))
            steps.append(step(where, seconds, batch, lengths, drafted, how="Omega x TPOT"))
        return steps


def _columns(text: str) -> Columns:
    """The columns whose headings say whether a draft ran. If the headings are metrics, rows and columns are
    exchanged first.
    """
    table = [
        [cell.strip().strip("*` ") for cell in line.strip().strip("|").split("|")]
        for line in text.splitlines()
        if "|" in line and re.search(r"\w", line)
    ]
    if table and tpot_names(table[0][1:]):
        table = [
            list(cells) for cells in zip(*(row for row in table if len(row) == len(table[0])), strict=True)
        ]
    return _headed(table)


def _headed(table: Sequence[Sequence[str]]) -> Columns:
    """The columns of a table whose headings say whether a draft ran."""
    heads: Sequence[str] = []
    columns: dict[str, dict[str, str]] = {}
    for metric, *cells in table:
        if not heads and any(is_drafting(cell) is not None for cell in cells):
            heads = cells
            columns = {head: {} for head in heads if is_drafting(head) is not None}
        elif len(cells) == len(heads):
            for head, cell in zip(heads, cells, strict=True):
                if head in columns:
                    columns[head][metric] = cell
    return columns


def _tpot_metric(metrics: Mapping[str, str]) -> str:
    """The name of the metric for the TPOT, a median if there is one; empty if no metric is the TPOT."""
    return next(iter(tpot_names(metrics)), "")


def _drafted(where: str, head: str, metrics: Mapping[str, str], facts: GivenFacts) -> SpeculatedTokens:
    """The draft length and the tokens per iteration of a column. Raises InputError."""
    length = drafted_tokens(where, head, facts)
    figures = [accepted_tokens(name, cell, length) for name, cell in _of(metrics, ACCEPTED_HEADING)]
    counted = next((figure for figure in figures if figure is not None), None)
    return speculation(where, facts, counted or stated(head).accepted, length)


def _at_once(where: str, metrics: Mapping[str, str]) -> float | None:
    """The number of concurrent requests; None if no row states it."""
    figures = [number(where, name, _figure(cell)) for name, cell in _of(metrics, _AT_ONCE)]
    return next(iter(figures), None)


def _of(metrics: Mapping[str, str], pattern: re.Pattern[str]) -> Iterator[tuple[str, str]]:
    """The metrics whose names match a pattern, with their cells."""
    return ((name, cell) for name, cell in metrics.items() if pattern.search(name))


def _figure(cell: str) -> str:
    """The first number of a cell such as ``9.64 ms``."""
    figure = _FIGURE.search(cell)
    return figure[0].replace(",", "") if figure else cell
