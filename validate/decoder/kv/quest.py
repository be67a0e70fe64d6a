"""Query-aware pages: bounds on every page's scores from its smallest and largest keys, the best pages read."""

import torch
from torch import Tensor

from perfmodel.kv.quest import Quest
from perfmodel.validate.decoder.attention import Span, fold
from perfmodel.validate.decoder.cache import pick_tokens
from perfmodel.validate.decoder.kv.base import View, by_pages
from perfmodel.validate.decoder.runner import Observed, Runner


class QuestView(View):
    """Bounds [layers, batch, kv_heads, pages + 1, head_dim] (the last is waste); the newest page is always read."""

    method = "quest"
    by_query = True

    def __init__(self, method: Quest, runner: Runner, new_tokens: int, max_accepted: int) -> None:
        super().__init__(method, runner, new_tokens, max_accepted)
        source = runner.cache
        layers, batch, heads, capacity, d = source.k.shape
        self.page, self.chosen, self.pages = method.page, method.budget // method.page, -(-capacity // method.page)
        shape = (layers, batch, heads, self.pages + 1, d)
        self.low, self.high = (torch.empty(shape, dtype=source.k.dtype, device=source.k.device) for _ in "lh")

    def build(self, observed: Observed) -> None:
        """Bounds of the prompts' pages, layer by layer; those of an earlier prompt are forgotten."""
        most = torch.finfo(self.low.dtype).max
        self.low.fill_(most)
        self.high.fill_(-most)
        for layer, keys in enumerate(self.source.k):
            pages, valid = by_pages(keys, self.source, self.page)
            count = pages.shape[2]
            self.low[layer][:, :, :count] = pages.masked_fill(~valid, most).amin(3)
            self.high[layer][:, :, :count] = pages.masked_fill(~valid, -most).amax(3)

    def commit(self, start: Tensor, count: Tensor) -> None:
        """Widen the bounds of the pages that the new tokens fell into."""
        n = self.max_accepted + 1
        positions = self.source.positions(start, n)
        keep = torch.arange(n, device=start.device) < count[:, None]
        keys = self.source.read(positions)[: len(self.low)]
        page = torch.where(keep, positions // self.page, self.pages)[None, :, None, :, None].expand_as(keys)
        self.low.scatter_reduce_(3, page, keys, "amin")
        self.high.scatter_reduce_(3, page, keys, "amax")

    def attend(self, layer: int, q: Tensor, new_k: Tensor, new_v: Tensor, sees: Tensor | None = None) -> Tensor:
        """Gather the best pages and attend to them."""
        index, span = self._choose(layer, q)
        k, v = pick_tokens(self.source.k[layer], index), pick_tokens(self.source.v[layer], index)
        return self.attention(q, k, v, span, new_k, new_v, sees)

    def _choose(self, layer: int, q: Tensor) -> tuple[Tensor, Span]:
        """Token indices [batch, kv_heads, chosen * page] with the valid ones first, and how many these are."""
        lengths, seen = self._span.lengths, -(-self._span.bound // self.page)
        rows, count = fold(q, self.low.shape[2]), min(self.chosen, seen)
        low, high = self.low[layer][:, :, :seen], self.high[layer][:, :, :seen]
        rows = rows.transpose(-1, -2)  # the small operand: bf16 products on a CPU copy a transposed large one
        bounds = high @ rows.clamp(min=0) + low @ rows.clamp(max=0)
        number, filled = torch.arange(seen, device=q.device), -(-lengths // self.page)
        score = bounds.float().amax(3).masked_fill(number >= filled[:, None, None] - 1, torch.inf)
        score = score.masked_fill(number >= filled[:, None, None], -torch.inf)
        best = score.topk(count, dim=-1).indices.sort(-1).values
        tokens = (best[..., None] * self.page + torch.arange(self.page, device=q.device)).flatten(2)
        pages = filled.clamp(max=count)
        valid = (pages * self.page - (-lengths) % self.page).clamp(min=0)
        return tokens.clamp(max=self.source.capacity - 1), Span(valid, count * self.page)
