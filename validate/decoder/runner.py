"""Runs a model with its cache. The prefill runs in chunks, and later passes run a few new tokens per
sequence.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from perfmodel.validate.decoder.attention import CacheSpan, FoldedAttention
from perfmodel.validate.decoder.cache import KVCache
from perfmodel.validate.decoder.model import Model, Projected, Tap
from perfmodel.validate.decoder.pointwise import Rotary

if TYPE_CHECKING:
    from perfmodel.validate.decoder.kv.base import View

PREFILL_CHUNK = 512
"""Default number of prompt tokens in one pass."""
Write = Callable[[int, Projected], tuple[Tensor, Tensor, Tensor]]
"""A function of the number and the projection of a layer. It writes the new keys and values. It returns the
new queries, and the keys and values of all uncommitted tokens.
"""


@dataclass
class Observed:
    """The queries of the last `window` prompt tokens, which some draft caches use to select tokens.

    - queries: [layers, batch, heads, window + 1, head_dim]. Slot j has the query at position length - window
      + j; it is unused if this position is negative. The last slot receives discarded queries.
    """

    queries: Tensor
    window: int

    @classmethod
    def of(cls, model: Model, batch: int, window: int) -> "Observed":
        """Allocates the queries for a model."""
        heads = model.spec.num_attention_heads // model.shard.size
        shape = (model.spec.num_hidden_layers, batch, heads, window + 1, model.spec.head_dim)
        return cls(torch.zeros(shape, dtype=model.dtype, device=model.device), window)

    def keep(self, layer: int, q: Tensor, positions: Tensor, lengths: Tensor) -> None:
        """Stores the queries q [batch, heads, n, head_dim] whose `positions` [batch, n] are in the window."""
        slot = positions - (lengths[:, None] - self.window)
        slot = torch.where(slot < 0, self.window, slot).clamp(max=self.window)
        self.queries[layer].scatter_(2, slot[:, None, :, None].expand_as(q), q)


@dataclass
class Runner:
    """Runs `model` with `cache`.

    - attention: the implementation of attention.
    - rotary: the rotary embedding for the longest sequence.
    - tap: a function that receives the input of each layer; None for none.
    - prefill_chunk: the largest number of prompt tokens in one pass.
    """

    model: Model
    cache: KVCache
    attention: FoldedAttention
    rotary: Rotary
    tap: Tap | None = None
    prefill_chunk: int = PREFILL_CHUNK

    def extend(self, tokens: Tensor, ahead: Tensor | None = None, sees: Tensor | None = None) -> Tensor:
        """Runs new tokens [batch, n] and returns their hidden states [batch, n, hidden]. Their keys and
        values are written after those of the committed tokens. `KVCache.advance` commits them later.

        - ahead: the distance of each token from the first new position, [n]; None for a chain.
        - sees: the new tokens to which each token attends, [1, n, n]; None for a chain.
        """
        slots = self.cache.positions(self.cache.lengths, tokens.shape[1])
        positions = slots if ahead is None else self.cache.lengths[:, None] + ahead
        return self._pass(tokens, positions, slots, sees)

    def prefill(self, tokens: Tensor, lengths: Tensor, window: int) -> tuple[Tensor, Observed]:
        """Runs prompts. Returns the hidden state of the last token of each prompt [batch, hidden], and the
        queries of the last `window` tokens.

        - tokens [batch, longest]: the prompts, padded on the right with any tokens. The padding is not part
          of the lengths, so it is never read.
        - lengths [batch]: the lengths of the prompts.
        """
        batch, longest = tokens.shape
        last = torch.zeros(batch, self.model.spec.hidden_size, dtype=self.model.dtype, device=tokens.device)
        observed = Observed.of(self.model, batch, window)
        chunk = self.prefill_chunk
        # the tokens of a chunk need no mask for the window if the chunk is not longer than the window
        chunk = min(chunk, self.model.spec.sliding_window or chunk)
        for start in range(0, longest, chunk):
            of_chunk = tokens[:, start : start + chunk]
            end = start + of_chunk.shape[1]
            positions = torch.arange(start, end, device=tokens.device).expand(batch, -1)
            self.cache.set_lengths(torch.full_like(lengths, start), start, exact=True)
            keep = partial(observed.keep, positions=positions, lengths=lengths)
            hidden = self._pass(of_chunk, positions, positions, observe=keep)
            is_last = positions == lengths[:, None] - 1
            last_of_chunk = (hidden * is_last[..., None]).sum(1)
            last = torch.where(is_last.any(1, keepdim=True), last_of_chunk, last)
        self.cache.set_lengths(lengths, longest)
        return last, observed

    def _pass(
        self,
        tokens: Tensor,
        positions: Tensor,
        slots: Tensor,
        sees: Tensor | None = None,
        observe: Callable[[int, Tensor], None] = lambda index, q: None,
    ) -> Tensor:
        def write(index: int, projected: Projected) -> tuple[Tensor, Tensor, Tensor]:
            q, k, v = projected.rotate(slots=self.cache.at(index, slots))
            observe(index, q)
            return q, k, v

        return self.attended(tokens, positions, write, sees, tap=self.tap)

    def attended(
        self,
        tokens: Tensor,
        positions: Tensor,
        write: Write,
        sees: Tensor | None,
        view: "View | None" = None,
        tap: Tap | None = None,
    ) -> Tensor:
        """Runs one pass over new tokens and returns their hidden states. Each layer calls `write` for the
        keys and values of the new tokens, and then attends to these and to the committed tokens.

        - view: the view through which committed tokens are read; None for the whole cache.
        """

        @cache
        def span(window: int | None) -> CacheSpan:
            """The committed tokens to which the queries attend. With a window, a query attends to `window`
            tokens, including its own.
            """
            return self.cache.span(None if window is None else positions - (window - 1), window)

        def attend(index: int, projected: Projected) -> Tensor:
            q, k, v = write(index, projected)
            window = projected.layer.window
            if view is not None:
                if window is None:
                    return view.attend(index, q, k, v, sees)
                window = min(window, view.budget or window)
            return self.attention(q, self.cache.k[index], self.cache.v[index], span(window), k, v, sees)

        return self.model(tokens, positions, attend, self.rotary, tap)
