"""CUDA graphs. A pass runs as the smallest captured graph that has room for its tokens."""

from collections.abc import Sequence
from functools import cache

import numpy as np

from perfmodel.operations import Array, Floats


def graph_sizes(step: int, last: int) -> tuple[int, ...]:
    """The captured sizes in tokens, in rising order: 1, 2, 4 and the multiples of `step` up to `last`."""
    return tuple(sorted({1, 2, 4, *range(step, last + 1, step)}))


def padded(tokens: Floats, sizes: Sequence[int]) -> Floats:
    """The number of tokens of a pass, rounded up to the next captured size. The number is unchanged if it is
    above the largest size, or if no size is captured.

    - sizes: captured sizes in rising order.
    """
    if not sizes:
        return tokens
    places, captured = _captured(tuple(sizes))
    place = np.searchsorted(captured[:-1], tokens)
    return np.maximum(np.interp(place, places, captured), tokens)


@cache
def _captured(sizes: tuple[int, ...]) -> tuple[Array, Array]:
    """The indices 0, 1, ... and the sizes. The last size is 0 and represents a pass beyond the largest
    size.
    """
    captured = np.asarray((*sizes, 0), float)
    return np.arange(float(captured.size)), captured
