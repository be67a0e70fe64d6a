"""Calibration constants: the value of a constant with its error and source, and the declaration of its
meaning.

A field of `perfmodel.specs.calibrations.calibration.Calibration` declares a constant with `Declared` in its
annotation. An optional constant has a default, such as `ABSENT`. The declaration determines validation, the
bounds of fits and the fixed costs of `sensitivity`. It also determines the stack factors and the table in
docs/calibrations.md. The only other place that names the constant is the formula that uses it: in
costs/kinds/, or in costs/roofline.py for a constant of a whole pass.
"""

import math
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Annotated, Any, Literal

import numpy as np
from msgspec import Meta

from perfmodel.immutable import Immutable
from perfmodel.operations import Array, Floats
from perfmodel.specs.boundary.frozen import FINITE, Frozen, Text

Work = Literal["linear", "attention", "small", "allreduce", "pass", "iteration"]
"""The work that causes a cost: one kind of op, a whole pass, or an iteration outside its passes."""
Term = Literal["param_load", "kv_load", "flops", "activations", "comm", "fixed", "host", "overhead"]
"""The term to which time belongs: seven terms of a pass, and the time of an iteration outside its passes."""
Unit = Literal["s", "fraction", "share", "factor", "count", "power"]
_BOUNDS: dict[Unit, tuple[float, float, str]] = {
    "s": (0.0, math.nextafter(1.0, 0.0), "from 0 to below 1 second"),
    "fraction": (math.nextafter(0.0, 1.0), 1.1, "above 0 and at most 1.1"),
    "share": (0.0, 1.0, "from 0 to 1"),
    "factor": (0.0, 100.0, "from 0 to 100"),
    "count": (0.0, 1024.0, "from 0 to 1024"),
    "power": (1.0, 16.0, "from 1 to 16, or .inf"),
}
"""The lowest and the highest physically possible value for each unit, and both in words.

A fraction of a data sheet's peak may exceed 1 slightly, because devices differ.
"""
_IDEAL: dict[Unit, float] = {
    "s": 0.0,
    "fraction": 1.0,
    "share": 0.0,
    "factor": 1.0,
    "count": 0.0,
    "power": math.inf,
}
"""For each unit: the value with which a constant adds no time."""


class Constant(Frozen):
    """The value of a calibration constant, with its source. A fitted value also has a standard error."""

    value: float
    stderr: Annotated[float, Meta(ge=0, le=FINITE)] | None = None
    source: Text

    def numbers(self) -> Iterator[float]:
        """All numbers that must be within the bounds of the constant."""
        yield self.value


ABSENT = Constant(value=0.0, source="not part of this calibration")
"""The value of a constant that a calibration does not state. It adds no cost."""

Knots = tuple[tuple[float, float], ...]
"""A curve as pairs (x, value) with increasing x."""


def check_curves(curves: Mapping[Any, Knots]) -> None:
    """Raises ValueError if the first numbers of the knots do not increase, or if a number is not above 0."""
    for name, knots in curves.items():
        places = [place for place, _ in knots]
        rising = len(knots) >= 2 and places == sorted(set(places))
        if not rising or not all(0 < n < math.inf for knot in knots for n in knot):
            raise ValueError(
                f"knots.{name}: must be two or more pairs of numbers above 0, by rising first number"
            )


def interpolated(knots: Knots, at: Floats) -> Floats:
    """The value of a curve at a place. Between knots it is linear in the logarithms of both axes. Outside the
    knots it is constant.
    """
    places, values = _logarithms(knots)
    value: Floats = np.exp(np.interp(np.log(at), places, values))
    return value


@cache
def _logarithms(knots: Knots) -> tuple[Array, Array]:
    places, values = np.log(np.asarray(knots)).T
    return places, values


MAX_DEVICES = 65536
"""Largest number of devices in a table of all-reduces."""


class AllReduce(Frozen):
    """The times of an all-reduce on servers with one kind of link. For each number of devices, there is a
    curve of (message bytes, seconds).

    - box_log_rms: standard deviation of ln(time) between servers of this kind.
    """

    knots: dict[int, Knots]
    source: Text
    link: Literal["device", "host"] = "device"
    box_log_rms: Annotated[float, Meta(ge=0, le=2)] = 0.0

    def __post_init__(self) -> None:
        check_curves(self.knots)
        if not self.knots or any(not 2 <= devices <= MAX_DEVICES for devices in self.knots):
            raise ValueError(f"knots must be given for 2 to {MAX_DEVICES} devices")

    def numbers(self) -> Iterator[float]:
        """All numbers that must be within the bounds of the constant."""
        return (seconds for knots in self.knots.values() for _, seconds in knots)

    def seconds(self, devices: int, message_bytes: Floats, faster: float = 1.0) -> Floats:
        """Seconds of one all-reduce. Beyond the last knot, the time grows in proportion to the message size.

        - faster: rate of the links, divided by the rate of the measured servers' links. It does not change
          the time of the shortest message.
        """
        knots = self.knots[devices]
        measured = interpolated(knots, message_bytes) * np.maximum(message_bytes / knots[-1][0], 1.0)
        start = np.minimum(measured, knots[0][1])
        return start + (measured - start) / faster


class Scope(Immutable):
    """The range of a constant in a fit. The search begins at `start` and stays between `low` and `high`.

    - scale: the typical size of a search step.
    """

    start: float
    low: float
    high: float
    scale: float = 1.0


class Declared(Immutable):
    """The declaration of one constant. Curves and tables with a method ``numbers()`` are declared in the same
    way.

    - work: the work that causes the cost.
    - term: the term of the pass time to which the constant adds its time. It is None if the constant
      determines how terms overlap.
    - unit: the unit of the constant, which also determines its possible values (`_BOUNDS`).
    - meaning: one line that describes the constant in the documentation.
    - search: the range of the constant in a fit. It is None for a constant that no recipe of validate/fit
      fits.
    """

    work: Work
    term: Term | None
    unit: Unit
    meaning: str
    search: Scope | None = None

    @property
    def bounds(self) -> str:
        """The possible values in words."""
        return _BOUNDS[self.unit][2]

    @property
    def ideal(self) -> float:
        """The value with which the constant adds no time."""
        return _IDEAL[self.unit]

    @property
    def widest(self) -> float:
        """The highest minus the lowest possible value. A larger standard error would mean that nothing is
        known about the constant.
        """
        low, high, _ = _BOUNDS[self.unit]
        return high - low

    def check(self, name: str, given: Any) -> None:
        """Raises ValueError for NaN, and for numbers that are impossible for the unit.

        It also raises if the standard error is above `widest`.
        """
        low, high, words = _BOUNDS[self.unit]
        if isinstance(given, Constant) and given.stderr is not None and not 0 <= given.stderr <= self.widest:
            raise ValueError(f"{name}: stderr must be from 0 to {self.widest:.4g}, given {given.stderr:g}")
        for value in () if given is None else given.numbers():
            if not (low <= value <= high or (self.unit == "power" and value == math.inf)):
                raise ValueError(f"{name}: must be {words}, given {value:g}")
