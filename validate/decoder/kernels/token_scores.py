"""Computes attention scores of cached tokens, and their log-sum-exp for each tile of tokens."""

import triton
import triton.language as tl

from perfmodel.validate.decoder.kernels.split_kv import UNSEEN


@triton.jit
def _token_scores(  # type: ignore[no-untyped-def]
    q_at,
    k_at,
    lengths_at,
    score_at,
    lse_at,
    k_b,
    k_h,
    k_s,
    scale,
    tokens,
    tiles,
    HEADS: tl.constexpr,
    ROWS: tl.constexpr,
    PAD: tl.constexpr,
    D: tl.constexpr,
    TILE: tl.constexpr,
):
    """Program (sequence x KV head, tile of tokens): stores the scores of TILE tokens with all rows. It also
    stores the log-sum-exp of each row over the tile.

    - q: [sequences x HEADS, ROWS, D], contiguous.
    - k: the cache, [sequences, HEADS, tokens, D], with strides.
    - lengths: [sequences], the numbers of cached tokens. Tokens beyond a length have the score `UNSEEN`.
    - score: [sequences x HEADS, ROWS, tokens].
    - lse: [sequences x HEADS, tiles, ROWS].
    - scale: the factor on the scores.
    - PAD: at least ROWS.
    """
    pair = tl.program_id(0).to(tl.int64)
    tile = tl.program_id(1)
    b = pair // HEADS
    h = pair % HEADS
    rows = tl.arange(0, PAD)
    d = tl.arange(0, D)
    t = tile * TILE + tl.arange(0, TILE)
    real = rows < ROWS
    seen = t < tl.load(lengths_at + b).to(tl.int32)
    q = tl.load(q_at + (pair * ROWS + rows[:, None]) * D + d, mask=real[:, None])
    k = tl.load(k_at + b * k_b + h * k_h + t[:, None] * k_s + d, mask=seen[:, None]).to(q.dtype)
    score = tl.where(seen[None, :], tl.dot(q, tl.trans(k), input_precision="ieee") * scale, UNSEEN)
    top = tl.max(score, axis=1)
    lse = top + tl.log(tl.sum(tl.exp(score - top[:, None]), axis=1))
    tl.store(lse_at + (pair * tiles + tile) * ROWS + rows, lse, mask=real)
    tl.store(
        score_at + (pair * ROWS + rows[:, None]) * tokens + t,
        score,
        mask=real[:, None] & (t < tokens)[None, :],
    )
