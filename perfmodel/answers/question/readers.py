"""How what is given for an argument of a question is read: text of the command line, or values of Python."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, get_args

from perfmodel.errors import refuse
from perfmodel.parse import (
    items,
    parse_count,
    parse_counts,
    parse_gamma,
    parse_gammas,
    parse_methods,
    parse_names,
    parse_number,
    parse_numbers,
    parse_span,
    parse_switch,
    parse_text,
)

Number = float | str
"""A number, or text such as ``0.8``."""
Count = int | str
"""A whole number from 1, or text such as ``32k``."""
Numbers = Number | Sequence[Number]
Counts = Count | Sequence[Count]
Names = str | Sequence[str]
Read = Callable[[Any, str], Any]


def several(parse: Callable[[object, str], tuple[Any, ...]]) -> Read:
    """Reads one value, text with commas and ranges, or a sequence of either, into a tuple."""

    def read(given: Any, flag: str) -> tuple[Any, ...]:
        values = [value for item in items(given) for value in parse(item, flag)]
        if not values:
            raise refuse(flag, None, "one value or more", "none")
        return tuple(values)

    return read


def as_given(given: Any, flag: str) -> Any:
    """What an answer reads itself."""
    return given


def whole(given: object, flag: str) -> int:
    return parse_count(given, flag, least=0)


def span(given: Any, flag: str) -> tuple[float, float]:
    if isinstance(given, str):
        return parse_span(given, flag)
    ends = [float(parse_count(end, flag)) for end in items(given)]
    if len(ends) != 2:
        raise refuse(flag, None, "two numbers such as 32..256", given)
    return ends[0], ends[1]


def texts(given: Any, flag: str) -> tuple[str, ...]:
    """Texts that may hold commas; none is fine."""
    return tuple(parse_text(item, flag) for item in items(given))


def path(given: object, flag: str) -> Path:
    """A file or folder."""
    if "\0" in (text := parse_text(given, flag)):
        raise refuse(flag, None, "a path without null characters", text)
    return Path(text)


def value(given: Number) -> float:
    """A number of a question that was made, which has been read."""
    assert not isinstance(given, str)
    return given


count, counts = parse_count, several(parse_counts)
gamma, gammas = parse_gamma, several(parse_gammas)
number, numbers = parse_number, several(parse_numbers)
names, methods = several(parse_names), several(parse_methods)


READERS: dict[tuple[Any, ...], Read] = {
    (int,): parse_count,
    (float,): parse_number,
    (bool,): parse_switch,
    (Path,): path,
    (tuple[str, ...],): texts,
    (tuple[int, ...],): counts,
    (tuple[float, ...],): numbers,
    get_args(Count): parse_count,
    get_args(Counts): counts,
    get_args(Number): parse_number,
    get_args(Numbers): numbers,
    get_args(Names): names,
}
"""Type of an argument, or those that it may be of -> how it is read where its declaration does not say; else
text.
"""
