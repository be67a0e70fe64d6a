"""Speeds with and without a draft, as people write them: ``with MTP (n=3): 52 tok/s, without: 33 tok/s``, or
``128 tok/s with MTP and 342 tok/s without``. They can also be times per token: ``TPOT 9 ms without MTP, 14 ms
with it``.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from perfmodel.errors import InputError, refuse
from perfmodel.validate.engine.drafting_words import is_drafting, stated
from perfmodel.validate.engine.formats.fields import step
from perfmodel.validate.engine.load_words import load
from perfmodel.validate.engine.pastes.base import PROMPT_WORD, RATE_UNIT, TextForm, number
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
"""Largest number of characters in a text that is searched for speeds. People compare two runs in a few
sentences. A longer text is a log or a page, and its speeds can belong to other runs.
"""
_SPEED = re.compile(
    r"(?P<words>.*?)(?<![\w.])(?P<value>\d+(?:\.\d+)?)\s*"
    rf"(?:{RATE_UNIT}|(?P<ms>ms\b)(?P<token>\s*(?:/\s*|per )tok(?:en)?\b)?)",
    re.S | re.I,
)
"""A speed, or milliseconds, with the words before it: ``without MTP 9.6 ms per token``."""
_RATE = rf"\d+(?:\.\d+)?\s*{RATE_UNIT}"
_WITHOUT_UNIT = re.compile(
    rf"(?<![\w.])\d+(?:\.\d+)?(?=\s*(?:[-=]+>|→)\s*{_RATE})|(?<=\bfrom )\d+(?:\.\d+)?(?= to {_RATE})", re.I
)
"""The first of two speeds, if only the second one has a unit: ``38 → 57 tok/s``."""
_TPOT = re.compile(r"\btpot\b", re.I)
"""The name of a time per output token. A draft does not change its meaning."""
_ITL = re.compile(r"\bitl\b|\binter[- ]token latency\b", re.I)
"""The name of the gap between two outputs. With a draft, a gap can give several tokens."""
_CLAUSE = re.compile(r"[;\n]")
"""The words about the previous speed end here: ``no draft: 33 tok/s without vision; MTP: 52 tok/s``."""
_SENTENCE = re.compile(r"[;,.\n]")
"""The words after a speed that are about it end here: ``52 tok/s with MTP. Without it I could not work``."""
_ENDED = re.compile(r"(?:[-=]+>|[→;,/]|\b(?:vs\.?|to|and|then))\s*$", re.I)
"""The words after a speed are about it if this ends them before the next speed. "baseline" is therefore
about 34 tok/s in ``Qwen + MTP draft: 34 tok/s baseline -> 41 tok/s with draft``.
"""
_CONTRAST = re.compile(
    r"->|=>|→|\b(?:(?:enabl|disabl|drop|turn)\w*|from|instead|before|otherwise|vs|versus|compared|than|slower|faster)\b",
    re.I,
)
"""Words that contrast a speed with a draft and a speed without one: ``34 tok/s. Enabling MTP gives 52
tok/s`` or ``52 tok/s with MTP instead of 34 tok/s``.
"""


class _Speed(NamedTuple):
    """One speed of a text.

    - seconds: seconds per token of one sequence, if the text states a time; None if it states the rate of
      all.
    - drafts: whether the speed was measured with a draft; None if the text says neither.
    """

    value: float
    seconds: float | None
    drafts: bool | None


class TwoSpeeds(TextForm):
    """Each speed is one step. If the text does not state the prompt length, the draft length or the tokens
    per iteration, an error asks for ``input=N``, ``gamma=N`` or ``accepted=X``.
    """

    title = "speeds with a draft and without"

    def has(self, text: str) -> bool:
        """See `TextForm.has`."""
        return {speed.drafts for speed in _speeds("", text)} == {True, False}

    def read(self, where: str, text: str, facts: GivenFacts) -> list[Timing]:
        """See `TextForm.read`."""
        if _ITL.search(text) and not _TPOT.search(text):
            raise InputError(f"{where}: ITL: state the TPOT: with a draft, a gap may give several tokens")
        facts = facts.over(stated(text, facts.gamma)).over(load(text))
        lengths = stated_lengths(where, facts)
        batch = facts.batch or 1.0
        steps = []
        for speed in _speeds(where, text):
            if not speed.value:
                raise refuse(where, "tokens per second", "above 0", speed.value)
            drafted = _drafted(where, facts) if speed.drafts else NOT_SPECULATED
            token_s = batch / speed.value if speed.seconds is None else speed.seconds
            iteration_s = token_s * drafted.tokens_per_iteration
            how = "decoding time over iterations"
            steps.append(step(where, iteration_s, batch, lengths, drafted, how=how))
        return steps


def _drafted(where: str, facts: GivenFacts) -> SpeculatedTokens:
    """The draft length and the tokens per iteration of a speed with a draft. Raises InputError."""
    needed(where, "gamma", facts.gamma)
    return speculation(where, facts, None, None)


def _speeds(where: str, text: str) -> Iterator[_Speed]:
    """The speeds in a short text. Times count only if they are times per output token."""
    if len(text) > LONGEST:
        return
    text = _WITHOUT_UNIT.sub(r"\g<0> tok/s", text)
    of_tokens = _TPOT.search(text) is not None or _ITL.search(text) is not None
    found = [one for one in _SPEED.finditer(text) if not one["ms"] or one["token"] or of_tokens]
    if not found:
        return
    for one, drafts in zip(found, _kinds(text, found), strict=True):
        value = number(where, "tokens per second", one["value"])
        yield _Speed(value, value / 1e3 if one["ms"] else None, drafts)


def _kinds(text: str, speeds: list[re.Match[str]]) -> list[bool | None]:
    """Whether each speed was measured with a draft; None if the text says neither.

    1. The words before each speed decide, from the start of its clause: ``without 33 tok/s; MTP 52 tok/s``.
    2. The words after each speed decide instead, up to the end of their sentence, in two cases. Either the
       words before the first speed say nothing about a draft (``33 tok/s baseline, 52 tok/s with MTP``), or
       the text between two speeds belongs to the first of them (`_ENDED`).
    3. If one of two speeds is still unknown, `_kinds_of_two` looks further.
    """
    words_before = [speed["words"] for speed in speeds]
    kinds = [is_drafting(_CLAUSE.split(words)[-1]) for words in words_before]

    gaps = _texts_after(text, speeds)
    words_after = [_SENTENCE.split(gap)[0] for gap in gaps]
    kinds_after = [is_drafting(words) for words in words_after]
    are_after = all(map(_ENDED.search, gaps[:-1])) and set(kinds_after) == {True, False}
    if kinds[0] is None or are_after:
        kinds = kinds_after

    if len(speeds) == 2 and set(kinds) != {True, False}:
        return _kinds_of_two(text, kinds, words_before, words_after)
    return kinds


def _texts_after(text: str, speeds: list[re.Match[str]]) -> list[str]:
    """The text between each speed and the next one, or the end of the text."""
    ends = [speed.end() for speed in speeds]
    next_starts = [speed.start("value") for speed in speeds[1:]] + [len(text)]
    return [text[end:start] for end, start in zip(ends, next_starts, strict=True)]


def _kinds_of_two(
    text: str, kinds: list[bool | None], words_before: list[str], words_after: list[str]
) -> list[bool | None]:
    """The kinds of two speeds, if steps 1 and 2 of `_kinds` did not find one kind of each.

    1. An unknown speed has the kind of the words before it in its own sentence: ``52 tok/s with MTP.
       Without it I get 33 tok/s``.
    2. If these say nothing, it has the kind of the words after it: ``MTP 52 tok/s; 33 tok/s baseline``.
    3. If one speed has a draft and the other is still unknown, the other was measured without a draft if the
       text contrasts the two (``34 tok/s. Enabling MTP gives 52 tok/s``). A text about prompts does not
       count, because one of its speeds can be that of the prompt.

    - kinds: the kinds that the earlier steps found.
    - words_before, words_after: the words before and after each speed.
    """
    found = []
    for kind, before, after in zip(kinds, words_before, words_after, strict=True):
        if kind is None:
            kind = is_drafting(_SENTENCE.split(before)[-1])
        found.append(is_drafting(after) if kind is None else kind)
    is_contrast = _CONTRAST.search(text) is not None and not PROMPT_WORD.search(text)
    if set(found) == {True, None} and is_contrast:
        return [kind is True for kind in found]
    return found
