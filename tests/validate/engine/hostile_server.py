"""Servers on loopback that answer as none should: one fault each, on a page or in the stream of an answer."""

import base64
import itertools
import json
import random
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from tests.validate.engine.server import HEAD, NOT_FOUND, Pieces, event, serving_bytes

SLOW_S = 0.05
MODELS = b'{"data": [{"id": "tiny"}]}'


@dataclass(frozen=True)
class Fault:
    """path: where it is. says: words of the one line that names it. send: what goes over the wire."""

    path: str
    says: str
    send: Callable[[], Pieces]


def page(body: bytes) -> Callable[[], Pieces]:
    return lambda: iter([HEAD, body])


def forever(head: bytes, piece: bytes, pause_s: float = 0.0) -> Callable[[], Pieces]:
    def send() -> Pieces:
        yield head
        while True:
            time.sleep(pause_s)
            yield piece

    return send


def tokens(count: int, start: int = 1) -> Pieces:
    for n in range(start, start + count):
        time.sleep(0.001)
        yield event({"choices": [{"text": "x"}], "usage": {"completion_tokens": n}})


def stream(*pieces: bytes | Callable[[], Pieces]) -> Callable[[], Pieces]:
    return lambda: itertools.chain([HEAD], *(piece() if callable(piece) else [piece] for piece in pieces))


def three() -> Pieces:
    return tokens(3)


def counting(value: object) -> Callable[[], Pieces]:
    return stream(three, event({"choices": [{"text": "x"}], "usage": {"completion_tokens": value}}))


def positions(count: int) -> bytes:
    rows = (f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{position="{j}"}} 1\n' for j in range(count))
    return b"vllm:spec_decode_num_drafts_total 9\n" + "".join(rows).encode()


DEEP = b"[" * 100_000
HUGE = b"9" * 400
DONE = event(b"[DONE]")
NO_MODEL = "lists no model"
NOT_WHOLE = "is not whole after"
NO_ANSWER = "the output ended after 3, in 3 pieces"
BROKEN = "cannot be reached or breaks off"
MODEL_FAULTS = {
    "models: no JSON": ("must be valid JSON", page(b"<html>")),
    "models: nested": ("nested so deeply", page(DEEP)),
    "models: nested objects": ("nested so deeply", page(b'{"a":' * 100_000)),
    "models: a number": (NO_MODEL, page(b"5")),
    "models: no list": (NO_MODEL, page(b'{"data": {"id": "x"}}')),
    "models: id is a number": (NO_MODEL, page(b'{"data": [{"id": ' + HUGE + b"}]}")),
    "models: a number of 9,000 digits": ("must be valid JSON", page(b'{"data": ' + b"9" * 9000 + b"}")),
    "models: id of 60 MB": ("sends more than", forever(HEAD + b'{"data": [{"id": "', b"x" * 65536)),
    "models: id of 1 MB": (NO_MODEL, page(b'{"data": [{"id": "' + b"x" * 2**20 + b'"}]}')),
    "models: zipped zeros": ("must be valid JSON", page(b"\x1f\x8b" + bytes(1000))),
    "models: no answer": (NOT_WHOLE, forever(b"", b"", SLOW_S)),
    "models: hangs up": (BROKEN, lambda: iter([])),
    "models: not HTTP": (BROKEN, lambda: iter([b"SSH-2.0-x\r\n\r\n"])),
    "models: slow headers": (NOT_WHOLE, forever(b"HTTP/1.1 200 OK\r\n", b"X: y\r\n", SLOW_S)),
    "models: endless headers": (BROKEN, forever(b"HTTP/1.1 200 OK\r\n", b"X: y\r\n" * 999)),
    "models: slow body": (NOT_WHOLE, forever(HEAD, b" ", SLOW_S)),
    "models: shorter than said": (
        BROKEN,
        lambda: iter([b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n", MODELS]),
    ),
    "models: negative length": (
        BROKEN,
        lambda: iter([b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", MODELS]),
    ),
    "models: elsewhere": (
        NO_MODEL,
        lambda: iter([b"HTTP/1.1 302 Found\r\nLocation: http://192.0.2.1/\r\n\r\n"]),
    ),
    "models: a key wanted": (
        "asks for a key",
        lambda: iter([b"HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n"]),
    ),
}
METRIC_FAULTS = {
    "metrics: 20,000 positions": ("positions: must be", page(positions(20_000))),
    "metrics: 200,000 positions": ("sends more than", page(positions(200_000))),
    "metrics: a gap": ("0, 1, 2, ... without gaps", page(positions(2).replace(b'"1"', b'"7"'))),
    "metrics: no count": ("a finite count", page(positions(2).replace(b" 9", b" NaN"))),
}
STREAM_FAULTS = {
    "stream: choices a number": ("events of choices and usage", stream(event({"choices": 5}))),
    "stream: choices of numbers": ("events of choices and usage", stream(event({"choices": [5]}))),
    "stream: usage a list": ("events of choices and usage", stream(event({"choices": [], "usage": [1]}))),
    "stream: a list": ("events of choices and usage", stream(event([1, 2]))),
    "stream: a number": ("events of choices and usage", stream(event(7))),
    "stream: nested": ("nested so deeply", stream(event(DEEP[:60_000]))),
    "stream: no JSON": ("must be valid JSON", stream(event(b"{choices}"))),
    "stream: no UTF-8": ("must be valid JSON", stream(event(b"\xff\xfe{"))),
    "stream: 10**400 tokens": ("completion_tokens: must be", counting(10**400)),
    "stream: fewer tokens than before": ("completion_tokens: must be", counting(1)),
    "stream: tokens negative": ("completion_tokens: must be", counting(-1)),
    "stream: tokens a word": ("completion_tokens: must be", counting("x")),
    "stream: tokens half": ("completion_tokens: must be", counting(4.5)),
    "stream: tokens true": ("completion_tokens: must be", counting(True)),
    "stream: more tokens than asked": ("completion_tokens: must be", stream(lambda: tokens(13))),
    "stream: more pieces than asked": ("more pieces", forever(HEAD, event({"choices": [{"text": "x"}]}))),
    "stream: a line without end": ("bytes in a line", forever(HEAD + b"data: ", b"x" * 4096)),
    "stream: endless events": ("bytes in a line", forever(HEAD, event({"choices": []}) * 100)),
    "stream: endless comments": ("bytes in a line", forever(HEAD, b": wait\n\n" * 500)),
    "stream: slow comments": (NOT_WHOLE, forever(HEAD, b": wait\n\n", SLOW_S)),
    "stream: slow letters": (NOT_WHOLE, forever(HEAD, b"d", SLOW_S)),
    "stream: slow headers": (NOT_WHOLE, forever(b"HTTP/1.1 200 OK\r\n", b"X: y\r\n", SLOW_S)),
    "stream: silence after three": (NOT_WHOLE, stream(three, forever(b"", b"", SLOW_S))),
    "stream: cut after three": (NO_ANSWER, stream(three)),
    "stream: done after three": (NO_ANSWER, stream(three, DONE)),
    "stream: stopped after three": (
        NO_ANSWER,
        stream(three, event({"choices": [{"text": "", "finish_reason": "stop"}]}), DONE),
    ),
    "stream: an error after all": (
        "finish_reason: must be null, length or stop, given 'error'",
        stream(lambda: tokens(12), event({"choices": [{"text": "", "finish_reason": "error"}]}), DONE),
    ),
    "stream: another model": (
        "model: must be the one asked for, given 'huge'",
        stream(event({"choices": [{"text": "x"}], "model": "huge", "usage": {"completion_tokens": 1}})),
    ),
    "stream: two answers": (
        "choices: must be one, of index 0, given 2",
        stream(event({"choices": [{"text": "x"}, {"text": "y"}], "usage": {"completion_tokens": 1}})),
    ),
    "stream: a second answer": (
        "choices: must be one, of index 0, given 1",
        stream(event({"choices": [{"text": "x", "index": 1}], "usage": {"completion_tokens": 1}})),
    ),
    "stream: cut in an event": ("ended after 3", stream(three, b'data: {"choices": [{"te')),
    "stream: three and no count": (
        "it says no number of tokens",
        stream(event({"choices": [{"text": "x"}]}) * 3, DONE),
    ),
    "stream: chunk cut": (
        BROKEN,
        lambda: iter([b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nda"]),
    ),
    "stream: chunk of no size": (
        BROKEN,
        lambda: iter([b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"]),
    ),
    "stream: all at once": ("in 1 pieces", stream(lambda: itertools.islice(tokens(12, 12), 1))),
    "stream: nothing": ("the output ended after 0", stream(DONE)),
    "stream: an error": ("says out of blocks", stream(three, event({"error": "out of blocks"}))),
    "stream: 500 without end": ("sends more than", forever(b"HTTP/1.1 500 No\r\n\r\n", b"x" * 65536)),
    "stream: 500 in red": (
        "HTTP 500: [31mred",
        lambda: iter([b"HTTP/1.1 500 No\r\n\r\n\x1b[31mred\n\n\x00"]),
    ),
}
FAULTS: dict[str, Fault] = {
    name: Fault(path, says, send)
    for path, faults in (
        ("/v1/models", MODEL_FAULTS),
        ("/metrics", METRIC_FAULTS),
        ("/v1/completions", STREAM_FAULTS),
    )
    for name, (says, send) in faults.items()
}


KEY_FORMS: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "in base64": lambda key: base64.b64encode(f"us:{key}".encode()).decode(),
    "in base32": lambda key: base64.b32encode(key.encode()).decode(),
    "its numbers": lambda key: str(list(key.encode())),
    "its first half": lambda key: key[: len(key) // 2],
}
"""How a server may spell a key that it repeats. There are too many ways to look for all."""


def repeating(place: str, key: str) -> Fault:
    """A server that repeats a key: in a status, an event, a header, its version, model or counters."""
    path, body = REPEATED[place]
    return Fault(path, "", lambda: iter([body(key)]))


def _refusal(key: str) -> str:
    return json.dumps(f"Incorrect API key provided: {key}")


def _status_of(key: str) -> bytes:
    return b"HTTP/1.1 401 No\r\nConnection: close\r\n\r\n" + _refusal(key).encode()


def _event_of(key: str) -> bytes:
    return HEAD + event({"error": _refusal(key)})


def _version_of(key: str) -> bytes:
    return HEAD + json.dumps({"version": key}).encode()


def _model_of(key: str) -> bytes:
    return HEAD + json.dumps({"data": [{"id": key}]}).encode()


def _header_of(key: str) -> bytes:
    return f"HTTP/1.1 200 OK\r\n{key}\r\n\r\n".encode()


def _counters_of(key: str) -> bytes:
    return HEAD + f"vllm:spec_decode_num_drafts {key}\n".encode()


REPEATED: dict[str, tuple[str, Callable[[str], bytes]]] = {
    "status": ("/v1/completions", _status_of),
    "event": ("/v1/completions", _event_of),
    "version": ("/version", _version_of),
    "model": ("/v1/models", _model_of),
    "header": ("/v1/models", _header_of),
    "metrics": ("/metrics", _counters_of),
}
"""Where a server may repeat a key -> what is asked for, and what it sends."""


def _good(path: str) -> Pieces:
    if path == "/v1/models":
        yield HEAD + MODELS
    elif path == "/v1/completions":
        yield HEAD
        yield from tokens(12)
        yield DONE
    else:
        yield NOT_FOUND


def broken(fault: Fault | None, rng: random.Random | None = None) -> AbstractContextManager[str]:
    """The URL of a server with a fault (None: with none). rng: see `serving_bytes`."""

    def send(path: str, *_: object) -> Pieces:
        return fault.send() if fault and fault.path == path else _good(path)

    return serving_bytes(send, rng)
