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
        *,
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
        rows = fold(q, k.shape[1]).mT  # [batch, kv_heads, d, group * n]
        bound = high @ rows.clamp(min=0) + low @ rows.clamp(max=0)  # [batch, kv_heads, pages, group * n]
        score = newest_first(bound.float().amax(3), filled=-(-lengths // page))
        best = self.search(score, chosen.bound // page)  # [batch, kv_heads, pages to select]
        # the last page can end beyond the cache; `chosen` does not include these tokens
        tokens = (best[..., None] * page + torch.arange(page, device=q.device)).flatten(2) % k.shape[2]
        return self.attention(
            q,
            pick_tokens(k, tokens),
            pick_tokens(v, tokens),
            span=chosen,
            new_k=new_k,
            new_v=new_v,
            sees=sees,
        )

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
        *,
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
        rows = fold(q, k.shape[1])  # [batch, kv_heads, group * n, d]
        exact = torch.float64 if q.dtype == torch.float64 else torch.float32
        # scores: [batch, kv_heads, group * n, tokens]
        scores = (rows @ k.to(q.dtype).mT).to(exact) / math.sqrt(q.shape[-1])
        outside = torch.arange(k.shape[2], device=q.device) >= lengths[:, None]  # [batch, tokens]
        scores = scores.masked_fill(outside[:, None, None], torch.finfo(exact).min)
        best = heaviest(scores, outside, chosen.bound)  # [batch, kv_heads, count]
        # the scores of the selected tokens: [batch, kv_heads, group * n, count]
        taken = scores.gather(3, best[:, :, None].expand(-1, -1, rows.shape[2], -1))
        lse = taken.logsumexp(-1)  # [batch, kv_heads, group * n]
        # the values of the selected tokens: [batch, kv_heads, count, d]
        picked = v.to(q.dtype).gather(2, best[..., None].expand(-1, -1, -1, v.shape[-1]))
        old = (taken - lse[..., None]).exp().to(q.dtype) @ picked
        return unfold(merge((old, lse), partial_math(rows, new_k, new_v, new_bias(q, new_k, sees))), q)


def newest_first(score: Tensor, filled: Tensor) -> Tensor:
    """The scores of pages, with infinity for the newest page of a sequence, which is always selected. Pages
    behind it are empty. They have minus infinity, so they are selected only if too few pages have tokens.

    - score [batch, kv_heads, pages]: the scores.
    - filled [batch]: the number of pages with tokens. A sequence without tokens has no newest page.
    """
    number = torch.arange(score.shape[2], device=score.device)
    newest = number == filled[:, None, None] - 1
    empty = number >= filled[:, None, None]
    return score.masked_fill(newest, torch.inf).masked_fill(empty, -torch.inf)


def heaviest(scores: Tensor, outside: Tensor, count: int) -> Tensor:
    """The numbers [batch, kv_heads, count] of the tokens with the largest attention weights, summed over the
    rows. Tokens outside a sequence are selected only if it has fewer than `count` tokens. Their scores are so
    small that their weights are then 0.

    - scores [batch, kv_heads, rows, tokens]: the scores, with the smallest finite number outside a sequence.
    - outside [batch, tokens]: whether a token is outside its sequence.
    """
    weights = scores.softmax(-1).sum(2)  # [batch, kv_heads, tokens]
    return weights.masked_fill(outside[:, None], -torch.inf).topk(count, dim=-1).indices
