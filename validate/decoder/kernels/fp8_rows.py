"""Quantises rows to fp8. Each row has its own scale. The number 448 in the kernels is `fp8.MOST`."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from perfmodel.validate.decoder.fp8 import FP8, LEAST_PEAK

BLOCK = 1024
"""Number of values that a program reads at a time."""
WARPS = 4
"""Number of warps of a program, which quantises one row."""


@triton.jit
def _e4m3(x):  # type: ignore[no-untyped-def]
    """The fp8 value that is nearest to the float32 value x, with an absolute value of at most 448. Arithmetic
    replaces the conversion, because Triton's interpreter rounds conversions wrongly.

    Three bits of the fraction are kept. Values below 2^-6 are rounded to multiples of 2^-9. Adding 1.5 x 2^14
    does this, because 2^-9 is the distance between float32 values of that size.
    """
    x = tl.minimum(tl.maximum(x, -448.0), 448.0)
    word = x.to(tl.int32, bitcast=True)
    kept = ((word + 0x7FFFF + ((word >> 20) & 1)) & -0x100000).to(tl.float32, bitcast=True)
    return tl.where(tl.abs(x) < 0.015625, (x + 24576.0) - 24576.0, kept)


@triton.jit
def _rows_to_fp8(  # type: ignore[no-untyped-def]
    x_at, codes_at, scale_at, K: tl.constexpr, BLOCK: tl.constexpr, LEAST: tl.constexpr
):
    """Program (row): stores the scale and the fp8 codes of a row. The scale maps the largest absolute value
    of the row, but at least LEAST, to 448. The program reads the row twice, BLOCK values at a time.

    - x: [rows, K], contiguous.
    - codes: [rows, K] fp8.
    - scale: [rows] float32.
    """
    row = tl.program_id(0).to(tl.int64)
    d = tl.arange(0, BLOCK)
    peak = tl.full((BLOCK,), LEAST, tl.float32)
    for start in range(0, K, BLOCK):
        x = tl.load(x_at + row * K + start + d, mask=start + d < K, other=0.0).to(tl.float32)
        peak = tl.maximum(peak, tl.abs(x))
    scale = tl.max(peak, axis=0) / 448.0
    tl.store(scale_at + row, scale)
    for start in range(0, K, BLOCK):
        inside = start + d < K
        x = tl.load(x_at + row * K + start + d, mask=inside).to(tl.float32)
        tl.store(codes_at + row * K + start + d, _e4m3(x / scale).to(tl.float8e4nv), mask=inside)


def rows_to_fp8(x: Tensor) -> tuple[Tensor, Tensor]:
    """The codes and the scales [rows, 1] of x [rows, k]. One kernel computes the result of `fp8.by_row`."""
    codes = torch.empty(x.shape, dtype=FP8, device=x.device)
    scale = torch.empty(len(x), 1, dtype=torch.float32, device=x.device)
    _rows_to_fp8[(len(x),)](
        x.contiguous(), codes, scale, K=x.shape[1], BLOCK=BLOCK, LEAST=LEAST_PEAK, num_warps=WARPS
    )
    return codes, scale
