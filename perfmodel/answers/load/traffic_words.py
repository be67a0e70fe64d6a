"""Reads two arguments of `traffic`: latency limits, and acceptance by age of the draft."""

import math
from typing import Any

from perfmodel.errors import refuse

RATES = (1e-6, 1e6)
"""Smallest and largest allowed request rate, in requests per second. They are one request in twelve days, and
more requests than any server can serve.
"""
DEFAULT_STD = 0.05
"""Standard deviation of acceptance between requests. It is in the middle of the values for chat and code in
docs/accuracy.md.
"""


def parse_slo(given: Any, flag: str) -> dict[str, float]:
    """Reads latency limits, as a text such as ``ttft:2000,tpot:30`` or as a mapping of names to milliseconds.
    Returns milliseconds by name. Raises InputError for other values.
    """
    if isinstance(given, dict):
        pairs = [list(pair) for pair in given.items()]
    else:
        pairs = [p.split(":") for p in str(given).split(",")]
    try:
        limits = {str(name).strip(): float(milliseconds) for name, milliseconds in pairs}
    except (TypeError, ValueError):
        limits = {}
    known = limits.keys() <= {"ttft", "tpot", "e2e"}
    different = len(limits) == len(pairs)
    positive = all(0 < limit < math.inf for limit in limits.values())
    if not (known and different and positive):
        raise refuse(
            flag, None, "ttft:MS, tpot:MS or e2e:MS, or several with commas, such as ttft:2000,tpot:30", given
        )
    return limits


def parse_ages(given: Any, flag: str) -> tuple[tuple[float, float], ...]:
    """Reads acceptance by age of the draft, as a text such as ``0:0.75,8:0.6``, as a mapping, or as pairs.
    Returns pairs of age and acceptance, sorted by age. Raises InputError for other values.
    """
    pairs = given.items() if isinstance(given, dict) else given
    if isinstance(given, str):
        pairs = [part.split(":") for part in given.split(",")]
    try:
        pairs_by_age = sorted((float(age), float(alpha)) for age, alpha in pairs)
    except (TypeError, ValueError):
        pairs_by_age = []
    different = len({age for age, _ in pairs_by_age}) == len(pairs_by_age)
    allowed = all(0 <= age < math.inf and 0 <= alpha < 1 for age, alpha in pairs_by_age)
    if not (pairs_by_age and different and allowed):
        raise refuse(
            flag,
            None,
            "different ages from 0 with an acceptance from 0 to below 1 each, such as 0:0.75,8:0.6",
            given,
        )
    return tuple(pairs_by_age)
