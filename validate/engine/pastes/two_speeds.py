"""Speeds with a draft and without, as people write them: ``with MTP (n=3): 52 tok/s, without: 33 tok/s``, or
``128 tok/s with MTP and 342 tok/s without``.
"""

import re
from collections.abc import Iterator

from perfmodel.errors import refuse
from perfmodel.validate.engine.drafting_words import is_drafting, stated
from perfmodel.validate.engine.formats.fields import step
from perfmodel.validate.engine.pastes.base import TextForm, number
from perfmodel.validate.engine.timing import (
    NOT_SPECULATED,
    GivenFacts,
    SpeculatedTokens,
    Timing,
    needed,
    speculation,
    stated_lengths,
)

LONGEST = 1000
"""Characters of a text that people write."""
_SPEED = re.compile(
    r"(?P<words>.*?)(?<![\w.])(?P<rate>\d+(?:\.\d+)?)\s*(?:tokens?|toks?|t)/s(?:ec)?\b", re.S | re.I
)
_CLAUSE = re.compile(r"[;\n]")
"""Ends the words about the speed before."""
_SENTENCE = re.compile(r"[;,.\n]")
"""Ends the words behind a speed that are about it."""


class TwoSpeeds(TextForm):
    """One step for each speed. What the text does not say is asked for: the prompt (``input=N``), the draft
    length (``gamma=N``) and the tokens per iteration (``accepted=X``, or a share of accepted tokens).
    """

    title = "speeds with a draft and without"

    def has(self, text: str) -> bool:
        """See `TextForm.has`."""
        kinds = {drafts for _, drafts in _speeds(text)}
        return kinds == {True, False}

    def read(self, where: str, text: str, facts: GivenFacts) -> list[Timing]:
        """See `TextForm.read`."""
        facts = facts.over(stated(text))
        lengths = stated_lengths(where, facts)
        steps = []
        for word, drafts in _speeds(text):
            rate = number(where, "tokens per second", word)
            if not rate:
                raise refuse(where, "tokens per second", "above 0", word)
            drafted = _drafted(where, facts) if drafts else NOT_SPECULATED
            batch = facts.batch or 1.0
            iteration_s = batch * drafted.tokens_per_iteration / rate
            how = "decoding time over iterations"
            steps.append(step(where, iteration_s, batch, lengths, drafted, how=how))
        return steps


def _drafted(where: str, facts: GivenFacts) -> SpeculatedTokens:
    """What was speculated behind a speed that a draft made."""
    needed(where, "gamma", facts.gamma)
    return speculation(where, facts, None, None)


def _speeds(text: str) -> Iterator[tuple[str, bool | None]]:
    """Each speed of a short text, and whether a draft made it; None if the words about it say neither.

    The words stand before the speeds, or behind them where those before the first speed say neither.
    """
    if len(text) > LONGEST:
        return
    speeds = list(_SPEED.finditer(text))
    before = [_CLAUSE.split(speed["words"])[-1] for speed in speeds]
    if speeds and is_drafting(before[0]) is None:
        ends = [speed.end() for speed in speeds]
        starts = [speed.start("rate") for speed in speeds[1:]] + [len(text)]
        about = [_SENTENCE.split(text[end:start])[0] for end, start in zip(ends, starts, strict=True)]
    else:
        about = before
    for speed, words in zip(speeds, about, strict=True):
        yield speed["rate"], is_drafting(words)
