"""The acceptance that is typical of a kind of draft in published results. This acceptance is used for drafts
whose own acceptance was not measured.

A typical acceptance is not used like a measured acceptance. A typical acceptance only gives a range of
speedups, and the verdict stays undecided.
"""

import shlex
from dataclasses import dataclass, replace

import numpy as np

from perfmodel.answers.question.acceptance_of import library_word
from perfmodel.drafts.base import Draft
from perfmodel.immutable import Immutable
from perfmodel.operations import Array
from perfmodel.specs.acceptance.acceptance_library import LEAST_KNOWN, acceptance_library
from perfmodel.speculation import Acceptance
from perfmodel.speculation.acceptance import BEYOND_MEASURED

MIDDLE = (0.1, 0.9)
"""An acceptance is typical if its rate at the first position is between these quantiles of the published
rates for the kind of draft.
"""
WORTH_MEASURING = 1.1
"""`advise` recommends measuring a draft if its speedup at the low end of typical acceptance is at least this
value.
"""
LEAST_PUBLISHED = 5
"""A kind of draft only has a typical acceptance if at least this many results were published."""


class Typical(Immutable):
    """The low and the high end of the typical acceptance of one kind of draft.

    - low, high: the acceptance rate at each position.
    """

    low: tuple[float, ...]
    high: tuple[float, ...]

    def acceptances(self) -> tuple[Acceptance, Acceptance]:
        """Both ends as `Acceptance` objects, the low end first."""
        source = "typical of published drafts of its kind"
        return Acceptance.from_positions(self.low, source), Acceptance.from_positions(self.high, source)

    @property
    def first_rates(self) -> tuple[float, float]:
        """The acceptance of the first drafted token at the low and at the high end."""
        return self.low[0], self.high[0]


@dataclass(frozen=True, slots=True)
class TypicalGain:
    """The speedup of a draft whose acceptance is typical of published drafts of its kind.

    - speedups: the speedups over the baseline at the low and at the high end of typical acceptance, each at
      its best draft length. If that length may be 0 (the baseline), both speedups are at least 1.
    - first_rates: as in `Typical`.
    - measure: the command that measures the draft's own acceptance.
    """

    draft: str
    first_rates: tuple[float, float]
    speedups: tuple[float, float]
    measure: str

    @classmethod
    def of(cls, model: str, draft: Draft, typical: Typical, low: float, high: float) -> "TypicalGain":
        """Makes a `TypicalGain` for a draft.

        - low, high: its speedups at both ends.
        - model: the name of the target in the question.
        """
        return cls(draft.name, typical.first_rates, (low, high), how_to_measure(model, draft.name))

    def within(self, share: float) -> "TypicalGain":
        """The gain of work of which only a part becomes faster, as in Amdahl's law.

        - share: the part of the time without a draft that the draft can shorten.
        """
        low, high = (1.0 / (1.0 - share + share / speedup) for speedup in self.speedups)
        return replace(self, speedups=(low, high))

    @property
    def worth_measuring(self) -> bool:
        """Whether the speedup is at least `WORTH_MEASURING` even at the low end of typical acceptance."""
        return self.speedups[0] >= WORTH_MEASURING

    @property
    def text(self) -> str:
        """The speedups in words, such as ``1.3x to 2.2x with a typical eagle3 draft (first token accepted at
        0.62 to 0.83)``.
        """
        return f"{self.range} {self.of_its_kind}"

    @property
    def range(self) -> str:
        """Both speedups in words, such as ``1.3x to 2.2x``. Numbers have two decimals if both ends would look
        the same with one decimal, and there is one number if they still do.
        """
        low, high = (f"{speedup:.1f}x" for speedup in self.speedups)
        if low == high:
            low, high = (f"{speedup:.2f}x" for speedup in self.speedups)
        return low if low == high else f"{low} to {high}"

    @property
    def sentence(self) -> str:
        """The likely speedups in words, such as ``likely 1.3x to 2.2x with a typical eagle3 draft (...);
        measure the acceptance to decide``.
        """
        likely = f"likely {self.text}"
        if self.speedups[1] <= 1.0:
            likely = f"no draft length is likely to pay off {self.of_its_kind}"
        return f"{likely}; measure the acceptance to decide"

    @property
    def of_its_kind(self) -> str:
        """The assumed acceptance in words, such as ``with a typical eagle3 draft (first token accepted at
        0.62 to 0.83)``.
        """
        low, high = self.first_rates
        return f"with a typical {self.draft} draft (first token accepted at {low:.2f} to {high:.2f})"


def typical_acceptance(draft: Draft) -> Typical | None:
    """The typical acceptance of a kind of draft. The result is None if fewer than `LEAST_PUBLISHED` results
    were published for this kind, or if the draft reads only a part of the cache.

    At the first position, the two ends are the `MIDDLE` quantiles of published results. From each position to
    the next, the acceptance falls by the factor that is usual for this kind (`TypicalAcceptance.decay`).
    """
    word = library_word(draft)
    typical = acceptance_library().typical
    rates = typical.first_rates(word)
    if len(rates) < LEAST_PUBLISHED or not draft.kv.reads_all:
        return None
    positions = np.arange(LEAST_KNOWN + BEYOND_MEASURED, dtype=np.float64)
    decays = np.power(typical.decay(word), positions)
    low, high = np.quantile(rates, MIDDLE)
    return Typical(_positions(low, decays), _positions(high, decays))


def _positions(first: float, decays: Array) -> tuple[float, ...]:
    """The acceptance rate at each position, which is at most 1."""
    return tuple(np.minimum(first * decays, 1.0).tolist())


def how_to_measure(model: str, draft: str) -> str:
    """The command that turns the counters of a server with this draft into an acceptance file."""
    words = ["perfmodel", "validate", "acceptance", "--import", "metrics.txt"]
    words += ["--target", model, "--draft", draft, "--out", "acceptance.json"]
    return shlex.join(words)
