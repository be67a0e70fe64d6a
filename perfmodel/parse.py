"""Numbers and lists as people type them: ``32k``, ``1,8,64``, ``1..16``. What is not plainly a number is refused.

The command line and the Python arguments read text with these, so that ``context="32k"`` means the same in both.
"""

import math
import re

from perfmodel.errors import refuse

MAX_VALUES = 1_000_000
_SUFFIX = {"": 1, "k": 2**10, "m": 2**20}
_COUNT = re.compile(r"(\d(?:_?\d){0,14})(\.\d{1,6})?(?:([km])|e(\d|1[0-5]))?", re.ASCII)
_RANGE = re.compile(r"([^.]+)\.\.([^.+x]+)(?:([+x])([^.]+))?", re.ASCII)
_ONE = "a positive whole number such as 8 or 32k (32768)"
_ALLOWED = "positive whole numbers such as 8, 32k (32768), 1,8,64 or ranges LOW..HIGH, LOW..HIGH+STEP, LOW..HIGHxFACTOR"


def parse_count(text: str, flag: str, least: int = 1, allowed: str = _ONE) -> int:
    """One whole number such as 8, 32_000 or 1e5; ``k`` is 1024 and ``m`` 1048576.

    Raises InputError for anything else and below `least`.
    """
    match = _COUNT.fullmatch(text.strip().lower())
    number = math.nan
    if match:
        number = float(f"{match[1]}{match[2] or ''}e{match[4] or 0}") * _SUFFIX[match[3] or ""]
    if not match or number != math.floor(number) or number < least:
        raise refuse(flag, None, allowed if least else allowed.replace("positive ", ""), text)
    return int(match[1]) * _SUFFIX[match[3] or ""] * 10 ** int(match[4] or 0) if not match[2] else int(number)


def parse_counts(text: str, flag: str, least: int = 1) -> tuple[int, ...]:
    """A comma list of whole numbers and ranges: ``1,8,64``, ``1..16``, ``4k..128kx2``, ``1000..9000+500``."""
    values: list[int] = []
    for part in text.split(","):
        values += _range(part, flag, least)
        if len(values) > MAX_VALUES:
            raise refuse(flag, None, f"at most {MAX_VALUES} values", text)
    return tuple(values)


def parse_gammas(text: str, flag: str = "--gamma") -> tuple[int | None, ...]:
    """Draft lengths from 0, or ``auto`` (None) for the best one."""
    gammas: list[int | None] = []
    for part in text.split(","):
        gammas += [None] if part.strip().lower() == "auto" else parse_counts(part, flag, least=0)
    return tuple(gammas)


def parse_number(text: str, flag: str) -> float:
    """One finite number; ``80%`` is 0.8."""
    return _number(text, flag, "number", text)


def parse_numbers(text: str, flag: str) -> tuple[float, ...]:
    """A comma list of finite numbers."""
    return tuple(_number(part, flag, "number, or several with commas", text) for part in text.split(","))


def parse_span(text: str, flag: str) -> tuple[float, float]:
    """Two numbers, ``32..256`` or ``32,256``."""
    ends = [parse_count(part, flag) for part in text.replace("..", ",").split(",")]
    if len(ends) != 2:
        raise refuse(flag, None, "two numbers such as 32..256", text)
    return float(ends[0]), float(ends[1])


def parse_names(text: str, flag: str) -> tuple[str, ...]:
    """A comma list of names or paths."""
    names = tuple(part.strip() for part in text.split(","))
    if not all(names):
        raise refuse(flag, None, "a name or path, or several with commas", text)
    return names


def parse_methods(text: str, flag: str = "--draft-kv") -> tuple[str, ...]:
    """A comma list of KV methods, whose own options (``name=value``) stay with them."""
    methods = tuple(part.strip() for part in re.split(r",(?!\s*[a-zA-Z_-]+\s*=)", text))
    if not all(methods):
        raise refuse(flag, None, "METHOD[:BUDGET], or several with commas", text)
    return methods


def _number(part: str, flag: str, noun: str, text: str) -> float:
    try:
        value = float(part.strip().removesuffix("%")) / (100 if part.strip().endswith("%") else 1)
    except ValueError:
        raise refuse(flag, None, f"a {noun}", text) from None
    if not math.isfinite(value):
        raise refuse(flag, None, f"a finite {noun}", text)
    return value


def _range(part: str, flag: str, least: int) -> list[int]:
    match = _RANGE.fullmatch(part.strip().lower())
    if not match:
        return [parse_count(part, flag, least, _ALLOWED)]
    low, high = parse_count(match[1], flag, least, _ALLOWED), parse_count(match[2], flag, least, _ALLOWED)
    step = parse_count(match[4], flag, 2 if match[3] == "x" else 1) if match[3] else 1
    if high < low or (match[3] == "x" and low < 1) or (match[3] != "x" and (high - low) // step >= MAX_VALUES):
        raise refuse(flag, None, f"a rising range of at most {MAX_VALUES} values", part)
    if match[3] != "x":
        return list(range(low, high + 1, step))
    values = [low]
    while values[-1] * step <= high:
        values.append(values[-1] * step)
    return values
