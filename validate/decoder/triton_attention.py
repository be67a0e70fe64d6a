"""Split-KV attention in Triton. Each cached token is read once for all new tokens and all query heads that
share it.

A program computes one KV head of one sequence over one part of its cache. One more program computes the new
tokens, and a second kernel merges the parts. Lengths are read on the device, so a captured graph works for
any lengths.
"""

import math
from typing import NamedTuple

import torch
import triton
from torch import Tensor

from perfmodel.validate.decoder.attention import CacheSpan, FoldedAttention, fold
from perfmodel.validate.decoder.kernels.combine import MERGED, WARPS as COMBINE_WARPS, _combine
from perfmodel.validate.decoder.kernels.split_kv import _split
from perfmodel.validate.decoder.tuning import Tuning, of_rows, tunings

MAX_ROWS = 512
"""Largest number of rows (query heads per KV head x new tokens) for which the kernel is used, with heads of
128 values; half as many for heads of 256. With more rows (prefill), reading the cache does not dominate.
"""
ROW_TILE = 64
"""Largest number of rows of a program, for heads of 128: the rows of one tensor-core instruction. Two
programs then fit on a multiprocessor, and one multiplies while the other computes exponentials. Programs that
read the same cached tokens run at the same time, and find them in the chip's cache.
"""
WIDE_HEAD = 256
"""Size of a head, in values, from which on tiles are halved, because a token then needs twice the shared
memory.
"""
WIDE_HEAD_STAGES = 2
"""Largest number of tiles in flight for such heads."""


class SplitKV(FoldedAttention):
    """Attention with the Triton kernel. Torch's own attention computes prefill, large trees and head sizes
    that are not a power of two.

    - splits: parts per sequence and KV head; None to fill the device.
    - unsplit: whether passes with several queries use one part, like engines whose kernel splits the cache
      only for a single query.
    """

    def __init__(self, tuning: Tuning | None = None, unsplit: bool = False) -> None:
        """tuning: the parameters for any number of rows; by default those of `tunings`."""
        super().__init__("triton-unsplit" if unsplit else "triton")
        self.choices = {1: tuning} if tuning else tunings()
        self.unsplit = unsplit
        self.splits: int | None = None

    def takes(self, q: Tensor, new_k: Tensor, most: int = MAX_ROWS) -> bool:
        """Whether the kernel can compute queries [batch, heads, n, d].

        - most: the largest number of rows that the kernel computes, for heads of 128. On a GPU, fp32 would
          spill registers and is left to torch.
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

        - span: the number of tokens in these pages, in order; without an index, those in the cache.
        """
        rows = fold(q, new_k.shape[1]).contiguous()
        n = q.shape[2]
        d = q.shape[3]
        batch, heads, count, _ = rows.shape
        tuning = of_rows(self.choices, count)
        pad = tile_of(count, ROW_TILE // max(1, d // 128))
        pairs = batch * heads
        blocks = triton.cdiv(count, pad)
        programs = pairs * blocks  # of each stretch
        splits = self.splits or self.parts(tuning, programs, n, span.bound, q.device)
        stretches = splits + 1
        partial = torch.empty(pairs, stretches, count, d, dtype=torch.float32, device=q.device)
        lse = torch.empty(pairs, stretches, count, dtype=torch.float32, device=q.device)
        how = launch(d, tuning)
        result = torch.empty(batch, n, q.shape[1] * d, dtype=q.dtype, device=q.device)
        first = span.lengths if span.first is None else span.first.contiguous()
        visible = lse if sees is None else sees.contiguous().view(torch.uint8)
        index = lse if index is None else index  # not looked at without pages
        cache_strides = (*k.stride()[:3], *v.stride()[:3])
        new_strides = (*new_k.stride()[:3], *new_v.stride()[:3])
        sees_by_sequence = sees is not None and len(sees) > 1
        sees_stride = visible.stride(0) if sees_by_sequence else 0
        scale_log2 = math.log2(math.e) / math.sqrt(d)
        _split[(programs, stretches)](
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
            sees_stride,
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
            TILE=how.tile,
            WINDOW=span.first is not None,
            STATED=sees is not None,
            PAGE=page,
            num_warps=how.warps,
            num_stages=how.stages,
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

    def parts(self, tuning: Tuning, programs: int, queries: int, bound: int, device: torch.device) -> int:
        """Number of parts into which a cache of at most `bound` tokens is split; see `Tuning.parts`. It is 1
        for several queries with `unsplit`.
        """
        if self.unsplit and queries > 1:
            return 1
        processors = (
            torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 1
        )
        return tuning.parts(programs, bound, processors)


class Launch(NamedTuple):
    """The parameters of a kernel's launch.

    - tile: cached tokens that the kernel reads at once.
    - stages: the number of tiles that are loaded at the same time.
    """

    tile: int
    warps: int
    stages: int


def launch(d: int, tuning: Tuning) -> Launch:
    """The launch for heads of `d` values. Wide heads have shorter tiles and fewer tiles in flight."""
    if d < WIDE_HEAD:
        return Launch(tuning.block, tuning.warps, tuning.stages)
    return Launch(tuning.block // 2, tuning.warps, min(WIDE_HEAD_STAGES, tuning.stages))


def tile_of(count: int, most: int) -> int:
    """The tile size for `count` rows: a power of two from 16, the minimum of a matrix instruction, to
    `most`.
    """
    return min(most, max(16, triton.next_power_of_2(count)))
