"""A stand-in for an OpenAI-compatible server on loopback: steps of a known length, one chunk an iteration,
counters.
"""

import json
import random
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress

from perfmodel.validate.engine.driver import TRIAL

HEAD = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"
NOT_FOUND = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
Pieces = Iterator[bytes]
Answer = Callable[[str, bytes, bytes], Pieces]
"""Of a path, the head and the body of a request."""


@contextmanager
def serving_bytes(answer: Answer, rng: random.Random | None = None) -> Iterator[str]:
    """The URL of a server that sends what `answer` gives. rng: tears it into pieces of any size."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=_listen, args=(listener, answer, rng), daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)


def _listen(listener: socket.socket, answer: Answer, rng: random.Random | None) -> None:
    with suppress(OSError):
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=_answer, args=(connection, answer, rng), daemon=True).start()


def _answer(connection: socket.socket, answer: Answer, rng: random.Random | None) -> None:
    with connection, suppress(OSError):
        request = b""
        while b"\r\n\r\n" not in request:
            request += connection.recv(65536) or b"\r\n\r\n"
        head, _, body = request.partition(b"\r\n\r\n")
        if not head:  # the caller has hung up
            return
        length = int((re.search(rb"(?i)content-length: (\d+)", head) or [0, 0])[1])
        while len(body) < length:  # what is left unread when a connection closes resets it
            more = connection.recv(65536)
            if not more:  # the caller was killed as it sent
                return
            body += more
        for piece in answer(head.split(b" ")[1].decode(), head, body):
            while rng and len(piece) > 1:
                cut = rng.randrange(1, len(piece))
                connection.sendall(piece[:cut])
                piece = piece[cut:]
            connection.sendall(piece)


def event(data: object) -> bytes:
    """Of a stream."""
    return b"data: " + (data if isinstance(data, bytes) else json.dumps(data).encode()) + b"\n\n"


class Engine:
    """step_s: of an iteration. gamma, alpha: drafted tokens and their acceptance; gamma 0 has no counters.

    counts: whether chunks say how many tokens there are so far. merge: iterations in one chunk.
    """

    def __init__(
        self, step_s: float = 0.004, gamma: int = 0, alpha: float = 0.5, counts: bool = True, merge: int = 1
    ):
        self.step_s = step_s
        self.gamma = gamma
        self.alpha = alpha
        self.counts = counts
        self.merge = merge
        self.drafts = 0
        self.accepted = [0] * gamma
        self.lock = threading.Lock()
        self.draw = random.Random(0)
        self.requests: list[dict] = []
        self.keys: list[str] = []

    def iteration(self) -> int:
        """Tokens that one gains."""
        with self.lock:
            gained = 0
            while gained < self.gamma and self.draw.random() < self.alpha:
                self.accepted[gained] += 1
                gained += 1
            self.drafts += 1
        return gained + 1

    def metrics(self) -> str:
        rows = [f"vllm:spec_decode_num_drafts_total {self.drafts}.0"]
        rows.append(f"vllm:spec_decode_num_draft_tokens_total {self.drafts * self.gamma}.0")
        per = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
        return "\n".join(
            [*rows, *(f'{per}{{position="{j}"}} {n}.0' for j, n in enumerate(self.accepted)), ""]
        )

    def answer(self, path: str, head: bytes, body: bytes) -> Pieces:
        pages = {"/v1/models": json.dumps({"data": [{"id": "tiny"}]}), "/version": '{"version": "9.9"}'}
        if self.gamma:
            pages["/metrics"] = self.metrics()
        if path != "/v1/completions":
            yield HEAD + pages[path].encode() if path in pages else NOT_FOUND
            return
        request = json.loads(body)
        self.requests.append(request)
        self.keys += re.findall(r"(?im)^authorization: (.*?)\r?$", head.decode())
        yield HEAD
        done = 0
        while done < request["max_tokens"]:
            time.sleep(self.step_s * self.merge)
            done = min(done + sum(self.iteration() for _ in range(self.merge)), request["max_tokens"])
            usage = {"usage": {"completion_tokens": done}}
            yield event({"choices": [{"text": "x"}]} | (usage if self.counts else {}))
        yield event({"choices": []} | usage) + event(b"[DONE]")


def serving(engine: Engine) -> AbstractContextManager[str]:
    """The URL of a server of it."""
    return serving_bytes(engine.answer)


class OutOfBlocks(Engine):
    """Has no room for prompts of some lengths once it has answered the trial request."""

    def __init__(self, lengths: set[int]) -> None:
        super().__init__()
        self.lengths = lengths

    def answer(self, path: str, head: bytes, body: bytes) -> Pieces:
        request = json.loads(body or b"{}")
        timed = request.get("max_tokens") != TRIAL.tokens
        if timed and len(request.get("prompt", ())) in self.lengths:
            text = b"out of blocks"
            return iter([b"HTTP/1.1 500 No\r\nConnection: close\r\n\r\n" + text])
        return super().answer(path, head, body)
