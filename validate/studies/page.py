"""Writes the tables of ``docs/accuracy.md`` and ``docs/accuracy_tables.md`` from the accuracy record. The
text around the tables is written by hand.

In a page, each table follows a line ``<!-- table: NAME -->``. `filled` replaces the table.
"""

import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

from perfmodel.errors import unknown_name
from perfmodel.reading import read_text
from perfmodel.validate.accuracy.markdown import table
from perfmodel.validate.studies.record import PATH, render
from perfmodel.validate.studies.tables import (
    decisions,
    engines,
    memory,
    public_runs,
    research,
    served_runs,
)
from perfmodel.validate.studies.tables.cells import Record, Rows

TABLE_BLOCK = re.compile(r"^<!-- table: (\w+) -->\n\n(?:\|.*\n)*", re.MULTILINE)
TEXT_COLUMNS = {
    "choices": (0, 1),
    "sources": (0, 9),
    "sources_by_draft": (0, 9),
    "lengths": (0, 1, 6),
    "summary": (0, 1),
}
"""Table -> indices of its text columns. By default, only the first column has text."""
DOCS = Path(__file__).parents[2] / "docs"
PAGES = (DOCS / "accuracy.md", DOCS / "accuracy_tables.md")
"""The short page, and the page with all tables."""
TABLES: dict[str, Callable[[Record], Rows]] = {
    "sources": public_runs.sources,
    "coverage": public_runs.coverage,
    "chances": public_runs.chances,
    "choices": public_runs.choices,
    "sources_by_draft": partial(public_runs.sources, by_draft=True),
    "verdicts": decisions.verdicts,
    "verdicts_by_fold": decisions.verdicts_by_fold,
    "lengths": decisions.lengths,
    "summary": research.summary,
    "held_out": research.held_out,
    "folds": research.folds,
    "traffic": served_runs.traffic,
    "served_runs": served_runs.served_runs,
    "memory": memory.memory,
    "engines": engines.engines,
    "engine_cells": engines.engine_cells,
    "engine_ratios": engines.engine_ratios,
}
"""Name of a table in a page -> the function that makes it."""


def files(record: Record) -> dict[Path, str]:
    """Path -> new text of the file of the record and of the pages with its tables."""
    text = render(record)
    read_again = json.loads(text)
    pages = {path: filled(read_text(path), read_again) for path in PAGES}
    return {PATH: text, **pages}


def filled(text: str, record: Record) -> str:
    """The text of a page with its tables replaced by those of a record. Raises InputError for an unknown
    table.
    """

    def replaced(block: re.Match[str]) -> str:
        name = block[1]
        if name not in TABLES:
            raise unknown_name("a page of docs", "table", name, TABLES)
        head, *rows = TABLES[name](record)
        lines = table(head, rows, TEXT_COLUMNS.get(name, (0,)))
        return "\n".join([f"<!-- table: {name} -->", "", *lines, ""])

    return TABLE_BLOCK.sub(replaced, text)
