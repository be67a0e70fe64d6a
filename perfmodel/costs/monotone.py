"""GEMM times that never fall as rows are added, from measured shares of the roofline, which are noisy.

A table states the share of the ideal roofline that a GEMM reaches by its rows. Its time over that of one
ideal row, max(1, rows / ridge) / share, must not fall as rows are added; where a table says so (kernels
chosen badly, tiles that are half empty, noise) neighbours are pooled to their geometric mean: isotonic
regression by pool adjacent violators (Ayer et al. 1955). What comes out are two curves, of what is loaded up
to the ridge and of what is computed beyond it, so that the time of any GEMM rises with its rows, its weights
and what it moves, whatever its own proportions are.
"""

import math
from collections.abc import Iterable
from functools import cache

import numpy as np

from perfmodel.specs.calibrations.constants import Knots, interpolated

_RISE = 1e-9
"""By what pooled times still differ: above rounding, below anything that matters."""
_UNMEASURED = 1e-6
"""Weight of the ridge, between measured places that each count 1."""


@cache
def monotone_shares(shares: Knots, ridge: float) -> tuple[Knots, Knots]:
    """(rows, share of the bandwidth) up to the ridge and (rows, share of the peak FLOP/s) from there on.

    ridge: rows at which a GEMM loads its weights for as long as it computes. Both curves are level outside
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
    """Blocks (mean, weight, members) of the rising sequence nearest to these: each block of violators at its
    mean.
    """
    blocks: list[tuple[float, float, int]] = []
    for value, weight in zip(values, weights, strict=True):
        blocks.append((value, weight, 1))
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            (a, w, m), (b, v, n) = blocks[-2:]
            blocks[-2:] = [((a * w + b * v) / (w + v), w + v, m + n)]
    return blocks
