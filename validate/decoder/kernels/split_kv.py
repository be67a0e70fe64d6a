"""Computes attention over one stretch of the cache, or over the new tokens. `combine` merges the results."""

import triton
import triton.language as tl

NEW_TILE = tl.constexpr(16)
"""Number of new tokens of a tile. Larger tiles would need shared memory that the tiles of the cache use. With
32 tokens and a mask, registers would spill on sm_80.
"""
UNSEEN = tl.constexpr(-1.0e30)
"""Score of a token that a row does not see. It is finite, because the difference of two infinite scores would
not be a number.
"""


@triton.jit
def _accumulate(q, k, v, seen, scale, top, total, out):  # type: ignore[no-untyped-def]
    """Adds one tile of tokens to the online softmax of some rows. Exponentials are powers of two.

    - q: [rows, d], the queries.
    - k, v: [tile, d], the keys and values of the tile.
    - seen: [rows, tile], whether a row sees a token.
    - scale: the factor on the scores, times log2(e).
    - top: [rows], the largest score so far.
    - total: [rows], the sum of exponentials relative to `top`.
    - out: [rows, d], the sum of the values, weighted by these exponentials.

    Returns the new top, total and out.
    """
    scores = tl.where(seen, tl.dot(q, tl.trans(k), input_precision="ieee") * scale, UNSEEN)
    higher = tl.maximum(top, tl.max(scores, axis=1))
    weights = tl.where(seen, tl.exp2(scores - higher[:, None]), 0.0)
    fade = tl.exp2(top - higher)
    total = total * fade + tl.sum(weights, axis=1)
    out = out * fade[:, None] + tl.dot(weights.to(v.dtype), v, input_precision="ieee")
    return higher, total, out


@triton.jit
def _split(  # type: ignore[no-untyped-def]
    q_at,
    k_at,
    v_at,
    new_k_at,
    new_v_at,
    lengths_at,
    first_at,
    sees_at,
    index_at,
    out_at,
    lse_at,
    k_b,
    k_h,
    k_s,
    v_b,
    v_h,
    v_s,
    new_k_b,
    new_k_h,
    new_k_s,
    new_v_b,
    new_v_h,
    new_v_s,
    sees_b,
    scale,
    splits,
    new,
    chosen,
    blocks,
    HEADS: tl.constexpr,
    QUERIES: tl.constexpr,
    ROWS: tl.constexpr,
    PAD: tl.constexpr,
    D: tl.constexpr,
    TILE: tl.constexpr,
    WINDOW: tl.constexpr,
    STATED: tl.constexpr,
    PAGE: tl.constexpr,
):
    """Program (sequence x KV head x block of rows, stretch): computes the attention of PAD rows to one
    stretch of tokens. Stretches 0 to splits - 1 are equal parts of the cache. The program reads them TILE
    tokens at a time. Stretch `splits` has the new tokens.

    - q: [sequences x HEADS, ROWS, D], contiguous. Row r belongs to new token r % QUERIES.
    - k, v: the cache, [sequences, HEADS, slots, D], with strides. fp8 values are converted to the type of q
      in registers.
    - new_k, new_v: [sequences, HEADS, new, D], with strides.
    - lengths: [sequences], the numbers of cached tokens.
    - first: [sequences, QUERIES], the first cached token that each query sees; read if WINDOW.
    - sees: [sequences, QUERIES, new] of 0 and 1, the new tokens that each query sees; read if STATED.
      Otherwise each query sees the new tokens up to its own.
    - index: [sequences x HEADS, chosen], the pages of PAGE tokens that are read instead of the whole cache;
      not used if PAGE is 0.
    - out: [sequences x HEADS, splits + 1, ROWS, D] float32, the output of attention over the stretch alone.
    - lse: [sequences x HEADS, splits + 1, ROWS] float32, the binary logarithm of the sum of exponentials.
    """
    pair = (tl.program_id(0) // blocks).to(tl.int64)
    stretch = tl.program_id(1)
    b = pair // HEADS
    h = pair % HEADS
    rows = tl.program_id(0) % blocks * PAD + tl.arange(0, PAD)
    d = tl.arange(0, D)
    real = rows < ROWS
    query = rows % QUERIES
    q = tl.load(q_at + (pair * ROWS + rows[:, None]) * D + d, mask=real[:, None], other=0.0)
    top = tl.full((PAD,), UNSEEN, tl.float32)
    total = tl.zeros((PAD,), tl.float32)
    out = tl.zeros((PAD, D), tl.float32)
    if stretch < splits:
        length = tl.load(lengths_at + b).to(tl.int32)
        begin = 0
        if WINDOW:
            first = tl.load(first_at + b * QUERIES + query).to(tl.int32)
            begin = tl.minimum(tl.maximum(tl.min(first, axis=0), 0), length)
        width = tl.cdiv(tl.cdiv(length - begin, splits), TILE) * TILE
        stop = tl.minimum(begin + (stretch + 1) * width, length)
        for start in range(begin + stretch * width, stop, TILE):
            t = start + tl.arange(0, TILE)
            valid = t < stop
            at = t.to(tl.int64)
            if PAGE:
                page = tl.load(index_at + pair * chosen + t // PAGE, mask=valid, other=0)
                at = page.to(tl.int64) * PAGE + t % PAGE
            k = tl.load(k_at + b * k_b + h * k_h + at[:, None] * k_s + d, mask=valid[:, None], other=0.0).to(
                q.dtype
            )
            v = tl.load(v_at + b * v_b + h * v_h + at[:, None] * v_s + d, mask=valid[:, None], other=0.0).to(
                q.dtype
            )
            seen = valid[None, :] & (rows[:, None] >= 0)
            if WINDOW:
                seen = seen & (t[None, :] >= first[:, None])
            top, total, out = _accumulate(q, k, v, seen, scale, top, total, out)
    else:
        for start in range(0, new, NEW_TILE):
            t = start + tl.arange(0, NEW_TILE)
            valid = t < new
            k = tl.load(
                new_k_at + b * new_k_b + h * new_k_h + t[:, None] * new_k_s + d,
                mask=valid[:, None],
                other=0.0,
            )
            v = tl.load(
                new_v_at + b * new_v_b + h * new_v_h + t[:, None] * new_v_s + d,
                mask=valid[:, None],
                other=0.0,
            )
            seen = valid[None, :] & (t[None, :] <= new - QUERIES + query[:, None])
            if STATED:
                at = sees_at + b * sees_b + query[:, None] * new + t[None, :]
                seen = valid[None, :] & (tl.load(at, mask=valid[None, :] & real[:, None], other=0) != 0)
            top, total, out = _accumulate(q, k, v, seen, scale, top, total, out)
    some = tl.where(total > 0, total, 1.0)
    place = (pair * (splits + 1) + stretch) * ROWS + rows
    tl.store(lse_at + place, tl.where(total > 0, top + tl.log2(some), UNSEEN), mask=real)
    tl.store(out_at + place[:, None] * D + d, out / some[:, None], mask=real[:, None])
