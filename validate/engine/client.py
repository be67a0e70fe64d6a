"""The client of a running OpenAI-compatible server. It reads the server's engine and model and its streamed
answers, and limits the time and size of everything that the server sends.

The client contacts only the host of the user's URL. It follows no redirect and uses no proxy. While an API
key is set, no text from the server is kept or shown (`api_key`). Messages name the URL without its path. If
an answer is late, too long, too deeply nested, malformed or incomplete, InputError says so in one line.
"""

import asyncio
import re
import ssl
import time
from collections.abc import AsyncGenerator, Coroutine
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import SplitResult, urlsplit

from perfmodel.errors import InputError, one_line, refuse
from perfmodel.reading import parse_json
from perfmodel.validate.engine.api_key import HIDDEN, KEY, VERSION, api_key, holds_key, quoted
from perfmodel.validate.engine.record import WORD
from perfmodel.validate.engine.streamed_answer import COMPLETIONS, StreamedAnswer

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")
PAGE_BYTES = 8 * 2**20
"""Largest size of a page, in bytes."""
LINE_BYTES = 2**16
"""Largest size of a line of a stream, in bytes."""
TOKEN_BYTES = 2**13
"""Largest size of a stream per requested token, in bytes."""
LONGEST_NAME = 500
"""Largest length of a model's name, in characters."""


class ServerEngine(NamedTuple):
    """The name of an engine, and its version. The version is None if the server does not state it."""

    name: str
    version: str | None

    def __str__(self) -> str:
        return " ".join(filter(None, self))


@dataclass(frozen=True)
class LiveServer:
    """A running OpenAI-compatible server.

    - url: the address of the server without ``/v1``.
    - page_s, answer_s: time limits for a page and for an answer, in seconds from the request to the last
      byte.
    """

    url: str
    page_s: float = 10.0
    answer_s: float = 600.0

    @classmethod
    def at(cls, url: str) -> "LiveServer":
        """The server at a URL, with or without ``/v1``. Raises InputError unless it is an http(s) URL with a
        host, without a user name and without a key.
        """
        allowed = f"http://HOST:PORT (a key goes into {KEY})"
        if holds_key(url):
            raise refuse("--url", None, allowed, HIDDEN)
        split = _split(url)
        if split is None:  # the message leaves out path, query and user name, which can contain a key
            host = re.findall(r"^(?:\w+://)?[^/?#:]*(?::\d+)?", url.rpartition("@")[2])
            raise refuse("--url", None, allowed, host[0])
        path = split.path.rstrip("/").removesuffix("/v1")
        return cls(f"{split.scheme}://{split.netloc}{path}")

    @property
    def shown(self) -> str:
        """The URL without its path, for messages."""
        return "/".join(self.url.split("/")[:3])

    def get(self, path: str) -> str | None:
        """The text of a page; None if the server does not have the page. Raises InputError if it cannot be
        read.
        """
        status, text = self._run(path, self.page_s, self._page(path))
        if status in (401, 403):
            raise InputError(f"--url: {self.shown} asks for a key: set {KEY}")
        return text if status == 200 else None

    def model(self) -> str:
        """The name of the served model. Raises InputError if the server lists none."""
        data = parse_json(f"--url: {self.shown}/v1/models", self.get("/v1/models") or "{}")
        try:
            name = data["data"][0]["id"]
        except (LookupError, TypeError):
            name = None
        if not isinstance(name, str) or not 0 < len(name) <= LONGEST_NAME:
            raise InputError(f"--url: {self.shown} lists no model at /v1/models: is it OpenAI-compatible?")
        return name

    def engine(self) -> ServerEngine:
        """The engine as the server reports it: vLLM at /version, SGLang at /get_server_info, llama.cpp at
        /props.
        """
        shown_part = VERSION if api_key() else WORD
        for path, name, key in (
            ("/get_server_info", "sglang", "version"),
            ("/props", "llama.cpp", "build_info"),
            ("/version", "vllm", "version"),
        ):
            data = parse_json(f"--url: {self.shown}{path}", self.get(path) or "{}")
            stated = data.get(key) if isinstance(data, dict) else None
            version = re.match(shown_part, stated) if isinstance(stated, str) else None
            if version:
                return ServerEngine(name, version[0])
        return ServerEngine("openai", None)

    def answers(self, model: str, prompts: list[list[int]], tokens: int) -> list[StreamedAnswer]:
        """Requests greedy answers of `tokens` tokens to all prompts at the same time. Raises InputError if an
        answer is incomplete.
        """
        return self._run(COMPLETIONS, self.answer_s, self._answers(model, prompts, tokens))

    async def _answers(self, model: str, prompts: list[list[int]], tokens: int) -> list[StreamedAnswer]:
        async with self._client() as client:
            streams = [self._stream(client, model, prompt, tokens) for prompt in prompts]
            return list(await asyncio.gather(*streams))

    async def _page(self, path: str) -> tuple[int, str]:
        async with self._client() as client, client.stream("GET", self.url + path) as response:
            return response.status_code, await _start(response, PAGE_BYTES, path)

    async def _stream(
        self, client: "httpx.AsyncClient", model: str, prompt: list[int], tokens: int
    ) -> StreamedAnswer:
        body = {
            "model": model,
            "prompt": prompt,
            "max_tokens": tokens,
            "temperature": 0,
            "stream": True,
            "ignore_eos": True,
            "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        }
        answer = StreamedAnswer(model=model)
        async with client.stream("POST", self.url + COMPLETIONS, json=body) as response:
            if response.status_code != 200:
                fault = quoted(await _start(response, LINE_BYTES, COMPLETIONS), 300)
                raise InputError(f"--url: {COMPLETIONS}: HTTP {response.status_code}: {fault}".rstrip(": "))
            async with aclosing(_events(response, LINE_BYTES + tokens * TOKEN_BYTES)) as events:
                async for at_s, event in events:
                    answer.add(event, at_s, tokens)
        answer.check_whole(tokens)
        return answer

    def _client(self) -> "httpx.AsyncClient":
        """A client that contacts no other host and follows no redirects. `_run` limits its time."""
        import httpx

        headers = {"Accept-Encoding": "identity"}
        if key := api_key():
            headers["Authorization"] = f"Bearer {key}"
        return httpx.AsyncClient(
            headers=headers,
            verify=ssl.create_default_context() if self.url.startswith("https") else False,
            trust_env=False,
            timeout=None,
            limits=httpx.Limits(max_connections=None),
        )

    def _run(self, path: str, limit_s: float, work: Coroutine[Any, Any, T]) -> T:
        """Runs a request within a time limit. Raises InputError of one line if the connection fails."""

        async def within() -> T:
            async with asyncio.timeout(limit_s):
                return await work

        try:
            return asyncio.run(within())
        except TimeoutError:
            raise InputError(f"--url: {path}: is not whole after {limit_s:g} s") from None
        except InputError:
            raise
        except Exception as error:
            if not _is_of_connection(error):
                raise
            words = "" if api_key() else one_line(str(error)[:200])
            fault = words or type(error).__name__
            raise InputError(
                f"--url: {self.shown} cannot be reached or breaks off at {path}: {fault}"
            ) from None


def _split(url: str) -> SplitResult | None:
    """The parts of an http(s) URL with a host and without a user name or query; None for any other URL."""
    try:
        split = urlsplit(url if "//" in url else f"http://{url}")
        host = (split.hostname or "").encode("idna")  # raises ValueError for a name that no resolver accepts
        _ = split.port
    except ValueError:
        return None
    if split.scheme not in ("http", "https") or not host:
        return None
    return None if split.username or split.password or split.query else split


def _is_of_connection(error: Exception) -> bool:
    """Whether an error comes from httpx, its transport or the resolver, which have several families of
    errors.
    """
    return type(error).__module__.startswith("httpx") or isinstance(error, OSError | ValueError)


async def _start(response: "httpx.Response", most: int, path: str) -> str:
    """The text of a body of at most `most` bytes. Raises InputError for a longer body."""
    data = bytearray()
    async for piece in response.aiter_raw():
        data += piece
        if len(data) > most:
            raise InputError(f"--url: {path}: sends more than {most} bytes")
    return data.decode("utf-8", "replace")


async def _events(response: "httpx.Response", most: int) -> AsyncGenerator[tuple[float, Any], None]:
    """Yields the arrival time and the JSON value of each event of a stream, up to ``[DONE]`` or the end of
    the stream. Raises InputError.
    """
    unfinished = b""
    total = 0
    async for piece in response.aiter_raw():
        now = time.perf_counter()
        total = total + len(piece)
        *lines, unfinished = (unfinished + piece).split(b"\n")
        if total > most or len(unfinished) > LINE_BYTES:
            raise InputError(
                f"--url: {COMPLETIONS}: sends {LINE_BYTES} bytes in a line, or {TOKEN_BYTES} for each token"
            )
        for line in lines:
            data = line[5:].strip() if line.startswith(b"data:") else b""
            if data == b"[DONE]":
                return
            if data:
                yield now, parse_json(f"--url: {COMPLETIONS}", data.decode("utf-8", "replace"))
