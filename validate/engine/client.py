"""A running OpenAI-compatible server, spoken to with the standard library alone: what it is, and streamed answers.

Only the host of the URL that the user gave is ever contacted (redirects are not followed). A key is read from the
environment variable `KEY` and goes into the request's header, nowhere else.
"""

import http.client
import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from perfmodel.errors import InputError, one_line, refuse

KEY = "PERFMODEL_API_KEY"
TIMEOUT_S = 600.0


@dataclass(frozen=True, slots=True)
class Chunk:
    """One streamed piece of an answer. at_s: when it came, on `time.perf_counter`. tokens: in it; None if not said."""

    at_s: float
    tokens: int | None


@dataclass
class Answer:
    """A whole answer. began_s: when the request was sent. total: its tokens, where the server says."""

    began_s: float
    chunks: list[Chunk] = field(default_factory=list)
    total: int | None = None
    error: str | None = None


@dataclass(frozen=True)
class Server:
    """An OpenAI-compatible server by its URL, with or without ``/v1``."""

    url: str

    @classmethod
    def at(cls, url: str) -> "Server":
        """Refuses (InputError) what is not an http(s) URL with a host, or has a user name or key in it."""
        parts = urlsplit(url if "//" in url else f"http://{url}")
        try:
            host = (parts.hostname or "").encode("idna")  # as a resolver will want it
            known = parts.scheme in ("http", "https") and host and (parts.port or True)
        except ValueError:
            known = False
        if not known or parts.username or parts.password or parts.query:
            raise refuse("--url", None, f"http://HOST:PORT (a key goes into {KEY})", url.rpartition("@")[2])
        return cls(f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/').removesuffix('/v1')}")

    def get(self, path: str) -> str | None:
        """The text of a page; None where the server has none. Raises InputError where it cannot be reached."""
        connection = self._connect(30.0)
        try:
            connection.request("GET", self._path(path), headers=_headers())
            response = connection.getresponse()
            text = response.read(64 * 2**20).decode("utf-8", "replace")
            if response.status in (401, 403):
                raise InputError(f"--url: {self.url} asks for a key: set {KEY}")
            return text if response.status == 200 else None
        except (OSError, http.client.HTTPException) as error:
            raise InputError(
                f"--url: {self.url} cannot be reached: {one_line(str(error)) or type(error).__name__}"
            ) from None
        finally:
            connection.close()

    def model(self) -> str:
        """The name that it serves its model under. Raises InputError."""
        text = self.get("/v1/models")
        try:
            return str(json.loads(text or "")["data"][0]["id"])
        except (ValueError, LookupError, TypeError):
            raise InputError(f"--url: {self.url} lists no model at /v1/models: is it OpenAI-compatible?") from None

    def engine(self) -> tuple[str, str | None]:
        """Engine and version, as far as it says: vLLM at /version, SGLang at /get_server_info, llama.cpp at /props."""
        for path, name, keys in (
            ("/get_server_info", "sglang", ("version",)),
            ("/props", "llama.cpp", ("build_info",)),
            ("/version", "vllm", ("version",)),
        ):
            try:
                data = json.loads(self.get(path) or "")
            except ValueError:
                continue
            found = next((data[key] for key in keys if isinstance(data, dict) and isinstance(data.get(key), str)), None)
            if found:
                return name, found
        return "openai", None

    def stream(self, model: str, prompt: list[int], tokens: int) -> Answer:
        """One greedy answer of exactly `tokens` tokens where the engine can ignore its end token."""
        body = {
            "model": model,
            "prompt": prompt,
            "max_tokens": tokens,
            "temperature": 0,
            "stream": True,
            "ignore_eos": True,
            "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        }
        answer = Answer(time.perf_counter())
        connection = self._connect(TIMEOUT_S)
        try:
            headers = _headers() | {"Content-Type": "application/json"}
            connection.request("POST", self._path("/v1/completions"), json.dumps(body), headers)
            response = connection.getresponse()
            if response.status != 200:
                answer.error = f"HTTP {response.status}: {one_line(response.read(300).decode('utf-8', 'replace'))}"
                return answer
            for event in _events(response):
                _take(answer, event)
        except (OSError, http.client.HTTPException, ValueError) as error:
            answer.error = one_line(str(error)) or type(error).__name__
        finally:
            connection.close()
        return answer

    def _connect(self, timeout: float) -> http.client.HTTPConnection:
        parts = urlsplit(self.url)
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        return kind(parts.hostname or "", parts.port, timeout=timeout)

    def _path(self, path: str) -> str:
        return urlsplit(self.url).path + path


def _headers() -> dict[str, str]:
    key = os.environ.get(KEY)
    return {"Authorization": f"Bearer {key}"} if key else {}


def _events(response: http.client.HTTPResponse) -> Iterator[dict[str, Any]]:
    """JSON objects of a stream of server-sent events."""
    for line in response:
        if line.startswith(b"data:") and (data := line[5:].strip()) not in (b"", b"[DONE]"):
            event = json.loads(data)
            if isinstance(event, dict):
                yield event


def _take(answer: Answer, event: dict[str, Any]) -> None:
    """Keep a piece: tokens by the running count of the server, where it gives one."""
    now = time.perf_counter()
    if event.get("error"):
        answer.error = one_line(str(event["error"]))[:200]
    usage = event.get("usage") or {}
    count = usage.get("completion_tokens") if isinstance(usage, dict) else None
    count = count if isinstance(count, int) else None
    text = any(choice.get("text") for choice in event.get("choices") or [] if isinstance(choice, dict))
    before = answer.total or 0
    if text or (count is not None and count > before and event.get("choices")):
        answer.chunks.append(Chunk(now, None if count is None else count - before))
    if count is not None:
        answer.total = count
