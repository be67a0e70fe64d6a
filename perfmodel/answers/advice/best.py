"""The batch and draft length with the most tokens per second that fit in memory."""

from dataclasses import dataclass

import numpy as np

from perfmodel.operations import Array
from perfmodel.speculation import Prediction, Scenario, Workload, memory_of, predict

LARGEST = 256
"""The largest batch that is tried, even where memory would hold more."""


@dataclass(frozen=True, slots=True)
class Best:
    """The batch from 1 to `looked_to` with the largest throughput of the group. gamma 0 is the baseline."""

    batch: int
    gamma: int
    speedup: float
    throughput_tokens_per_s: float
    looked_to: int


def throughputs(
    scenario: Scenario, most: int, context: float, max_gamma: int, fraction: float | None
) -> tuple[Array, Prediction]:
    """Tokens per second, ``[batch, gamma]``, for batches 1 to `most` and gamma from 0; 0 where memory is too
    small.
    """
    batches = np.arange(1.0, most + 1)[:, None]
    gammas = np.arange(scenario.longest(max_gamma) + 1)
    p = predict(scenario, Workload.of(batches, context, gammas), max_gamma)
    fits = memory_of(scenario, batches, context, gammas.astype(float), fraction).fits
    return np.where(fits, p.throughput_tokens_per_s, 0.0), p


def best_batch(scenario: Scenario, context: float, max_gamma: int, fraction: float | None) -> Best | None:
    """The best batch; None if not even one sequence fits."""
    top = int(min(memory_of(scenario, LARGEST, context, max_gamma, fraction).ar_max_batch, LARGEST))
    if not top:
        return None
    rates, p = throughputs(scenario, top, context, max_gamma, fraction)
    at, gamma = divmod(int(rates.argmax()), rates.shape[1])
    return Best(at + 1, gamma, float(p.speedup[at, gamma]), float(rates[at, gamma]), top)
