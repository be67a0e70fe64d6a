"""The small steps between the matrix products of a pass: norms, the activation, and rotating heads into
place.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from perfmodel.validate.decoder.cache import Slots, read_tokens, write_tokens
from perfmodel.validate.decoder.fp8 import to_fp8

if TYPE_CHECKING:
    from perfmodel.validate.decoder.model import Projected

_NEW = hasattr(F, "grouped_mm")
_grouped_mm = F.grouped_mm if _NEW else torch._grouped_mm
_GROUPED = (torch.bfloat16, torch.float16, torch.float32) if _NEW else (torch.bfloat16,)
"""The grouped product of torch 2.10 and later, or of earlier ones, and its types."""
Turns = tuple[Tensor, Tensor]
"""Cosine and sine of a pass's positions, each [batch, 1, n, rotary_dim / 2]."""


@dataclass(frozen=True)
class Rotary:
    """The rotation of a model's heads at each position; made by `rope`.

    frequencies: rotation per position of each pair of dimensions, [rotary_dim / 2] float64. scale: factor on
    cosine and sine, because `yarn` and `longrope` sharpen the scores of long texts.
    """

    frequencies: Tensor
    scale: float

    def turns(self, positions: Tensor, dtype: torch.dtype) -> Turns:
        """Cosine and sine for positions [batch, n] in `dtype`."""
        exact = torch.float64 if dtype == torch.float64 else torch.float32
        angles = positions[:, None, :, None].to(exact) * self.frequencies.to(exact)
        return (angles.cos() * self.scale).to(dtype), (angles.sin() * self.scale).to(dtype)


class Pointwise:
    """Plain torch. name: the word in results. Fused kernels are a subclass with equal results.

    fp8: whether keys and values are rounded to fp8 before any token attends to them. A token then sees the
    same values of another one, whether both run together (a verification) or one after the other, and the
    output stays the same.
    """

    name = "torch"
    fp8 = False

    def add_norm(self, x: Tensor, residual: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
        """residual + x, and its root-mean-square norm; all [..., hidden]."""
        total = residual + x
        return total, norm(total, weight, eps)

    def silu_mul(self, gate_up: Tensor) -> Tensor:
        """SiLU of the first half of [..., 2 x inner] times the second half."""
        gate, up = gate_up.chunk(2, dim=-1)
        return F.silu(gate) * up

    def rotate(
        self, given: "Projected", out: tuple[Tensor, Tensor] | None, slots: Slots | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """See `Projected.rotate`."""
        layer = given.layer
        turns = given.turns
        heads = given.qkv.unflatten(-1, (-1, layer.head_dim)).transpose(1, 2)
        q, k, v = heads.split((layer.heads, layer.kv_heads, layer.kv_heads), dim=1)
        if layer.q_norm is not None and layer.k_norm is not None:
            q = norm(q, layer.q_norm, layer.eps)
            k = norm(k, layer.k_norm, layer.eps)
        q = rotate(q, *turns)
        k = rotate(k, *turns)
        if self.fp8:
            k = to_fp8(k).to(q.dtype)
            v = to_fp8(v).to(q.dtype)
        if slots is not None:
            slots.write(k, v)
        if out is not None:
            k = out[0].copy_(k)
            v = out[1].copy_(v)
        return q, k, v

    def copy_tokens(self, source: Tensor, places: Tensor, into: Tensor, slots: Tensor) -> None:
        """Copy tokens at places [batch, n] of a cache [layers, batch, kv_heads, slots, d] into slots [batch,
        n] of another.
        """
        batch = torch.arange(len(places), device=places.device)[:, None]
        write_tokens(into, batch, slots, read_tokens(source, batch, places))

    def by_expert(
        self, rows: Tensor, weights: Tensor, experts: Tensor, scale: Tensor | None = None
    ) -> Tensor:
        """rows [r, k] times weights [num_experts, m, k], each with its expert's matrix: [r, m]. experts [r]
        rise.

        scale [num_experts, m]: of fp8 weights, which are widened here.
        """
        if scale is not None:
            wide = self.by_expert(rows, weights.to(rows.dtype), experts)
            return (wide * scale[experts]).to(rows.dtype)
        if rows.dtype not in _GROUPED:  # a matrix for each row: for tests, which are in fp64
            return torch.bmm(weights[experts], rows[..., None])[..., 0]
        ends = torch.searchsorted(experts, torch.arange(len(weights), device=experts.device), right=True)
        return _grouped_mm(rows, weights.transpose(1, 2), offs=ends.to(torch.int32))


def norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Root-mean-square norm over the last dimension."""
    return F.rms_norm(x, (x.shape[-1],), weight, eps)


def rotate(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Rotate [batch, heads, n, head_dim]; dimension i pairs with i + rotary_dim / 2 (Hugging Face layout)."""
    half = cosine.shape[-1]
    first = x[..., :half]
    second = x[..., half : 2 * half]
    rest = x[..., 2 * half :]
    return torch.cat((first * cosine - second * sine, second * cosine + first * sine, rest), dim=-1)
