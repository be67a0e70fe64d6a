"""Attention over only some cached tokens, which the queries choose in every step and layer."""

import math

import torch
from torch import Tensor

from perfmodel.validate.decoder.attention import (
    CacheSpan,
    FoldedAttention,
    fold,
    merge,
    new_bias,
    partial_math,
    unfold,
)
from perfmodel.validate.decoder.cache import pick_tokens


class Selection:
    """The selection in plain torch. Its methods have an argument `chosen`, whose lengths [batch] are the
    number of tokens to select in each sequence, and whose bound is the largest possible number.
    """

    def __init__(self, attention: FoldedAttention) -> None:
        self.attention = attention

    def over_pages(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        bounds: tuple[Tensor, Tensor],
        page: int,
        lengths: Tensor,
        chosen: CacheSpan,
        new_k: Tensor,
        new_v: Tensor,
        sees: Tensor | None,
    ) -> Tensor:
        """The same as `FoldedAttention`, over the pages with the largest upper bounds of their scores. The
        newest page is always included.

        - bounds: the smallest and the largest values of the keys of each page, each [batch, kv_heads, pages,
          d].
        - lengths [batch]: number of tokens in the cache k, v.
        """
        (low, high), rows = bounds, fold(q, k.shape[1])
        rows = rows.mT  # the small operand: bf16 products on a CPU copy a transposed large one
        score = (high @ rows.clamp(min=0) + low @ rows.clamp(max=0)).float().amax(3)
        number = torch.arange(score.shape[2], device=q.device)
        filled = -(-lengths // page)
        score = score.masked_fill(number >= filled[:, None, None] - 1, torch.inf)
        score = score.masked_fill(number >= filled[:, None, None], -torch.inf)
        best = self.search(score, chosen.bound // page)
        # a page may end behind the cache, where `chosen` sees nothing
        tokens = (best[..., None] * page + torch.arange(page, device=q.device)).flatten(2) % k.shape[2]
        return self.attention(q, pick_tokens(k, tokens), pick_tokens(v, tokens), chosen, new_k, new_v, sees)

    def search(self, score: Tensor, count: int) -> Tensor:
        """The numbers [batch, kv_heads, count] of the units with the largest scores, in rising order.

        - score [batch, kv_heads, units]: the scores.
        """
        return score.topk(count, dim=-1).indices.sort(-1).values

    def over_tokens(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        lengths: Tensor,
        chosen: CacheSpan,
        new_k: Tensor,
        new_v: Tensor,
        sees: Tensor | None,
    ) -> Tensor:
        """Attention over the tokens with the largest attention weights, summed over the rows of a KV head.

        The scores are used for the choice and for the attention, so each key is read once.
        """
        rows = fold(q, k.shape[1])
        k = k.to(q.dtype)
        exact = torch.float64 if q.dtype == torch.float64 else torch.float32
        scores = (rows @ k.mT).to(exact) / math.sqrt(q.shape[-1])
        outside = torch.arange(k.shape[2], device=q.device) >= lengths[:, None]
        scores = scores.masked_fill(outside[:, None, None], torch.finfo(exact).min)
        votes = scores.softmax(-1).sum(2).masked_fill(outside[:, None], -torch.inf)
        best = votes.topk(chosen.bound, dim=-1).indices
        taken = scores.gather(3, best[:, :, None].expand(-1, -1, rows.shape[2], -1))
        lse = taken.logsumexp(-1)
        picked = v.to(q.dtype).gather(2, best[..., None].expand(-1, -1, -1, v.shape[-1]))
        old = (taken - lse[..., None]).exp().to(q.dtype) @ picked
        return unfold(merge((old, lse), partial_math(rows, new_k, new_v, new_bias(q, new_k, sees))), q)
