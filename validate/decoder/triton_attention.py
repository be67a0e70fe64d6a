"""Split-KV attention in Triton: each cached token is read once for all query heads that share it and all new tokens.

A program owns one KV head of one sequence and one stretch of its cache; one more program takes the new tokens. Lengths
are read on the device, so that a captured graph serves any lengths. A second kernel merges the stretches.
"""

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

from perfmodel.validate.decoder.attention import Folded, Span, fold, unfold

BLOCK = 64
PROGRAMS_PER_PROCESSOR = 4
MOST_ROWS = 128
"""Group x new tokens up to which the kernel is used; beyond it (prefill) reading the cache is not what takes time."""


@triton.jit
def _accumulate(q, k, v, seen, scale, top, total, out):  # type: ignore[no-untyped-def]
    """One tile of the online softmax: q [rows, d], k and v [tile, d], seen [rows, tile]."""
    scores = tl.where(seen, tl.dot(q, tl.trans(k), input_precision="ieee") * scale, -1.0e30)
    higher = tl.maximum(top, tl.max(scores, axis=1))
    weights = tl.where(seen, tl.exp(scores - higher[:, None]), 0.0)
    fade = tl.exp(top - higher)
    total = total * fade + tl.sum(weights, axis=1)
    out = out * fade[:, None] + tl.dot(weights.to(v.dtype), v, input_precision="ieee")
    return higher, total, out


@triton.jit
def _split(  # type: ignore[no-untyped-def]
    q_at, k_at, v_at, new_k_at, new_v_at, lengths_at, out_at, lse_at,
    k_b, k_h, k_s, v_b, v_h, v_s, new_k_b, new_k_h, new_k_s, new_v_b, new_v_h, new_v_s,
    scale, splits, new,
    HEADS: tl.constexpr, QUERIES: tl.constexpr, ROWS: tl.constexpr, PAD: tl.constexpr, D: tl.constexpr,
    TILE: tl.constexpr, NEW_TILE: tl.constexpr,
):  # fmt: skip
    """Program (sequence x KV head, stretch): partial output [PAD, D] and its log-sum-exp [PAD]."""
    pair, stretch = tl.program_id(0).to(tl.int64), tl.program_id(1)
    b, h = pair // HEADS, pair % HEADS
    rows, d = tl.arange(0, PAD), tl.arange(0, D)
    q = tl.load(q_at + (pair * ROWS + rows[:, None]) * D + d, mask=rows[:, None] < ROWS, other=0.0)
    top = tl.full((PAD,), -1.0e30, tl.float32)
    total = tl.zeros((PAD,), tl.float32)
    out = tl.zeros((PAD, D), tl.float32)
    if stretch < splits:
        length = tl.load(lengths_at + b).to(tl.int32)
        width = tl.cdiv(tl.cdiv(length, splits), TILE) * TILE
        stop = tl.minimum((stretch + 1) * width, length)
        for start in range(stretch * width, stop, TILE):
            t = start + tl.arange(0, TILE)
            valid = t < stop
            k = tl.load(k_at + b * k_b + h * k_h + t[:, None] * k_s + d, mask=valid[:, None], other=0.0)
            v = tl.load(v_at + b * v_b + h * v_h + t[:, None] * v_s + d, mask=valid[:, None], other=0.0)
            seen = valid[None, :] & (rows[:, None] < PAD)
            top, total, out = _accumulate(q, k, v, seen, scale, top, total, out)
    else:
        t = tl.arange(0, NEW_TILE)
        valid = t < new
        k = tl.load(new_k_at + b * new_k_b + h * new_k_h + t[:, None] * new_k_s + d, mask=valid[:, None], other=0.0)
        v = tl.load(new_v_at + b * new_v_b + h * new_v_h + t[:, None] * new_v_s + d, mask=valid[:, None], other=0.0)
        seen = valid[None, :] & (t[None, :] <= new - QUERIES + rows[:, None] % QUERIES)
        top, total, out = _accumulate(q, k, v, seen, scale, top, total, out)
    some = tl.where(total > 0, total, 1.0)
    place = (pair * (splits + 1) + stretch) * PAD + rows
    tl.store(lse_at + place, tl.where(total > 0, top + tl.log(some), -1.0e30))
    tl.store(out_at + place[:, None] * D + d, out / some[:, None])


@triton.jit
def _combine(  # type: ignore[no-untyped-def]
    out_at, lse_at, result_at, stretches,
    ROWS: tl.constexpr, PAD: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    """Program (sequence x KV head, row): the stretches' outputs weighted by the exponentials of their log-sum-exps."""
    pair, row = tl.program_id(0).to(tl.int64), tl.program_id(1)
    d = tl.arange(0, D)
    first = pair * stretches * PAD + row
    top = tl.load(lse_at + first)
    for stretch in range(1, stretches):
        top = tl.maximum(top, tl.load(lse_at + first + stretch * PAD))
    total, out = tl.full((), 0.0, tl.float32), tl.zeros((D,), tl.float32)
    for stretch in range(stretches):
        weight = tl.exp(tl.load(lse_at + first + stretch * PAD) - top)
        total += weight
        out += weight * tl.load(out_at + (first + stretch * PAD) * D + d)
    place = result_at + (pair * ROWS + row) * D + d
    tl.store(place, (out / total).to(result_at.dtype.element_ty))


class SplitKV:
    """The kernel as an `Attention`; prefill, odd head sizes and stated masks go to the portable implementation."""

    name = "triton"

    def __init__(self) -> None:
        self.splits: int | None = None
        """Stretches per sequence and KV head; None to fill the device."""
        self._portable = Folded("sdpa")

    def __call__(
        self, q: Tensor, k: Tensor, v: Tensor, span: Span, new_k: Tensor, new_v: Tensor, sees: Tensor | None = None
    ) -> Tensor:
        """See `Attention`."""
        rows, d = fold(q, new_k.shape[1]).contiguous(), q.shape[3]
        batch, heads, count, _ = rows.shape
        if sees is not None or count > MOST_ROWS or d & (d - 1) or d < 16:
            return self._portable(q, k, v, span, new_k, new_v, sees)
        splits = self.splits or _splits(batch * heads, span.bound, q.device)
        pad, new_tile = _power(count), _power(new_k.shape[2])
        partial = torch.empty(batch * heads, splits + 1, pad, d, dtype=torch.float32, device=q.device)
        lse = torch.empty(batch * heads, splits + 1, pad, dtype=torch.float32, device=q.device)
        result = torch.empty_like(rows)
        _split[(batch * heads, splits + 1)](
            rows, k, v, new_k, new_v, span.lengths, partial, lse,
            *k.stride()[:3], *v.stride()[:3], *new_k.stride()[:3], *new_v.stride()[:3],
            1 / math.sqrt(d), splits, new_k.shape[2],
            HEADS=heads, QUERIES=q.shape[2], ROWS=count, PAD=pad, D=d, TILE=BLOCK, NEW_TILE=new_tile,
            num_warps=4, num_stages=3 if q.element_size() == 2 else 2, enable_fp_fusion=True,
        )  # fmt: skip
        _combine[(batch * heads, count)](
            partial, lse, result, splits + 1, ROWS=count, PAD=pad, D=d, num_warps=1, enable_fp_fusion=True
        )
        return unfold(result, q)


def _power(count: int) -> int:
    """The tile that `count` rows fill: a power of two, at least 16 (the least a matrix instruction takes)."""
    return max(16, triton.next_power_of_2(count))


def _splits(pairs: int, bound: int, device: torch.device) -> int:
    """Stretches that give every multiprocessor a few programs, each with a few tiles to read."""
    processors = torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 1
    return max(1, min(-(-PROGRAMS_PER_PROCESSOR * processors // pairs), bound // (4 * BLOCK)))
