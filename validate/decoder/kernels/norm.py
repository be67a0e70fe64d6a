"""Adds the residual and computes the norm in one pass over the hidden states."""

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def _add_norm(  # type: ignore[no-untyped-def]
    x_at, residual_at, weight_at, total_at, out_at, eps, HIDDEN: tl.constexpr, BLOCK: tl.constexpr
):
    """Program (row): stores total = residual + x, rounded to the type of total. It also stores out, which is
    the root-mean-square norm of total, times weight.

    - x, residual, total, out: [rows, HIDDEN], contiguous.
    - weight: the weight of each dimension, [HIDDEN].
    - BLOCK: a power of two, at least HIDDEN.
    """
    row = tl.program_id(0).to(tl.int64) * HIDDEN
    d = tl.arange(0, BLOCK)
    inside = d < HIDDEN
    x = tl.load(x_at + row + d, mask=inside, other=0.0).to(tl.float32)
    residual = tl.load(residual_at + row + d, mask=inside, other=0.0).to(tl.float32)
    weight = tl.load(weight_at + d, mask=inside).to(tl.float32)
    rounded = (residual + x).to(total_at.dtype.element_ty)
    total = rounded.to(tl.float32)
    scale = tl.rsqrt(tl.sum(total * total, axis=0) / HIDDEN + eps)
    tl.store(total_at + row + d, rounded, mask=inside)
    tl.store(out_at + row + d, (total * scale * weight).to(out_at.dtype.element_ty), mask=inside)


def norm_warps(block: int) -> int:
    """The number of warps of `_add_norm`: one per 512 values, from 1 to 8."""
    return min(8, max(1, block // 512))


def add_norm(x: Tensor, residual: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """See `Pointwise.add_norm`."""
    x = x.contiguous()
    residual = residual.contiguous()
    hidden = x.shape[-1]
    total = torch.empty_like(x)
    out = torch.empty_like(x)
    block = triton.next_power_of_2(hidden)
    _add_norm[(x.numel() // hidden,)](
        x,
        residual,
        weight,
        total,
        out,
        eps,
        HIDDEN=hidden,
        BLOCK=block,
        num_warps=norm_warps(block),
    )
    return total, out
