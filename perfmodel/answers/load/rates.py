"""Reads request rates such as ``0.5``, ``1,2.5``, ``1..20``, ``0.5..4+0.5`` (steps of 0.5) or ``1..64x2``
(each rate is twice the previous one).
"""

import math
import re

from perfmodel.answers.declaration import MAX_LISTED
from perfmodel.errors import refuse
from perfmodel.parse import parse_number

RANGE = re.compile(r"(.+?)\.\.([^+x]+)(?:([+x])(.+))?")
"""Matches a range of rates: the lowest rate, the highest rate, and the step with its sign."""
ALLOWED = "a number, a range such as 1..20, 0.5..4+0.5 or 1..64x2, or several with commas"


def parse_rates(given: object, flag: str) -> tuple[float, ...]:
    """Reads numbers and ranges of numbers. The default step of a range is 1. Raises InputError for other
    text.
    """
    if not isinstance(given, str):
        return (parse_number(given, flag),)
    rates = list[float]()
    for part in given.split(","):
        matched = RANGE.fullmatch(part.strip().lower())
        rates += [_number(part, flag, given)] if matched is None else _range(matched, flag, given)
    return tuple(rates)


def _number(text: str, flag: str, given: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise refuse(flag, None, ALLOWED, given)
    return value


def _range(matched: re.Match[str], flag: str, given: str) -> list[float]:
    low = _number(matched[1], flag, given)
    high = _number(matched[2], flag, given)
    step = 1.0 if matched[4] is None else _number(matched[4], flag, given)
    multiplies = matched[3] == "x"
    if not 0 < low <= high or step <= 0 or (multiplies and step <= 1):
        raise refuse(flag, None, ALLOWED, given)
    steps = math.log(high / low) / math.log(step) if multiplies else (high - low) / step
    count = math.floor(steps + 1e-9) + 1
    if count > MAX_LISTED:
        raise refuse(flag, None, f"at most {MAX_LISTED} rates", given)
    if multiplies:
        return [low * step**number for number in range(count)]
    return [low + number * step for number in range(count)]
