"""The small steps between a pass's matrix products, in plain torch: what every fused kernel must equal."""

from typing import Protocol

import torch.nn.functional as F
from torch import Tensor

from perfmodel.validate.decoder import rope
from perfmodel.validate.decoder.cache import Slots


class Heads(Protocol):
    """What a layer knows of its heads; q_norm and k_norm are [head_dim], or None."""

    heads: int
    kv_heads: int
    head_dim: int
    eps: float
    q_norm: Tensor | None
    k_norm: Tensor | None


class Pointwise(Protocol):
    """One way to compute them. `name` is what results record."""

    name: str

    def add_norm(self, x: Tensor, residual: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
        """residual + x, and its root-mean-square norm; all [..., hidden]."""
        ...

    def silu_mul(self, gate_up: Tensor) -> Tensor:
        """SiLU of the first half of [..., 2 x inner] times the second half."""
        ...

    def rotate(
        self,
        layer: Heads,
        qkv: Tensor,
        cosine: Tensor,
        sine: Tensor,
        out: tuple[Tensor, Tensor] | None = None,
        slots: Slots | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values [batch, heads or kv_heads, n, head_dim] of qkv [batch, n, all heads x head_dim].

        Queries and keys are normed where the layer does so, and rotated. Keys and values are written to `out`, where
        given (and returned from there), and to a cache's `slots`.
        """
        ...


class Torch:
    """See `Pointwise`."""

    name = "torch"

    def add_norm(self, x: Tensor, residual: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
        """See `Pointwise`."""
        total = residual + x
        return total, norm(total, weight, eps)

    def silu_mul(self, gate_up: Tensor) -> Tensor:
        """See `Pointwise`."""
        gate, up = gate_up.chunk(2, dim=-1)
        return F.silu(gate) * up

    def rotate(
        self,
        layer: Heads,
        qkv: Tensor,
        cosine: Tensor,
        sine: Tensor,
        out: tuple[Tensor, Tensor] | None = None,
        slots: Slots | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """See `Pointwise`."""
        heads = qkv.unflatten(-1, (-1, layer.head_dim)).transpose(1, 2)
        q, k, v = heads.split((layer.heads, layer.kv_heads, layer.kv_heads), dim=1)
        if layer.q_norm is not None and layer.k_norm is not None:
            q, k = norm(q, layer.q_norm, layer.eps), norm(k, layer.k_norm, layer.eps)
        q, k = rope.rotate(q, cosine, sine), rope.rotate(k, cosine, sine)
        if slots is not None:
            slots.write(k, v)
        if out is not None:
            k, v = out[0].copy_(k), out[1].copy_(v)
        return q, k, v


def norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Root-mean-square norm over the last dimension."""
    return F.rms_norm(x, (x.shape[-1],), weight, eps)
