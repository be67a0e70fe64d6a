"""The view of the method `snapkv`. It keeps all generated tokens, and the prompt tokens to which the end of
the prompt attends most. These are selected once.
"""

import math

import torch
import torch.nn.functional as F

from perfmodel.kv.snapkv import SnapKV
from perfmodel.validate.decoder.attention import fold
from perfmodel.validate.decoder.kv.base import Packed
from perfmodel.validate.decoder.runner import Observed, Runner


class SnapView(Packed):
    """The view with `budget` tokens of the prompt per KV head, including the observation window, and with the
    generated tokens after these.
    """

    def __init__(self, method: SnapKV, runner: Runner, new_tokens: int, max_accepted: int) -> None:
        self.window = method.window
        self.kernel = method.kernel
        self.kept = method.budget
        slots = method.budget + new_tokens + max_accepted + 1
        super().__init__(method, runner, new_tokens, max_accepted, slots=slots)

    def build(self, observed: Observed) -> None:
        """Selects and copies prompt tokens, one layer and sequence at a time, because the scores need much
        memory.
        """
        self.raise_bound(min(self.source.bound, self.kept))
        # the cache of a separate draft lags by one token, so it is empty after a prompt of one token
        for layer in range(self.k.shape[0] if self.source.bound else 0):
            rows = range(self.k.shape[1])
            self.copy(layer, torch.cat([self._choose(layer, row, observed) for row in rows]))
        self.lengths.copy_(self.source.lengths.clamp(max=self.kept))
        self._less = int((self.source.lengths - self.lengths).min())  # the same in all later iterations

    def _choose(self, layer: int, row: int, observed: Observed) -> torch.Tensor:
        """The indices of the selected tokens of one sequence, [1, kv_heads, at most budget]. The best tokens
        are first, so valid tokens precede others.
        """
        keys = self.source.k[layer, row, :, : self.source.bound].to(self.dtype)
        length = self.source.lengths[row]
        q = fold(observed.queries[layer, row : row + 1, :, : self.window], keys.shape[0])[0]
        position = torch.arange(keys.shape[1], device=keys.device)
        in_window = torch.arange(self.window, device=keys.device).repeat(q.shape[1] // self.window)
        query_positions = length - self.window + in_window
        scores = (q @ keys.transpose(1, 2)).float() / math.sqrt(keys.shape[-1])
        scores = scores.masked_fill(position > query_positions[:, None], -math.inf)
        votes = scores.softmax(-1).sum(1, keepdim=True)
        # The votes of the window are not pooled. In a prompt shorter than the window, all tokens are in the
        # window, and some of their votes are NaN.
        votes = votes.masked_fill(position >= length - self.window, 0.0)
        votes = F.avg_pool1d(votes, self.kernel, stride=1, padding=self.kernel // 2)[:, 0]
        votes = votes.masked_fill(position >= length - self.window, math.inf)
        votes = votes.masked_fill(position >= length, -math.inf)
        return votes.topk(min(self.source.bound, self.kept), dim=1).indices[None]

    def commit(self, start: torch.Tensor, count: torch.Tensor) -> None:
        offset = torch.arange(self.max_accepted + 1, device=start.device)
        self.place(start, count, self.lengths[:, None] + offset)
        self.lengths.add_(count)
        self.raise_bound(self.bound + self.max_accepted + 1)

    def tighten(self) -> None:
        """Lowers the bound to that of the source minus the number of tokens that were left out. The host does
        not wait for the device.
        """
        self.raise_bound(min(self.bound, self.source.bound - self._less))
