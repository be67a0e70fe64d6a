"""The implementation of `Selection` with Triton kernels. One kernel computes scores, and another finds the
best pages or tokens. The two kernels of `triton_attention` then compute attention over these.
"""

import torch
import triton
from torch import Tensor

from perfmodel.validate.decoder.attention import CacheSpan, fold
from perfmodel.validate.decoder.kernels.best import SEARCHED, WARPS as SEARCH_WARPS, _best
from perfmodel.validate.decoder.kernels.page_scores import _page_scores
from perfmodel.validate.decoder.kernels.token_scores import _token_scores
from perfmodel.validate.decoder.selection import Selection
from perfmodel.validate.decoder.triton_attention import SplitKV
from perfmodel.validate.decoder.tuning import tile_of

SELECTED_ROWS = 128
"""Largest number of rows in a tile of scores, for heads of 128 values."""
TILE = 64
"""Number of pages or tokens whose scores one program computes."""
SCORE_WARPS = 4
"""Number of warps of such a program."""


class FusedSelection(Selection):
    """The selection with Triton kernels. Shapes that `SplitKV` does not compute are left to torch."""

    def __init__(self, attention: SplitKV) -> None:
        super().__init__(attention)
        self.fused = attention

    def over_pages(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        *,
        bounds: tuple[Tensor, Tensor],
        page: int,
        lengths: Tensor,
        chosen: CacheSpan,
        new_k: Tensor,
        new_v: Tensor,
        sees: Tensor | None,
    ) -> Tensor:
        if not self.fused.takes(q, new_k, SELECTED_ROWS):
            return super().over_pages(
                q,
                k,
                v,
                bounds=bounds,
                page=page,
                lengths=lengths,
                chosen=chosen,
                new_k=new_k,
                new_v=new_v,
                sees=sees,
            )
        rows = fold(q, k.shape[1]).contiguous()
        low, high = bounds
        pages = low.shape[2]
        batch, heads, count, d = rows.shape
        score = torch.empty(batch * heads, pages, dtype=torch.float32, device=q.device)
        _page_scores[(batch * heads, triton.cdiv(pages, TILE))](
            rows,
            low,
            high,
            lengths,
            score,
            *low.stride()[:3],
            pages,
            HEADS=heads,
            ROWS=count,
            PAD=tile_of(count, SELECTED_ROWS),
            D=d,
            TILE=TILE,
            PAGE=page,
            num_warps=SCORE_WARPS,
        )
        index = self.search(score.view(batch, heads, pages), chosen.bound // page).flatten(0, 1)
        return self.fused.by_index(q, k, v, index, page, span=chosen, new_k=new_k, new_v=new_v, sees=sees)

    def over_tokens(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        *,
        lengths: Tensor,
        chosen: CacheSpan,
        new_k: Tensor,
        new_v: Tensor,
        sees: Tensor | None,
    ) -> Tensor:
        if not self.fused.takes(q, new_k, SELECTED_ROWS):
            return super().over_tokens(
                q, k, v, lengths=lengths, chosen=chosen, new_k=new_k, new_v=new_v, sees=sees
            )
        rows = fold(q, k.shape[1]).contiguous()
        tokens = k.shape[2]
        batch, heads, count, d = rows.shape
        tiles = triton.cdiv(tokens, TILE)
        score = torch.empty(batch * heads, count, tokens, dtype=torch.float32, device=q.device)
        lse = torch.empty(batch * heads, tiles, count, dtype=torch.float32, device=q.device)
        _token_scores[(batch * heads, tiles)](
            rows,
            k,
            lengths,
            score,
            lse,
            *k.stride()[:3],
            d**-0.5,
            tokens,
            tiles,
            HEADS=heads,
            ROWS=count,
            PAD=tile_of(count, SELECTED_ROWS),
            D=d,
            TILE=TILE,
            num_warps=SCORE_WARPS,
        )
        votes = torch.empty(batch * heads, tokens, dtype=torch.float32, device=q.device)
        index = self._best(votes, chosen.bound, lengths, (heads, count), (score, lse))
        return self.fused.by_index(q, k, v, index, page=1, span=chosen, new_k=new_k, new_v=new_v, sees=sees)

    def search(self, score: Tensor, count: int) -> Tensor:
        batch, heads, _ = score.shape
        lengths = torch.empty(0, dtype=torch.int64, device=score.device)  # not read without votes
        best = self._best(score.flatten(0, 1), count, lengths, (heads, 1))
        return best.view(batch, heads, count)

    def _best(
        self,
        votes: Tensor,
        count: int,
        lengths: Tensor,
        shape: tuple[int, int],
        scored: tuple[Tensor, Tensor] | None = None,
    ) -> Tensor:
        """The numbers of the `count` units with the largest votes, [sequences x KV heads, count], int32.

        - votes: [sequences x KV heads, units]. The kernel computes them if there is `scored`.
        - lengths: the number of cached tokens of each sequence, which is read only with `scored`.
        - shape: the number of KV heads, and the number of rows per KV head.
        - scored: the scores and their log-sum-exp, from which the votes are computed (see the kernel).
        """
        heads, rows = shape
        score, lse = scored or (votes, votes)
        index = torch.empty(len(votes), count, dtype=torch.int32, device=votes.device)
        _best[(len(votes),)](
            score,
            votes,
            lse,
            lengths,
            index,
            votes.shape[1],
            lse.shape[1],
            HEADS=heads,
            ROWS=rows,
            PAD=tile_of(rows, SELECTED_ROWS),
            COUNT=count,
            TILE=min(SEARCHED, max(256, triton.next_power_of_2(votes.shape[1]))),
            VOTES=scored is not None,
            num_warps=SEARCH_WARPS,
        )
        return index
