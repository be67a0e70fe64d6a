"""Quantities in files. A quantity has a number, a unit and a source. Its allowed range is checked.

GB is 10^9 bytes and GiB is 2^30 bytes, here and everywhere else.
"""

from typing import Annotated, Literal

from msgspec import Meta

from perfmodel.immutable import Immutable
from perfmodel.specs.boundary.frozen import Frozen, Text

Unit = Literal[
    "B",
    "MB",
    "MiB",
    "GB",
    "GiB",
    "GB/s",
    "TB/s",
    "GFLOP/s",
    "TFLOP/s",
    "TOP/s",
    "MHz",
    "GHz",
    "W",
    "s",
    "us",
    "count",
]
FACTORS: dict[Unit, float] = {
    "B": 1.0,
    "MB": 1e6,
    "MiB": 2.0**20,
    "GB": 1e9,
    "GiB": 2.0**30,
    "GB/s": 1e9,
    "TB/s": 1e12,
    "GFLOP/s": 1e9,
    "TFLOP/s": 1e12,
    "TOP/s": 1e12,
    "MHz": 1e6,
    "GHz": 1e9,
    "W": 1.0,
    "s": 1.0,
    "us": 1e-6,
    "count": 1.0,
}
"""The factor that converts each unit to bytes, bytes/s, FLOP/s, Hz, W or s."""

BYTES = ("B", "MB", "MiB", "GB", "GiB")
BYTES_PER_S = ("GB/s", "TB/s")
FLOPS = ("GFLOP/s", "TFLOP/s", "TOP/s")


class Quantity(Frozen):
    """One number with its unit and its source. `evidence` says whether a vendor published the number, or else
    where it comes from.
    """

    value: Annotated[float, Meta(ge=1e-6, le=1e18)]
    unit: Unit
    source: Text
    evidence: Literal["published", "derived", "recalled", "measured"] = "published"

    @property
    def si(self) -> float:
        """The value in SI units (bytes, bytes/s, FLOP/s, Hz, W)."""
        return self.value * FACTORS[self.unit]


class Bounds(Immutable):
    """The allowed units of a quantity, and its range in SI units. The range covers all plausible devices.

    - words: the range in words, for error messages.
    - whole: whether only whole numbers are allowed.
    """

    units: tuple[str, ...]
    low: float
    high: float
    words: str
    whole: bool = False

    def check(self, name: str, quantity: Quantity | None) -> None:
        """Raises ValueError, which names the field `name`, for another unit or for a value outside the
        range.
        """
        if quantity is None:
            return
        if quantity.unit not in self.units:
            raise ValueError(f"{name}: unit must be {' or '.join(self.units)}, given {quantity.unit}")
        value = quantity.si
        if not self.low <= value <= self.high or (self.whole and value != int(value)):
            raise ValueError(f"{name}: must be {self.words}, given {quantity.value:g} {quantity.unit}")
