"""Routed experts: every token goes to its best few, and all experts' products are two grouped matrix products."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from perfmodel.specs.model import MoE
from perfmodel.validate.decoder.pointwise import Pointwise


class RoutedExperts(nn.Module):
    """Gated MLPs [num_experts, ...] and their router; a tensor-parallel rank holds a part of each expert."""

    def __init__(self, moe: MoE, hidden: int, inner: int) -> None:
        super().__init__()
        self.chosen, self.normalized = moe.experts_per_token, moe.normalized_weights
        self.router = nn.Parameter(torch.empty(moe.num_experts, hidden))
        self.gate_up = nn.Parameter(torch.empty(moe.num_experts, 2 * inner, hidden))
        self.down = nn.Parameter(torch.empty(moe.num_experts, hidden, inner))

    def forward(self, x: Tensor, pointwise: Pointwise) -> Tensor:
        """x [batch, n, hidden] to the same shape; nothing waits for the device."""
        rows = x.flatten(0, 1)
        weights, experts = F.linear(rows, self.router).float().softmax(-1).topk(self.chosen, dim=-1)
        if self.normalized:
            weights = weights / weights.sum(-1, keepdim=True)
        experts, order = experts.flatten().sort(stable=True)
        inner = pointwise.silu_mul(pointwise.by_expert(rows[order // self.chosen], self.gate_up, experts))
        out = pointwise.by_expert(inner, self.down, experts)[order.argsort()].unflatten(0, (-1, self.chosen))
        return (out * weights[..., None].to(x.dtype)).sum(1).view_as(x)
