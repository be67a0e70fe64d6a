"""The time of one pass: its physical bound, its prediction, and the terms of the prediction."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import numpy as np

from perfmodel.operations import Floats

LIMITERS: dict[str, str] = {
    "param_load": "weights",
    "kv_load": "KV",
    "flops": "compute",
    "activations": "activations",
    "comm": "all-reduce",
    "fixed": "launches",
    "host": "host",
}
"""The word in outputs for each term of a pass, by the name of the term."""
SUMS = ("lower_s", "serial_s", "predicted_s", "param_load_s", "kv_load_s", "flop_s", "activation_s")
"""Fields of a pass in addition to its terms."""
Number = TypeVar("Number", bound=Floats)


@dataclass(frozen=True, slots=True)
class PassTime(Generic[Number]):
    """The time in seconds of one pass, or of several passes over ``[batch, context, ...]``.

    - lower_s: physical lower bound. Loading and computing overlap perfectly inside each operation.
    - serial_s: time at peak rates without overlap. It is at most twice lower_s, and is not a bound of
      predicted_s.
    - param_load_s, kv_load_s, activation_s, flop_s: seconds of the bytes and FLOPs at the device's peak
      rates. They overlap, and do not add up to another field.
    - terms_s: predicted_s split into the terms of `LIMITERS` at the calibration's rates. The terms add up to
      predicted_s.
    """

    lower_s: Number
    serial_s: Number
    predicted_s: Number
    param_load_s: Number
    kv_load_s: Number
    flop_s: Number
    activation_s: Number
    terms_s: dict[str, Number]

    @property
    def figures(self) -> tuple[Number, ...]:
        """All times in a fixed order, with the terms last."""
        sums = (getattr(self, name) for name in SUMS)
        return (*sums, *self.terms_s.values())

    @classmethod
    def of_figures(cls, figures: Sequence[Number]) -> "PassTime[Number]":
        """The pass with the given times, in the order of `figures`."""
        sums = dict(zip(SUMS, figures, strict=False))
        terms = dict(zip(LIMITERS, figures[len(SUMS) :], strict=True))
        return cls(**sums, terms_s=terms)

    @property
    def comm_s(self) -> Number:
        """Calibrated time of all messages between devices."""
        return self.terms_s["comm"]

    @property
    def fixed_s(self) -> Number:
        """Calibrated time that does not depend on the bytes or FLOPs of the pass, such as kernel launches."""
        return self.terms_s["fixed"]

    @property
    def limiter(self) -> Any:
        """The name of the largest term. It is a string for a single pass, and an array for several passes."""
        largest = np.argmax(np.stack(np.broadcast_arrays(*self.terms_s.values())), axis=0)
        if largest.ndim:
            return np.asarray(tuple(self.terms_s))[largest]
        return tuple(self.terms_s)[int(largest)]

    def slowed(self, factor: float) -> "PassTime[Any]":
        """A copy in which all predicted times are multiplied by a factor. The bounds do not change."""
        terms = {name: seconds * factor for name, seconds in self.terms_s.items()}
        slower: Any = {"predicted_s": self.predicted_s * factor, "terms_s": terms}
        return replace(self, **slower)

    def at(self, index: int = 0) -> "PassTime[float]":
        """The pass at one index of the only axis, as plain numbers."""

        def one(values: Any) -> float:
            flat = np.ravel(values)
            return float(flat[index if flat.size > 1 else 0])

        return PassTime.of_figures([one(seconds) for seconds in self.figures])

    def as_dict(self) -> dict[str, object]:
        """The pass as it appears in answers: all fields, and the most useful terms by name."""
        sums = {name: getattr(self, name) for name in SUMS}
        return sums | {
            "comm_s": self.comm_s,
            "fixed_s": self.fixed_s,
            "terms_s": self.terms_s,
            "limiter": self.limiter,
        }
