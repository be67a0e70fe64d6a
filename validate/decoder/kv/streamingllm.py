"""The views of the method `streamingllm`: attention sinks, and a sliding window in a ring buffer.

`StreamingView` copies keys and values of the target. `RollingView` (`own_prefill`) is the form in the
StreamingLLM paper, in which all keys and values come from passes that read only this view.
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
"""Largest number of prompt tokens in one pass of `RollingView`. Because of the other tokens of its pass, a
token can attend to up to this many tokens beyond the budget.
"""


class RollingCache(KVCache):
    """A cache of only the latest `capacity` tokens. A view that needs older tokens must copy them before they
    are overwritten.
    """

    def slot(self, positions: Tensor) -> Tensor:
        """The slots of the tokens at `positions`: the positions modulo `capacity`."""
        return positions % self.capacity


class StreamingView(Packed):
    """The view with copies of the keys and values of the source. Keys keep their positions in the text.

    Slot i < sinks has token i. The other slots are a ring of `ring` slots, in which token t has the slot
    sinks + (t - sinks) mod ring.
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
        """Copies the sinks and, for each slot of the ring, the latest token of this slot."""
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
        """Replaces the oldest tokens in the ring by the newly committed tokens."""
        self.take(start, count, self.max_accepted + 1)

    def take(self, start: Tensor, count: Tensor, most: int) -> None:
        """See `commit`.

        - most: an upper bound of `count`. This many tokens must fit into the ring.
        """
        token = self.source.positions(start, most)
        in_ring = self.sinks + (token - self.sinks) % self.ring
        self.place(start, count, torch.minimum(token, in_ring))
        self.lengths.add_(count).clamp_(max=self.slots)
        self.raise_bound(self.bound + most)


class RollingView(StreamingView):
    """StreamingLLM as published: keys and values come from passes that read only this view, and positions are
    positions in the view.

    A pass attends to the sinks, the window and its own tokens at consecutive positions 0, 1, ... (Xiao et al.
    2023, arXiv 2309.17453, section 3.2). Attention scores depend only on differences of positions, so the
    keys of the window stay unchanged. The keys of the sinks are rotated by the number of dropped tokens.
    Their positions are then those right before the window. The factors of LongRoPE are those of the whole
    text.
    """

    own_prefill = True
    changing = (*Packed.changing, "sink_keys")

    def __init__(self, method: StreamingLLM, runner: Runner, new_tokens: int, max_accepted: int) -> None:
        super().__init__(method, runner, new_tokens, max_accepted)
        self.rotary = replace(runner.rotary, scale=1.0)
        self.chunk = min(WINDOW_CHUNK, self.ring)
        """The largest number of prompt tokens in one pass."""
        self.sink_keys = torch.zeros_like(self.k[..., : self.sinks, :])
        """The keys of the sinks at their original positions. Repeated rotations of the same keys would
        accumulate rounding errors.
        """

    def read(self, tokens: Tensor, lengths: Tensor, run: Callable[[Tensor], object]) -> None:
        """Runs prompts through the view, one chunk at a time. A chunk attends to itself and to the earlier
        tokens that the view keeps. The time is O(longest x budget), and the memory is that of one chunk.

        - tokens [batch, longest]: the prompts.
        - lengths [batch]: the lengths of the prompts.
        - run: a function that runs the pass of one chunk.
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
        """See `StreamingView.build`. The source must still have all copied tokens."""
        super().build()
        self.sink_keys.copy_(self.k[..., : self.sinks, :])
        self._move_sinks()

    def take(self, start: Tensor, count: Tensor, most: int) -> None:
        """See `StreamingView.take`. The sinks are then rotated to the positions before the window."""
        super().take(start, count, most)
        self._move_sinks()

    def _move_sinks(self) -> None:
        dropped = (self.source.lengths - self.slots).clamp(min=0)[:, None]
        now = self.k[..., : self.sinks, :]
        self.sink_keys.copy_(torch.where(dropped[..., None, None].bool(), self.sink_keys, now))
        now.copy_(rotate(self.sink_keys, *self.rotary.turns(dropped, now.dtype)))
