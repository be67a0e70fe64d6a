"""The client of a running OpenAI-compatible server. It reads the server's engine and model and its streamed
answers, and limits the time and size of everything that the server sends.

The client contacts only the host of the user's URL. It follows no redirect and uses no proxy. The API key is
read from the environment variable `KEY` and is sent only in the request's header. A server might repeat the
key in any spelling. While a key is set, no text from the server is therefore kept or shown (`quoted`,
`without_words`). Messages name the URL without its path. If an answer is late, too long, too deeply nested,
malformed or incomplete, InputError says so in one line.
"""

import asyncio
import json
import os
import re
import ssl
import time
from collections.abc import AsyncGenerator, Coroutine
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import SplitResult, unquote, urlsplit

from perfmodel.errors import InputError, one_line, refuse
from perfmodel.reading import parse_json
from perfmodel.validate.engine.record import WORD

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")
KEY = "PERFMODEL_API_KEY"
COMPLETIONS = "/v1/completions"
PAGE_BYTES = 8 * 2**20
"""Largest size of a page, in bytes."""
LINE_BYTES = 2**16
"""Largest size of a line of a stream, in bytes."""
TOKEN_BYTES = 2**13
"""Largest size of a stream per requested token, in bytes."""
LONGEST_NAME = 500
"""Largest length of a model's name, in characters."""


HIDDEN = f"[not shown while {KEY} is set]"
"""Replaces text of the server in messages."""
VERSION = r"b?\d{1,5}(\.\d{1,4}){0,2}"
"""The part of a version that is kept while a key is set. It has too few digits to contain the key."""


def api_key() -> str:
    """The API key for the server; empty if none is set. Raises InputError if it cannot be sent in a
    header.
    """
    key = os.environ.get(KEY, "")
    if not (key.isascii() and key.isprintable()):
        raise InputError(f"{KEY}: must be printable ASCII")
    return key


def holds_key(text: str) -> bool:
    """Whether an argument of the user contains the API key."""
    return bool(api_key()) and api_key().lower() in unquote(text).lower()


def quoted(text: str, most: int = 200) -> str:
    """The start of a server's text as one line for a message; `HIDDEN` if a key is set."""
    return HIDDEN if api_key() and text else one_line(text[:most])


def without_words(error: InputError) -> InputError:
    """The same error. If a key is set, the text of the server is removed from it."""
    return InputError(error.as_flags.partition(", given ")[0] if api_key() else error.as_flags)


WHOLE_REASONS = ("length", "stop")
"""Reasons with which a complete answer can end."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """One streamed piece of an answer.

    - at_s: the time of its arrival by `time.perf_counter`, in seconds.
    - tokens: the number of tokens in the piece; None if the server does not report it.
    """

    at_s: float
    tokens: int | None


@dataclass
class StreamedAnswer:
    """A streamed answer.

    - total: the number of tokens in the answer; None if the server does not report it.
    - model: the model name of the request.
    """

    chunks: list[Chunk] = field(default_factory=list)
    total: int | None = None
    model: str | None = None

    def add(self, event: Any, at_s: float, most: int) -> None:
        """Adds an event of the stream. Its number of tokens is the increase of the server's token count, if
        the server sends one. Raises InputError for an invalid event.

        - most: the number of requested tokens.
        """
        event = event if isinstance(event, dict) else {"choices": event}
        if event.get("error"):
            raise InputError(f"--url: {COMPLETIONS}: says {quoted(str(event['error']))}")
        choices = event.get("choices") or []
        usage = event.get("usage") or {}
        if not isinstance(choices, list):
            choices = [choices]
        if not all(isinstance(section, dict) for section in (usage, *choices)):
            allowed = "events of choices and usage"
            raise refuse(f"--url: {COMPLETIONS}", None, allowed, quoted(json.dumps(event)))
        self._check_asked(event, choices)
        count = usage.get("completion_tokens")
        before = self.total or 0
        if count is not None and (type(count) is not int or not before <= count <= most):
            allowed = f"a whole number from {before} to the {most} asked for"
            raise refuse(f"--url: {COMPLETIONS}", "completion_tokens", allowed, quoted(str(count)))
        has_text = any(choice.get("text") for choice in choices)
        has_tokens = count is not None and count > before
        if choices and (has_text or has_tokens):
            self.chunks.append(Chunk(at_s, None if count is None else count - before))
        if len(self.chunks) > most:
            raise InputError(f"--url: {COMPLETIONS}: sends more pieces than the {most} tokens asked for")
        self.total = self.total if count is None else count

    def _check_asked(self, event: dict[str, Any], choices: list[dict[str, Any]]) -> None:
        """Raises InputError for an answer of another model, for several answers, and for an answer that did
        not end for one of `WHOLE_REASONS`.
        """
        model = event.get("model")
        if None not in (model, self.model) and model != self.model:
            raise refuse(f"--url: {COMPLETIONS}", "model", "the one asked for", quoted(str(model)))
        if len(choices) > 1 or any(choice.get("index") for choice in choices):
            raise refuse(f"--url: {COMPLETIONS}", "choices", "one, of index 0", len(choices))
        for choice in choices:
            reason = choice.get("finish_reason")
            if reason is not None and reason not in WHOLE_REASONS:
                allowed = f"null, {' or '.join(WHOLE_REASONS)}"
                raise refuse(f"--url: {COMPLETIONS}", "finish_reason", allowed, quoted(str(reason)))

    def check_whole(self, wanted: int) -> None:
        """Raises InputError if the answer does not have all its tokens, or if all of them came at once.

        - wanted: the number of requested tokens.
        """
        sent = len(self.chunks) if self.total is None else self.total
        if sent == wanted and len(self.chunks) >= 2:
            return
        pieces = f"in {len(self.chunks)} pieces"
        if self.total is None:
            pieces += ", each counted as one: it says no number of tokens (usage)"
        raise InputError(
            f"--url: {COMPLETIONS}: no measurement: {wanted} tokens were asked for, and the output "
            f"ended after {sent}, {pieces}"
        )


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
