"""The batch and draft length that give the most tokens per second within the memory there is."""

from dataclasses import dataclass

import numpy as np

from perfmodel.speculation.capacity import memory_of
from perfmodel.speculation.chain import Passes, gained_tokens, speedup
from perfmodel.speculation.scenario import Scenario

LARGEST = 256
"""Batch up to which is looked where memory would hold more."""


@dataclass(frozen=True, slots=True)
class Best:
    """Of batches 1 to `looked_to`, the one with the largest throughput of the group; gamma 0 is the baseline."""

    batch: int
    gamma: int
    speedup: float
    throughput_tokens_per_s: float
    looked_to: int


def best_batch(scenario: Scenario, context: float, max_gamma: int, fraction: float) -> Best | None:
    """None where not one sequence fits."""
    gammas = np.arange(scenario.longest(max_gamma) + 1)
    room = memory_of(scenario, 1.0, context, gammas.astype(float), fraction)
    top = int(min(np.max(room.ar_max_batch), LARGEST))
    if top < 1:
        return None
    batches = np.arange(1.0, top + 1)
    passes = Passes(scenario, batches, np.asarray(context), gammas)
    times = passes.times(scenario)
    gained = speedup(gained_tokens(scenario, batches, gammas), *times, gammas).T
    baseline = batches / np.broadcast_to(times[0], (1, top))[0]
    fits = memory_of(scenario, batches[:, None], context, gammas.astype(float), fraction).fits
    throughput = np.where(fits, baseline[:, None] * gained, 0.0)
    at, gamma = np.unravel_index(int(throughput.argmax()), throughput.shape)
    most = float(throughput[at, gamma])
    return Best(int(batches[at]), int(gammas[gamma]), float(gained[at, gamma]), most, top)
