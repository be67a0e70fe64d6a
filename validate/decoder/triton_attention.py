"""Split-KV attention in Triton. Each cached token is read once for all new tokens and all query heads that
share it.

A program computes one KV head of one sequence over one part of the cache. Another program computes the new
tokens. A second kernel merges the results. The kernels read lengths on the device, so a captured CUDA graph
works for any lengths.
"""

import math
from typing import NamedTuple

import torch
import triton
from torch import Tensor

from perfmodel.validate.decoder.attention import CacheSpan, FoldedAttention, fold
from perfmodel.validate.decoder.kernels.combine import MERGED, WARPS as COMBINE_WARPS, _combine
from perfmodel.validate.decoder.kernels.split_kv import _split
from perfmodel.validate.decoder.tuning import Tuning, of_rows, tile_of, tunings

MAX_ROWS = 512
"""Largest number of rows (query heads per KV head x new tokens) for which the kernel is used, with heads of
128 values. The number for heads of 256 values is half of that. With more rows (prefill), reading the cache
does not dominate the time.
"""
ROW_TILE = 64
"""Largest number of rows of a program, for heads of 128 values: the rows of one tensor-core instruction. Two
programs then fit on a multiprocessor, and one multiplies while the other computes exponentials. Programs that
read the same cached tokens run at the same time, so these tokens are in the L2 cache.
"""
WIDE_HEAD = 256
"""Number of values of a head from which on tiles have half the tokens, because a token needs twice the shared
memory.
"""
WIDE_HEAD_STAGES = 2
"""Largest number of tiles in flight for heads of at least `WIDE_HEAD` values."""


class SplitKV(FoldedAttention):
    """Attention with the Triton kernel. Torch's own attention computes prefill, large trees and head sizes
    that are not a power of two.

    - splits: the number of parts per sequence and KV head; None for the number that fills the device.
    - unsplit: whether passes with several queries do not split the cache. Some engines have a kernel that
      splits the cache only for a single query.
    """

    def __init__(self, tuning: Tuning | None = None, unsplit: bool = False) -> None:
        """tuning: the parameters for any number of rows; by default those of `tunings`."""
        super().__init__("triton-unsplit" if unsplit else "triton")
        self.choices = {1: tuning} if tuning else tunings()
        self.unsplit = unsplit
        self.splits: int | None = None

    def takes(self, q: Tensor, new_k: Tensor, most: int = MAX_ROWS) -> bool:
        """Whether the kernel can compute queries [batch, heads, n, d]. On a GPU, it does not compute fp32,
        which would spill registers.

        - most: the largest number of rows that the kernel computes, for heads of 128 values.
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
        """Attention over selected pages of the cache and over the new tokens. The other arguments are those
        of `FoldedAttention`.

        - index: the numbers of the selected pages, [batch * kv_heads, pages], int32; None for the whole
          cache.
        - page: the number of tokens of a page; 0 for the whole cache.
        - span: the valid tokens of the selected pages or of the whole cache.
        """
        rows = fold(q, new_k.shape[1]).contiguous()
        n = q.shape[2]
        d = q.shape[3]
        batch, heads, count, _ = rows.shape
        tuning = of_rows(self.choices, count)
        pad = tile_of(count, ROW_TILE // max(1, d // 128))
        pairs = batch * heads
        blocks = triton.cdiv(count, pad)
        programs = pairs * blocks  # per stretch
        splits = self.splits or self.parts(tuning, programs, n, span.bound, q.device)
        stretches = splits + 1
        partial = torch.empty(pairs, stretches, count, d, dtype=torch.float32, device=q.device)
        lse = torch.empty(pairs, stretches, count, dtype=torch.float32, device=q.device)
        how = launch(d, tuning)
        result = torch.empty(batch, n, q.shape[1] * d, dtype=q.dtype, device=q.device)
        first = span.lengths if span.first is None else span.first.contiguous()
        visible = lse if sees is None else sees.contiguous().view(torch.uint8)
        index = lse if index is None else index  # not read without pages
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
        """The number of parts into which a cache of at most `bound` tokens is split (`Tuning.parts`). With
        `unsplit`, it is 1 for several queries.

        - programs: the number of programs of each part.
        """
        if self.unsplit and queries > 1:
            return 1
        processors = (
            torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 1
        )
        return tuning.parts(programs, bound, processors)


class Launch(NamedTuple):
    """The parameters of a kernel's launch.

    - tile: the number of cached tokens that the kernel reads at once.
    - warps: the number of warps of a program.
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
