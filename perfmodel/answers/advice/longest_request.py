"""The longest sequence that a server accepts under a load."""

import numpy as np

from perfmodel.speculation import Scenario, memory_of

LONGEST_REQUEST = 4
"""Ratio of the longest request that a server accepts to the mean request. An assumption: prompts and
outputs vary.
"""
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
    """Four times the mean request, as far as the model and the memory of the devices allow it. It is at
    least the mean, because a server refuses longer requests.

    stated: the limit that the question states. mean: tokens of a mean request, prompt and output.
    sequences: number of sequences that must have this room at once. gamma: drafted tokens, whose draft
    takes memory too.
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
