"""The streamed answer of a server: its pieces, and the checks that it is the requested answer and whole."""

import json
from dataclasses import dataclass, field
from typing import Any

from perfmodel.errors import InputError, refuse
from perfmodel.validate.engine.api_key import quoted

COMPLETIONS = "/v1/completions"
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
