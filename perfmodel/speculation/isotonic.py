"""Isotonic regression: the non-decreasing sequence that is closest to a given sequence."""

from collections.abc import Iterable


def pooled(values: Iterable[float], weights: Iterable[float]) -> list[tuple[float, float, int]]:
    """The non-decreasing sequence with the smallest weighted squared distance from `values`, as blocks (mean,
    weight, number of values).

    Values that would decrease are merged into one block, which has their weighted mean (pool adjacent
    violators, Ayer et al. 1955).
    """
    blocks: list[tuple[float, float, int]] = []
    for value, weight in zip(values, weights, strict=True):
        blocks.append((value, weight, 1))
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            (mean, weight_before, count_before), (last_mean, last_weight, last_count) = blocks[-2:]
            total = weight_before + last_weight
            mean = (mean * weight_before + last_mean * last_weight) / total
            blocks[-2:] = [(mean, total, count_before + last_count)]
    return blocks
