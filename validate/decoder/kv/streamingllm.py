"""Attention sinks and a sliding window, in a ring buffer (keys keep their absolute positions)."""

import torch
from torch import Tensor

from perfmodel.errors import InputError
from perfmodel.kv.streamingllm import StreamingLLM
from perfmodel.validate.decoder.attention import Attention
from perfmodel.validate.decoder.cache import KVCache
from perfmodel.validate.decoder.kv.base import Packed, only
from perfmodel.validate.decoder.runner import Observed


class StreamingView(Packed):
    """Slot i < sinks holds token i; the other slots are a ring: token t lies at sinks + (t - sinks) mod window."""

    method = "streamingllm"

    def __init__(
        self, method: StreamingLLM, source: KVCache, attention: Attention, new_tokens: int, max_accepted: int
    ) -> None:
        only(method, "copy", method.copy, method.copy)
        only(method, "own_prefill", method.own_prefill, not method.own_prefill)
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
        for layer in range(self.k.shape[0]):
            self.copy(layer, index[:, None].expand(-1, self.k.shape[2], -1))
        self.lengths.copy_(self.source.lengths.clamp(max=self.slots))
        self.raise_bound(self.source.bound)

    def commit(self, start: Tensor, count: Tensor) -> None:
        """Newer tokens take the places of the oldest in the ring."""
        token = self.source.positions(start, self.max_accepted + 1)
        self.place(start, count, torch.where(token < self.sinks, token, self.sinks + (token - self.sinks) % self.ring))
        self.lengths.add_(count).clamp_(max=self.slots)
        self.raise_bound(self.bound + self.max_accepted + 1)
