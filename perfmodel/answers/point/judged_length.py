"""Finds the draft length with the largest speedup for a question, and the verdict at this length."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perfmodel.answers.point.verdict import Verdict, verdict
from perfmodel.answers.question import Query
from perfmodel.answers.text import interval_text
from perfmodel.speculation import Interval, Passes, Scenario, interval_of_timed


@dataclass(frozen=True, slots=True)
class JudgedLength:
    """A draft length with its verdict and its speedup."""

    gamma: int
    verdict: Verdict
    speedup: float
    speedup_interval: Interval | None

    @property
    def text(self) -> str:
        """The speedup in words, such as ``gamma 1 gives 0.97x (0.80 to 1.20)``."""
        return f"gamma {self.gamma} gives {self.speedup:.2f}x{interval_text(self.speedup_interval)}"


def fastest(query: Query, scenario: Scenario, lengths: NDArray[np.int64]) -> JudgedLength:
    """The draft length with the largest speedup.

    - lengths: the draft lengths to try, as an array of shape (n,).
    - scenario: the scenario of the query, with a known acceptance. The scenario may have another version of
      the engine.
    """
    batch = float(query.batch)
    context = float(query.context)
    passes = Passes(scenario, batch, context, lengths)
    by_length = passes.speedups(scenario)
    at = int(by_length.argmax())
    gamma = int(lengths[at])
    speedup = float(by_length[at])
    interval = interval_of_timed(scenario, batch, context, gamma, float(passes.gained[at]), speedup)
    return JudgedLength(gamma, verdict(scenario, context, speedup, interval, gamma), speedup, interval)


def least_loss(query: Query, scenario: Scenario) -> JudgedLength | None:
    """The draft length above 0 with the largest speedup, which may be below 1. The result is None if no draft
    length above 0 is possible.
    """
    longest = scenario.longest(query.max_gamma)
    if longest < 1:
        return None
    return fastest(query, scenario, np.arange(1, longest + 1))
