"""The inflection context of a measured grid."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from perfmodel.validate.accuracy.compare import Cell
from perfmodel.validate.solving import grouped

Key = tuple[Any, ...]
Found = dict[Key, tuple[int | None, int | None]]
"""(measured, predicted)."""


def chain_of(c: Cell) -> Key:
    """Target, draft, KV method, gamma."""
    return c.point.target, c.point.draft, c.point.draft_kv, c.point.gamma


def inflections(speedups: Sequence[Cell], tolerance: float) -> Found:
    """By `chain_of`, the smallest measured context from which the speedup does not fall with the batch.

    Measured and predicted follow the same rule on the same grid. None where the speedup falls at the longest
    context. A relative fall within `tolerance` is ignored. A context with a single batch has no entry.
    """
    found = {}
    for key, group in grouped(speedups, chain_of).items():
        by_batch = sorted(group, key=lambda c: c.point.batch)
        curves = grouped(by_batch, lambda c: c.point.asked_context or c.point.context)
        judged = {context: curve for context, curve in curves.items() if len(curve) > 1}
        if judged:
            measured = {context: [c.measured for c in curve] for context, curve in judged.items()}
            predicted = {context: [c.predicted for c in curve] for context, curve in judged.items()}
            found[key] = inflection_of(measured, tolerance), inflection_of(predicted, tolerance)
    return found


def inflection_of(curves: dict[int, list[float]], tolerance: float) -> int | None:
    """The inflection context from speedups by context, each over batches."""
    answer = None
    for context in sorted(curves, reverse=True):
        if any(after < before * (1 - tolerance) for before, after in pairwise(curves[context])):
            break
        answer = context
    return answer
