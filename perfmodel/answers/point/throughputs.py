"""Tokens per second at every batch and draft length that fits in memory."""

from typing import NamedTuple

import numpy as np

from perfmodel.operations import Array
from perfmodel.speculation import Prediction, Scenario, Workload, memory_of, predict


class Throughputs(NamedTuple):
    """Tokens per second, ``[batch, gamma]``, with 0 where memory is too small, and what they follow from."""

    tokens_per_s: Array
    prediction: Prediction


def throughputs(
    scenario: Scenario, most: int, context: float, max_gamma: int, fraction: float | None
) -> Throughputs:
    """The throughputs of batches 1 to `most`, with gamma from 0."""
    batches = np.arange(1.0, most + 1)[:, None]
    gammas = np.arange(scenario.longest(max_gamma) + 1)
    prediction = predict(scenario, Workload.of(batches, context, gammas), max_gamma)
    fits = memory_of(scenario, batches, context, gammas.astype(float), fraction).fits
    return Throughputs(np.where(fits, prediction.throughput_tokens_per_s, 0.0), prediction)
