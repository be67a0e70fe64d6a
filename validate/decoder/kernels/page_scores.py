"""Computes upper bounds of the attention scores of pages of keys."""

import triton
import triton.language as tl


@triton.jit
def _page_scores(  # type: ignore[no-untyped-def]
    q_at,
    low_at,
    high_at,
    lengths_at,
    score_at,
    page_b,
    page_h,
    page_s,
    pages,
    HEADS: tl.constexpr,
    ROWS: tl.constexpr,
    PAD: tl.constexpr,
    D: tl.constexpr,
    TILE: tl.constexpr,
    PAGE: tl.constexpr,
):
    """Program (sequence x KV head, tile of pages): stores an upper bound of the scores of the keys of each of
    TILE pages with any row. The bound of the newest page is infinity, and that of later pages is minus
    infinity.

    - q: [sequences x HEADS, ROWS, D], contiguous.
    - low, high: the smallest and largest value of each dimension of the keys of a page, [sequences, HEADS,
      pages, D]. Both have the strides page_b, page_h and page_s.
    - lengths: [sequences], the numbers of cached tokens.
    - PAGE: the number of tokens of a page.
    - score: [sequences x HEADS, pages].
    - PAD: at least ROWS.
    """
    pair = tl.program_id(0).to(tl.int64)
    b = pair // HEADS
    h = pair % HEADS
    rows = tl.arange(0, PAD)
    d = tl.arange(0, D)
    page = tl.program_id(1) * TILE + tl.arange(0, TILE)
    real = rows < ROWS
    filled = tl.cdiv(tl.load(lengths_at + b).to(tl.int32), PAGE)
    q = tl.load(q_at + (pair * ROWS + rows[:, None]) * D + d, mask=real[:, None])
    at = b * page_b + h * page_h + page[:, None] * page_s + d
    low = tl.load(low_at + at, mask=(page < filled)[:, None])
    high = tl.load(high_at + at, mask=(page < filled)[:, None])
    zero = tl.zeros_like(q)
    bounds = tl.dot(tl.where(q > 0, q, zero), tl.trans(high), input_precision="ieee")
    bounds += tl.dot(tl.where(q < 0, q, zero), tl.trans(low), input_precision="ieee")
    score = tl.max(tl.where(real[:, None], bounds, -float("inf")), axis=0)
    score = tl.where(page >= filled - 1, float("inf"), score)
    tl.store(
        score_at + pair * pages + page, tl.where(page >= filled, -float("inf"), score), mask=page < pages
    )
