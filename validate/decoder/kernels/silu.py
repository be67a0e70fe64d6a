"""Computes the gated activation: the SiLU of the first half of a row, times the second half."""

import triton
import triton.language as tl
from torch import Tensor

BLOCK = 1024
"""Number of values that a program computes."""
WARPS = 4
"""Number of warps of a program."""


@triton.jit
def _silu_mul(gate_up_at, out_at, INNER: tl.constexpr, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    """Program (row, block): stores BLOCK values of SiLU(gate) times up. SiLU(gate) is first rounded to the
    type of the output.

    - gate_up: [rows, 2 x INNER], contiguous: gate, then up.
    - out: the results, [rows, INNER].
    """
    row = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = at < INNER
    gate = tl.load(gate_up_at + row * 2 * INNER + at, mask=inside).to(tl.float32)
    up = tl.load(gate_up_at + row * 2 * INNER + INNER + at, mask=inside).to(tl.float32)
    gated = (gate / (1.0 + tl.exp(-gate))).to(out_at.dtype.element_ty).to(tl.float32)
    tl.store(out_at + row * INNER + at, (gated * up).to(out_at.dtype.element_ty), mask=inside)


def silu_mul(gate_up: Tensor) -> Tensor:
    """See `Pointwise.silu_mul`."""
    inner = gate_up.shape[-1] // 2
    gate_up = gate_up.contiguous()
    out = gate_up.new_empty(*gate_up.shape[:-1], inner)
    _silu_mul[(out.numel() // inner, triton.cdiv(inner, BLOCK))](
        gate_up, out, INNER=inner, BLOCK=BLOCK, num_warps=WARPS
    )
    return out
