"""Attention sinks and a sliding window in a ring buffer, with the target's own keys or, as published, the
draft's.
"""

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from perfmodel.errors import InputError
from perfmodel.kv.streamingllm import StreamingLLM
from perfmodel.validate.decoder.cache import KVCache
from perfmodel.validate.decoder.kv.base import Packed, check_option
from perfmodel.validate.decoder.pointwise import rotate
from perfmodel.validate.decoder.runner import Observed, Runner

WINDOW_CHUNK = 128
"""Prompt tokens that run through a window at a time. The last of them sees as many tokens beyond the
budget.
"""


class RollingCache(KVCache):
    """Only the latest `capacity` tokens. A view must have copied older ones that it needs."""

    def slot(self, positions: Tensor) -> Tensor:
        """The slot of token t is that of token t - capacity."""
        return positions % self.capacity


class StreamingView(Packed):
    """Slot i < sinks holds token i. The other slots are a ring: token t is at sinks + (t - sinks) mod window.

    Keys and values are the source's, and keys keep their positions in the text.
    """

    def __init__(self, method: StreamingLLM, runner: Runner, new_tokens: int, max_accepted: int) -> None:
        check_option(method, "copy", method.copy, method.copy)
        self.ring = method.budget - method.sinks
        self.sinks = method.sinks
        if self.ring <= max_accepted:
            least = self.sinks + max_accepted
            raise InputError(
                f"--draft-kv: streamingllm: budget must be above sinks + gamma ({least}), given "
                f"{method.budget}"
            )
        super().__init__(method, runner, new_tokens, max_accepted, slots=method.budget)

    def build(self, observed: Observed | None = None) -> None:
        """Gathers the sinks and, for each slot of the ring, the latest token with that slot."""
        last = self.source.lengths[:, None] - 1
        ring = torch.arange(self.ring, device=last.device)
        latest = last - (last - self.sinks - ring) % self.ring
        sinks = torch.arange(self.sinks, device=last.device).clamp(max=self.source.capacity - 1)
        recent = torch.where(latest >= self.sinks, latest, 0)
        index = torch.cat((sinks.expand(len(last), -1), recent), dim=1)
        index = self.source.slot(index)[:, None].expand(-1, self.k.shape[2], -1)
        for layer in range(self.k.shape[0]):
            self.copy(layer, index)
        self.lengths.copy_(self.source.lengths.clamp(max=self.slots))
        self.raise_bound(self.source.bound)

    def commit(self, start: Tensor, count: Tensor) -> None:
        """Newer tokens replace the oldest in the ring."""
        self.take(start, count, self.max_accepted + 1)

    def take(self, start: Tensor, count: Tensor, most: int) -> None:
        """As `commit` for at most `most` tokens, which must fit into the ring."""
        token = self.source.positions(start, most)
        in_ring = self.sinks + (token - self.sinks) % self.ring
        self.place(start, count, torch.minimum(token, in_ring))
        self.lengths.add_(count).clamp_(max=self.slots)
        self.raise_bound(self.bound + most)


class RollingView(StreamingView):
    """As published: keys and values come from passes over this view, and positions count inside the cache.

    A pass sees sinks, window and its own tokens as if they were consecutive, at 0, 1, ... (Xiao et al. 2023,
    arXiv 2309.17453, section 3.2). Rotated keys depend on differences of positions only. So the window's keys
    stay, and the sinks' keys are rotated further by the number of dropped tokens, to come right before the
    window. LongRoPE's factors stay those of the whole text, regardless of the window.
    """

    own_prefill = True
    changing = (*Packed.changing, "sink_keys")

    def __init__(self, method: StreamingLLM, runner: Runner, new_tokens: int, max_accepted: int) -> None:
        super().__init__(method, runner, new_tokens, max_accepted)
        self.rotary = replace(runner.rotary, scale=1.0)
        self.chunk = min(WINDOW_CHUNK, self.ring)
        """Most tokens of a prompt in one pass."""
        self.sink_keys = torch.zeros_like(self.k[..., : self.sinks, :])
        """Keys at their original positions, because rotating rotated keys would accumulate rounding
        errors.
        """

    def read(self, tokens: Tensor, lengths: Tensor, run: Callable[[Tensor], object]) -> None:
        """Runs prompts tokens [batch, longest] of `lengths` [batch] through the view itself, one chunk at a
        time.

        A chunk sees the tokens that the view keeps before it, and itself: O(longest x budget) time, memory
        for one chunk.
        """
        self.source.set_lengths(torch.zeros_like(lengths), 0)
        self.build()
        for start in range(0, tokens.shape[1], self.chunk):
            of_chunk = tokens[:, start : start + self.chunk]
            most = of_chunk.shape[1]
            count = (lengths - start).clamp(0, most)
            self.begin()
            run(of_chunk)
            self.source.advance(count, most)
            self.take(self.source.lengths - count, count, most)

    def build(self, observed: Observed | None = None) -> None:
        """Builds the view as after a prompt; the source must have all kept tokens."""
        super().build()
        self.sink_keys.copy_(self.k[..., : self.sinks, :])
        self._move_sinks()

    def take(self, start: Tensor, count: Tensor, most: int) -> None:
        """The sinks follow the window."""
        super().take(start, count, most)
        self._move_sinks()

    def _move_sinks(self) -> None:
        dropped = (self.source.lengths - self.slots).clamp(min=0)[:, None]
        now = self.k[..., : self.sinks, :]
        self.sink_keys.copy_(torch.where(dropped[..., None, None].bool(), self.sink_keys, now))
        now.copy_(rotate(self.sink_keys, *self.rotary.turns(dropped, now.dtype)))
