"""Reads what a server sends, up to a size in bytes."""

import time
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any

from perfmodel.errors import InputError
from perfmodel.reading import parse_json
from perfmodel.validate.engine.streamed_answer import COMPLETIONS

if TYPE_CHECKING:
    import httpx

LINE_BYTES = 2**16
"""Largest size of a line of a stream, in bytes (assumed, like the next size)."""
TOKEN_BYTES = 2**13
"""Largest size of a stream per requested token, in bytes."""
FIELD = b"data:"
"""Begins the line of a stream that has an event."""
END = b"[DONE]"
"""The event that ends a stream."""


async def body_text(response: "httpx.Response", most_bytes: int, path: str) -> str:
    """The text of a body. Raises InputError for a body of more than `most_bytes` bytes."""
    data = bytearray()
    async for piece in response.aiter_raw():
        data += piece
        if len(data) > most_bytes:
            raise InputError(f"--url: {path}: sends more than {most_bytes} bytes")
    return data.decode("utf-8", "replace")


async def events(response: "httpx.Response", tokens: int) -> AsyncGenerator[tuple[float, Any], None]:
    """Yields the arrival time (`time.perf_counter`, in seconds) and the JSON value of each event of a stream,
    up to `END` or the end of the stream. Raises InputError for a line or a stream that is too long, and for
    an event that is not JSON.

    - tokens: number of requested tokens, which limits the size of the stream.
    """
    most_bytes = LINE_BYTES + tokens * TOKEN_BYTES
    unfinished = b""
    total_bytes = 0
    async for piece in response.aiter_raw():
        now_s = time.perf_counter()
        total_bytes += len(piece)
        *lines, unfinished = (unfinished + piece).split(b"\n")
        if total_bytes > most_bytes or len(unfinished) > LINE_BYTES:
            raise InputError(
                f"--url: {COMPLETIONS}: sends {LINE_BYTES} bytes in a line, or {TOKEN_BYTES} for each token"
            )
        for line in lines:
            data = line.removeprefix(FIELD).strip() if line.startswith(FIELD) else b""
            if data == END:
                return
            if data:
                yield now_s, parse_json(f"--url: {COMPLETIONS}", data.decode("utf-8", "replace"))
