"""Attention sinks and a sliding window, in a ring buffer: the target's own keys, or as published, the draft's."""

import torch
from torch import Tensor

from perfmodel.errors import InputError
from perfmodel.kv.streamingllm import StreamingLLM
from perfmodel.validate.decoder import rope
from perfmodel.validate.decoder.attention import Attention
from perfmodel.validate.decoder.cache import KVCache, RollingCache
from perfmodel.validate.decoder.kv.base import Packed, only
from perfmodel.validate.decoder.runner import Observed

WINDOW_CHUNK = 128
"""Prompt tokens that are run through a window at a time; the last of them sees as many beyond the budget."""


class StreamingView(Packed):
    """Slot i < sinks holds token i; the other slots are a ring: token t lies at sinks + (t - sinks) mod window.

    Keys and values are the source's, and keys keep their positions in the text.
    """

    method = "streamingllm"

    def __init__(
        self, method: StreamingLLM, source: KVCache, attention: Attention, new_tokens: int, max_accepted: int
    ) -> None:
        only(method, "copy", method.copy, method.copy)
        self.sinks, self.ring = method.sinks, method.budget - method.sinks
        if self.ring <= max_accepted:
            least = self.sinks + max_accepted
            raise InputError(
                f"--draft-kv: streamingllm: budget must be above sinks + gamma ({least}), given {method.budget}"
            )
        super().__init__(method, source, attention, new_tokens, max_accepted, slots=method.budget)

    def build(self, observed: Observed | None) -> None:
        """Gather the sinks and, for each slot of the ring, the latest token that belongs there."""
        last = self.source.lengths[:, None] - 1
        ring = torch.arange(self.ring, device=last.device)
        latest = last - (last - self.sinks - ring) % self.ring
        sinks = torch.arange(self.sinks, device=last.device).clamp(max=self.source.capacity - 1).expand(len(last), -1)
        index = torch.cat((sinks, torch.where(latest >= self.sinks, latest, 0)), dim=1)
        index = self.source.slot(index)[:, None].expand(-1, self.k.shape[2], -1)
        for layer in range(self.k.shape[0]):
            self.copy(layer, index)
        self.lengths.copy_(self.source.lengths.clamp(max=self.slots))
        self.raise_bound(self.source.bound)

    def commit(self, start: Tensor, count: Tensor) -> None:
        """Newer tokens take the places of the oldest in the ring."""
        self.take(start, count, self.max_accepted + 1)

    def take(self, start: Tensor, count: Tensor, most: int) -> None:
        """As `commit`, of at most `most` tokens, which must fit into the ring."""
        token = self.source.positions(start, most)
        self.place(start, count, torch.where(token < self.sinks, token, self.sinks + (token - self.sinks) % self.ring))
        self.lengths.add_(count).clamp_(max=self.slots)
        self.raise_bound(self.bound + most)


class RollingView(StreamingView):
    """As published: keys and values come from passes over this view, and positions count inside the cache.

    A pass sees sinks, window and its own tokens as if they had followed each other, at 0, 1, ... (Xiao et al. 2023,
    arXiv 2309.17453, section 3.2). Rotated keys know differences of positions alone: those of the window stay as they
    are, and the sinks' are rotated further, by as many positions as tokens were dropped, to stand right before it.
    LongRoPE's factors stay those of the whole text, however small the window.
    """

    own_prefill = True

    def __init__(
        self, method: StreamingLLM, source: KVCache, attention: Attention, new_tokens: int, max_accepted: int
    ) -> None:
        assert isinstance(source, RollingCache)
        super().__init__(method, source, attention, new_tokens, max_accepted)
        self.frequencies, self.chunk = source.frequencies, min(WINDOW_CHUNK, self.ring)
        self.sink_keys = torch.zeros_like(self.k[..., : self.sinks, :])
        """At their own positions: rotating what was rotated before would add up the rounding."""

    def build(self, observed: Observed | None) -> None:
        """As after a prompt of which the source has all tokens that are kept; see `drafts.windowed_prefill`."""
        super().build(observed)
        self.sink_keys.copy_(self.k[..., : self.sinks, :])
        self._move_sinks()

    def take(self, start: Tensor, count: Tensor, most: int) -> None:
        """The sinks follow the window."""
        super().take(start, count, most)
        self._move_sinks()

    def _move_sinks(self) -> None:
        dropped, now = (self.source.lengths - self.slots).clamp(min=0)[:, None], self.k[..., : self.sinks, :]
        self.sink_keys.copy_(torch.where(dropped[..., None, None] > 0, self.sink_keys, now))
        now.copy_(rope.rotate(self.sink_keys, *rope.rotation(self.frequencies, dropped, now.dtype)))
