"""The steps between the matrix products of a pass, such as norms, the activation and the rotation of
heads.
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
"""The types that torch's grouped product supports. Before torch 2.10, the product is private and supports
only bf16.
"""
Turns = tuple[Tensor, Tensor]
"""The cosines and sines of the rotation angles of a pass, each [batch, 1, n, rotary_dim / 2]."""


@dataclass(frozen=True)
class Rotary:
    """The rotary embedding of a model (`rope.rotary`).

    - frequencies: the angle per position of each pair of dimensions, in radians, [rotary_dim / 2] float64.
    - scale: a factor on cosine and sine. With this factor, `yarn` and `longrope` increase the attention
      scores of long texts.
    """

    frequencies: Tensor
    scale: float

    def turns(self, positions: Tensor, dtype: torch.dtype) -> Turns:
        """The cosines and sines of the angles at positions [batch, n], in `dtype` (see `Turns`)."""
        exact = torch.float64 if dtype == torch.float64 else torch.float32
        angles = positions[:, None, :, None].to(exact) * self.frequencies.to(exact)
        return (angles.cos() * self.scale).to(dtype), (angles.sin() * self.scale).to(dtype)


class Pointwise:
    """The steps in plain torch.

    - name: the name of the implementation in records. A subclass has fused kernels with equal results.
    - fp8: whether keys and values are rounded to fp8 before any token attends to them. A verification of
      several tokens then uses the same keys and values as decoding one token at a time, so the output is the
      same.
    """

    name = "torch"
    fp8 = False

    def add_norm(self, x: Tensor, residual: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
        """The sum residual + x, and the root-mean-square norm of this sum. All shapes are [..., hidden]."""
        total = residual + x
        return total, norm(total, weight, eps)

    def silu_mul(self, gate_up: Tensor) -> Tensor:
        """The SiLU of the first half of gate_up [..., 2 x inner] times the second half, [..., inner]."""
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
        """Copies tokens of one cache to another. Both caches are [layers, batch, kv_heads, slots, d].

        - places, slots: the slots of the tokens in `source` and in `into`, [batch, n].
        """
        batch = torch.arange(len(places), device=places.device)[:, None]
        write_tokens(into, batch, slots, read_tokens(source, batch, places))

    def by_expert(
        self, rows: Tensor, weights: Tensor, experts: Tensor, scale: Tensor | None = None
    ) -> Tensor:
        """The product of each row [k] of rows [r, k] and its expert's matrix in weights [num_experts, m, k].
        Returns [r, m].

        - experts [r]: the expert of each row, in rising order.
        - scale [num_experts, m]: the scales of fp8 weights, which are first converted to the type of `rows`.
        """
        if scale is not None:
            wide = self.by_expert(rows, weights.to(rows.dtype), experts)
            return (wide * scale[experts]).to(rows.dtype)
        if rows.dtype not in _GROUPED:  # gathers a matrix for each row; only tests in fp64 need this
            return torch.bmm(weights[experts], rows[..., None])[..., 0]
        ends = torch.searchsorted(experts, torch.arange(len(weights), device=experts.device), right=True)
        return _grouped_mm(rows, weights.transpose(1, 2), offs=ends.to(torch.int32))


def norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """The root-mean-square norm over the last dimension."""
    return F.rms_norm(x, (x.shape[-1],), weight, eps)


def rotate(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Rotates x [batch, heads, n, head_dim]. Dimensions i and i + rotary_dim / 2 are a pair (Hugging Face
    layout).
    """
    half = cosine.shape[-1]
    first = x[..., :half]
    second = x[..., half : 2 * half]
    rest = x[..., 2 * half :]
    return torch.cat((first * cosine - second * sine, second * cosine + first * sine, rest), dim=-1)
