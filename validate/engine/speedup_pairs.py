"""The pairs of a speculative row and a baseline row whose ratio is a speedup."""

from collections.abc import Sequence

from perfmodel.validate.engine.timing import Timing

SAME_PLACE = 0.1
"""Largest relative difference of two batches or contexts that form a speedup."""


def speedup_pairs(timings: Sequence[Timing]) -> list[tuple[int, int]]:
    """Pairs of indices: a speculative row, and a baseline row at its batch and context."""
    rows = [*enumerate(timings)]
    pairs = []
    for i, row in rows:
        baselines = [j for j, plain in rows if _is_baseline_of(row, plain)]
        if baselines:
            pairs.append((i, baselines[0]))
    return pairs


def _is_baseline_of(row: Timing, plain: Timing) -> bool:
    """Whether `plain` is a baseline step at the batch and context of the speculative `row`."""
    if not row.gamma or plain.gamma or row.kind != plain.kind:
        return False
    places = (row.context, plain.context), (row.batch, plain.batch)
    return all(abs(a - b) <= SAME_PLACE * max(a, b) for a, b in places)
