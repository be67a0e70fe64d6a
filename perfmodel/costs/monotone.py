"""GEMM times that never fall as rows are added, from measured (noisy) shares of the roofline.

A table gives the share of the ideal roofline that a GEMM reaches at each number of rows. The time relative to
one ideal row, max(1, rows / ridge) / share, must not fall as rows are added. Where a table violates this
(badly chosen kernels, half-empty tiles, noise), neighbours are pooled to their geometric mean: isotonic
regression by pool adjacent violators (Ayer et al. 1955). The result is two curves, one for loading up to the
ridge and one for computing beyond it. So the time of a GEMM of any shape rises with its rows, its weights and
its bytes.
"""

import math
from collections.abc import Iterable
from functools import cache

import numpy as np

from perfmodel.specs.calibrations.constants import Knots, interpolated

_RISE = 1e-9
"""Difference that is kept between pooled times: above rounding, below any effect."""
_UNMEASURED = 1e-6
"""Weight of the ridge in the pooling; a measured place has weight 1."""


@cache
def monotone_shares(shares: Knots, ridge: float) -> tuple[Knots, Knots]:
    """Two curves: (rows, share of the bandwidth) up to the ridge, and (rows, share of the peak FLOP/s) beyond
    it.

    ridge: rows at which a GEMM loads its weights for as long as it computes. Both curves are constant outside
    their knots.
    """
    place = min(max(ridge, shares[0][0]), shares[-1][0])
    rows = sorted({place, *(at for at, _ in shares)})
    measured = {at for at, _ in shares}
    logs = [math.log(max(1.0, at / ridge) / float(interpolated(shares, np.asarray(at)))) for at in rows]
    blocks = pooled(logs, [1.0 if at in measured else _UNMEASURED for at in rows])
    level = [mean for mean, _, members in blocks for _ in range(members)]
    times = [math.exp(mean + _RISE * i) for i, mean in enumerate(level)]
    loaded = tuple((at, 1.0 / time) for at, time in zip(rows, times, strict=True) if at <= place)
    computed = tuple(
        (at, max(1.0, at / ridge) / time) for at, time in zip(rows, times, strict=True) if at >= place
    )
    return loaded, computed


def pooled(values: Iterable[float], weights: Iterable[float]) -> list[tuple[float, float, int]]:
    """Blocks (mean, weight, members) of the closest rising sequence. Each block of violators has its mean."""
    blocks: list[tuple[float, float, int]] = []
    for value, weight in zip(values, weights, strict=True):
        blocks.append((value, weight, 1))
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            (a, w, m), (b, v, n) = blocks[-2:]
            blocks[-2:] = [((a * w + b * v) / (w + v), w + v, m + n)]
    return blocks
