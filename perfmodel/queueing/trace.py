"""Reads a trace of requests from a file. A trace has the arrival time, prompt tokens and output tokens of
each request.

Files are read in blocks, so the memory use grows by only three numbers per request.
"""

import datetime
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from perfmodel.errors import about_file, refuse
from perfmodel.operations import Array, Ints
from perfmodel.queueing.arrivals import Arrivals
from perfmodel.queueing.blocks import Shared
from perfmodel.queueing.trace_columns import HASHES, Block
from perfmodel.queueing.trace_csv import csv_blocks
from perfmodel.queueing.trace_json import json_blocks
from perfmodel.queueing.trace_prefix import of_hashes, of_sessions

IN_MILLISECONDS = "timestamp"
"""The column of arrival times in milliseconds. All other columns have seconds."""
MAX_REQUESTS = 10_000_000
"""Largest number of requests of a trace."""
MAX_TOKENS = 2.0**40
"""Largest token count of a request."""
MAX_AT = 1e15
"""Largest arrival time in seconds or milliseconds (a Unix time in ms is 1.8e12)."""
MAX_HASHES = 5_000_000
"""Largest number of prompt hashes in the replayed requests, because each hash takes memory."""
LONGEST = 200_000
"""Largest number of requests of a trace that are replayed. They suffice for a 99th percentile, and their
replay takes seconds.
"""


def read_trace(path: str | Path, longest: int = LONGEST) -> Arrivals:
    """Reads the requests of a CSV file with a header, or of a file with JSON lines. The requests are returned
    in the order of arrival. The first request arrives at 0 s.

    - longest: number of requests whose shared prompt parts are kept.

    Arrival times are seconds, or date-times such as ``2023-11-16 18:17:03.9799600``. Numbers in the column
    `timestamp` are milliseconds, as in Mooncake's traces. Raises InputError for a file that is not such a
    trace.
    """
    where = Path(path)
    with about_file(where):
        return _read(where, longest)


class _FirstMarks:
    """The sessions or hashes of the requests that arrive first. Those of later requests are dropped, so the
    memory use does not grow with the trace.
    """

    def __init__(self, longest: int, where: Path) -> None:
        self.longest = longest
        self.where = where
        self.mark = ""
        self.at = np.zeros(0)
        self.marks = np.zeros(0, object)

    def add(self, at: Array, block: Block) -> None:
        """Adds the requests of a block, and keeps the first `longest` requests.

        - at: the arrival times of the block.
        """
        self.mark = block.mark
        is_full = self.at.size >= self.longest
        if is_full and at.min() >= self.at.max():
            return
        times = np.concatenate([self.at, at])
        marks = np.append(self.marks, np.fromiter(block.marks, object))
        first = np.argsort(times, kind="stable")[: self.longest]
        self.at = times[first]
        self.marks = marks[first] if marks.size else marks
        if self.mark == HASHES and sum(map(len, filter(None, self.marks))) > MAX_HASHES:
            allowed = f"at most {MAX_HASHES} in {self.longest} requests"
            raise refuse(str(self.where), HASHES, allowed, "more")

    def shared(self, prompts: Ints, outputs: Ints) -> Shared | None:
        """The shared parts of the first prompts. The result is None if no prompts share parts."""
        first_prompts = prompts[: self.longest]
        if self.mark == HASHES:
            hashes = [mark or () for mark in self.marks]
            return of_hashes(first_prompts, hashes, str(self.where)) if any(hashes) else None
        if all(mark is None for mark in self.marks):
            return None
        return of_sessions(first_prompts, outputs[: self.longest], self.marks.tolist())


def _read(where: Path, longest: int) -> Arrivals:
    """Reads a trace (see `read_trace`)."""
    blocks = json_blocks(where) if where.suffix in (".jsonl", ".json") else csv_blocks(where)
    parts = []
    count = 0
    first = _FirstMarks(longest, where)
    for block in blocks:
        columns = {"at": block.at, "input": block.input, "output": block.output}
        part = [_numbers(cells, key, block.names[key], count, where) for key, cells in columns.items()]
        parts.append(part)
        count += len(block.at)
        first.add(part[0], block)
        if count > MAX_REQUESTS:
            raise refuse(str(where), None, f"at most {MAX_REQUESTS} requests", "more")
    if not count:
        raise refuse(str(where), None, "one request or more", "none")
    at, inputs, outputs = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.argsort(at, kind="stable")
    input_tokens = inputs[order].astype(np.int64)
    output_tokens = outputs[order].astype(np.int64)
    shared = first.shared(input_tokens, output_tokens)
    return Arrivals(at[order] - at[order[0]], input_tokens, output_tokens, shared)


def _numbers(cells: list[Any], key: str, name: str, before: int, where: Path) -> Array:
    """Converts a column of a block to seconds or tokens. Raises InputError, which names the request and the
    column.

    - key: see `NAMES`.
    - name: name of the column in the file.
    - before: number of requests before this block.
    """
    least, most = (0.0, MAX_AT) if key == "at" else (1.0, MAX_TOKENS)
    dates = key == "at" and isinstance(cells[0], str) and ":" in cells[0]
    read = _moments if dates else partial(np.array, dtype=float)
    try:
        values = read(cells)
    except (TypeError, ValueError, OverflowError):
        values = np.array([_as_number(read, cell) for cell in cells])
    wrong = np.flatnonzero(~((values >= least) & (values <= most)))
    if wrong.size:
        kind = "a date and time, as the first" if dates else f"a number from {least:g} to {most:g}"
        place = f"request {before + int(wrong[0]) + 1}: {name}"
        raise refuse(str(where), place, kind, cells[int(wrong[0])])
    return values / 1000.0 if name == IN_MILLISECONDS and not dates else values


def _moments(cells: list[Any]) -> Array:
    """Converts date-times in ISO form to seconds."""
    times = [datetime.datetime.fromisoformat(cell) for cell in cells]
    begin = datetime.datetime(1970, 1, 1, tzinfo=times[0].tzinfo and datetime.UTC)
    return np.array([(time - begin).total_seconds() for time in times])


def _as_number(read: Callable[[list[Any]], Array], cell: Any) -> float:
    """Converts a cell to a number. The result is NaN if the cell cannot be read."""
    try:
        return float(read([cell])[0])
    except (TypeError, ValueError, OverflowError):
        return np.nan
