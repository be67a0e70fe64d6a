"""Serves the predictor over HTTP, for tools in other languages (``perfmodel serve``).

A client sends one batch to ``POST /forward``, and gets the time of its forward pass::

    {"new_tokens": [1, 1, 2000], "past_tokens": [4000, 900, 0], "gamma": 3}
    {"seconds": 0.0871, "tokens_per_iteration": 2.26}

``GET /`` returns the question, the capacity of the KV cache in tokens, and the longest draft.

The server has no state: every request describes one batch, and the command line fixes the model, device and
other settings. The server reads no file to answer a request. A refused request gets an error in JSON.
"""

import sys
from contextlib import suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BufferedReader, RawIOBase
from socket import SHUT_WR, socket
from threading import BoundedSemaphore
from time import monotonic
from typing import Any

import msgspec

from perfmodel.answers.point.predictor import Predictor
from perfmodel.errors import LONGEST, InputError, one_line, shortened

MOST_BYTES = 2**20
"""Size limit of the body of an HTTP request. Such a body can describe a batch of about 50,000 sequences."""
TIMEOUT_S = 10.0
"""Time within which a client must send a request. A client that takes longer is disconnected."""
LINGER_S = 1.0
"""Time during which the server still reads from a client after it has refused the request."""
MOST_CONNECTIONS = 128
"""Number of clients that can be connected at the same time. Further clients are refused."""

_TEXT = b'{"error":"too many clients are connected"}'
BUSY = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nConnection: close\r\n"
    b"Content-Length: %d\r\n\r\n%s" % (len(_TEXT), _TEXT)
)
"""The response to a client if `MOST_CONNECTIONS` clients are connected already."""


class Batch(msgspec.Struct, forbid_unknown_fields=True):
    """The body of an HTTP request: for each sequence of a batch, its number of new tokens and of cached
    tokens.

    - gamma: the draft length. None means the draft length of the command line.
    """

    new_tokens: list[int | float]
    past_tokens: list[int | float]
    gamma: int | None = None


class Refused(Exception):
    """An HTTP request that is refused.

    - status: the HTTP status.
    - why: the reason.
    """

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class Arriving(RawIOBase):
    """A stream of the data that a client sends. Reading fails after the deadline `ends_s`, a time of
    `time.monotonic` in seconds.

    A limit on the time of each read would not suffice: a client could keep its connection open by sending one
    byte at a time.
    """

    def __init__(self, connection: socket) -> None:
        self.connection = connection
        self.ends_s = 0.0

    def readable(self) -> bool:
        """As in `io.IOBase`."""
        return True

    def readinto(self, buffer: Any) -> int:
        """As in `io.RawIOBase`. Raises TimeoutError after the deadline."""
        left_s = self.ends_s - monotonic()
        if left_s <= 0.0:
            raise TimeoutError
        self.connection.settimeout(left_s)
        return self.connection.recv_into(buffer)


class Handler(BaseHTTPRequestHandler):
    """Answers the requests of one connection."""

    protocol_version = "HTTP/1.1"
    server_version = "perfmodel"
    sys_version = ""

    def __init__(self, predictor: Predictor, timeout_s: float, *connection: Any) -> None:
        self.predictor = predictor
        self.timeout_s = timeout_s
        super().__init__(*connection)

    def setup(self) -> None:
        """As in `socketserver.StreamRequestHandler`."""
        super().setup()
        self.arriving = Arriving(self.request)
        self.rfile = BufferedReader(self.arriving)

    def handle_one_request(self) -> None:
        """Answers one request, which must arrive within `timeout_s` seconds."""
        self.arriving.ends_s = monotonic() + self.timeout_s
        super().handle_one_request()

    def do_GET(self) -> None:
        """Answers ``GET /`` with the question, the number of tokens that fit in the KV cache, and the longest
        draft.
        """
        self._answer(partial(about, self.predictor), "/")

    def do_POST(self) -> None:
        """Answers ``POST /forward`` with the seconds of a forward pass."""
        self._answer(lambda: forward(self.predictor, self._body()), "/forward")

    def _answer(self, answer: Any, path: str) -> None:
        try:
            if self.path != path:
                raise Refused(404, "there are POST /forward and GET /")
            self._send(200, answer())
        except Refused as refused:
            self.close_connection = True  # the rest of the data is not a new request
            self._send(refused.status, {"error": str(refused)})
            self._linger()

    def _linger(self) -> None:
        """Reads for up to `LINGER_S` seconds. A client whose data remain unread does not receive the
        response.
        """
        self.arriving.ends_s = monotonic() + LINGER_S
        with suppress(OSError):
            self.connection.shutdown(SHUT_WR)
            while self.rfile.read1():
                pass

    def _body(self) -> bytes:
        """The body of a request. Refuses a body without a length, or one that is too long."""
        if "Transfer-Encoding" in self.headers:
            raise Refused(411, "Transfer-Encoding: must be left out, in favour of Content-Length")
        lengths = set(self.headers.get_all("Content-Length", [""]))
        length = lengths.pop()
        if lengths:
            raise Refused(400, "Content-Length: must be given once")
        if not (length.isascii() and length.isdigit()):
            raise Refused(411, "Content-Length: must be given as a number of bytes")
        if len(length) > 9 or int(length) > MOST_BYTES:
            raise Refused(413, f"body: must have at most {MOST_BYTES} bytes")
        body = self.rfile.read(int(length))
        if len(body) < int(length):
            raise Refused(400, "body: ended early")
        return body

    def _send(self, status: int, content: dict[str, Any]) -> None:
        text = msgspec.json.encode(content)
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(text)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Sends an error of the HTTP protocol, such as an unknown method, in the JSON form of all other
        errors.
        """
        self.close_connection = True
        self.request_version = self.protocol_version  # also a request without a version gets a status
        why = shortened(one_line(message or self.responses[code][0]), LONGEST)
        self._send(code, {"error": why})

    def log_message(self, format: str, *args: Any) -> None:
        """Logs nothing, because a simulator may send millions of requests."""


def about(predictor: Predictor) -> dict[str, Any]:
    """The answer to ``GET /``: the question, the number of tokens that fit in the KV cache, and the longest
    draft.
    """
    return {
        "question": msgspec.to_builtins(predictor.question.as_dict(), str_keys=True),
        "kv_tokens": predictor.kv_tokens,
        "max_gamma": predictor.max_gamma,
    }


def forward(predictor: Predictor, body: bytes) -> dict[str, Any]:
    """The answer to ``POST /forward``.

    - body: the JSON of a `Batch`.

    Raises Refused for a wrong body.
    """
    try:
        batch = msgspec.json.decode(body, type=Batch)
        seconds = predictor.forward_s(batch.new_tokens, batch.past_tokens, batch.gamma)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Refused(400, f"body: {error}") from None
    except InputError as error:
        raise Refused(400, str(error)) from None
    answer: dict[str, Any] = {"seconds": seconds, "tokens_per_iteration": None}
    with suppress(InputError):  # no acceptance is known
        answer["tokens_per_iteration"] = float(predictor.tokens_per_iteration(batch.gamma))
    return answer


class PredictorServer(ThreadingHTTPServer):
    """An HTTP server with one thread per connection. The threads end with the process. No error is printed if
    a client disconnects.
    """

    daemon_threads = True
    request_queue_size = MOST_CONNECTIONS

    def __init__(self, *address_and_handler: Any) -> None:
        super().__init__(*address_and_handler)
        self._places = BoundedSemaphore(MOST_CONNECTIONS)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answers a connection in a new thread. If `MOST_CONNECTIONS` connections are open already, sends
        `BUSY` instead.
        """
        if self._places.acquire(blocking=False):
            super().process_request(request, client_address)
            return
        with suppress(OSError):
            request.setblocking(False)
            request.sendall(BUSY)
        self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answers one connection, and then frees its place for another connection."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Prints a traceback, except for errors of the connection."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


def server(predictor: Predictor, host: str, port: int, timeout_s: float = TIMEOUT_S) -> PredictorServer:
    """Makes a server that answers with this predictor.

    - port: 0 selects a free port.
    - timeout_s: time within which a request must arrive, in seconds.

    Raises InputError if the address cannot be used.
    """
    try:
        return PredictorServer((host, port), partial(Handler, predictor, timeout_s))
    except (OSError, OverflowError) as error:
        raise InputError(f"--host, --port: {host}:{port} cannot be used: {error}") from None
