"""Lines that people write by hand, each with a draft length and a speed: ``n_max=2: 59.5 t/s (accept
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

_LINE = re.compile(
    r"(?:^|\b|--)(?:(?:spec[-_])?draft[-_ ]n[-_ ]?max|n[-_ ]?max|draft[-_ ]max|num_speculative_tokens|gamma"
    r"|n|k|mtp|nextn|eagle3?|draft)[-\s:=]{0,3}(?P<length>\d{1,2})\b(?!\.\d)"
    r"(?:\([^)\n]*\)|[^\d\n(])*(?P<rate>\d+(?:\.\d+)?)\s*(?:tokens?|toks?|t)/s(?:ec)?\b",
    re.I,
)
"""A draft length and then a speed, with no other number between them except in brackets."""
_SPEED = re.compile(r"(?P<rate>\d+(?:\.\d+)?)\s*(?:tokens?|toks?|t)/s(?:ec)?\b", re.I)


class _Line(NamedTuple):
    """A speed with its draft length, 0 without a draft.

    - words: the text after the length; empty if the length is not given as a number.
    """

    length: int
    rate: str
    words: str


class DraftLengthLines(TextForm):
    """A line is a step with N drafted tokens. It is a step of one request, unless the user gives
    ``batch=N``.
    """

    title = "lines of draft lengths and tokens per second"

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
            rate = number(where, "tokens per second", line.rate)
            if not rate:
                raise refuse(where, "tokens per second", "above 0", line.rate)
            drafted = _drafted(where, facts, line) if line.length else NOT_SPECULATED
            iteration_s = batch * drafted.tokens_per_iteration / rate
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
        if "|" in line or PROMPT_WORD.search(line) or len(_SPEED.findall(line)) != 1:
            continue
        if labelled := _LINE.search(line):
            yield _Line(int(labelled["length"]), labelled["rate"], line[labelled.end("length") :])
        elif (speed := _SPEED.search(line)) and is_drafting(line[: speed.start()]) is False:
            yield _Line(0, speed["rate"], "")
