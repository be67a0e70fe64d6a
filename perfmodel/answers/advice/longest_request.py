"""Chooses the maximum sequence length of a server under a load."""

import numpy as np

from perfmodel.speculation import Scenario, memory_of

LONGEST_REQUEST = 4
"""Length of the longest request that a server accepts, divided by the mean length. This is an assumption."""
TRIED = 9
"""Number of lengths that are tried, from the longest down to the mean."""


def longest_request(
    scenario: Scenario,
    memory_fraction: float | None,
    stated: int | None,
    mean: int,
    context: int,
    sequences: int,
    gamma: int,
) -> int:
    """The maximum sequence length in tokens. The length is `LONGEST_REQUEST` times the mean request, or less
    if the model or the memory does not allow this. The length is never below that of the mean request,
    because a server refuses requests that are longer than its maximum.

    - stated: the length that the question states. The function returns this length unless it is None.
    - mean: mean number of prompt and output tokens of a request.
    - sequences: number of sequences of this length that must fit in memory at once. If not as many of the
      mean length fit, because prompts share a part of the cache, it is the number that fits.
    - gamma: number of drafted tokens, because a draft needs memory too.
    """
    if stated is not None:
        return stated
    mean = max(mean, context)
    most = LONGEST_REQUEST * mean
    if (limit := scenario.target.max_position_embeddings) is not None:
        most = max(min(most, limit), mean)
    tokens = np.floor(np.geomspace(most, mean, TRIED))
    whole = int(memory_of(scenario, 1.0, float(mean), float(gamma), memory_fraction).max_batch)
    at_once = float(min(sequences, max(whole, 1)))
    fits = memory_of(scenario, at_once, tokens, float(gamma), memory_fraction).fits
    return int(tokens[np.argmax(fits)]) if np.any(fits) else mean
