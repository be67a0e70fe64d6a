"""Computes GEMM times from measured (noisy) shares of the roofline. These times never fall with more rows
(tokens of the pass). The times never rise with a higher peak or bandwidth.

A table gives the share of the ideal roofline that a GEMM reaches at each number of rows. The time of the GEMM
is max(1, rows / ridge) / share, in units of the time of loading its weights once. The *ridge* is the number
of rows at which loading and computing take equally long. The time of a GEMM must not fall as rows are added.
The times of a table may fall, because of badly chosen kernels, half-empty tiles or noise. The modelled time
is therefore the geometric mean of two curves that never fall. One is the lowest such curve above the measured
curve. The other is the highest such curve below it.

At each number of rows, a higher peak (a larger ridge) never lengthens the measured time. It therefore never
raises either curve, and never makes a GEMM slower. The same holds for a higher bandwidth (a smaller ridge).
In units of the time that the FLOPs of one row take at the peak, the time of a GEMM is max(rows, ridge) /
share.
"""

import math
from functools import cache
from itertools import pairwise

import numpy as np

from perfmodel.operations import Array
from perfmodel.specs.calibrations.constants import Knots

Points = list[tuple[float, float]]
"""A curve that is straight between its points (in order of x), and constant outside."""


@cache
def monotone_shares(shares: Knots, ridge: float) -> tuple[Knots, Knots]:
    """Two curves over rows: the reached share of the bandwidth, and the reached share of the ideal roofline.

    - ridge: number of rows at which loading the weights of a GEMM takes as long as computing.

    A GEMM takes the longer of two times: the time of its bytes at the first share, and that of its FLOPs at
    the second share. Up to the ridge, both shares are equal. Beyond the ridge, the FLOPs take longer than
    loading the weights. Near the ridge, weights and activations together may still take longer than the
    FLOPs. The first share at a number of rows beyond the ridge is that of a GEMM whose ridge is at this
    number of rows.
    """
    at, log_share = np.log(np.asarray(shares)).T
    edge = math.log(ridge)
    rows = np.array(sorted({*at.tolist(), edge}))
    load = -np.interp(rows, at, log_share)
    both = load + np.maximum(rows, edge)  # time in units of one row's FLOPs
    above_load = rising_above(list(zip(rows, load, strict=True)))
    above = rising_above(list(zip(rows, both, strict=True)))
    below = rising_below(list(zip(rows, both, strict=True)))
    places = np.asarray(sorted({x for curve in (above_load, above, below) for x, _ in curve}))
    ideal = np.maximum(places, edge)
    total = (_value(above, places) + _value(below, places)) / 2.0
    loading = (_value(above_load, places) + _value(below, places) - ideal) / 2.0
    loaded = rising_above(list(zip(places, loading, strict=True)))
    return _shares(loaded), _shares(list(zip(places, total - ideal, strict=True)))


def rising_above(points: Points) -> Points:
    """The lowest curve that never falls and is nowhere below the given curve."""
    risen = points[:1]
    for (x0, y0), (x1, y1) in pairwise(points):
        highest = risen[-1][1]
        if y1 <= highest:
            risen.append((x1, highest))
            continue
        if y0 < highest:
            risen.append((x0 + (x1 - x0) * (highest - y0) / (y1 - y0), highest))
        risen.append((x1, y1))
    return risen


def rising_below(points: Points) -> Points:
    """The highest curve that never falls and is nowhere above the given curve."""
    turned = [(-x, -y) for x, y in reversed(points)]
    return [(-x, -y) for x, y in reversed(rising_above(turned))]


def _value(curve: Points, places: Array) -> Array:
    xs, ys = np.asarray(curve).T
    return np.interp(places, xs, ys)


def _shares(log_times: Points) -> Knots:
    return tuple((math.exp(x), math.exp(-y)) for x, y in log_times)
