"""Readers for the arguments of a question. An argument is either text from the command line or a Python
value.
"""

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
    """The annotation of a field that accepts values of more types than it stores. The first parameter is the
    stored type, the second the accepted type.

    This class is only for type checkers and has no instances. According to PEP 681, a field accepts the type
    of `__set__`.
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
"""A draft length. None or ``auto`` stands for the best length."""
Lengths = Parsed[tuple[int | None, ...], int | str | Sequence[int | str | None] | None]
Read = Callable[[Any, str], Any]


def several(parse: Callable[[object, str], tuple[Any, ...]]) -> Read:
    """Makes a reader that returns a tuple of values. The reader accepts one value, a text with commas and
    ranges, or a sequence of these.
    """

    def read(given: Any, flag: str) -> tuple[Any, ...]:
        if not (values := [value for item in items(given) for value in parse(item, flag)]):
            raise refuse(flag, None, "one value or more", "none")
        return tuple(values)

    return read


def rate(given: Any, flag: str) -> str:
    """Reads an acceptance rate as text, such as ``0.8`` or ``0.4x3``. `question.rates` converts this text to
    an acceptance.
    """
    return str(given)


def state_format(given: Any, flag: str) -> str:
    """Reads the name of a number format for recurrent states. Names of this package and names of engines are
    accepted.
    """
    from perfmodel.specs.models.recurrent_kinds import STATE_FORMATS  # few questions state one

    name = str(given).lower()
    named = STATE_FORMATS.get(name, name)
    if named not in STATE_FORMATS.values():
        raise refuse(flag, None, f"one of {', '.join(STATE_FORMATS.values())}", given)
    return named


def whole(given: object, flag: str) -> int:
    return parse_count(given, flag, least=0)


def tokens(given: object, flag: str) -> float:
    """Reads a number of tokens, which may have a fraction, or a text such as ``2k``."""
    known = amount(given) if isinstance(given, str) else None
    return parse_number(given if known is None else known, flag)


def texts(given: Any, flag: str) -> tuple[str, ...]:
    """Reads one text or several texts. A comma does not separate texts."""
    return tuple(parse_text(item, flag) for item in items(given))


def path(given: object, flag: str) -> Path:
    """Reads the path of a file or folder."""
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
"""Maps the type of an argument to its reader. This reader is used if the declaration of the argument names
none. Values of all other types are read as text.
"""
