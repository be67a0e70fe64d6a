"""Versions of numpy's functions for plain numbers. On a plain number, they are much faster than numpy's
functions.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from typing import Any


def part(values: Sequence[Any], index: int) -> Any:
    """One of the results of a function that returns several results."""
    return values[index]


def _where(condition: bool, chosen: float, other: float) -> float:
    return chosen if condition else other


def _maximum(a: float, b: float) -> float:
    return a if a > b else b


def _minimum(a: float, b: float) -> float:
    return a if a < b else b


def _clip(value: float, low: float, high: float) -> float:
    return _minimum(_maximum(value, low), high)


def _interp(at: float, places: list[float], values: list[float]) -> float:
    """`numpy.interp` for one number."""
    if at <= places[0]:
        return values[0]
    if at >= places[-1]:
        return values[-1]
    i = bisect_right(places, at) - 1
    slope = (values[i + 1] - values[i]) / (places[i + 1] - places[i])
    return slope * (at - places[i]) + values[i]


NUMBERS: dict[str, Callable[..., Any]] = {
    "abs": abs,
    "ceil": math.ceil,
    "clip": _clip,
    "divmod": divmod,
    "exp": math.exp,
    "expm1": math.expm1,
    "floor": math.floor,
    "interp": _interp,
    "isfinite": math.isfinite,
    "log": math.log,
    "log1p": math.log1p,
    "log2": math.log2,
    "maximum": _maximum,
    "minimum": _minimum,
    "negative": float.__neg__,
    "part": part,
    "searchsorted": bisect_left,
    "sqrt": math.sqrt,
    "take": part,
    "where": _where,
}
"""For the name of each function of numpy: the same function for plain numbers."""
