"""Merges the attention outputs of the stretches of a cache."""

import triton
import triton.language as tl

from perfmodel.validate.decoder.kernels.split_kv import UNSEEN

MERGED = 16
"""Number of stretches that a program loads at a time."""
WARPS = 2
"""Number of warps of a program, which merges one row."""


@triton.jit
def _combine(  # type: ignore[no-untyped-def]
    out_at,
    lse_at,
    result_at,
    stretches,
    HEADS: tl.constexpr,
    QUERIES: tl.constexpr,
    ROWS: tl.constexpr,
    D: tl.constexpr,
    MERGED: tl.constexpr,
):
    """Program (sequence x KV head, row): stores the mean of a row's outputs over the stretches, weighted by
    their sums of exponentials. MERGED stretches are read at a time.

    - out, lse: the results of `_split`.
    - result: [sequences, QUERIES, all query heads, D], the layout of the next matrix product's input.
    """
    pair = tl.program_id(0).to(tl.int64)
    row = tl.program_id(1)
    d = tl.arange(0, D)
    some = tl.arange(0, MERGED)
    first = pair * stretches * ROWS + row
    top = tl.full((), UNSEEN, tl.float32)
    total = tl.full((), 0.0, tl.float32)
    out = tl.zeros((D,), tl.float32)
    for start in range(0, stretches, MERGED):
        at = first + (start + some) * ROWS
        there = start + some < stretches
        lse = tl.load(lse_at + at, mask=there, other=UNSEEN)
        part = tl.load(out_at + at[:, None] * D + d, mask=there[:, None], other=0.0)
        higher = tl.maximum(top, tl.max(lse, axis=0))
        weights = tl.where(there, tl.exp2(lse - higher), 0.0)
        fade = tl.exp2(top - higher)
        total = total * fade + tl.sum(weights, axis=0)
        out = out * fade + tl.sum(weights[:, None] * part, axis=0)
        top = higher
    b = pair // HEADS
    h = pair % HEADS
    group: tl.constexpr = ROWS // QUERIES
    head = h * group + row // QUERIES
    place = ((b * QUERIES + row % QUERIES) * HEADS * group + head) * D
    tl.store(result_at + place + d, (out / total).to(result_at.dtype.element_ty))
