"""Standard errors of an observed acceptance. They account for differences between documents, because the
iterations of one document are not independent.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any


def standard_error(histograms: Sequence[Sequence[int]]) -> dict[str, Any] | None:
    """Standard errors of tokens per iteration and of acceptance by position; None for fewer than two decoded
    documents.

    - histograms [documents, gamma + 1]: the number of iterations of each document with 0, 1, ... gamma
      accepted tokens.
    """
    counted = [histogram for histogram in histograms if sum(histogram)]
    if len(counted) < 2:
        return None
    gained = [_tokens(histogram) for histogram in counted]
    reached = []
    for accepted in range(len(counted[0])):
        reached.append([sum(histogram[accepted:]) for histogram in counted])
    return {
        "documents": len(counted),
        "tokens_per_iteration": ratio_error(gained, reached[0]),
        "positions": [ratio_error(after, before) for before, after in pairwise(reached)],
    }


def _tokens(histogram: Sequence[int]) -> int:
    """The number of tokens that the iterations gained, including the bonus token of each iteration."""
    return sum((accepted + 1) * count for accepted, count in enumerate(histogram))


def ratio_error(numerators: Sequence[float], denominators: Sequence[float]) -> float | None:
    """Standard error of sum(numerators) / sum(denominators) over clusters; None if the denominators sum to 0.

    It uses the linearised ratio estimator (Cochran 1977, Sampling Techniques, equation 6.13 for an infinite
    population).
    """
    count = len(numerators)
    total = sum(denominators)
    if not total:
        return None
    ratio = sum(numerators) / total
    squares = sum((a - ratio * b) ** 2 for a, b in zip(numerators, denominators, strict=True))
    return math.sqrt(squares * count / (count - 1)) / total
