"""How certain the choice among several kinds of device is: the interval of its gain over each other kind."""

import math
from dataclasses import dataclass

from perfmodel.answers.advice.picks import Pick
from perfmodel.answers.text import interval_text, seconds
from perfmodel.specs import Z
from perfmodel.speculation import chance_above_one

GAINS = {
    "throughput": "{0} gives {1:.2f} times the tokens/s per GPU of {2}{3}",
    "latency": "{0} is {1:.2f} times as fast per token as {2}{3}",
    "cost": "{0} gives {1:.2f} times the tokens per dollar of {2}{3}",
}
"""Quantity that ranks the kinds -> sentence with the better kind, the gain, the other kind and the
interval.
"""
EQUAL = {"throughput": "tokens/s per GPU", "cost": "tokens per dollar"}
"""Quantity that ranks the kinds -> its name, for kinds that are equal in it under a load."""


@dataclass(frozen=True, slots=True)
class OverKind:
    """The choice compared with the best servers of another kind of device.

    - hardware: the other kind.
    - gain: how many times better the choice is, according to the quantity that ranks the kinds.
    - gain_interval: the 90 % interval of the gain. None means that the error of one of the two calibrations
      is not known, or that both servers answer all requests of a load at any error.
    - chance_better: the chance that the choice is the better one, between 0 and 1; None without an interval.
    - text: the comparison in words, without a full stop.
    """

    hardware: str
    gain: float
    gain_interval: tuple[float, float] | None
    chance_better: float | None
    text: str


@dataclass(frozen=True, slots=True)
class Measure:
    """The quantity that ranks one kind of device.

    - name: a key of `GAINS`.
    - cost: its value; a smaller one is better.
    - factors: the ends of its 90 % interval, divided by `cost`; None if the error is not known.
    """

    name: str
    cost: float
    factors: tuple[float, float] | None


def over_kind(best: Pick, measure: Measure, other: Pick, of_other: Measure, alike: bool) -> OverKind:
    """Compares the choice with the best servers of another kind.

    - measure, of_other: the quantities that rank the two.
    - alike: whether both are equally good, so that their time per token decides.
    """
    gain = of_other.cost / measure.cost
    if alike:
        same = f"{best.hardware} and {other.hardware} give the same {EQUAL[measure.name]} under this load"
        pace = f"{seconds(best.tpot_s)} instead of {seconds(other.tpot_s)}"
        text = f"{same}; the time per token decides: {pace}"
        return OverKind(other.hardware, gain, None, None, text)
    interval = None
    if measure.factors is not None and of_other.factors is not None:
        interval = _interval(gain, measure.factors, of_other.factors, _shared_log_error(best, other))
    text = GAINS[measure.name].format(best.hardware, gain, other.hardware, interval_text(interval))
    if interval is None:
        return OverKind(other.hardware, gain, None, None, text)
    if interval[0] <= 1.0:
        text = f"Too close to call: {text}"
    return OverKind(other.hardware, gain, interval, chance_above_one(interval), text)


def _interval(
    gain: float, best: tuple[float, float], other: tuple[float, float], shared: float
) -> tuple[float, float] | None:
    """The interval of the gain. The errors of both kinds are independent except for a shared error. The
    result is None if both have no width.

    - best, other: the `factors` of both kinds.
    - shared: standard deviation of the logarithm of the shared error.
    """
    low, high = map(math.log, best)
    other_low, other_high = map(math.log, other)
    worse = _hypot((high, other_low), shared)
    better = _hypot((low, other_high), shared)
    return None if worse == better == 0.0 else (gain / math.exp(worse), gain * math.exp(better))


def _hypot(ends: tuple[float, float], shared: float) -> float:
    """The sum of two independent errors without the part that both share."""
    return math.sqrt(sum(max(end**2 - (Z * shared) ** 2, 0.0) for end in ends))


def _shared_log_error(best: Pick, other: Pick) -> float:
    """Standard deviation of ln(tokens per iteration), if both servers have the same draft and the same source
    of its acceptance. The error of the acceptance then leaves their order as it is.
    """
    same = best.draft == other.draft and best.acceptance_source == other.acceptance_source
    return min(best.acceptance_log_error, other.acceptance_log_error) if same else 0.0
