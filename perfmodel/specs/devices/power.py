"""The power that a device draws, and the time and energy of an iteration under a power limit."""

from typing import Annotated, NamedTuple

import numpy as np
from msgspec import Meta

from perfmodel.operations import Floats
from perfmodel.specs.boundary.frozen import Frozen, Share, Text

Watts = Annotated[float, Meta(gt=0, le=1e6)]


class LimitedPasses(NamedTuple):
    """The time and the energy of passes under a power limit, in seconds and in joules per device."""

    seconds: Floats
    joules: Floats


NEWTON_STEPS = 10
"""Number of Newton steps that give an exact clock under a power limit. Only the smallest clocks need all
steps.
"""


class PowerDraw(Frozen):
    """The power that a device draws, fitted to runs of one model at batch 1 and several power limits.

    - limit_w: the power limit during the other measurements of the device.
    - lowest_limit_w: the lowest limit that was measured.
    - static_w: power that does not depend on the clock.
    - joules_per_byte, joules_per_flop: energy at the clock that the device has under `limit_w`. The energy is
      proportional to the square of the clock.
    - memory_share: share of the memory bandwidth that loading reaches at any clock. The rest of an iteration
      slows down with the clock.
    """

    limit_w: Watts
    lowest_limit_w: Watts
    static_w: Watts
    joules_per_byte: Annotated[float, Meta(gt=0, le=1e-6)]
    joules_per_flop: Annotated[float, Meta(gt=0, le=1e-6)]
    memory_share: Share
    model: str
    source: Text

    def __post_init__(self) -> None:
        if not self.static_w < self.lowest_limit_w <= self.limit_w:
            raise ValueError("static_w, lowest_limit_w and limit_w must rise")

    def limited(
        self, limit_w: Floats | None, seconds: Floats, free_s: Floats, moved: Floats, flops: Floats
    ) -> LimitedPasses:
        """Seconds and joules of an iteration under a power limit. A limit of None means the `limit_w` of the
        measurements.

        - seconds: time of the iteration without a power limit.
        - free_s: the part of this time that does not depend on the clock.
        - moved, flops: bytes and FLOPs of the iteration.

        All arguments broadcast together.

        The clock x is 1 at `limit_w` and lower at lower limits. At clock x, the power is static_w + j x^2 /
        (f + r / x). The symbols describe the iteration at x = 1. j is the energy of the iteration beyond the
        static power. f is its time in seconds that does not depend on the clock, and r is the rest of its
        time. Newton's method finds the x at which the power equals the limit.
        """
        limit = self.limit_w if limit_w is None else limit_w
        joules = self.joules_per_byte * moved + self.joules_per_flop * flops
        joules = np.minimum(joules, (self.limit_w - self.static_w) * seconds)
        watts = np.minimum(limit - self.static_w, joules / seconds)
        clock: Floats = 1.0
        for _ in range(NEWTON_STEPS):
            excess = joules * clock**3 - watts * (free_s * clock + seconds - free_s)
            clock = clock - excess / (3.0 * joules * clock**2 - watts * free_s)
        slowed_s = free_s + (seconds - free_s) / clock
        return LimitedPasses(slowed_s, self.static_w * slowed_s + joules * clock**2)
