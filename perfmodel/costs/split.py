"""Splits the calibrated seconds of an operation into terms. Some terms add up, others overlap."""

import numpy as np

from perfmodel.operations import Floats
from perfmodel.specs.calibrations.constants import Term

_TINY = float(np.finfo(float).tiny)
Part = tuple[Term, Floats]
Overlap = tuple[tuple[Part, ...], Floats, float]
"""The loading times, the concurrent computing time, and the power p of their overlap: (sum(loaded)^p +
computed^p)^(1/p).
"""
Split = tuple[tuple[Part, ...], Overlap | None]
"""Calibrated seconds of one op by term: terms that add up, and terms that overlap. These are plain tuples,
because the inner loop creates them.
"""


def seconds_of(split: Split) -> Floats:
    """The seconds that all terms take together."""
    alone, overlap = split
    seconds = _total(alone)
    if overlap:
        loaded, computed, power = overlap
        seconds = seconds + _blend(_total(loaded), computed, power)
    return seconds


def terms_of(split: Split) -> tuple[Part, ...]:
    """Splits the time into terms that add up to it. If parts overlap and take the time t together, a part x
    contributes x dt/dx (Euler's theorem).
    """
    alone, overlap = split
    if overlap is None:
        return alone
    loaded, computed, power = overlap
    loads = _total(loaded)
    total = _blend(loads, computed, power)
    loading = _slope(loads, total, power)
    computing: Part = ("flops", np.maximum(total - loads * loading, 0.0))
    return (*alone, *((term, s * loading) for term, s in loaded), computing)


def _total(parts: tuple[Part, ...]) -> Floats:
    (_, total), *more = parts
    for _, seconds in more:
        if not isinstance(seconds, float) or seconds:
            total = total + seconds
    return total


def _blend(a: Floats, b: Floats, power: float) -> Floats:
    """(a^p + b^p)^(1/p). This is the sum for p = 1, and the larger part for an infinite p."""
    if power == np.inf:
        return np.maximum(a, b)
    return (np.power(a, power) + np.power(b, power)) ** (1.0 / power)


def _slope(part: Floats, total: Floats, power: float) -> Floats:
    """The derivative of a blend with respect to one of its two parts, which is (part/total)^(p-1). For an
    infinite p, it is 1 for the larger part and 0 for the other.
    """
    if power == np.inf:
        return np.equal(part, total) * 1.0
    return (part / np.maximum(total, _TINY)) ** (power - 1.0)
