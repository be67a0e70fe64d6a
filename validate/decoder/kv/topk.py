"""Exact top-k: every step scores every key and attends to the best. An acceptance oracle, not a speed-up."""

import math

import torch
from torch import Tensor

from perfmodel.validate.decoder.attention import fold, merge, new_bias, partial_math, unfold
from perfmodel.validate.decoder.kv.base import View


class TopKView(View):
    """Per KV head, the `budget` tokens with the largest attention weights summed over the heads that share it."""

    method = "topk"
    by_query = True

    def attend(self, layer: int, q: Tensor, new_k: Tensor, new_v: Tensor, sees: Tensor | None = None) -> Tensor:
        """Scores serve twice, to choose and to attend, so that no key is read twice."""
        bound = self._span.bound
        keys, values = self.source.k[layer][:, :, :bound], self.source.v[layer][:, :, :bound]
        rows = fold(q, keys.shape[1])
        exact = torch.float64 if q.dtype == torch.float64 else torch.float32
        scores = (rows @ keys.transpose(-1, -2)).to(exact) / math.sqrt(q.shape[-1])
        outside = torch.arange(bound, device=q.device) >= self._span.lengths[:, None]
        scores = scores.masked_fill(outside[:, None, None], torch.finfo(exact).min)
        votes = scores.softmax(-1).sum(2).masked_fill(outside[:, None], -1.0)
        best = votes.topk(min(self.budget or bound, bound), dim=-1).indices
        chosen = scores.gather(3, best[:, :, None].expand(-1, -1, rows.shape[2], -1))
        lse = chosen.logsumexp(-1)
        picked = values.gather(2, best[..., None].expand(-1, -1, -1, values.shape[-1]))
        old = (chosen - lse[..., None]).exp().to(q.dtype) @ picked
        new = partial_math(rows, new_k, new_v, new_bias(q, new_k, sees))
        return unfold(merge((old, lse), new), q)
