"""The client of a running OpenAI-compatible server. It reads the server's engine and model, and its streamed
answers.

The client contacts only the host of the user's URL (`connection`), and limits the time and the size of
everything that the server sends. While an API key is set, no text from the server is kept or shown
(`api_key`). Messages name the URL without its path. If an answer is late, too long, too deeply nested,
malformed or incomplete, InputError says so in one line.
"""

import asyncio
import re
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from perfmodel.errors import InputError
from perfmodel.reading import parse_json
from perfmodel.validate.engine.api_key import KEY, VERSION, api_key, quoted
from perfmodel.validate.engine.connection import http_client, run_within
from perfmodel.validate.engine.limited_reads import LINE_BYTES, body_text, events
from perfmodel.validate.engine.record import WORD
from perfmodel.validate.engine.server_url import server_url, without_path
from perfmodel.validate.engine.streamed_answer import COMPLETIONS, StreamedAnswer

if TYPE_CHECKING:
    import httpx

PAGE_BYTES = 8 * 2**20
"""Largest size of a page, in bytes."""
LONGEST_NAME = 500
"""Largest length of a model's name, in characters."""
VERSION_PAGES = (
    ("/get_server_info", "sglang", "version"),
    ("/props", "llama.cpp", "build_info"),
    ("/version", "vllm", "version"),
)
"""A page that tells an engine from the others, the engine, and the key of its version. The first page that
states a version decides.
"""


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
        """The server at a URL, with or without ``/v1``. Raises InputError for an invalid URL (see
        `server_url`).
        """
        return cls(server_url(url))

    @property
    def shown(self) -> str:
        """The URL without its path, for messages."""
        return without_path(self.url)

    def get(self, path: str) -> str | None:
        """The text of a page; None if the server does not have the page. Raises InputError if it cannot be
        read.
        """
        status, text = run_within(self.page_s, self.url, path, self._page(path))
        if status in (401, 403):
            raise InputError(f"--url: {self.shown} asks for a key: set {KEY}")
        return text if status == 200 else None

    def model(self) -> str:
        """The name of the served model. Raises InputError if the server lists none."""
        data = self._json("/v1/models")
        try:
            name = data["data"][0]["id"]
        except (LookupError, TypeError):
            name = None
        if not isinstance(name, str) or not 0 < len(name) <= LONGEST_NAME:
            raise InputError(f"--url: {self.shown} lists no model at /v1/models: is it OpenAI-compatible?")
        return name

    def engine(self) -> ServerEngine:
        """The engine as the server reports it (`VERSION_PAGES`)."""
        shown_part = VERSION if api_key() else WORD
        for path, name, key in VERSION_PAGES:
            data = self._json(path)
            stated = data.get(key) if isinstance(data, dict) else None
            version = re.match(shown_part, stated) if isinstance(stated, str) else None
            if version:
                return ServerEngine(name, version[0])
        return ServerEngine("openai", None)

    def answers(self, model: str, prompts: list[list[int]], tokens: int) -> list[StreamedAnswer]:
        """Requests greedy answers of `tokens` tokens to all prompts at the same time. Raises InputError if an
        answer is incomplete.
        """
        requests = self._answers(model, prompts, tokens)
        return run_within(self.answer_s, self.url, COMPLETIONS, requests)

    def _json(self, path: str) -> Any:
        """The JSON value of a page; an empty mapping if the server does not have the page."""
        return parse_json(f"--url: {self.shown}{path}", self.get(path) or "{}")

    async def _answers(self, model: str, prompts: list[list[int]], tokens: int) -> list[StreamedAnswer]:
        async with http_client(self.url) as client:
            streams = [self._stream(client, model, prompt, tokens) for prompt in prompts]
            return list(await asyncio.gather(*streams))

    async def _page(self, path: str) -> tuple[int, str]:
        async with http_client(self.url) as client, client.stream("GET", self.url + path) as response:
            return response.status_code, await body_text(response, PAGE_BYTES, path)

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
                fault = quoted(await body_text(response, LINE_BYTES, COMPLETIONS), 300)
                raise InputError(f"--url: {COMPLETIONS}: HTTP {response.status_code}: {fault}".rstrip(": "))
            async with aclosing(events(response, tokens)) as arriving:
                async for at_s, event in arriving:
                    answer.add(event, at_s, tokens)
        answer.check_whole(tokens)
        return answer
