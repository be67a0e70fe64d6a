"""The steps that SGLang's adaptive speculation settles at, by how many drafted tokens are accepted."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from perfmodel.queueing.policies.base import Choice, LengthPolicy, Replica

STEPS, FIRST = (1, 3, 7), 3
"""Candidates of its file's default; and the steps of a server that begins."""
UP, DOWN = -0.5, -0.75
"""More accepted tokens on average than steps + UP: on to the next candidate; at most the last one + DOWN:
back to that.
"""


@dataclass(frozen=True, slots=True)
class Adaptive(LengthPolicy):
    """One number of steps whatever runs, from the mean accepted tokens; its swings at small batches are left
    out.
    """

    help: ClassVar[str] = "what SGLang's adaptive steps settle at"
    noun: ClassVar[str] = "the adaptive steps"
    source: ClassVar[str] = "adaptive_spec_params.py of SGLang, defaults of --speculative-adaptive (recalled)"

    def lengths(self, longest: int) -> Sequence[int]:
        """The candidates, as far as the draft goes."""
        return [steps for steps in STEPS if steps <= longest]

    def choices(self, replica: Replica) -> Sequence[Choice]:
        """One length, at every load."""
        steps = [k for k in STEPS if k in replica.passes]
        at = min(steps.index(FIRST), len(steps) - 1) if FIRST in steps else 0
        accepted = [replica.passes[k].tokens_per_iteration - 1.0 for k in steps]
        while at and accepted[at] <= steps[at - 1] + DOWN:
            at -= 1
        while at + 1 < len(steps) and accepted[at] > steps[at] + UP:
            at += 1
        table = [steps[at]] * replica.passes[steps[at]].seats
        return [replica.switching(self, table, replica.sustained({steps[at]}) if table else 0.0)]
