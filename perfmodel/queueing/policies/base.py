"""The base class of draft-length policies, and the server replica for which they choose a length."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, dataclass_transform

import numpy as np
from numpy.typing import NDArray

from perfmodel.operations import Array
from perfmodel.queueing.load import Lengths, Limits, Load
from perfmodel.queueing.saturation import capacity
from perfmodel.queueing.steps import StepTimes
from perfmodel.queueing.switching import switched
from perfmodel.speculation.scenario import Scenario

FULL = 0.95
"""Largest load for which a table is made, as a share of the saturation rate."""


@dataclass(frozen=True, slots=True)
class Replica:
    """One replica of a server, and the loads at which it is examined.

    - load: request rates of an open loop, or numbers of clients of a closed loop, as a one-dimensional array.
    - passes: the pass times of each draft length. Length 0 (the baseline) is always included.
    - spread: standard deviation of the acceptance between requests.
    """

    scenario: Scenario
    limits: Limits
    load: Load
    passes: Mapping[int, StepTimes]
    spread: float

    @property
    def lengths(self) -> Lengths:
        """The prompt and output lengths of the requests."""
        return self.load.lengths

    @property
    def loads(self) -> Array:
        """The loads of the replica: request rates in requests/s, or numbers of clients."""
        return np.atleast_1d(self.load.clients if self.load.rate is None else self.load.rate)  # type: ignore[arg-type]

    def sustained(self, drafted: Iterable[int]) -> float:
        """The request rate for which a table of these draft lengths is made, in requests/s.

        The result is the largest rate of the question, but at most `FULL` times the lowest saturation rate of
        these lengths. In a closed loop it is always this limit. The result is 0 if not one request fits at
        one of the lengths.
        """
        rate = FULL * min(capacity(self.passes[k], self.lengths, self.limits).requests_per_s for k in drafted)
        if self.load.rate is None:
            return rate
        return min(rate, float(self.loads.max()))

    def switching(self, policy: "LengthPolicy", table: Sequence[int], rate: float) -> "Choice":
        """The choice of a policy that drafts `table[n - 1]` tokens while n requests run. n goes up to the
        number of seats.

        - rate: request rate in requests/s for which the table is made (see `sustained`).

        An empty table means that not one request fits. The choice is then the baseline.
        """
        if not table:
            return Choice(policy, policy.name, self.passes[0], self.everywhere, (0,))
        priced = sorted(set(table))
        steps = switched([self.passes[k] for k in priced], self.lengths, rate, np.searchsorted(priced, table))
        return Choice(policy, policy.name, steps, self.everywhere, tuple(table))

    @property
    def everywhere(self) -> NDArray[np.int64]:
        """The indices of all loads."""
        return np.arange(self.loads.size)


@dataclass(frozen=True, slots=True)
class Choice:
    """A draft length that a policy chooses, and the loads to which it applies.

    - gamma: number of drafted tokens, or the policy's name if the length changes during a run.
    - steps: the pass times with this length.
    - at: indices of the loads at which the server runs these passes.
    - table: the draft length at each running batch from 1. It is None if the length does not depend on the
      batch.
    """

    policy: "LengthPolicy"
    gamma: int | str
    steps: StepTimes
    at: NDArray[np.int64]
    table: tuple[int, ...] | None = None


@dataclass_transform(frozen_default=True)
class LengthPolicy(ABC):
    """A policy decides how many tokens a server drafts. To add a policy, add a file with one subclass to this
    folder. The subclass becomes a frozen dataclass.
    """

    help: ClassVar[str]
    """Its meaning, which the help of ``--gamma`` prints after its name, such as "the best at each load"."""
    noun: ClassVar[str] = ""
    """Its name in sentences about rows, such as "the table". It is empty if rows show the chosen length
    instead.
    """
    source: ClassVar[str]
    """Source of the rule."""

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True)(cls)

    @property
    def tokens(self) -> int | None:
        """The number of drafted tokens if it is the same at every load, otherwise None."""
        return None

    @property
    def name(self) -> str:
        """The name of the policy on the command line. The policy's file has the same name."""
        return type(self).__module__.rpartition(".")[2]

    def lengths(self, longest: int) -> Collection[int]:
        """The draft lengths whose pass times `choices` needs.

        - longest: the longest draft length that may be used.
        """
        if self.tokens is None:
            return range(longest + 1)
        return (self.tokens,)

    @abstractmethod
    def choices(self, replica: Replica) -> Sequence[Choice]:
        """The draft lengths that the server uses: one choice for all loads, or several choices that each
        apply to some of the loads.
        """

    def replayed(self, choice: Choice, replica: Replica) -> StepTimes:
        """The pass times of a choice in a replay.

        - replica: a replica with the lengths of the replayed requests. Its only load is their rate.
        """
        if not choice.steps.table:
            return replica.passes[choice.steps.gamma]
        table = [t.gamma for t in choice.steps.table]
        table += table[-1:] * replica.limits.seats(any(table))
        seats = min(replica.passes[gamma].seats for gamma in table)
        return replica.switching(self, table[:seats], float(replica.loads[0])).steps
