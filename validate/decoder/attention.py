"""Attention of new tokens over a cache and over themselves, behind one interface.

New tokens form a chain, or any structure that a mask describes, such as a tree. The new tokens of all query
heads that share a KV head form one axis of rows. A pass therefore reads each cached token once, regardless of
the number of verified tokens. Cached tokens need no causal mask, and new tokens need a small mask. Attention
over the two sets is therefore computed separately, and the results are merged by their log-sum-exp.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor

MASKED = 0.5
"""Additive value of a masked score, as a share of the most negative finite number. Kernels that compute
powers of two multiply this value by log2(e), and the product must be finite.
"""


@dataclass(frozen=True)
class CacheSpan:
    """The valid part of a cache.

    - lengths: the number of tokens of each sequence, int64 [batch], on the device.
    - bound: an upper bound of all lengths, on the host. Tokens beyond this bound are never read.
    - exact: whether every length equals `bound`. If so, no mask is needed.
    - first: the first token of the sliding window of each query, [batch, n]; None without a window.
    - start: the first position to which any query attends, on the host.
    """

    lengths: Tensor
    bound: int
    exact: bool = False
    first: Tensor | None = None
    start: int = 0

    def of(self, cache: Tensor) -> Tensor:
        """The part of a cache [batch, kv_heads, slots, d] that is read."""
        return cache[:, :, self.start : self.bound]

    def bias(self, group: int, dtype: torch.dtype) -> Tensor | None:
        """The additive mask [batch, 1, 1 or group * n, bound - start] (`additive`); None if no mask is
        needed.

        - group: the number of query heads per KV head.
        """
        if self.exact and self.first is None:
            return None
        token = torch.arange(self.start, self.bound, device=self.lengths.device)
        outside = (token >= self.lengths[:, None])[:, None]
        if self.first is not None:
            outside = (outside | (token < self.first[..., None])).repeat(1, group, 1)
        return additive(outside, dtype)[:, None]


class FoldedAttention:
    """Attention with operators of torch. Other implementations are subclasses.

    - name: the name of the implementation in records: ``math`` for plain matrix products, ``sdpa`` for fused
      kernels.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._partial = partial_math if name == "math" else partial_sdpa
        self._bias: tuple[CacheSpan, Tensor | None] | None = None

    def __call__(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        span: CacheSpan,
        new_k: Tensor,
        new_v: Tensor,
        sees: Tensor | None = None,
    ) -> Tensor:
        """Attention of queries to the valid part of a cache and to the new tokens. Returns [batch, n, heads *
        d], the layout of the next matrix product.

        - q: the queries, [batch, heads, n, d].
        - k, v: the cache, [batch, kv_heads, at least span.bound, d]. An fp8 cache is first converted to the
          type of the queries.
        - new_k, new_v: the new tokens, [batch, kv_heads, m, d] with m >= n.
        - sees: the new tokens to which each query attends, bool [batch or 1, n, m]. Each query must attend to
          at least one. With None, the mask is causal, and the last n new tokens are those of the queries.
        """
        rows = fold(q, new_k.shape[1])
        new = self._partial(rows, new_k, new_v, new_bias(q, new_k, sees))
        if span.bound == span.start:
            return unfold(new[0], q)
        old_k = span.of(k).to(q.dtype)
        old_v = span.of(v).to(q.dtype)
        old = self._partial(rows, old_k, old_v, self._bias_of(span, q, new_k))
        return unfold(merge(old, new), q)

    def _bias_of(self, span: CacheSpan, q: Tensor, new_k: Tensor) -> Tensor | None:
        """The mask of a span. It is built once per pass, because all layers of a pass share the span
        object.
        """
        if self._bias is None or self._bias[0] is not span:
            group = q.shape[1] // new_k.shape[1]
            self._bias = (span, span.bias(group, q.dtype))
        return self._bias[1]


def partial_math(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor]:
    """Attention of q [b, h, r, d] over k, v [b, h, s, d], and the log-sum-exp [b, h, r] of its scores."""
    exact = torch.float64 if q.dtype == torch.float64 else torch.float32
    scores = (q @ k.mT).to(exact) / math.sqrt(q.shape[-1])
    if bias is not None:
        scores = scores + bias
    lse = scores.logsumexp(-1)
    weights = (scores - lse[..., None]).exp()
    return weights.to(v.dtype) @ v, lse


def partial_sdpa(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor]:
    """See `partial_math`. This function calls the fused operators of torch's SDPA directly, because SDPA does
    not return the log-sum-exp.
    """
    if q.device.type == "cpu":
        return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, attn_mask=bias)
    if bias is not None:  # rows of the mask must begin at multiples of 16 elements
        aligned = F.pad(bias, (0, -bias.shape[-1] % 16))[..., : bias.shape[-1]]
        bias = aligned.expand(q.shape[0], q.shape[1], q.shape[2], k.shape[2])
    out, lse, _, _ = torch.ops.aten._scaled_dot_product_efficient_attention(q, k, v, bias, True)
    return out, lse[:, :, : q.shape[2]]


def merge(first: tuple[Tensor, Tensor], second: tuple[Tensor, Tensor]) -> Tensor:
    """Attention over the union of two disjoint sets of keys.

    - first, second: the output and the log-sum-exp of attention over each set.
    """
    (one, lse_one), (two, lse_two) = first, second
    share = torch.sigmoid(lse_one - lse_two)[..., None].to(one.dtype)
    return two + (one - two) * share


def fold(q: Tensor, kv_heads: int) -> Tensor:
    """The queries [batch, heads, n, d] as rows [batch, kv_heads, group * n, d]. The token varies fastest
    along the rows.
    """
    batch, heads, n, d = q.shape
    return q.reshape(batch, kv_heads, heads // kv_heads * n, d)


def unfold(rows: Tensor, like: Tensor) -> Tensor:
    """The inverse of `fold`: rows [batch, kv_heads, group * n, d] as [batch, n, heads * d].

    - like: the queries, [batch, heads, n, d].
    """
    return rows.reshape(like.shape).transpose(1, 2).flatten(2)


def additive(outside: Tensor, dtype: torch.dtype) -> Tensor:
    """The additive mask. It is `MASKED` times the most negative number of `dtype` if `outside` is true, and
    otherwise 0.
    """
    bias = torch.zeros(outside.shape, dtype=dtype, device=outside.device)
    return bias.masked_fill_(outside, MASKED * torch.finfo(dtype).min)


@lru_cache
def causal_bias(n: int, m: int, group: int, dtype: torch.dtype, device: torch.device) -> Tensor | None:
    """The additive mask [1, 1, group * n, m] with which query j of n attends to new tokens 0 .. m - n + j;
    None if no mask is needed.
    """
    if n == 1:
        return None
    newest = torch.arange(n, device=device)[:, None] + m - n
    later = torch.arange(m, device=device) > newest
    return additive(later, dtype).repeat(group, 1)[None, None]


def new_bias(q: Tensor, new_k: Tensor, sees: Tensor | None) -> Tensor | None:
    """The additive mask of queries [batch, heads, n, d] over new tokens [batch, kv_heads, m, d].

    - sees: see `FoldedAttention`.
    """
    n = q.shape[2]
    m = new_k.shape[2]
    group = q.shape[1] // new_k.shape[1]
    if sees is None:
        return causal_bias(n, m, group, q.dtype, q.device)
    return additive(~sees, q.dtype).repeat(1, group, 1)[:, None]
