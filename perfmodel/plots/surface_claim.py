"""The title of a picture of speedups over batch and context: where speculation pays."""

from typing import Any

import numpy as np

from perfmodel.operations import Array, Mask
from perfmodel.plots.theme import tokens

SAME = 1.3
"""Largest ratio of two borders that the title states as one."""


def surface_claim(draft: str, batches: Array, contexts: Array, speedup: Array) -> str:
    """A sentence that says where speculation pays, and how much at best.

    - draft: the draft, as the beginning of a sentence.
    - speedup: the speedups, [batch, context]; NaN where a point does not fit in memory.
    """
    fits = ~np.isnan(speedup)
    if not fits.any():
        return f"{draft}: nothing fits in memory"
    low, high = float(np.nanmin(speedup)), float(np.nanmax(speedup))
    if low >= 1.0:
        most, least = (
            _words(batches, contexts, np.unravel_index(place, speedup.shape))
            for place in (np.nanargmax(speedup), np.nanargmin(speedup))
        )
        differ = [each for each in range(2) if most[each] != least[each]]
        best, worst = (", ".join(words[each] for each in differ) for words in (most, least))
        return f"{draft} pays at every point: {high:.2f}× at {best}, {low:.2f}× at {worst}"
    if high <= 1.0:
        return f"{draft} pays nowhere: {low:.2f}× to {high:.2f}×"
    pays = np.where(fits, speedup > 1.0, False)
    borders = _from_contexts(pays, fits, batches, contexts) or _up_to_batches(pays, fits, batches, contexts)
    if borders is None:
        borders = f"at {100 * pays.sum() / fits.sum():.0f} % of the points"
    return f"{draft} pays {borders}: up to {high:.1f}×"


def _words(batches: Array, contexts: Array, place: tuple[Any, ...]) -> tuple[str, str]:
    """The batch and the context at a row and a column."""
    return f"batch {batches[place[0]]:.0f}", f"context {_round(contexts[place[1]])}"


def _from_contexts(pays: Mask, fits: Mask, batches: Array, contexts: Array) -> str | None:
    """The border if speculation pays from some context on, else None."""
    if not _ends(pays, fits) or not _mixed(pays, fits):
        return None
    first = {row: int(np.argmax(pays[row])) for row in np.flatnonzero(pays.any(axis=1))}
    soon = min(first, key=lambda row: (first[row], -row))
    late = max(first, key=lambda row: (first[row], -row))
    near, far = contexts[first[soon]], contexts[first[late]]
    everywhere = pays.any(axis=1) | ~fits[:, first[soon] :].any(axis=1)
    if everywhere.all() and far <= SAME * near:
        return f"from {_round(near)} tokens of context"
    start = f"from {_round(near)} tokens of context at batch {batches[soon]:.0f}"
    return start if soon == late else f"{start}, from {_round(far)} at batch {batches[late]:.0f}"


def _up_to_batches(pays: Mask, fits: Mask, batches: Array, contexts: Array) -> str | None:
    """The border if speculation pays up to some batch, else None."""
    if not _ends(pays.T[:, ::-1], fits.T[:, ::-1]):
        return None
    bordered = np.any(fits & ~pays, axis=0)
    paying = np.flatnonzero(pays.any(axis=0))
    limits = {column: int(np.flatnonzero(pays[:, column])[-1]) for column in paying if bordered[column]}
    if not limits:
        return f"up to {_round(contexts[paying[-1]])} tokens of context" if len(paying) > paying[-1] else None
    few, many = min(limits, key=lambda column: limits[column]), max(limits, key=lambda column: limits[column])
    low, high = batches[limits[few]], batches[limits[many]]
    if (pays.any(axis=0) | ~fits.any(axis=0)).all() and high <= SAME * low:
        return f"up to batch {low:.0f}"
    start = f"up to batch {low:.0f} at context {_round(contexts[few])}"
    return start if few == many else f"{start}, to {high:.0f} at {_round(contexts[many])}"


def _mixed(pays: Mask, fits: Mask) -> bool:
    """Whether speculation pays at a part of the contexts of some batch."""
    return bool((pays.any(axis=1) & (fits & ~pays).any(axis=1)).any())


def _ends(pays: Mask, fits: Mask) -> bool:
    """Whether speculation that pays at a point of a row pays at all later points that fit."""
    started = np.logical_or.accumulate(pays, axis=1)
    return not (started & fits & ~pays).any()


def _round(context: float) -> str:
    """A context for a title, in whole multiples of 1,024 if it is longer."""
    return tokens(round(context / 1024) * 1024 if context >= 1024 else round(context))
