"""Chooses the longest sequence that a server accepts under a load."""

import numpy as np

from perfmodel.speculation import Scenario, memory_of

LONGEST_REQUEST = 4
"""The longest request that a server accepts, divided by the mean request. It is an assumption."""
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
    """The longest sequence in tokens: `LONGEST_REQUEST` times the mean request, or less if the model or
    the memory does not allow it. The result is never shorter than the mean request, because a server
    refuses requests that are longer than its maximum.

    stated: the length that the question states; it is then the result. mean: mean tokens of a request,
    prompt and output. sequences: number of sequences of this length that memory must hold at once. gamma:
    number of drafted tokens, because a draft needs memory too.
    """
    if stated is not None:
        return stated
    mean = max(mean, context)
    most = LONGEST_REQUEST * mean
    if (limit := scenario.target.max_position_embeddings) is not None:
        most = max(min(most, limit), mean)
    tokens = np.floor(np.geomspace(most, mean, TRIED))
    fits = memory_of(scenario, float(sequences), tokens, float(gamma), memory_fraction).fits
    return int(tokens[np.argmax(fits)]) if np.any(fits) else mean
