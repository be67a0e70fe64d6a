"""Finds the batch and draft length with the most tokens per second that fit in memory."""

from dataclasses import dataclass

import numpy as np

from perfmodel.speculation import Passes, Scenario, memory_of

LARGEST = 256
"""The largest batch that is tried, even if more sequences fit in memory."""


@dataclass(frozen=True, slots=True)
class Best:
    """The batch and gamma with the largest throughput of one server.

    - looked_to: the largest batch that was tried.
    - gamma: 0 means the baseline.
    - speedup: speedup over the baseline at the same batch.
    """

    batch: int
    gamma: int
    speedup: float
    throughput_tokens_per_s: float
    looked_to: int


def best_batch(scenario: Scenario, context: float, max_gamma: int, fraction: float | None) -> Best | None:
    """The best batch and draft length. The result is None if not even one sequence fits in memory.

    - fraction: share of device memory that the engine may use.
    """
    gammas = np.arange(scenario.longest(max_gamma) + 1)
    room = memory_of(scenario, 1.0, context, gammas.astype(float), fraction)
    top = int(min(room.ar_max_batch, LARGEST))
    if not top:
        return None
    batches = np.arange(1.0, top + 1)
    passes = Passes(scenario, batches, context, gammas)
    tokens_per_s = batches * passes.sequence_rates(scenario)
    fits = batches <= room.max_batch[:, None]
    rates = np.where(fits, tokens_per_s, 0.0).T
    at, gamma = divmod(int(rates.argmax()), rates.shape[1])
    best = float(rates[at, gamma])
    return Best(at + 1, gamma, float(best / rates[at, 0]), best, top)
