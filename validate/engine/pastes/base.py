"""The base class of formats of printed text, and functions for tables that several formats share."""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from perfmodel.errors import refuse
from perfmodel.validate.engine.text import floats, is_count
from perfmodel.validate.engine.timing import GivenFacts, Timing

RATE_UNIT = r"(?:(?:tokens?|toks?|t)(?:/s(?:ec(?:ond)?)?| per second)|tps)\b"
"""The unit of a speed in a sentence."""
_RULE = re.compile(r"^[\s|:=+-]+$")
RATE_HEADING = re.compile(
    r"(?:\b(?:tokens?|toks?|t)/s(?:ec)?\b|\btokens per second\b|(?<![a-z])tps\b)", re.IGNORECASE
)
"""Part of the heading of a column of tokens per second."""
PROMPT_HEADING = re.compile(r"(?<![a-z])(?:prompt|prefill|pp|input|in)(?![a-z])", re.IGNORECASE)
"""Part of the heading of a column about prompts."""
ACCEPTED_HEADING = re.compile(r"\bacc(?:ept\w*)?\b", re.IGNORECASE)
"""Part of the heading of a column or row about accepted tokens."""
PROMPT_WORD = re.compile(r"\b(?:prompt|prefill|pp)\b", re.IGNORECASE)
"""A word for prompts in a sentence."""

_TPOT = re.compile(r"(?<![a-z])(?:tpot|time per output token)(?![a-z])", re.IGNORECASE)
_MEDIAN = re.compile(r"(?<![a-z])(?:median|p50)(?![a-z\d])", re.IGNORECASE)
_OTHER = re.compile(r"(?<![a-z])(?:p(?:9\d|75)|(?:max|min|std)(?![a-z]))|\((?:s|sec\w*)\)", re.IGNORECASE)
"""A name of another figure than the median or the mean in milliseconds."""


@dataclass(frozen=True, slots=True)
class PromptTiming:
    """The time of the prompt of one request.

    - tokens: prompt tokens that were read.
    - cached: the tokens that were in the cache before these.
    """

    tokens: float
    cached: float
    seconds: float


class TextForm(ABC):
    """A format of printed text.

    - title: the name of the format in messages.
    - engine: the engine that prints it; empty if several engines or clients do.
    - counts_drafts: whether the text itself can show that a draft ran.
    - of_server: whether it is the log of a server, with the times of its own steps.
    """

    title: ClassVar[str]
    engine: ClassVar[str] = ""
    counts_drafts: ClassVar[bool] = True
    of_server: ClassVar[bool] = False

    @abstractmethod
    def has(self, text: str) -> bool:
        """Whether a text has this format."""

    @abstractmethod
    def read(self, where: str, text: str, facts: GivenFacts) -> list[Timing]:
        """The timed steps in a text. Raises InputError; if a fact is missing, its message says how to state
        it.

        - facts: the facts that the user stated about the text.
        """

    def note(self, text: str, facts: GivenFacts) -> str:
        """A printed note about this text for the reader of the comparison; empty by default."""
        return ""

    def prompts(self, where: str, text: str) -> Sequence[PromptTiming]:
        """The timed prompts; none by default. Raises InputError."""
        return ()


def number(where: str, name: str, word: str) -> float:
    """The finite number, 0 or more, that a word states. Raises InputError.

    - name: the name of the figure for the message.
    """
    (value,) = floats([word])
    if not is_count(value):
        raise refuse(where, name, "a number, 0 or more", word)
    return value


def bare_number(cell: str) -> str:
    """The number of a cell such as ``1,210 tok/s``, without commas; empty for an empty cell."""
    words = cell.replace(",", "").split()
    return words[0] if words else ""


def tpot_names(names: Iterable[str]) -> list[str]:
    """The names of metrics or columns that have a median or a mean TPOT in milliseconds, medians first."""
    named = [name for name in names if _TPOT.search(name) and not _OTHER.search(name)]
    return sorted(named, key=lambda name: _MEDIAN.search(name) is None)


def rows(text: str, columns: Sequence[str]) -> Iterator[Mapping[str, str]]:
    """The rows of Markdown tables whose heading has all of these columns, each as a mapping from column to
    cell. Text outside of the tables is ignored.
    """
    head: list[str] | None = None
    for line in text.splitlines():
        if "|" not in line or _RULE.match(line):
            continue
        cells = [cell.strip().strip("*` ") for cell in line.strip().strip("|").split("|")]
        if all(column in cells for column in columns):
            head = cells
        elif head is not None and len(cells) == len(head):
            yield dict(zip(head, cells, strict=True))
