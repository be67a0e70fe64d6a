"""Multiplies each of a few rows by the matrix of its expert."""

import triton
import triton.language as tl
from torch import Tensor

BLOCK_M = 32
"""Number of outputs that a program computes."""
BLOCK_K = 128
"""Number of inputs that a program multiplies at a time."""
WARPS = 4
"""Number of warps of a program."""


@triton.jit
def _expert_rows(  # type: ignore[no-untyped-def]
    x_at,
    weight_at,
    expert_at,
    out_at,
    K: tl.constexpr,
    M: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_M: tl.constexpr,
):
    """Program (row, block of outputs): stores BLOCK_M outputs of the product of a row and the matrix of its
    expert. The sum is in float32, over BLOCK_K inputs at a time.

    - x: [rows, K], contiguous.
    - weight: [experts, M, K], contiguous.
    - expert: [rows], the expert of each row.
    - out: the products, [rows, M].
    """
    row = tl.program_id(0).to(tl.int64)
    m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    weights = weight_at + tl.load(expert_at + row) * M * K + m[:, None].to(tl.int64) * K
    total = tl.zeros((BLOCK_M,), tl.float32)
    there = m < M
    for start in range(0, K, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        inside = k < K
        x = tl.load(x_at + row * K + k, mask=inside, other=0.0).to(tl.float32)
        part = tl.load(weights + k[None, :], mask=there[:, None] & inside[None, :], other=0.0)
        total += tl.sum(part.to(tl.float32) * x[None, :], axis=1)
    tl.store(out_at + row * M + m, total.to(out_at.dtype.element_ty), mask=there)


def expert_rows(rows: Tensor, weights: Tensor, experts: Tensor) -> Tensor:
    """The product of each row [k] of rows [r, k] and its expert's matrix in weights [num_experts, m, k].
    Returns [r, m].

    - experts [r]: the expert of each row.
    """
    _, m, k = weights.shape
    out = rows.new_empty(len(rows), m)
    _expert_rows[(len(rows), triton.cdiv(m, BLOCK_M))](
        rows.contiguous(),
        weights,
        experts,
        out,
        K=k,
        M=m,
        BLOCK_M=BLOCK_M,
        BLOCK_K=BLOCK_K,
        num_warps=WARPS,
    )
    return out
