"""Reads a trace of requests from a file. A trace has the arrival time, prompt tokens and output tokens of
each request.

Files are read in blocks, so the memory use grows by only three numbers per request.
"""

import csv
import datetime
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain, islice
from operator import itemgetter
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np

from perfmodel.errors import InputError, about_file, refuse
from perfmodel.operations import Array
from perfmodel.queueing.arrivals import Arrivals
from perfmodel.queueing.trace_prefix import of_hashes, of_sessions
from perfmodel.reading import lines_of, opened

NAMES = {
    "at": ("timestamp", "arrival_s", "arrival", "arrival_time", "TIMESTAMP"),
    "input": ("input_length", "input_tokens", "prompt_tokens", "prompt_len", "input_len", "ContextTokens"),
    "output": ("output_length", "output_tokens", "completion_tokens", "output_len", "GeneratedTokens"),
}
"""Column -> its accepted names: Mooncake's, this project's, OpenAI's and vLLM's, the Azure trace's."""
SESSION = ("session_id", "conversation_id", "session")
"""Columns that name a session. The requests of a session share parts of their prompts."""
HASHES = "hash_ids"
"""Column with hashes of shared prompt parts, in JSON only. It is preferred to a column of sessions."""
IN_MILLISECONDS = "timestamp"
MAX_REQUESTS = 10_000_000
MAX_TOKENS = 2.0**40
"""Largest token count of a request."""
MAX_AT = 1e15
"""Largest arrival time in seconds or milliseconds (a Unix time in ms is 1.8e12)."""
MAX_LINE_BYTES = 2**20
NODE = Annotated[int, msgspec.Meta(ge=0)]
LINES_OF_COLUMNS = 500
"""Number of CSV lines that are converted to columns together; more lines would slow down Python's garbage
collector.
"""
AT_ONCE = 50_000
"""Lines of CSV that are read together."""
BLOCK_BYTES = 2**22
"""Bytes of JSON lines that are read together."""
MAX_HASHES = 5_000_000
"""Largest number of prompt hashes in the replayed requests, because each takes memory."""
LONGEST = 200_000
"""Largest number of requests of a trace that are replayed: enough for a 99th percentile, and replayed
within seconds.
"""
Columns = tuple[list[Any], ...]
"""The columns of `NAMES`, and that of `HASHES` or `SESSION`; the latter is empty if the trace has neither."""


def read_trace(path: str | Path, longest: int = LONGEST) -> Arrivals:
    """Reads the requests of a CSV file with a header, or of a file with JSON lines. The requests are returned
    in the order of arrival. The first request arrives at 0 s.

    - longest: number of requests whose shared prompt parts are kept.

    Arrival times are seconds, or date-times such as ``2023-11-16 18:17:03.9799600``. Numbers in the column
    `timestamp` are milliseconds, as in Mooncake's traces. Raises InputError.
    """
    where = Path(path)
    with about_file(where):
        return _read(where, longest)


def _read(where: Path, longest: int) -> Arrivals:
    blocks = _json_lines if where.suffix in (".jsonl", ".json") else _csv_lines
    parts = []
    count = 0
    first = np.zeros(0)
    marks = np.zeros(0, object)
    names = dict.fromkeys((*NAMES, "mark"), "")
    for columns in blocks(where, names):
        parts.append([_numbers(columns[i], key, names[key], count, where) for i, key in enumerate(NAMES)])
        count += len(columns[0])
        if first.size < longest or parts[-1][0].min() < first.max():  # only the marks of the first requests
            first = np.concatenate([first, parts[-1][0]])
            kept = np.argsort(first, kind="stable")[:longest]
            marks = np.append(marks, np.fromiter(columns[3], object))
            first = first[kept]
            marks = marks[kept] if marks.size else marks
        if names["mark"] == HASHES and sum(map(len, filter(None, marks))) > MAX_HASHES:
            raise refuse(str(where), HASHES, f"at most {MAX_HASHES} in {longest} requests", "more")
        if count > MAX_REQUESTS:
            raise refuse(str(where), None, f"at most {MAX_REQUESTS} requests", "more")
    if not count:
        raise refuse(str(where), None, "one request or more", "none")
    at, inputs, outputs = (np.concatenate(part) for part in zip(*parts, strict=True))
    order = np.argsort(at, kind="stable")
    prompts = inputs[order].astype(np.int64)
    outputs = outputs[order].astype(np.int64)
    shared = None
    if names["mark"] == HASHES:
        if any(marks):
            shared = of_hashes(prompts[:longest], [mark or () for mark in marks], str(where))
    elif any(mark is not None for mark in marks):
        shared = of_sessions(prompts[:longest], outputs[:longest], marks.tolist())
    return Arrivals(at[order] - at[order[0]], prompts, outputs, shared)


def _csv_lines(where: Path, names: dict[str, str]) -> Iterator[Columns]:
    """Columns of text, block by block.

    - names: filled from the header.
    """
    with opened(where, encoding="utf-8-sig", newline="") as stream:
        rows = csv.reader(lines_of(where, stream))
        try:
            head = next(rows, [])
            names |= {key: _name(head, key, where) for key in NAMES}
            own = next(([name] for name in SESSION if name in head), [])
            wanted = itemgetter(*(head.index(name) for name in (*(names[key] for key in NAMES), *own)))
            cells = map(wanted, filter(None, rows))
            few = iter(lambda: tuple(zip(*islice(cells, LINES_OF_COLUMNS), strict=True)), ())
            while block := list(islice(few, AT_ONCE // LINES_OF_COLUMNS)):
                columns = [list(chain.from_iterable(column)) for column in zip(*block, strict=True)]
                yield *columns[: len(NAMES)], [mark or None for mark in columns[-1]] if own else []
        except IndexError:
            raise InputError(f"{where}: line {rows.line_num}: must have a cell for each column") from None
        except (csv.Error, UnicodeDecodeError) as error:
            raise InputError(f"{where}: line {rows.line_num + 1}: must be CSV in UTF-8: {error}") from None


def _json_lines(where: Path, names: dict[str, str]) -> Iterator[Columns]:
    """Columns of numbers or text, block by block.

    - names: filled from the first request.
    """
    with opened(where, mode="rb") as stream:
        lines = (line for line in iter(lambda: stream.readline(MAX_LINE_BYTES + 1), b"") if line.strip())
        if not (first := next(lines, b"")):
            return
        head = _decoded(msgspec.json.Decoder(dict[str, msgspec.Raw]), [first], 0, where)[0]
        names |= {key: _name(head, key, where) for key in NAMES}
        marks = (name for name in (HASHES, *SESSION) if name in head)
        names["mark"] = min(
            marks,
            key=lambda name: bytes(head[name]).translate(None, b" \t") in (b"[]", b"null"),  # of any size
            default="",
        )
        mark = tuple[NODE, ...] | None if names["mark"] == HASHES else str | int | None
        types: list[Any] = [("at", float | str), ("input", float), ("output", float)]
        if names["mark"]:
            types.append(("mark", mark, None))
        request = msgspec.defstruct("Request", types, rename=names, gc=False)
        decoder = msgspec.json.Decoder(request)
        count = 0
        for block in _blocks(chain([first], lines)):
            records = _decoded(decoder, block, count, where)
            count += len(block)
            yield tuple([getattr(one, key) for one in records] if name else [] for key, name in names.items())


def _blocks(lines: Iterator[bytes]) -> Iterator[list[bytes]]:
    """The lines in blocks of `BLOCK_BYTES`."""
    block = list[bytes]()
    size = 0
    for line in lines:
        block.append(line)
        size += len(line)
        if size > BLOCK_BYTES:
            yield block
            block = []
            size = 0
    if block:
        yield block


def _decoded(decoder: Any, lines: list[bytes], before: int, where: Path) -> list[Any]:
    """One value per line. Raises InputError naming the request."""
    records: list[Any] = []
    try:
        for line in lines:
            records.append(decoder.decode(line))
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        place = f"{where}: request {before + len(records) + 1}"
        if len(lines[len(records)]) > MAX_LINE_BYTES:
            raise InputError(f"{place}: must be at most {MAX_LINE_BYTES} bytes long") from None
        if isinstance(error, msgspec.ValidationError):
            raise InputError(f"{place}: must have an arrival and tokens as numbers: {error}") from None
        raise InputError(f"{place}: must be a JSON object of one request: {error}") from None
    return records


def _name(row: Any, key: str, where: Path) -> str:
    if not (known := [name for name in NAMES[key] if name in row]):
        raise InputError(f"{where}: must be requests with {' or '.join(NAMES[key])}")
    return known[0]


def _numbers(cells: list[Any], key: str, name: str, before: int, where: Path) -> Array:
    """One column of a block in seconds or tokens. Raises InputError naming the request and the column."""
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
    """Seconds from date-times in ISO form."""
    times = [datetime.datetime.fromisoformat(cell) for cell in cells]
    begin = datetime.datetime(1970, 1, 1, tzinfo=times[0].tzinfo and datetime.UTC)
    return np.array([(time - begin).total_seconds() for time in times])


def _as_number(read: Callable[[list[Any]], Array], cell: Any) -> float:
    """One cell as a number; NaN if it cannot be read."""
    try:
        return float(read([cell])[0])
    except (TypeError, ValueError, OverflowError):
        return np.nan
