"""The KV cache. The cache is allocated once and written in place. Changing its lengths rolls it back."""

from typing import NamedTuple

import torch
from torch import Tensor

from perfmodel.validate.decoder.attention import CacheSpan
from perfmodel.validate.decoder.fp8 import FP8, bits, to_fp8
from perfmodel.validate.decoder.memory import allocate

BLOCK_TOKENS = 64
"""Capacities are rounded up to a multiple of this number of tokens."""


class KVCache:
    """Keys and values of `shape` [layers, batch, kv_heads, capacity, head_dim], with a length per sequence.
    The values of an fp8 cache have no scale, as by default in vLLM.

    - lengths: the numbers of committed tokens, int64 [batch], on the device. Tokens beyond a length are never
      read.
    - bound, floor: upper and lower bounds of all lengths, on the host. Passes on a CPU read no slot beyond
      `bound`.
    - exact: whether every length equals `bound`.
    - fixed: whether `bound` stays at the capacity, as captured graphs need.
    - rows: the numbers 0 ... batch - 1, [batch, 1].
    """

    def __init__(
        self, shape: tuple[int, int, int, int, int], device: torch.device, dtype: torch.dtype
    ) -> None:
        layers, batch, heads, capacity, head_dim = shape
        self.capacity = -(-capacity // BLOCK_TOKENS) * BLOCK_TOKENS
        self.kv = allocate("KV cache", (2, layers, batch, heads, self.capacity, head_dim), device, dtype)
        self.k = self.kv[0]
        self.v = self.kv[1]
        self.lengths = torch.zeros(batch, dtype=torch.int64, device=device)
        self.bound = self.floor = 0
        self.exact = True
        self.fixed = False
        self.rows = torch.arange(batch, device=device)[:, None]

    def span(self, first: Tensor | None = None, window: int | None = None) -> CacheSpan:
        """The committed tokens.

        - first: the first token of the sliding window of each query, [batch, n]; None without a window.
        - window: the number of tokens of the window.
        """
        if first is None:
            return CacheSpan(self.lengths, self.bound, self.exact)
        start = max(0, self.floor - window + 1) if window else 0
        return CacheSpan(self.lengths, self.bound, self.exact, first, start)

    def positions(self, start: Tensor, n: int) -> Tensor:
        """The positions start, start + 1, ... of every sequence, [batch, n]."""
        return start[:, None] + torch.arange(n, device=start.device)

    def at(self, layer: int, slots: Tensor) -> "Slots":
        """The `Slots` to which a layer writes new keys and values.

        - slots: slot numbers [batch, n].
        """
        return Slots(self.k[layer], self.v[layer], self.rows, slots)

    def slot(self, positions: Tensor) -> Tensor:
        """The slots of the tokens at `positions`. In this cache, slot and position are the same number."""
        return positions

    def read(self, positions: Tensor) -> Tensor:
        """The keys and values of all layers at positions [batch, n], as [2 x layers, batch, kv_heads, n,
        head_dim].
        """
        return read_tokens(self.kv.flatten(0, 1), self.rows, self.slot(positions))

    def advance(self, count: Tensor, limit: int) -> None:
        """Commits `count` [batch] more tokens. Later written tokens are discarded.

        - limit: an upper bound of `count`.
        """
        self.lengths.add_(count)
        self.bound = self.capacity if self.fixed else min(self.bound + limit, self.capacity)
        self.exact = False

    def set_lengths(self, lengths: Tensor, bound: int, exact: bool = False) -> None:
        """Replaces the lengths, [batch].

        - bound: an upper bound of the lengths.
        - exact: whether all lengths equal `bound`.
        """
        self.lengths.copy_(lengths)
        self.bound = self.capacity if self.fixed else bound
        self.exact = exact and not self.fixed
        self.floor = bound if self.exact else 0

    def tighten(self) -> None:
        """Sets `bound` and `floor` to the longest and the shortest length. The host waits for the device."""
        if not self.fixed:
            self.floor, self.bound = torch.stack(self.lengths.aminmax()).tolist()


class Slots(NamedTuple):
    """The slots of new tokens in one layer of a cache.

    - k, v: the layer [batch, kv_heads, capacity, head_dim].
    - slots: slot numbers [batch, n].
    """

    k: Tensor
    v: Tensor
    rows: Tensor
    slots: Tensor

    def write(self, k: Tensor, v: Tensor) -> None:
        """Writes k, v [batch, kv_heads, n, head_dim] to the slots. The lengths of the cache do not change."""
        into_k = self.k
        into_v = self.v
        if into_k.dtype == FP8:
            into_k = bits(into_k)
            into_v = bits(into_v)
            k = bits(to_fp8(k))
            v = bits(to_fp8(v))
        into_k[self.rows, :, self.slots] = k.transpose(1, 2)
        into_v[self.rows, :, self.slots] = v.transpose(1, 2)


def read_tokens(cache: Tensor, rows: Tensor, positions: Tensor) -> Tensor:
    """The values at positions [batch, n] of a cache [layers, batch, kv_heads, slots, ...], for all layers and
    heads. The function indexes whole tokens, because `gather` would be ten times slower on a CPU.

    - rows: the numbers 0 ... batch - 1, [batch, 1].
    """
    return bits(cache)[:, rows, :, positions].movedim((0, 1), (1, 3)).view(cache.dtype)


def write_tokens(cache: Tensor, rows: Tensor, positions: Tensor, values: Tensor) -> None:
    """The inverse of `read_tokens`: writes values [layers, batch, kv_heads, n, ...] to positions [batch,
    n].
    """
    bits(cache)[:, rows, :, positions] = bits(values).movedim((1, 3), (0, 1))


def pick_tokens(cache: Tensor, index: Tensor) -> Tensor:
    """The values at index [batch, kv_heads, n] of a layer [batch, kv_heads, slots, head_dim], which must be
    contiguous. Each head has its own index.
    """
    batch, heads, slots, d = cache.shape
    first = torch.arange(batch * heads, device=index.device).view(batch, heads, 1) * slots
    picked = bits(cache).view(-1, d).index_select(0, (index + first).flatten())
    return picked.view(cache.dtype).view(batch, heads, -1, d)
