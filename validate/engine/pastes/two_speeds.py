"""Speeds with a draft and without, as people write them: ``with MTP (n=3): 52 tok/s, without: 33 tok/s``."""

import re
from collections.abc import Iterator

from perfmodel.errors import refuse
from perfmodel.validate.engine.formats.fields import step
from perfmodel.validate.engine.pastes.base import TextForm, number
from perfmodel.validate.engine.timing import GivenFacts, Timing, speculation, stated_lengths

LONGEST = 1000
"""Characters of a text that people write."""
_SPEED = re.compile(
    r"(?P<words>.*?)(?<![\w.])(?P<rate>\d+(?:\.\d+)?)\s*(?:tokens?|toks?|t)/s(?:ec)?\b", re.S | re.I
)
_CLAUSE = re.compile(r"[;\n]")
"""Ends the words about the speed before."""
_ALONE = re.compile(r"\b(?:without|baseline|vanilla|plain|off|no (?:mtp|draft\w*|spec\w*|eagle\S*))\b", re.I)
_DRAFTING = re.compile(
    r"\b(?:with|on|mtp|nextn|spec\w*|draft\w*|eagle\S*|dflash\S*|dspark|n-?gram|medusa)\b", re.I
)


class TwoSpeeds(TextForm):
    """One step for each speed. The prompt (``input=N``), the draft length (``gamma=N``) and the tokens per
    iteration (``accepted=X``) are not stated.
    """

    title = "speeds with a draft and without"

    def has(self, text: str) -> bool:
        """See `TextForm.has`."""
        kinds = {drafts for _, drafts in _speeds(text)}
        return kinds == {True, False}

    def read(self, where: str, text: str, facts: GivenFacts) -> list[Timing]:
        """See `TextForm.read`."""
        lengths = stated_lengths(where, facts)
        steps = []
        for word, drafts in _speeds(text):
            rate = number(where, "tokens per second", word)
            if not rate:
                raise refuse(where, "tokens per second", "above 0", word)
            drafted = speculation(where, facts, None, None) if drafts else (0, 1.0)
            batch = facts.batch or 1.0
            how = "decoding time over iterations"
            steps.append(step(where, batch * drafted[1] / rate, batch, lengths, drafted, how=how))
        return steps


def _speeds(text: str) -> Iterator[tuple[str, bool | None]]:
    """Each speed of a short text, and whether a draft made it by the words before it; None if they say
    neither.
    """
    if len(text) > LONGEST:
        return
    for speed in _SPEED.finditer(text):
        words = _CLAUSE.split(speed["words"])[-1]
        if _ALONE.search(words):
            yield speed["rate"], False
        else:
            yield speed["rate"], True if _DRAFTING.search(words) else None
