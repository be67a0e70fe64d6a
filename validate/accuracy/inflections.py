"""Finds the inflection contexts of measured and predicted speedups on the grid of measured points. From such
a context on, the speedup does not decrease with the batch.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from perfmodel.validate.accuracy.cells import Cell
from perfmodel.validate.solving import grouped

Key = tuple[Any, ...]
"""The key of a chain (`chain_of`)."""
Inflections = dict[Key, tuple[int | None, int | None]]
"""Chain -> the measured and the predicted inflection context, in tokens."""


def chain_of(c: Cell) -> Key:
    """The key of the chain of a cell: the target, the draft, the KV method of the draft, and gamma."""
    return c.point.target, c.point.draft, c.point.draft_kv, c.point.gamma


def inflections(speedups: Sequence[Cell], tolerance: float) -> Inflections:
    """The measured and the predicted inflection context of each chain, on the grid of measured points
    (`inflection_of`). Contexts with a single batch are left out.

    - tolerance: the relative decrease of the speedup with the batch that is ignored.
    """
    by_chain = {}
    for chain, cells in grouped(speedups, chain_of).items():
        by_batch = sorted(cells, key=lambda c: c.point.batch)
        measured: dict[int, list[float]] = {}
        predicted: dict[int, list[float]] = {}
        curves = grouped(by_batch, lambda c: c.point.asked_context or c.point.context)
        for context, curve in curves.items():
            if len(curve) > 1:
                measured[context] = [c.measured for c in curve]
                predicted[context] = [c.predicted for c in curve]
        if measured:
            by_chain[chain] = inflection_of(measured, tolerance), inflection_of(predicted, tolerance)
    return by_chain


def inflection_of(curves: dict[int, list[float]], tolerance: float) -> int | None:
    """The smallest context from which on the speedup does not decrease with the batch; None if it decreases
    at the longest context.

    - curves: context -> speedups in the order of the batch.
    - tolerance: see `inflections`.
    """
    answer = None
    for context in sorted(curves, reverse=True):
        falls = [after < before * (1 - tolerance) for before, after in pairwise(curves[context])]
        if any(falls):
            break
        answer = context
    return answer
