"""The title of a picture of speedups over batch and context: where speculation breaks even, and its range."""

from typing import Any

import numpy as np

from perfmodel.operations import Array
from perfmodel.plots.theme import Span, tokens

SAME = 1.3
"""Largest ratio of two break-even contexts that the title states as one range."""
POINTS = 129
"""Number of contexts among which a break-even context is found."""


def round_batches(span: Span) -> Array:
    """The batches that a title may name: the powers of two in a range, and its ends if they are whole."""
    low, high = span
    powers = 2.0 ** np.arange(np.ceil(np.log2(low)), np.floor(np.log2(high)) + 1)
    whole = [end for end in span if float(end).is_integer()]
    batches = np.unique([*powers, *whole])
    return batches if batches.size else np.array(span)


def round_contexts(span: Span) -> Array:
    """The contexts that a title may name: multiples of 1,024 in a range, and its ends."""
    multiples = 1024 * np.round(np.geomspace(*span, POINTS) / 1024)
    return np.unique([*span, *multiples[(multiples > span[0]) & (multiples < span[1])]])


def surface_claim(draft: str, batches: Array, contexts: Array, speedup: Array) -> str:
    """A sentence that says where speculation breaks even, and how large the speedup is at best.

    The title does not say "pays", because that depends on the interval of a prediction.

    - draft: the draft, as the beginning of a sentence.
    - batches, contexts: those that the sentence may name, in increasing order.
    - speedup: the speedups, [batch, context]; NaN where a point does not fit in memory.
    """
    fits = ~np.isnan(speedup)
    if not fits.any():
        return f"{draft}: nothing fits in memory"
    low, high = float(np.nanmin(speedup)), float(np.nanmax(speedup))
    if high <= 1.0:
        return f"{draft} breaks even nowhere: {low:.2f}× to {high:.2f}×"
    borders = _borders(batches, contexts, speedup)
    if borders is not None:
        return f"{draft} breaks even {borders}: up to {high:.1f}×"
    most, least = (
        _words(batches, contexts, np.unravel_index(place, speedup.shape))
        for place in (np.nanargmax(speedup), np.nanargmin(speedup))
    )
    both = [word for word in most if word in least]
    best, worst = (", ".join(word for word in words if word not in both) for words in (most, least))
    subject = f"{draft} at {both[0]}" if both else draft
    return f"{subject}: {high:.2f}× at {best}, falling to {low:.2f}× at {worst}"


def _words(batches: Array, contexts: Array, place: tuple[Any, ...]) -> tuple[str, str]:
    """The batch and the context at a row and a column."""
    return f"batch {batches[place[0]]:.4g}", f"context {tokens(contexts[place[1]])}"


def _borders(batches: Array, contexts: Array, speedup: Array) -> str | None:
    """The break-even contexts in words, or None if no batch has exactly one."""
    found = {}
    for batch, row in zip(batches, speedup, strict=True):
        border = _break_even(contexts, row)
        if border is not None:
            found[batch] = border
    if not found:
        return None
    near, far = min(found.values()), max(found.values())
    if len(found) == np.count_nonzero(~np.isnan(speedup).all(axis=1)) and far <= SAME * near:
        ends = " to ".join(dict.fromkeys((_round(near), _round(far))))
        return f"at {ends} tokens of context"
    first, last = min(found), max(found)
    start = f"at {_round(found[first])} tokens of context at batch {first:.4g}"
    return start if first == last else f"{start}, at {_round(found[last])} at batch {last:.4g}"


def _break_even(contexts: Array, speedup: Array) -> float | None:
    """The context at which a batch breaks even, or None unless there is exactly one that fits in memory."""
    fits = ~np.isnan(speedup)
    x, y = contexts[fits], speedup[fits] - 1.0
    crossings = np.flatnonzero((y[:-1] > 0) != (y[1:] > 0))
    if crossings.size != 1:
        return None
    i = int(crossings[0])
    return float(x[i] - y[i] * (x[i + 1] - x[i]) / (y[i + 1] - y[i]))


def _round(context: float) -> str:
    """A context for a title, in whole multiples of 1,024 if it is longer."""
    return tokens(round(context / 1024) * 1024 if context >= 1024 else round(context))
