"""Split-KV attention in Triton: each cached token is read once for all query heads that share it and all new
tokens.

A program computes one KV head of one sequence over one part of its cache; one more program takes the new
tokens. Lengths are read on the device, so a captured graph serves any lengths. A second kernel merges the
parts.
"""

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

from perfmodel.validate.decoder.attention import CacheSpan, FoldedAttention, fold
from perfmodel.validate.decoder.tuning import Tuning, of_rows, tunings

MAX_ROWS = 512
"""Group x new tokens up to which the kernel is used, for heads of 128; half as many for heads of 256. Beyond
it (prefill) reading the cache does not dominate.
"""
ROW_TILE = 64
"""Most rows of a program, for heads of 128: the rows of one tensor-core instruction, so that two programs fit
on a multiprocessor and one multiplies while the other takes exponentials. Programs of the same cached tokens
run side by side, and find them in the chip's cache.
"""
NEW_TILE = tl.constexpr(16)
"""New tokens of a tile. A tile as large as the cache's would take its shared memory; with 32 and a stated
mask, registers would spill on sm_80.
"""
MERGED = 16
"""Parts that `_combine` loads at a time."""
COMBINE_WARPS = 2
UNSEEN = tl.constexpr(-1.0e30)
"""Score of what a row does not see: finite, so that the difference of two of them is a number."""


@triton.jit
def _accumulate(q, k, v, seen, scale, top, total, out):  # type: ignore[no-untyped-def]
    """One tile of the online softmax, in powers of two: q [rows, d], k and v [tile, d], seen [rows, tile].

    scale: of the scores, times log2(e).
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
    """Program (sequence x KV head x block of rows, stretch): partial output [PAD, D] and log2 of its sum of
    exponentials [PAD].

    An fp8 cache becomes the queries' type in registers.

    PAGE: tokens per page of the `chosen` pages in the index, which are read one after another; 0 reads all
    tokens.
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
    """Program (sequence x KV head, row): the stretches' outputs weighted by their sums of exponentials.

    Written as [batch, queries, all heads, D], which is what the next matrix product reads.
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


class SplitKV(FoldedAttention):
    """The kernel. Torch's own attention handles prefill, odd head sizes and large trees.

    splits: parts per sequence and KV head; None to fill the device. unsplit: one part if there are several
    queries, like engines whose kernel splits the cache for one query only.
    """

    def __init__(self, tuning: Tuning | None = None, unsplit: bool = False) -> None:
        """tuning: for all rows; by default those of `tunings`."""
        super().__init__("triton-unsplit" if unsplit else "triton")
        self.choices = {1: tuning} if tuning else tunings()
        self.unsplit = unsplit
        self.splits: int | None = None

    def takes(self, q: Tensor, new_k: Tensor, most: int = MAX_ROWS) -> bool:
        """Whether the kernel handles queries [batch, heads, n, d], with at most so many rows. fp32 would
        spill its registers and is left to torch.
        """
        count = q.shape[1] // new_k.shape[1] * q.shape[2]
        d = q.shape[3]
        fits = count * max(1, d // 128) <= most and d >= 16 and not d & (d - 1)
        return fits and (q.element_size() == 2 or q.device.type == "cpu")

    def __call__(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        span: CacheSpan,
        new_k: Tensor,
        new_v: Tensor,
        sees: Tensor | None = None,
    ) -> Tensor:
        if not self.takes(q, new_k):
            return super().__call__(q, k, v, span, new_k, new_v, sees)
        return self.by_index(q, k, v, None, 0, span, new_k, new_v, sees)

    def by_index(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        index: Tensor | None,
        page: int,
        span: CacheSpan,
        new_k: Tensor,
        new_v: Tensor,
        sees: Tensor | None = None,
    ) -> Tensor:
        """Attention over the pages of `page` tokens in index [batch * kv_heads, pages], int32, and the new
        tokens.

        span: number of tokens in these pages, in order; without an index, in the cache.
        """
        rows = fold(q, new_k.shape[1]).contiguous()
        n = q.shape[2]
        d = q.shape[3]
        batch, heads, count, _ = rows.shape
        tuning = of_rows(self.choices, count)
        pad = tile_of(count, ROW_TILE // max(1, d // 128))
        pairs = batch * heads
        blocks = triton.cdiv(count, pad)
        splits = self.splits or self._splits(tuning, pairs * blocks, n, span.bound, q.device)
        stretches = splits + 1
        partial = torch.empty(pairs, stretches, count, d, dtype=torch.float32, device=q.device)
        lse = torch.empty(pairs, stretches, count, dtype=torch.float32, device=q.device)
        tile, warps, stages = launch(d, tuning)
        result = torch.empty(batch, n, q.shape[1] * d, dtype=q.dtype, device=q.device)
        first = span.lengths if span.first is None else span.first.contiguous()
        visible = lse if sees is None else sees.contiguous().view(torch.uint8)
        index = lse if index is None else index  # not looked at without pages
        cache_strides = (*k.stride()[:3], *v.stride()[:3])
        new_strides = (*new_k.stride()[:3], *new_v.stride()[:3])
        sees_by_sequence = sees is not None and len(sees) > 1
        scale_log2 = math.log2(math.e) / math.sqrt(d)
        _split[(pairs * blocks, stretches)](
            rows,
            k,
            v,
            new_k,
            new_v,
            span.lengths,
            first,
            visible,
            index,
            partial,
            lse,
            *cache_strides,
            *new_strides,
            visible.stride(0) if sees_by_sequence else 0,
            scale_log2,
            splits,
            new_k.shape[2],
            index.shape[1],
            blocks,
            HEADS=heads,
            QUERIES=n,
            ROWS=count,
            PAD=pad,
            D=d,
            TILE=tile,
            WINDOW=span.first is not None,
            STATED=sees is not None,
            PAGE=page,
            num_warps=warps,
            num_stages=stages,
            enable_fp_fusion=True,
        )
        _combine[(pairs, count)](
            partial,
            lse,
            result,
            stretches,
            HEADS=heads,
            QUERIES=n,
            ROWS=count,
            D=d,
            MERGED=MERGED,
            num_warps=COMBINE_WARPS,
            enable_fp_fusion=True,
        )
        return result

    def _splits(self, tuning: Tuning, programs: int, queries: int, bound: int, device: torch.device) -> int:
        """Number of parts such that every multiprocessor has as many programs as it may, none waits for a
        second turn, and each reads a few tiles.
        """
        if self.unsplit and queries > 1:
            return 1
        processors = (
            torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 1
        )
        filling = tuning.programs_per_processor * processors // programs
        return max(1, min(filling, tuning.max_splits, bound // (4 * tuning.block)))


def launch(d: int, tuning: Tuning) -> tuple[int, int, int]:
    """Tile, warps and pipeline stages for heads of d. Heads of 256 have shorter tiles and fewer of them in
    flight.
    """
    if d < 256:
        return tuning.block, tuning.warps, tuning.stages
    return tuning.block // 2, tuning.warps, min(2, tuning.stages)


def tile_of(count: int, most: int) -> int:
    """The tile for `count` rows: a power of two, 16 or more (the least of a matrix instruction)."""
    return min(most, max(16, triton.next_power_of_2(count)))
