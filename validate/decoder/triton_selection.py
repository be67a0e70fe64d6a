"""Attention over the tokens that the queries choose, in four Triton kernels: scores, an index of the best,
and the two of `triton_attention` with that index.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from perfmodel.validate.decoder.attention import CacheSpan, fold
from perfmodel.validate.decoder.selection import Selection
from perfmodel.validate.decoder.triton_attention import UNSEEN, SplitKV, tile_of

SELECTED_ROWS = 128
"""Most rows of a tile of scores, for heads of 128."""
TILE = 64
SEARCHED = 8192
"""Most scores per step of the search."""
SCORE_WARPS = 4
SEARCH_WARPS = 16
LEAST = tl.constexpr(-(2**31))
"""The least of the integers among which `_best` searches."""


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
    """Program (sequence x KV head, tile of pages): an upper bound of the scores of a page's keys; infinite
    for the newest page.
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
    """Program (sequence x KV head, tile of tokens): scores [ROWS, tokens], and each row's log-sum-exp over
    the tile.
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


@triton.jit
def _ordered(vote_at, t, units):  # type: ignore[no-untyped-def]
    """Integers with the order of the floats, the least beyond the end."""
    bits = tl.load(vote_at + t, mask=t < units).to(tl.int32, bitcast=True)
    return tl.where(t < units, tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits), LEAST)


@triton.jit
def _best(  # type: ignore[no-untyped-def]
    score_at,
    vote_at,
    lse_at,
    lengths_at,
    index_at,
    units,
    tiles,
    HEADS: tl.constexpr,
    ROWS: tl.constexpr,
    PAD: tl.constexpr,
    COUNT: tl.constexpr,
    TILE: tl.constexpr,
    VOTES: tl.constexpr,
):
    """Program (sequence x KV head): the COUNT units with the largest scores in rising order, the first of
    equals.

    VOTES: a unit's score is the sum of its attention weights over all rows, which is computed and stored
    first.
    """
    pair = tl.program_id(0).to(tl.int64)
    if VOTES:
        rows = tl.arange(0, PAD)
        length = tl.load(lengths_at + pair // HEADS).to(tl.int32)
        top = tl.full((PAD,), UNSEEN, tl.float32)
        total = tl.zeros((PAD,), tl.float32)
        for tile in range(tiles):
            lse = tl.load(lse_at + (pair * tiles + tile) * ROWS + rows, mask=rows < ROWS, other=UNSEEN)
            higher = tl.maximum(top, lse)
            total = total * tl.exp(top - higher) + tl.exp(lse - higher)
            top = higher
        whole = top + tl.log(total)
        for start in range(0, units, 64):
            t = start + tl.arange(0, 64)
            there = (rows < ROWS)[:, None] & (t < length)[None, :]
            score = tl.load(
                score_at + (pair * ROWS + rows[:, None]) * units + t[None, :], mask=there, other=UNSEEN
            )
            vote = tl.sum(tl.where(there, tl.exp(score - whole[:, None]), 0.0), axis=0)
            tl.store(vote_at + pair * units + t, tl.where(t < length, vote, -1.0), mask=t < units)
        tl.debug_barrier()
    low = tl.full((), LEAST, tl.int64)
    vote_at = vote_at + pair * units
    for done in range(0, 32, 2):  # the largest threshold that COUNT units reach, two of its bits at a time
        # three counts are added in one sum, 21 bits each
        step = tl.full((), 1, tl.int64) << (30 - done)
        reach = tl.zeros((), tl.int64)
        for start in range(0, units, TILE):
            key = _ordered(vote_at, start + tl.arange(0, TILE), units)
            counts = tl.zeros((TILE,), tl.int64)
            for nth in tl.static_range(1, 4):
                counts += (key >= (low + nth * step).to(tl.int32)).to(tl.int64) << 21 * (nth - 1)
            reach += tl.sum(counts, axis=0)
        for nth in tl.static_range(3):
            low += tl.where(((reach >> 21 * nth) & 0x1FFFFF) >= COUNT, step, 0)
    low = low.to(tl.int32)
    above = tl.zeros((), tl.int32)
    index_at = index_at + pair * COUNT
    for start in range(0, units, TILE):
        above += tl.sum((_ordered(vote_at, start + tl.arange(0, TILE), units) > low).to(tl.int32), axis=0)
    taken = tl.zeros((), tl.int32)
    equal = tl.zeros((), tl.int32)
    for start in range(0, units, TILE):
        t = start + tl.arange(0, TILE)
        key = _ordered(vote_at, t, units)
        same = (key == low).to(tl.int32)
        take = ((key > low) | ((same != 0) & (equal + tl.cumsum(same, axis=0) <= COUNT - above))).to(tl.int32)
        tl.store(index_at + (taken + tl.cumsum(take, axis=0) - 1), t, mask=take != 0)
        taken += tl.sum(take, axis=0)
        equal += tl.sum(same, axis=0)


class FusedSelection(Selection):
    """The kernels. Shapes that `SplitKV` leaves to torch are left to torch here too."""

    def __init__(self, attention: SplitKV) -> None:
        super().__init__(attention)
        self.fused = attention

    def over_pages(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        bounds: tuple[Tensor, Tensor],
        page: int,
        lengths: Tensor,
        chosen: CacheSpan,
        new_k: Tensor,
        new_v: Tensor,
        sees: Tensor | None,
    ) -> Tensor:
        if not self.fused.takes(q, new_k, SELECTED_ROWS):
            return super().over_pages(q, k, v, bounds, page, lengths, chosen, new_k, new_v, sees)
        rows = fold(q, k.shape[1]).contiguous()
        low, high = bounds
        pages = low.shape[2]
        batch, heads, count, d = rows.shape
        score = torch.empty(batch * heads, pages, dtype=torch.float32, device=q.device)
        _page_scores[(batch * heads, triton.cdiv(pages, TILE))](
            rows,
            low,
            high,
            lengths,
            score,
            *low.stride()[:3],
            pages,
            HEADS=heads,
            ROWS=count,
            PAD=tile_of(count, SELECTED_ROWS),
            D=d,
            TILE=TILE,
            PAGE=page,
            num_warps=SCORE_WARPS,
        )
        index = self.search(score.view(batch, heads, pages), chosen.bound // page).flatten(0, 1)
        return self.fused.by_index(q, k, v, index, page, chosen, new_k, new_v, sees)

    def over_tokens(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        lengths: Tensor,
        chosen: CacheSpan,
        new_k: Tensor,
        new_v: Tensor,
        sees: Tensor | None,
    ) -> Tensor:
        if not self.fused.takes(q, new_k, SELECTED_ROWS):
            return super().over_tokens(q, k, v, lengths, chosen, new_k, new_v, sees)
        rows = fold(q, k.shape[1]).contiguous()
        tokens = k.shape[2]
        batch, heads, count, d = rows.shape
        tiles = triton.cdiv(tokens, TILE)
        score = torch.empty(batch * heads, count, tokens, dtype=torch.float32, device=q.device)
        lse = torch.empty(batch * heads, tiles, count, dtype=torch.float32, device=q.device)
        _token_scores[(batch * heads, tiles)](
            rows,
            k,
            lengths,
            score,
            lse,
            *k.stride()[:3],
            d**-0.5,
            tokens,
            tiles,
            HEADS=heads,
            ROWS=count,
            PAD=tile_of(count, SELECTED_ROWS),
            D=d,
            TILE=TILE,
            num_warps=SCORE_WARPS,
        )
        votes = torch.empty(batch * heads, tokens, dtype=torch.float32, device=q.device)
        index = self._best(votes, chosen.bound, lengths, (heads, count), (score, lse))
        return self.fused.by_index(q, k, v, index, 1, chosen, new_k, new_v, sees)

    def search(self, score: Tensor, count: int) -> Tensor:
        batch, heads, _ = score.shape
        lengths = torch.empty(0, dtype=torch.int64, device=score.device)  # not looked at without votes
        best = self._best(score.flatten(0, 1), count, lengths, (heads, 1))
        return best.view(batch, heads, count)

    def _best(
        self,
        votes: Tensor,
        count: int,
        lengths: Tensor,
        shape: tuple[int, int],
        scored: tuple[Tensor, Tensor] | None = None,
    ) -> Tensor:
        """Numbers [sequences x KV heads, count] of the best of votes [sequences x KV heads, units], int32.

        shape: KV heads, and rows of each. scored: inputs of the votes, see `_best`.
        """
        heads, rows = shape
        score, lse = scored or (votes, votes)
        index = torch.empty(len(votes), count, dtype=torch.int32, device=votes.device)
        _best[(len(votes),)](
            score,
            votes,
            lse,
            lengths,
            index,
            votes.shape[1],
            lse.shape[1],
            HEADS=heads,
            ROWS=rows,
            PAD=tile_of(rows, SELECTED_ROWS),
            COUNT=count,
            TILE=min(SEARCHED, max(256, triton.next_power_of_2(votes.shape[1]))),
            VOTES=scored is not None,
            num_warps=SEARCH_WARPS,
        )
        return index
