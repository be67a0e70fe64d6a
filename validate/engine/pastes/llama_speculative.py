"""The output of llama.cpp's example programs for drafting: ``decoded 256 tokens in 4.3 seconds``, ``n_accept
= 176``.
"""

import re

from perfmodel.errors import InputError, refuse
from perfmodel.validate.engine.formats.fields import step
from perfmodel.validate.engine.pastes.base import TextForm, number
from perfmodel.validate.engine.timing import (
    GivenFacts,
    RequestLengths,
    Timing,
    drafted_length,
    needed,
    speculation,
)

_DECODED = re.compile(r"decoded\s+(?P<tokens>\d+) tokens in\s+(?P<seconds>[\d.]+) seconds")
_ENCODED = re.compile(r"encoded\s+(\d+) tokens in")
_COUNT = r"\b{name}\s*=\s*(\d+)"


class LlamaSpeculative(TextForm):
    """A text is one answer of ``llama-speculative`` or ``llama-speculative-simple``."""

    title = "counts of llama-speculative"
    engine = "llamacpp"

    def has(self, text: str) -> bool:
        """See `TextForm.has`."""
        return _DECODED.search(text) is not None and _of(text, "n_drafted") is not None

    def read(self, where: str, text: str, facts: GivenFacts) -> list[Timing]:
        """See `TextForm.read`."""
        decoded = _DECODED.search(text)
        assert decoded is not None
        drafted = number(where, "n_drafted", _of(text, "n_drafted") or "")
        accepted_word = _of(text, "n_accept")
        if accepted_word is None:
            raise InputError(f"{where}: n_accept: must stand beside n_drafted: add the lines after it")
        accepted = number(where, "n_accept", accepted_word)
        tokens = number(where, "decoded", decoded["tokens"])
        iterations = tokens - accepted
        if iterations < 1 or accepted > drafted or not drafted:
            raise refuse(where, "n_accept", "at most n_drafted, and below the decoded tokens", accepted)
        encoded = _ENCODED.search(text)
        prompt = facts.input if encoded is None else number(where, "encoded", encoded[1])
        length = facts.gamma or drafted_length(drafted / iterations)
        speculated = speculation(where, facts, min(tokens / iterations, length + 1.0), length)
        seconds = number(where, "seconds", decoded["seconds"]) / iterations
        lengths = RequestLengths(needed(where, "input", prompt), tokens)
        return [step(where, seconds, 1.0, lengths, speculated, how="decoding time over iterations")]


def _of(text: str, name: str) -> str | None:
    """The number after a name; None if the text does not have the name."""
    printed = re.search(_COUNT.format(name=name), text)
    return printed[1] if printed else None
