"""Tables that people write by hand: draft lengths, tokens per second or TPOT, and often accepted tokens."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from perfmodel.errors import refuse
from perfmodel.validate.engine.drafting_words import accepted_tokens, stated
from perfmodel.validate.engine.formats.fields import step
from perfmodel.validate.engine.load_words import load
from perfmodel.validate.engine.pastes.base import (
    ACCEPTED_HEADING,
    PROMPT_HEADING,
    RATE_HEADING,
    TextForm,
    bare_number,
    number,
    rows,
    tpot_names,
)
from perfmodel.validate.engine.timing import (
    NOT_SPECULATED,
    GivenFacts,
    SpeculatedTokens,
    Timing,
    speculation,
    stated_lengths,
)

_LENGTHS = re.compile(
    r"(?:--?)?(?:(?:spec[-_])?(?:draft[-_ ])?n[-_ ]?max|num[-_ ]speculative[-_ ]tokens"
    r"|draft (?:tokens|lengths?)|(?:mtp|eagle3?|nextn|draft|spec\w*)(?: [nk])?|gamma|[nk])",
    re.I,
)
"""The heading of the column of draft lengths."""
_CONFIGURATIONS = re.compile(r"config(?:uration)?|settings?|mode|variant|run|test", re.I)
"""The heading of a column with words for draft lengths, such as ``no spec`` and ``n=2``."""
_NAMED = re.compile(
    r"(?=.*[a-z])"
    r"(?:with|n[-_ ]?max|num|tokens|mtp|eagle-?3?|draft|spec(?:ulative|ulation)?|gamma|[nk]|[-_ =:(])*"
    r"(?P<length>\d{1,2})\)?(?:\s*\([^|)]*\bacc[^|)]*\))?",
    re.I,
)
"""A cell of a column of configurations that states a draft length, and the acceptance in brackets if it is
there. A number alone is no length, because it can count the runs.
"""

_WITHOUT = re.compile(r"off|none|no\b.*|without\b.*|baseline|base|plain|vanilla|[-–—]|0", re.I)
"""The cell of a row without a draft."""
_WITH = re.compile(r"\D*?(?P<length>\d{1,2})")
"""The cell of a row with a draft, in a column of draft lengths."""


@dataclass(frozen=True, slots=True)
class _Head:
    """The headings of the columns in use.

    - speed: the heading of the tokens per second, or of the TPOT in milliseconds.
    - has_tpot: whether `speed` is a TPOT.
    - accepted: the heading of the accepted tokens; None if the table does not have them.
    """

    length: str
    speed: str
    has_tpot: bool
    accepted: str | None


class DraftLengthTable(TextForm):
    """A row is a step with N drafted tokens. It is a step of one request, unless the text or the user states
    a number (``batch=N``). Accepted tokens are a share of the drafted ones (0.72 or 72 %), or tokens per
    iteration if the heading of their column says so.
    """

    title = "table of draft lengths and tokens per second or TPOT"

    def has(self, text: str) -> bool:
        """See `TextForm.has`."""
        head = _head(text)
        return head is not None and any(True for _ in _rows(text, head))

    def read(self, where: str, text: str, facts: GivenFacts) -> list[Timing]:
        """See `TextForm.read`."""
        head = _head(text)
        assert head
        facts = facts.over(load(text))
        lengths = stated_lengths(where, facts)
        batch = facts.batch or 1.0
        steps = []
        for row, length in _rows(text, head):
            speed = number(where, head.speed, bare_number(row[head.speed]))
            if not speed:
                raise refuse(where, head.speed, "above 0", row[head.speed])
            drafted = _drafted(where, facts, head, row, length) if length else NOT_SPECULATED
            token_s = speed / 1e3 if head.has_tpot else batch / speed
            iteration_s = drafted.tokens_per_iteration * token_s
            how = "decoding time over iterations"
            steps.append(step(where, iteration_s, batch, lengths, drafted, how=how))
        return steps


def _drafted(
    where: str, facts: GivenFacts, head: _Head, row: dict[str, str], length: int
) -> SpeculatedTokens:
    """The draft length and the tokens per iteration of a row. Raises InputError."""
    name = head.accepted
    if name is None:
        accepted = stated(row[head.length], length).accepted
    else:
        accepted = accepted_tokens(name, row[name], length)
    return speculation(where, facts, accepted, length)


def _head(text: str) -> _Head | None:
    """The first heading of a table of draft lengths and rates; None if there is none."""
    for line in text.splitlines():
        cells = [cell.strip("*` ") for cell in line.strip().strip("|").split("|")]
        lengths = [cell for cell in cells if _LENGTHS.fullmatch(cell)]
        lengths = lengths or [cell for cell in cells if _CONFIGURATIONS.fullmatch(cell)]
        rates = [cell for cell in cells if RATE_HEADING.search(cell) and not PROMPT_HEADING.search(cell)]
        tpots = tpot_names(cells)
        speeds = tpots or rates
        if lengths and speeds:
            accepted = [cell for cell in cells if ACCEPTED_HEADING.search(cell) and cell not in speeds]
            return _Head(lengths[0], speeds[0], bool(tpots), accepted[0] if accepted else None)
    return None


def _rows(text: str, head: _Head) -> Iterator[tuple[dict[str, str], int]]:
    """Each row with its draft length, which is 0 without a draft. A table of other configurations than draft
    lengths gives no rows.
    """
    form = _NAMED if _CONFIGURATIONS.fullmatch(head.length) else _WITH
    if form is _NAMED and not _lists_lengths(text, head):
        return
    columns = [column for column in (head.length, head.speed, head.accepted) if column is not None]
    for row in rows(text, columns):
        cell = row[head.length]
        if _WITHOUT.fullmatch(cell):
            yield dict(row), 0
        elif length := form.fullmatch(cell):
            yield dict(row), int(length["length"])


def _lists_lengths(text: str, head: _Head) -> bool:
    """Whether a column of configurations has draft lengths and decoding without a draft, and nothing else."""
    cells = [row[head.length] for row in rows(text, [head.length, head.speed])]
    baselines = [cell for cell in cells if _WITHOUT.fullmatch(cell)]
    others = [cell for cell in cells if cell not in baselines]
    return bool(baselines) and bool(others) and all(_NAMED.fullmatch(cell) for cell in others)
