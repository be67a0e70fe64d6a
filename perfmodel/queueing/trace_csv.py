"""Reads a trace of requests from a CSV file with a header."""

import csv
from collections.abc import Iterator
from itertools import chain, islice
from operator import itemgetter
from pathlib import Path

from perfmodel.errors import InputError
from perfmodel.queueing.trace_columns import SESSION, Block, column_names
from perfmodel.reading import lines_of, opened

LINES_OF_COLUMNS = 500
"""Number of lines that are converted to columns together. More lines would slow down Python's garbage
collector.
"""
AT_ONCE = 50_000
"""Number of lines of a block."""


def csv_blocks(where: Path) -> Iterator[Block]:
    """Reads the requests block by block. A blank session means a request without a session. Of several
    columns of sessions, the first one in `SESSION` counts. The file may begin with a byte order mark, as
    Excel writes it.

    Raises InputError if the file is not CSV in UTF-8, lacks a column, or has a line that lacks a cell.
    """
    with opened(where, encoding="utf-8-sig", newline="") as stream:
        rows = csv.reader(lines_of(where, stream))
        try:
            head = next(rows, [])
            names = column_names(head, where)
            session = next((name for name in SESSION if name in head), "")
            wanted = [*names.values(), *([session] if session else [])]
            without_blank_lines = filter(None, rows)
            lines = map(itemgetter(*map(head.index, wanted)), without_blank_lines)
            columns = _columns(lines)
            while parts := list(islice(columns, AT_ONCE // LINES_OF_COLUMNS)):
                at, prompts, outputs, *sessions = [
                    list(chain.from_iterable(column)) for column in zip(*parts, strict=True)
                ]
                marks = [mark or None for mark in sessions[0]] if session else []
                yield Block(names, at, prompts, outputs, session, marks)
        except IndexError:
            raise InputError(f"{where}: line {rows.line_num}: must have a cell for each column") from None
        except (csv.Error, UnicodeDecodeError) as error:
            raise InputError(f"{where}: line {rows.line_num + 1}: must be CSV in UTF-8: {error}") from None


def _columns(lines: Iterator[tuple[str, ...]]) -> Iterator[tuple[tuple[str, ...], ...]]:
    """Converts a few lines at a time to columns. All iterators of a file are lazy, so the cells of only these
    lines are kept as lines.
    """
    while few := list(islice(lines, LINES_OF_COLUMNS)):
        yield tuple(zip(*few, strict=True))
