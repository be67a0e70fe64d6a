"""Reads numbers and lists in the forms that users write: ``32k``, ``1,8,64``, ``1..16``, or Python's numbers
and lists. Other values are refused.

The command line and the Python arguments use these readers, so ``context="32k"`` has the same meaning in
both.
"""

import math
import os
import re
from collections.abc import Mapping
from numbers import Real
from typing import Any

from perfmodel.errors import InputError, refuse

MAX_VALUES = 1_000_000
"""Largest number of values in a list or a range."""
MAX_COUNT = 10**15
"""Largest whole number that is allowed. A float represents it exactly."""
_SUFFIX = {"": 1, "k": 2**10, "m": 2**20}
_COUNT = re.compile(r"(\d(?:_?\d){0,14})(\.\d{1,12})?(?:([km])|e(\d|1[0-5]))?", re.ASCII)
"""A number of at most 15 digits, such as 8, 32_000, 1.5, 32k or 1e5. The groups are the digits, the fraction,
the suffix and the exponent.
"""
_RANGE = re.compile(r"([^.]+)\.\.([^.+x]+)(?:([+x])([^.]+))?", re.ASCII)
"""A range such as 1..16, 1000..9000+500 or 4k..128kx2. The groups are both ends, ``+`` or ``x``, and the step
or factor.
"""
_ALLOWED = (
    "positive whole numbers such as 8, 32k (32768), 1,8,64 or ranges LOW..HIGH, LOW..HIGH+STEP, "
    "LOW..HIGHxFACTOR"
)


def items(given: Any) -> list[Any]:
    """The members of a list, an array or another iterable. A single value becomes a list with one member."""
    if isinstance(given, str | bytes | Mapping):
        return [given]
    try:
        return list(given)
    except TypeError:
        return [given]


def parse_text(given: object, flag: str) -> str:
    """Reads a name or a path as text. The path may also be a `pathlib` path."""
    text = os.fspath(given) if isinstance(given, os.PathLike) else given
    if not isinstance(text, str):
        raise refuse(flag, None, "text", given)
    return text


def parse_switch(given: object, flag: str) -> bool:
    """Reads a value that must be True or False."""
    if not isinstance(given, bool):
        raise refuse(flag, None, "True or False", given)
    return given


def parse_count(
    given: object,
    flag: str,
    least: int = 1,
    allowed: str = "a positive whole number such as 8 or 32k (32768)",
) -> int:
    """Reads one whole number: a Python number, or a text such as 8, 32_000, 1e5 or 32k. ``k`` means 1024 and
    ``m`` means 1048576.

    Raises InputError for anything else, and for numbers below `least` or above `MAX_COUNT`.
    """
    number = _whole_amount(given) if isinstance(given, str) else _real(given)
    if number is None and (several := len(items(given))) > 1:
        raise InputError(f"{flag}: must be one value here, given {several}; `perfmodel sweep` takes lists")
    if number is None or number != math.floor(number) or number < least:
        raise refuse(flag, None, allowed if least else allowed.replace("positive", "non-negative"), given)
    if number > MAX_COUNT:
        raise refuse(flag, None, f"at most {MAX_COUNT:g}", given)
    return int(number)


def _whole_amount(text: str) -> float | None:
    """Reads a number as `amount` does, and rounds a fraction of ``k`` or ``m`` to a whole number (1.6k is
    1638).
    """
    number = amount(text)
    is_rounded = number is not None and text.strip().lower()[-1] in "km"
    return round(number) if is_rounded and number is not None else number


def parse_counts(given: object, flag: str, least: int = 1) -> tuple[int, ...]:
    """Reads whole numbers and ranges, separated by commas: ``1,8,64``, ``1..16``, ``4k..128kx2``,
    ``1000..9000+500``.
    """
    if not isinstance(given, str):
        return (parse_count(given, flag, least, _ALLOWED),)
    values: list[int] = []
    for part in given.split(","):
        values += _range(part, flag, least)
        if len(values) > MAX_VALUES:
            raise refuse(flag, None, f"at most {MAX_VALUES} values", given)
    return tuple(values)


def parse_gamma(given: object, flag: str) -> int | None:
    """Reads one draft length (0 or more), or ``auto`` for the best length. ``auto`` is returned as None."""
    if given is None or (isinstance(given, str) and given.strip().lower() == "auto"):
        return None
    return parse_count(given, flag, least=0)


def parse_gammas(given: object, flag: str = "--gamma") -> tuple[int | None, ...]:
    """Reads draft lengths (0 or more), separated by commas. ``auto`` means the best length, and is returned
    as None.
    """
    if not isinstance(given, str):
        return (parse_gamma(given, flag),)
    gammas: list[int | None] = []
    for part in given.split(","):
        gammas += [None] if part.strip().lower() == "auto" else parse_counts(part, flag, least=0)
    return tuple(gammas)


def parse_number(given: object, flag: str) -> float:
    """Reads one finite number. ``80%`` is read as 0.8."""
    return _number(given, flag, "number", given)


def parse_numbers(given: object, flag: str) -> tuple[float, ...]:
    """Reads finite numbers, separated by commas."""
    parts = given.split(",") if isinstance(given, str) else [given]
    return tuple(_number(part, flag, "number, or several with commas", given) for part in parts)


def parse_span(given: Any, flag: str) -> tuple[float, float]:
    """Reads two increasing numbers: ``32..256``, ``32,256``, or a pair of numbers."""
    parts = given.replace("..", ",").split(",") if isinstance(given, str) else items(given)
    ends = [float(parse_count(part, flag)) for part in parts]
    if len(ends) != 2 or not ends[0] < ends[1]:
        raise refuse(flag, None, "two rising numbers such as 32..256", given)
    return ends[0], ends[1]


def parse_names(given: object, flag: str) -> tuple[str, ...]:
    """Reads names or paths, separated by commas."""
    return _split(given, flag, ",", "a name or path, or several with commas")


def parse_methods(given: object, flag: str = "--draft-kv") -> tuple[str, ...]:
    """Reads KV methods, separated by commas. A comma before an option (``name=value``) does not begin a new
    method.
    """
    return _split(given, flag, r",(?!\s*[a-zA-Z_-]+\s*=)", "METHOD[:BUDGET], or several with commas")


def _split(given: object, flag: str, comma: str, allowed: str) -> tuple[str, ...]:
    text = parse_text(given, flag)
    parts = tuple(part.strip() for part in re.split(comma, text))
    if not all(parts):
        raise refuse(flag, None, allowed, text)
    return parts


def amount(text: str) -> float | None:
    """The number that a text such as 8, 1.5, 32k or 1e5 spells. ``k`` means 1024 and ``m`` means 1048576. The
    result is None if the text is not a number.
    """
    if (match := _COUNT.fullmatch(text.strip().lower())) is None:
        return None
    factor = _SUFFIX[match[3] or ""]
    if match[2]:
        return float(f"{match[1]}{match[2]}e{match[4] or 0}") * factor
    return int(match[1]) * factor * 10 ** int(match[4] or 0)


def _real(given: Any) -> float | None:
    """Returns a finite number unchanged. The result is None for everything else, including texts, True and
    False.
    """
    try:
        fine = isinstance(given, Real) and not isinstance(given, bool) and math.isfinite(given)
    except OverflowError:  # a whole number that is larger than every float
        return None
    return given if fine else None


def _number(given: Any, flag: str, noun: str, whole: object) -> float:
    """A finite number, or a text such as ``0.8`` or ``80%``.

    - whole: the value that the error message quotes. The given value can be a part of it.
    """
    if not isinstance(given, str):
        if (number := _real(given)) is None:
            raise refuse(flag, None, f"a finite {noun}", whole)
        return float(number)
    try:
        text = given.strip()
        value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        raise refuse(flag, None, f"a {noun}", whole) from None
    if not math.isfinite(value):
        raise refuse(flag, None, f"a finite {noun}", whole)
    return value


def _range(part: str, flag: str, least: int) -> list[int]:
    """The numbers of ``LOW..HIGH``, ``LOW..HIGH+STEP`` or ``LOW..HIGHxFACTOR``, or one number.

    - least: the smallest allowed number.

    Raises InputError for a range that falls or is too long.
    """
    if not (match := _RANGE.fullmatch(part.strip().lower())):
        return [parse_count(part, flag, least, _ALLOWED)]
    low = parse_count(match[1], flag, least, _ALLOWED)
    high = parse_count(match[2], flag, least, _ALLOWED)
    multiplies = match[3] == "x"
    step = parse_count(match[4], flag, 2 if multiplies else 1) if match[3] else 1
    never_ends = multiplies and low < 1
    is_too_long = not multiplies and (high - low) // step >= MAX_VALUES
    if high < low or never_ends or is_too_long:
        raise refuse(flag, None, f"a rising range of at most {MAX_VALUES} values", part)
    if not multiplies:
        return list(range(low, high + 1, step))
    values = [low]
    while values[-1] * step <= high:
        values.append(values[-1] * step)
    return values
