"""Lines that people write by hand, each with a draft length and a speed or TPOT: ``n_max=2: 59.5 t/s (accept
0.80)``.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from perfmodel.errors import refuse
from perfmodel.validate.engine.drafting_words import is_drafting, stated
from perfmodel.validate.engine.formats.fields import step
from perfmodel.validate.engine.load_words import load
from perfmodel.validate.engine.pastes.base import PROMPT_WORD, TextForm, number
from perfmodel.validate.engine.timing import (
    NOT_SPECULATED,
    GivenFacts,
    SpeculatedTokens,
    Timing,
    speculation,
    stated_lengths,
)

_FIGURE = (
    r"(?P<speed>\d+(?:\.\d+)?)\s*"
    r"(?:(?:(?:tg|gen|decode) )?(?:tokens?|toks?|t)/s(?:ec)?|(?P<ms>ms))\b"
)
_LINE = re.compile(
    r"(?:^|\b|--)(?:(?:spec[-_])?draft[-_ ]n[-_ ]?max|n[-_ ]?max|draft[-_ ]max|num_speculative_tokens|gamma"
    r"|n|k|mtp|nextn|eagle3?|draft)[-\s:=]{0,3}(?P<length>\d{1,2})\b(?!\.\d)"
    rf"(?:\([^)\n]*\)|[^\d\n(])*{_FIGURE}",
    re.I,
)
"""A draft length and then a speed, with no other number between them except in brackets."""
_SPEED = re.compile(
    r"(?P<speed>\d+(?:\.\d+)?)\s*(?:(?:(?:tg|gen|decode) )?(?:tokens?|toks?|t)/s(?:ec)?|(?P<ms>ms))\b", re.I
)
_TPOT = re.compile(r"\btpot\b|(?<![a-z])ms ?(?:/|per) ?tok", re.I)
"""Words of a line whose milliseconds are the time of a token."""


class _Line(NamedTuple):
    """A speed with its draft length, 0 without a draft.

    - speed: tokens per second, or the TPOT in milliseconds (`is_tpot`).
    - words: the text after the length; empty if the length is not given as a number.
    """

    length: int
    speed: str
    is_tpot: bool
    words: str


class DraftLengthLines(TextForm):
    """A line is a step with N drafted tokens. It is a step of one request, unless the user gives
    ``batch=N``.
    """

    title = "lines of draft lengths and tokens per second or TPOT"

    def has(self, text: str) -> bool:
        """See `TextForm.has`."""
        lines = list(_lines(text))
        numbered = {line.length for line in lines if line.words}
        return len(numbered) > 1 and len(lines) == len({line.length for line in lines})

    def read(self, where: str, text: str, facts: GivenFacts) -> list[Timing]:
        """See `TextForm.read`."""
        facts = facts.over(load(text))
        lengths = stated_lengths(where, facts)
        batch = facts.batch or 1.0
        steps = []
        for line in _lines(text):
            name = "TPOT" if line.is_tpot else "tokens per second"
            speed = number(where, name, line.speed)
            if not speed:
                raise refuse(where, name, "above 0", line.speed)
            drafted = _drafted(where, facts, line) if line.length else NOT_SPECULATED
            token_s = speed / 1e3 if line.is_tpot else batch / speed
            iteration_s = drafted.tokens_per_iteration * token_s
            how = "decoding time over iterations"
            steps.append(step(where, iteration_s, batch, lengths, drafted, how=how))
        return steps


def _drafted(where: str, facts: GivenFacts, line: _Line) -> SpeculatedTokens:
    """The draft length and the tokens per iteration of a line. Raises InputError."""
    accepted = stated(f"n={line.length} {line.words}").accepted
    return speculation(where, facts, accepted, line.length)


def _lines(text: str) -> Iterator[_Line]:
    """The lines with one speed, and before it the draft length or words that say that no draft ran."""
    for line in text.splitlines():
        speeds = list(_SPEED.finditer(line))
        if "|" in line or PROMPT_WORD.search(line) or len(speeds) != 1:
            continue
        is_tpot = speeds[0]["ms"] is not None
        if is_tpot and not _TPOT.search(line):
            continue
        if labelled := _LINE.search(line):
            words = line[labelled.end("length") :]
            yield _Line(int(labelled["length"]), labelled["speed"], is_tpot, words)
        elif is_drafting(line) is False:
            yield _Line(0, speeds[0]["speed"], is_tpot, "")
