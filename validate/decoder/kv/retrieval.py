"""The view of the method `retrieval` (TriForce). It copies the chunks whose mean keys have the best scores
with the latest query, and selects chunks again every few iterations.
"""

import torch
from torch import Tensor

from perfmodel.kv.retrieval import Retrieval
from perfmodel.validate.decoder.attention import fold
from perfmodel.validate.decoder.kv.base import Packed, by_pages, check_option
from perfmodel.validate.decoder.runner import Observed, Runner


class RetrievalView(Packed):
    """The view with `budget` slots per KV head, which have the best chunks first. Tokens that are committed
    later replace the worst chunks, from the end.

    The first selection uses the query of the last prompt token. Later selections use the query of the newest
    token in the first draft step of the iteration.
    """

    window = 1
    changing = (*Packed.changing, "tokens_since_build", "latest", "iteration")
    latest: Tensor
    """The queries for the next selection, [layers, batch, heads, 1, head_dim]."""
    iteration: int
    tokens_since_build: Tensor
    """The number of tokens that were committed since the last selection, [batch]."""

    def __init__(self, method: Retrieval, runner: Runner, new_tokens: int, max_accepted: int) -> None:
        check_option(method, "keep_means", method.keep_means, method.keep_means)
        source = runner.cache
        chunks = -(-source.capacity // method.chunk) + 1
        layers, batch, heads, _, d = source.k.shape
        super().__init__(method, runner, new_tokens, max_accepted, slots=method.budget)
        self.every = method.every
        self.chosen = method.budget // method.chunk
        self.chunk = method.chunk
        self.sums = torch.zeros((layers, batch, heads, chunks, d), dtype=self.dtype, device=source.k.device)
        self._unobserved_layers = 0
        self.tokens_since_build = torch.zeros(batch, dtype=torch.int64, device=source.k.device)

    def build(self, observed: Observed) -> None:
        """Sums the keys of every chunk, and selects chunks with the query of the last prompt token.

        The scores of sums of full chunks have the same order as those of means. The newest chunk, which need
        not be full, is always selected.
        """
        self.sums.zero_()
        for layer, keys in enumerate(self.source.k):
            pages, valid = by_pages(keys, self.source, self.chunk, self.dtype)
            self.sums[layer][:, :, : pages.shape[2]] = (pages * valid).sum(3)
        self.iteration = 0
        self.latest = observed.queries[:, :, :, :1].clone()
        self._rebuild()

    def _rebuild(self) -> None:
        """Copies the best chunks of every layer, the best first."""
        lengths = self.source.lengths
        filled = -(-lengths // self.chunk)
        self.raise_bound(self.source.bound)
        count = min(self.chosen, -(-self.source.bound // self.chunk))
        within = torch.arange(self.chunk, device=lengths.device)
        for layer in range(len(self.latest)):
            best = self._scores(layer, filled).topk(count, dim=-1).indices
            tokens = (best[..., None] * self.chunk + within).flatten(2)
            outside = tokens >= lengths[:, None, None]  # moved to the end, and read from slot 0 instead
            order = outside.to(torch.int8).argsort(dim=-1, stable=True)
            self.copy(layer, torch.where(outside, 0, tokens).gather(2, order)[..., : self.slots])
        self.lengths.copy_(filled.clamp(max=count) * self.chunk - (-lengths) % self.chunk)
        self.tokens_since_build.zero_()

    def _scores(self, layer: int, filled: Tensor) -> Tensor:
        """The best score of each chunk over the query heads of a KV head, [batch, kv_heads, chunks]. It is
        infinity for the newest chunk, and minus infinity for chunks without tokens.

        - filled [batch]: the number of chunks with tokens.
        """
        sums = self.sums[layer][:, :, :-1]
        number = torch.arange(sums.shape[2], device=sums.device)
        score = (fold(self.latest[layer], sums.shape[1]) @ sums.mT).amax(2).float()
        score = score.masked_fill(number >= filled[:, None, None] - 1, torch.inf)
        return score.masked_fill(number >= filled[:, None, None], -torch.inf)

    def begin(self) -> None:
        """See `View.begin`. The queries of the next pass are kept for the next selection."""
        super().begin()
        self._unobserved_layers = len(self.k)

    def attend(
        self, layer: int, q: Tensor, new_k: Tensor, new_v: Tensor, sees: Tensor | None = None
    ) -> Tensor:
        if self._unobserved_layers:
            self.latest[layer].copy_(q[:, :, -1:])
            self._unobserved_layers -= 1
        return super().attend(layer, q, new_k, new_v, sees)

    def commit(self, start: Tensor, count: Tensor) -> None:
        """Adds the new tokens to the sums of their chunks, and copies them to slots (`_slots_of`)."""
        n = self.max_accepted + 1
        offset = torch.arange(n, device=start.device)
        self._add_to_sums(self.source.positions(start, n), offset < count[:, None])
        self.place(start, count, self._slots_of(offset))
        self.tokens_since_build.add_(count)
        self.lengths.add_(count).clamp_(max=self.slots)
        self.raise_bound(self.bound + n)

    def _add_to_sums(self, positions: Tensor, is_committed: Tensor) -> None:
        """Adds the keys at positions [batch, n] to the sums of their chunks. Keys that are not committed go
        to the last sum, which is not used.
        """
        keys = self.source.read(positions)[: len(self.sums)].to(self.dtype)
        unused = self.sums.shape[3] - 1
        chunk = torch.where(is_committed, positions // self.chunk, unused)
        self.sums.scatter_add_(3, chunk[None, :, None, :, None].expand_as(keys), keys)

    def _slots_of(self, offset: Tensor) -> Tensor:
        """The slots [batch, n] of the next tokens: free slots, and then those of the worst chunks, from the
        end.
        """
        free = self.lengths[:, None] + offset
        replaced = self.slots - 1 - (self.tokens_since_build[:, None] + offset) % self.slots
        return torch.where(free < self.slots, free, replaced)

    def refresh(self) -> None:
        self.iteration += 1
        if self.iteration % self.every == 0:
            self._rebuild()
