"""The acceptance from which speculation reaches a speedup, with everything else of a question fixed."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from perfmodel.speculation import Acceptance, Scenario, alpha_from_tokens_per_iteration, speedups

HALVINGS = 50


def speedup_at(scenario: Scenario, batch: float, context: float, gamma: int) -> float:
    """The speedup of one draft length at one point."""
    return float(speedups(scenario, batch, context, np.array([gamma]))[..., 0])


def smallest_alpha(
    scenario: Scenario, batch: float, context: float, gamma: int, target: float = 1.0
) -> float | None:
    """The constant acceptance at which the speedup is `target`; None if even 1 does not reach it."""

    def falls_short(alpha: float) -> bool:
        accepted = replace(scenario, acceptance=Acceptance.from_alpha(alpha))
        return speedup_at(accepted, batch, context, gamma) < target

    return None if falls_short(1.0) else turn(falls_short, 0.0, 1.0)[1]


def easiest_length(scenario: Scenario, batch: float, context: float, most: int, target: float = 1.0) -> int:
    """The draft length from 1 to `most` that reaches `target` at the smallest alpha; 1 if none does.

    Each sequence advances by its own count, so an iteration must gain target x iteration time / step time
    tokens.
    """
    gammas = np.arange(1, max(scenario.longest(most), 1) + 1)
    certain = replace(scenario, acceptance=Acceptance.from_alpha(1.0))
    needed = target * (gammas + 1.0) / speedups(certain, batch, context, gammas)
    alphas = alpha_from_tokens_per_iteration(np.clip(needed, 1.0, gammas + 1.0), gammas.astype(float))
    return int(gammas[np.argmin(np.where(needed <= gammas + 1.0, alphas, 2.0))])


def turn(holds: Callable[[float], bool], low: float, high: float) -> tuple[float, float]:
    """The last value with a property and the first value without it. At an end both are equal.

    Once lost, the property must not return.
    """
    if not holds(low):
        return low, low
    if holds(high):
        return high, high
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low, high
