"""Attention over only those cached tokens that the queries select in every step and layer."""

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
    """The selection in plain torch.

    The methods have an argument `chosen`. Its lengths [batch] are the numbers of tokens to select in each
    sequence, and its bound is the largest of these numbers.
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
        """Attention over the pages with the largest upper bounds of their scores. The newest page is always
        selected. The other arguments are those of `FoldedAttention`.

        - bounds: the smallest and the largest values of the keys of each page, each [batch, kv_heads, pages,
          d].
        - page: the number of tokens of a page.
        - lengths [batch]: the number of tokens in the cache k, v.
        """
        low, high = bounds
        # bf16 products on a CPU copy a transposed operand, so the small operand is transposed
        rows = fold(q, k.shape[1]).mT
        score = (high @ rows.clamp(min=0) + low @ rows.clamp(max=0)).float().amax(3)
        number = torch.arange(score.shape[2], device=q.device)
        filled = -(-lengths // page)
        score = score.masked_fill(number >= filled[:, None, None] - 1, torch.inf)
        score = score.masked_fill(number >= filled[:, None, None], -torch.inf)
        best = self.search(score, chosen.bound // page)
        # the last page can end beyond the cache; `chosen` does not include these tokens
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
        """Attention over the tokens with the largest attention weights, summed over the query heads of a KV
        head and over the new tokens. The arguments are those of `over_pages`.

        The selection and the attention use the same scores, so each key is read once.
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
