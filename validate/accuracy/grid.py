"""What a measured grid shows beyond single points: the best draft length, and from where batching costs no speedup."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from perfmodel.validate.accuracy.compare import Cell
from perfmodel.validate.solving import grouped

Case = tuple[Any, ...]
"""Target, draft, KV method, batch, context."""
Pair = tuple[Any, ...]
"""Target, draft, KV method, gamma."""


def _pair(c: Cell) -> tuple[Any, ...]:
    return c.point.target, c.point.draft, c.point.draft_kv


def best_gammas(speedups: Sequence[Cell]) -> dict[Case, tuple[int | None, int | None]]:
    """The gamma with the best speedup, measured and predicted, where more than one was measured."""
    groups = grouped(speedups, lambda c: (*_pair(c), c.point.batch, c.point.asked_context or c.point.context))
    return {
        key: (max(group, key=lambda c: c.measured).point.gamma, max(group, key=lambda c: c.predicted).point.gamma)
        for key, group in groups.items()
        if len(group) > 1
    }


def inflections(speedups: Sequence[Cell], tolerance: float) -> dict[Pair, tuple[int | None, int | None]]:
    """The smallest measured context from which on speedup does not fall with batch, measured and predicted.

    Both by the same rule on the same grid; None where it falls at the longest context. A fall within `tolerance`
    (relative) counts as none. Pairs that were not measured at two batches of one context have no entry.
    """
    found = {}
    for key, group in grouped(speedups, lambda c: (*_pair(c), c.point.gamma)).items():
        at = [(c.point.asked_context or c.point.context, c.point.batch, c) for c in group]
        measured = inflection_of([(s, b, c.measured) for s, b, c in at], tolerance)
        predicted = inflection_of([(s, b, c.predicted) for s, b, c in at], tolerance)
        if measured is not None and predicted is not None:
            found[key] = (measured[0], predicted[0])
    return found


def inflection_of(rows: list[tuple[int, int, float]], tolerance: float) -> tuple[int | None] | None:
    """Of (context, batch, speedup)s; None where no context has two batches."""
    by_context: dict[int, dict[int, float]] = {}
    for context, batch, speedup in rows:
        by_context.setdefault(context, {})[batch] = speedup
    judged = {context: curve for context, curve in by_context.items() if len(curve) > 1}
    if not judged:
        return None
    answer: int | None = None
    for context in sorted(judged, reverse=True):
        curve = [judged[context][batch] for batch in sorted(judged[context])]
        if any(after < before * (1 - tolerance) for before, after in pairwise(curve)):
            break
        answer = context
    return (answer,)
