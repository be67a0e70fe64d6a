"""The view of the method `quest`. The smallest and largest keys of a page give an upper bound of its scores,
and a draft step reads the pages with the largest bounds.
"""

import torch
from torch import Tensor

from perfmodel.kv.quest import Quest
from perfmodel.validate.decoder.attention import CacheSpan
from perfmodel.validate.decoder.kv.base import View, by_pages
from perfmodel.validate.decoder.runner import Observed, Runner


class QuestView(View):
    """The view that reads the pages with the largest bounds. The newest page of a sequence is always read.

    - low, high: the smallest and largest keys of each page, [layers, batch, kv_heads, pages + 1, head_dim].
      The last page receives discarded tokens.
    """

    by_query = True

    def __init__(self, method: Quest, runner: Runner, new_tokens: int, max_accepted: int) -> None:
        super().__init__(method, runner, new_tokens, max_accepted)
        source = runner.cache
        layers, batch, heads, capacity, d = source.k.shape
        self.chosen = method.budget // method.page
        self.pages = -(-capacity // method.page)
        self.page = method.page
        shape = (layers, batch, heads, self.pages + 1, d)
        self.low = torch.empty(shape, dtype=self.dtype, device=source.k.device)
        self.high = torch.empty_like(self.low)

    def build(self, observed: Observed) -> None:
        """Computes the bounds of the pages of the prompts, layer by layer. The bounds of earlier prompts are
        cleared.
        """
        most = torch.finfo(self.low.dtype).max
        self.low.fill_(most)
        self.high.fill_(-most)
        for layer, keys in enumerate(self.source.k):
            pages, valid = by_pages(keys, self.source, self.page, self.dtype)
            count = pages.shape[2]
            self.low[layer][:, :, :count] = pages.masked_fill(~valid, most).amin(3)
            self.high[layer][:, :, :count] = pages.masked_fill(~valid, -most).amax(3)

    def commit(self, start: Tensor, count: Tensor) -> None:
        """Widens the bounds of the pages that have new tokens."""
        n = self.max_accepted + 1
        positions = self.source.positions(start, n)
        keep = torch.arange(n, device=start.device) < count[:, None]
        keys = self.source.read(positions)[: len(self.low)].to(self.dtype)
        page = torch.where(keep, positions // self.page, self.pages)
        page = page[None, :, None, :, None].expand_as(keys)
        self.low.scatter_reduce_(3, page, keys, "amin")
        self.high.scatter_reduce_(3, page, keys, "amax")

    def begin(self) -> None:
        """Computes the number of tokens in the best pages of each sequence. The newest page, which is always
        one of these, need not be full.
        """
        super().begin()
        lengths = self.source.lengths
        seen = -(-self.source.bound // self.page)
        count = min(self.chosen, seen)
        filled = (-(-lengths // self.page)).clamp(max=count)
        self._chosen = CacheSpan(filled * self.page - (-lengths) % self.page, count * self.page)

    def attend(
        self, layer: int, q: Tensor, new_k: Tensor, new_v: Tensor, sees: Tensor | None = None
    ) -> Tensor:
        cache = self.source
        seen = -(-self.source.bound // self.page)
        bounds = self.low[layer][:, :, :seen], self.high[layer][:, :, :seen]
        return self.selection.over_pages(
            q,
            cache.k[layer],
            cache.v[layer],
            bounds=bounds,
            page=self.page,
            lengths=cache.lengths,
            chosen=self._chosen,
            new_k=new_k,
            new_v=new_v,
            sees=sees,
        )
