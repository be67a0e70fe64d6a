"""What a form of printed text must say about itself, and the tables that several forms print."""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from perfmodel.errors import refuse
from perfmodel.validate.engine.text import floats, is_count
from perfmodel.validate.engine.timing import GivenFacts, Timing

_RULE = re.compile(r"^[\s|:=+-]+$")


@dataclass(frozen=True, slots=True)
class PromptTiming:
    """The time of prompt tokens behind cached ones, of one request."""

    tokens: float
    cached: float
    seconds: float


class TextForm(ABC):
    """One form of printed text. title: its name for messages. engine: the engine that prints it; empty for a
    client of several engines.
    """

    title: ClassVar[str]
    engine: ClassVar[str] = ""

    @abstractmethod
    def has(self, text: str) -> bool:
        """Whether a text is of this form."""

    @abstractmethod
    def read(self, where: str, text: str, facts: GivenFacts) -> list[Timing]:
        """The timed steps. Raises InputError, for a fact that the text lacks with the way to state it."""

    def note(self, text: str, facts: GivenFacts) -> str:
        """What a reader of the comparison must know of this text; empty by default."""
        return ""

    def prompts(self, where: str, text: str) -> Sequence[PromptTiming]:
        """The timed prompts; none by default. Raises InputError."""
        return ()


def number(where: str, name: str, word: str) -> float:
    """A finite number of 0 or more. Raises InputError."""
    (value,) = floats([word])
    if not is_count(value):
        raise refuse(where, name, "a number, 0 or more", word)
    return value


def rows(text: str, columns: Sequence[str]) -> Iterator[Mapping[str, str]]:
    """The rows of Markdown tables whose head has all of these columns: column -> cell. Words around the table
    are passed over.
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
