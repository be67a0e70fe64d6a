"""Reads a trace of requests from a file with one JSON object per line."""

from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import msgspec

from perfmodel.errors import InputError
from perfmodel.queueing.trace_columns import HASHES, SESSION, Block, column_names
from perfmodel.reading import opened

MAX_LINE_BYTES = 2**20
"""Length limit of a line."""
BLOCK_BYTES = 2**22
"""Size of a block in the file. A block has at least this size, except the last one."""
HASH = Annotated[int, msgspec.Meta(ge=0)]


def json_blocks(where: Path) -> Iterator[Block]:
    """Reads the requests block by block. The first request determines the names of the columns.

    Raises InputError if a line is longer than `MAX_LINE_BYTES`, or if it is not a JSON object with these
    columns.
    """
    with opened(where, mode="rb") as stream:
        lines = (line for line in iter(lambda: stream.readline(MAX_LINE_BYTES + 1), b"") if line.strip())
        first = next(lines, b"")
        if not first:
            return
        head = _decoded(msgspec.json.Decoder(dict[str, msgspec.Raw]), [first], 0, where)[0]
        names = column_names(head, where)
        mark = _mark_of(head)
        decoder = _decoder_of(names, mark)
        count = 0
        for block in _blocks(chain([first], lines)):
            records = _decoded(decoder, block, count, where)
            count += len(block)
            yield Block(
                names,
                [record.at for record in records],
                [record.input for record in records],
                [record.output for record in records],
                mark,
                [record.mark for record in records] if mark else [],
            )


def _mark_of(head: Mapping[str, msgspec.Raw]) -> str:
    """The column that tells which requests share parts of their prompts. The hashes are preferred, but not if
    the first request has no hash. The result is empty if there is no such column.
    """
    known = [name for name in (HASHES, *SESSION) if name in head]
    filled = [name for name in known if bytes(head[name]).translate(None, b" \t") not in (b"[]", b"null")]
    return next(iter([*filled, *known]), "")


def _decoder_of(names: Mapping[str, str], mark: str) -> msgspec.json.Decoder[Any]:
    """A decoder of requests with these columns."""
    types: list[Any] = [("at", float | str), ("input", float), ("output", float)]
    if mark:
        types.append(("mark", tuple[HASH, ...] | None if mark == HASHES else str | int | None, None))
    request = msgspec.defstruct("Request", types, rename={**names, "mark": mark}, gc=False)
    return msgspec.json.Decoder(request)


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


def _decoded(decoder: msgspec.json.Decoder[Any], lines: list[bytes], before: int, where: Path) -> list[Any]:
    """The value of each line. Raises InputError, which names the request.

    - before: number of requests before these lines.
    """
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
