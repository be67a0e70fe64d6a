"""The product of few rows with an fp8 matrix in Triton: the matrix is read once, by all multiprocessors.

A matrix instruction takes 64 outputs of the matrix at a time, so that few rows fill it. Where the outputs
alone make too few programs, each program takes a part of the inputs, and a second kernel adds the parts.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from perfmodel.validate.decoder.kernels.fp8_rows import rows_to_fp8
from perfmodel.validate.decoder.triton_attention import tile_of

MAX_ROWS = 128
"""Most rows. The library's product fills the device from about as many on."""
INPUTS = 128
"""Inputs of a tile: as many bytes as Hopper's shared memory keeps together."""
WARPS = 8 * 132
"""About so many warps share a product: eight for each multiprocessor of an H100."""
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
    """Program (tile of outputs, part of the inputs): TILE outputs of all rows, over PART inputs, scaled; the
    first part adds the bias.

    - x: [rows, K] fp8, contiguous, and x_scale: [rows].
    - codes: the matrix, [N, K] fp8, contiguous, and scale: [N].
    - bias: [N], read if BIAS.
    - out: [parts, rows, N].

    PAD: at least `rows`. INPUTS: of a tile. The sum over tiles is kept outside the matrix instruction, which
    has fewer bits than float32 for it.
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
    """Program (stretch): BLOCK values of out [count], each the sum over parts [PARTS, count]."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    inside = at < count
    for part in tl.static_range(PARTS):
        total += tl.load(parts_at + part * count + at, mask=inside)
    tl.store(out_at + at, total.to(out_at.dtype.element_ty), mask=inside)


def product_launch(rows: int, n: int, k: int) -> tuple[dict[str, int], int]:
    """Sizes and options of `_few_rows`, and the number of parts."""
    pad = tile_of(rows, MAX_ROWS)
    tile, stages = (64, 5) if pad < 64 else (128, 4)
    warps = tile // 16
    parts = max(1, round(WARPS / warps / triton.cdiv(n, tile)))
    part = INPUTS * triton.cdiv(triton.cdiv(k, INPUTS), parts)
    sizes = {"PART": part, "PAD": pad, "TILE": tile, "INPUTS": INPUTS}
    return sizes | {"num_warps": warps, "num_stages": stages}, triton.cdiv(k, part)


def scaled_product(x: Tensor, weight: Tensor, scale: Tensor, bias: Tensor | None = None) -> Tensor:
    """x [..., inputs] in bf16, quantised by token, times the transpose of codes [outputs, inputs]: few rows
    by the kernels here, more by the library.
    """
    codes, row_scales = rows_to_fp8(x.reshape(-1, x.shape[-1]))
    (rows, k), n = codes.shape, len(weight)
    if rows > MAX_ROWS:
        return torch._scaled_mm(
            codes, weight.t(), scale_a=row_scales, scale_b=scale[None], bias=bias, out_dtype=x.dtype
        ).view(*x.shape[:-1], n)
    sizes, parts = product_launch(rows, n, k)
    out = x.new_empty(*x.shape[:-1], n)
    made = out if parts == 1 else out.new_empty(parts, rows, n, dtype=torch.float32)
    _few_rows[(triton.cdiv(n, sizes["TILE"]), parts)](
        codes,
        row_scales,
        weight,
        scale,
        scale if bias is None else bias,
        made,
        rows,
        N=n,
        K=k,
        BIAS=bias is not None,
        **sizes,
    )
    if parts > 1:
        _add_parts[(triton.cdiv(rows * n, SUMMED),)](made, out, rows * n, PARTS=parts, BLOCK=SUMMED)
    return out
