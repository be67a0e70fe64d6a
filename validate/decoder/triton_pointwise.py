"""The implementation of `Pointwise` with Triton kernels.

Each kernel reads and writes every value once. It rounds values in the same places as `Pointwise`, except for
products inside a rotation.
"""

import torch
from torch import Tensor

from perfmodel.validate.decoder.cache import Slots
from perfmodel.validate.decoder.kernels.copy_tokens import copy_tokens
from perfmodel.validate.decoder.kernels.expert_rows import expert_rows
from perfmodel.validate.decoder.kernels.fp8_rows import rows_to_fp8
from perfmodel.validate.decoder.kernels.norm import add_norm
from perfmodel.validate.decoder.kernels.rotate import rotate
from perfmodel.validate.decoder.kernels.silu import silu_mul
from perfmodel.validate.decoder.model import Projected
from perfmodel.validate.decoder.pointwise import Pointwise

MAX_EXPERT_ROWS = 512
"""Largest number of rows for the kernel `expert_rows`. More rows occur only in prefill, which is never
captured in a CUDA graph, and use a grouped product.
"""


class Fused(Pointwise):
    """The steps of `Pointwise` with fused kernels, which have no gradients."""

    name = "triton"

    def add_norm(self, x: Tensor, residual: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
        return add_norm(x, residual, weight, eps)

    def silu_mul(self, gate_up: Tensor) -> Tensor:
        return silu_mul(gate_up)

    def rotate(
        self, given: Projected, out: tuple[Tensor, Tensor] | None, slots: Slots | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        return rotate(given, out, slots, self.fp8)

    def copy_tokens(self, source: Tensor, places: Tensor, into: Tensor, slots: Tensor) -> None:
        copy_tokens(source, places, into, slots)

    def by_expert(
        self, rows: Tensor, weights: Tensor, experts: Tensor, scale: Tensor | None = None
    ) -> Tensor:
        """See `Pointwise.by_expert`. From Hopper on, fp8 weights are multiplied by rows that are quantised
        too.

        On GPUs before Hopper, few rows use the kernel `expert_rows`, because torch's grouped product copies
        to the host there. The kernel converts fp8 weights in registers.
        """
        hopper = rows.is_cuda and torch.cuda.get_device_capability(rows.device)[0] >= 9
        if hopper and scale is not None:
            return _grouped_fp8(rows, weights, experts, scale)
        if len(rows) > MAX_EXPERT_ROWS or hopper:
            return super().by_expert(rows, weights, experts, scale)
        out = expert_rows(rows, weights, experts)
        if scale is None:
            return out
        return (out * scale[experts]).to(rows.dtype)


def _grouped_fp8(rows: Tensor, weights: Tensor, experts: Tensor, scale: Tensor) -> Tensor:
    """See `Pointwise.by_expert`. The rows are quantised to fp8 and multiplied by torch's grouped product."""
    codes, row_scales = rows_to_fp8(rows)
    ends = torch.searchsorted(experts, torch.arange(len(weights), device=experts.device), right=True)
    return torch._scaled_grouped_mm(
        codes,
        weights.transpose(1, 2),
        row_scales[:, 0],
        scale,
        offs=ends.to(torch.int32),
        out_dtype=rows.dtype,
    )
