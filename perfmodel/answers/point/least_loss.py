"""The draft length that loses least, where none gains: whether the loss is sure."""

from dataclasses import dataclass

import numpy as np

from perfmodel.answers.point.verdict import Verdict, verdict
from perfmodel.answers.question import Query
from perfmodel.speculation import Interval, Passes, Scenario, interval_of_timed


@dataclass(frozen=True, slots=True)
class LeastLoss:
    """A draft length with its verdict and its speedup."""

    gamma: int
    verdict: Verdict
    speedup: float
    speedup_interval: Interval | None

    @property
    def text(self) -> str:
        """``gamma 1 gives 0.97x (0.80 to 1.20)``."""
        interval = ""
        if self.speedup_interval is not None:
            interval = " ({:.2f} to {:.2f})".format(*self.speedup_interval)
        return f"gamma {self.gamma} gives {self.speedup:.2f}x{interval}"


def least_loss(query: Query, scenario: Scenario) -> LeastLoss | None:
    """The draft length with the largest speedup from 1 on; None if the draft has none.

    scenario: of the query, with a known acceptance.
    """
    longest = scenario.longest(query.max_gamma)
    if longest < 1:
        return None
    batch = float(query.batch)
    context = float(query.context)
    passes = Passes(scenario, batch, context, np.arange(1, longest + 1))
    by_length = passes.speedups(scenario)
    at = int(by_length.argmax())
    speedup = float(by_length[at])
    gamma = at + 1
    interval = interval_of_timed(scenario, batch, context, gamma, float(passes.gained[at]), speedup)
    return LeastLoss(gamma, verdict(scenario, context, speedup, interval, gamma), speedup, interval)
