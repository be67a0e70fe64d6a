"""Lines that people write by hand, each with a number of concurrent requests and the TPOT: ``concurrency=8:
TTFT 210 ms, TPOT 9.9 ms, accept length 2.3``.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from perfmodel.errors import refuse
from perfmodel.validate.engine.drafting_words import stated
from perfmodel.validate.engine.formats.fields import step
from perfmodel.validate.engine.load_words import load
from perfmodel.validate.engine.pastes.base import TextForm, number
from perfmodel.validate.engine.timing import GivenFacts, Timing, speculation, stated_lengths

_TPOT = re.compile(
    r"\b(?:tpot|time per output token)\W{1,3}(?P<before>\d+(?:\.\d+)?) ?ms\b"
    r"|\b(?P<after>\d+(?:\.\d+)?) ?ms ?(?:tpot\b|(?:/|per) ?tok(?:en)?\b)",
    re.I,
)


class _Line(NamedTuple):
    """A line with its number of concurrent requests and its TPOT in milliseconds."""

    batch: float
    tpot: str
    words: str


class ConcurrencyLines(TextForm):
    """A line is a step of N concurrent requests. The draft length and the accepted tokens are those of the
    line, of the heading above it, or those that the user gives.
    """

    title = "lines of concurrency and TPOT"
    counts_drafts = False

    def has(self, text: str) -> bool:
        """See `TextForm.has`."""
        return len({line.batch for line in _lines(text)}) > 1

    def read(self, where: str, text: str, facts: GivenFacts) -> list[Timing]:
        """See `TextForm.read`."""
        steps = []
        facts = facts.over(load(text))
        for line in _lines(text):
            lengths = stated_lengths(where, facts)
            tpot = number(where, "TPOT", line.tpot)
            if not tpot:
                raise refuse(where, "TPOT", "above 0", line.tpot)
            of_line = stated(line.words, facts.gamma)
            drafted = speculation(where, facts, of_line.accepted, of_line.gamma)
            iteration_s = drafted.tokens_per_iteration * tpot / 1e3
            steps.append(step(where, iteration_s, line.batch, lengths, drafted, how="TPOT"))
        return steps


def _lines(text: str) -> Iterator[_Line]:
    """The lines with one number of requests and one TPOT. Lines of tables and lines in which speeds with and
    without a draft are compared have several.
    """
    for words in text.splitlines():
        found = [*_TPOT.finditer(words)]
        batch = load(words).batch
        if "|" not in words and len(found) == 1 and batch is not None:
            yield _Line(batch, found[0]["before"] or found[0]["after"], words)
