"""Readers of the values of a question's arguments: text of the command line, or values of Python."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from perfmodel.errors import refuse
from perfmodel.parse import (
    amount,
    items,
    parse_count,
    parse_counts,
    parse_gamma,
    parse_gammas,
    parse_methods,
    parse_names,
    parse_number,
    parse_numbers,
    parse_switch,
    parse_text,
)

Got = TypeVar("Got", covariant=True)
Given = TypeVar("Given", contravariant=True)


class Parsed(Protocol[Got, Given]):
    """The type of a field that is read when its question is made, and the type of the values that may be
    given.

    For type checkers (PEP 681: a field accepts the type of `__set__`). Nothing instantiates it.
    """

    def __get__(self, question: object, kind: Any = None, /) -> Got: ...
    def __set__(self, question: object, given: Given, /) -> None: ...


Whole = Parsed[int, int | str]
"""A whole number, or text such as ``32k``."""
MaybeWhole = Parsed[int | None, int | str | None]
Wholes = Parsed[tuple[int, ...], int | str | Sequence[int | str]]
MaybeWholes = Parsed[tuple[int, ...] | None, int | str | Sequence[int | str] | None]
Real = Parsed[float, float | str]
"""A number, or text such as ``0.8`` and ``80%``."""
MaybeReal = Parsed[float | None, float | str | None]
MaybeReals = Parsed[tuple[float, ...] | None, float | str | Sequence[float | str] | None]
Words = Parsed[tuple[str, ...], str | Sequence[str]]
MaybeWords = Parsed[tuple[str, ...] | None, str | Sequence[str] | None]
Length = Parsed[int | None, int | str | None]
"""A draft length; None, or ``auto``, stands for the best one."""
Lengths = Parsed[tuple[int | None, ...], int | str | Sequence[int | str | None] | None]
Read = Callable[[Any, str], Any]


def several(parse: Callable[[object, str], tuple[Any, ...]]) -> Read:
    """Reads one value, text with commas and ranges, or a sequence of either, into a tuple."""

    def read(given: Any, flag: str) -> tuple[Any, ...]:
        if not (values := [value for item in items(given) for value in parse(item, flag)]):
            raise refuse(flag, None, "one value or more", "none")
        return tuple(values)

    return read


def rate(given: Any, flag: str) -> str:
    """A rate as text, such as ``0.8`` or ``0.4x3``. `question.rates` turns it into an acceptance."""
    return str(given)


def state_format(given: Any, flag: str) -> str:
    """A format of recurrent states, in the words of an engine or of this package."""
    from perfmodel.specs.models.recurrent_kinds import STATE_FORMATS  # few questions state one

    name = str(given).lower()
    named = STATE_FORMATS.get(name, name)
    if named not in STATE_FORMATS.values():
        raise refuse(flag, None, f"one of {', '.join(STATE_FORMATS.values())}", given)
    return named


def whole(given: object, flag: str) -> int:
    return parse_count(given, flag, least=0)


def tokens(given: object, flag: str) -> float:
    """A number of tokens that need not be whole, or text such as ``2k``."""
    known = amount(given) if isinstance(given, str) else None
    return parse_number(given if known is None else known, flag)


def texts(given: Any, flag: str) -> tuple[str, ...]:
    """Texts that may contain commas; None is allowed."""
    return tuple(parse_text(item, flag) for item in items(given))


def path(given: object, flag: str) -> Path:
    """A file or folder."""
    if "\0" in (text := parse_text(given, flag)):
        raise refuse(flag, None, "a path without null characters", text)
    return Path(text)


count = parse_count
counts = several(parse_counts)
gamma = parse_gamma
gammas = several(parse_gammas)
number = parse_number
numbers = several(parse_numbers)
names = several(parse_names)
methods = several(parse_methods)


READERS: dict[tuple[Any, ...], Read] = {
    (int,): parse_count,
    (float,): parse_number,
    (bool,): parse_switch,
    (Path,): path,
    (tuple[str, ...],): texts,
    (tuple[int, ...],): counts,
    (tuple[float, ...],): numbers,
}
"""Type of an argument -> its reader if the declaration names none; otherwise values are read as text."""
