"""Multiplies a few rows by an fp8 matrix with Triton kernels. All multiprocessors share one read of the
matrix.

A matrix instruction computes 64 outputs of the matrix at a time, so a few rows fill the instruction. If the
outputs alone make too few programs, each program computes only a part of the inputs, and a second kernel adds
the parts. `product_launch` chooses the sizes.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from perfmodel.validate.decoder.kernels.fp8_rows import rows_to_fp8
from perfmodel.validate.decoder.product_launch import MAX_ROWS, product_launch

SUMMED = 512
"""Values that a program of `_add_parts` adds."""


@triton.jit
def _few_rows(  # type: ignore[no-untyped-def]
    x_at,
    x_scale_at,
    codes_at,
    scale_at,
    bias_at,
    out_at,
    rows,
    N: tl.constexpr,
    K: tl.constexpr,
    PART: tl.constexpr,
    PAD: tl.constexpr,
    TILE: tl.constexpr,
    INPUTS: tl.constexpr,
    BIAS: tl.constexpr,
):
    """Program (tile of outputs, part of the inputs): computes TILE outputs of all rows over PART inputs, and
    multiplies them by the scales. The programs of the first part also add the bias.

    The sum over tiles of inputs is kept outside the matrix instruction, because the sum inside has fewer bits
    than float32.

    - x: [rows, K] fp8, contiguous. x_scale: [rows].
    - codes: the matrix, [N, K] fp8, contiguous. scale: [N].
    - bias: [N], read if BIAS.
    - out: [parts, rows, N].
    - PAD: a power of two, at least `rows`.
    - INPUTS: the number of inputs in a tile.
    """
    part = tl.program_id(1)
    first = tl.program_id(0).to(tl.int64) * TILE
    n = tl.arange(0, TILE)
    m = tl.arange(0, PAD)
    k = tl.arange(0, INPUTS)
    there = first + n < N
    given = m < rows
    matrix = codes_at + first * K + n[:, None] * K + k[None, :]
    x = x_at + m[None, :] * K + k[:, None]
    total = tl.zeros((TILE, PAD), tl.float32)
    for start in range(part * PART, tl.minimum(part * PART + PART, K), INPUTS):
        inside = start + k < K
        left = tl.load(matrix + start, mask=there[:, None] & inside[None, :], other=0.0)
        right = tl.load(x + start, mask=given[None, :] & inside[:, None], other=0.0)
        total += tl.dot(left, right)
    scale = tl.load(scale_at + first + n, mask=there)
    total *= scale[:, None] * tl.load(x_scale_at + m, mask=given)[None, :]
    if BIAS and part == 0:
        total += tl.load(bias_at + first + n, mask=there).to(tl.float32)[:, None]
    out = out_at + (part.to(tl.int64) * rows + m[None, :]) * N + first + n[:, None]
    tl.store(out, total.to(out_at.dtype.element_ty), mask=there[:, None] & given[None, :])


@triton.jit
def _add_parts(parts_at, out_at, count, PARTS: tl.constexpr, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    """Program (block): computes BLOCK values of out [count], each the sum over parts [PARTS, count]."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    inside = at < count
    for part in tl.static_range(PARTS):
        total += tl.load(parts_at + part * count + at, mask=inside)
    tl.store(out_at + at, total.to(out_at.dtype.element_ty), mask=inside)


def scaled_product(x: Tensor, weight: Tensor, scale: Tensor, bias: Tensor | None = None) -> Tensor:
    """The product of x [..., inputs] in bf16 and the transpose of fp8 codes [outputs, inputs]. Each row of x
    is quantised first. Up to `MAX_ROWS` rows use the kernels of this module, and more rows use torch's
    product.

    - scale: the scale of each output, [outputs].
    - bias: [outputs]; None for no bias.
    """
    codes, row_scales = rows_to_fp8(x.reshape(-1, x.shape[-1]))
    rows, inputs = codes.shape
    outputs = len(weight)
    if rows > MAX_ROWS:
        product = torch._scaled_mm(
            codes, weight.t(), scale_a=row_scales, scale_b=scale[None], bias=bias, out_dtype=x.dtype
        )
        return product.view(*x.shape[:-1], outputs)
    launch = product_launch(rows, outputs, inputs)
    out = x.new_empty(*x.shape[:-1], outputs)
    bias_or_unread = scale if bias is None else bias
    is_whole = launch.parts == 1
    parts = out if is_whole else out.new_empty(launch.parts, rows, outputs, dtype=torch.float32)
    _few_rows[(triton.cdiv(outputs, launch.sizes["TILE"]), launch.parts)](
        codes,
        row_scales,
        weight,
        scale,
        bias_or_unread,
        parts,
        rows,
        N=outputs,
        K=inputs,
        BIAS=bias is not None,
        **launch.sizes,
        num_warps=launch.warps,
        num_stages=launch.stages,
    )
    if not is_whole:
        count = rows * outputs
        _add_parts[(triton.cdiv(count, SUMMED),)](parts, out, count, PARTS=launch.parts, BLOCK=SUMMED)
    return out
