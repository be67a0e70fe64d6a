"""Small draft caches over random keys, and attention over chosen tokens of them."""

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from perfmodel.kv import parse_kv
from perfmodel.validate.decoder import KVCache, backends, kv
from perfmodel.validate.decoder.pointwise import Pointwise, Rotary
from perfmodel.validate.decoder.runner import Observed, Runner

LAYERS = 2
BATCH = 3
HEADS = 4
KV = 2
D = 8
GAMMA = 4
NEW = 40


def cache(lengths: list[int], dtype: torch.dtype = torch.float64) -> KVCache:
    filled = KVCache((LAYERS, BATCH, KV, 256, D), torch.device("cpu"), dtype)
    generator = torch.Generator().manual_seed(0)
    filled.k.normal_(generator=generator)
    filled.v.normal_(generator=generator)
    filled.set_lengths(torch.tensor(lengths), max(lengths))
    return filled


def observed(window: int, dtype: torch.dtype = torch.float64) -> Observed:
    generator = torch.Generator().manual_seed(1)
    return Observed(
        torch.randn(LAYERS, BATCH, HEADS, window + 1, D, generator=generator, dtype=dtype), window
    )


def view(method: str, source: KVCache) -> kv.View:
    chosen = backends.choose("auto", torch.device("cpu"), source.k.dtype)
    model: Any = SimpleNamespace(pointwise=Pointwise(), dtype=source.k.dtype)
    runner = Runner(model, source, chosen, Rotary(torch.ones(D // 2), 1.0))
    built = kv.view(parse_kv(method), runner, NEW, GAMMA)
    built.build(observed(built.window, source.k.dtype))
    return built


def query(n: int = 1, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(2)
    return tuple(torch.randn(BATCH, h, n, D, generator=generator, dtype=dtype) for h in (HEADS, KV, KV))  # type: ignore[return-value]


def attended(draft_view: kv.View, layer: int = 1) -> Tensor:
    draft_view.begin()
    return draft_view.attend(layer, *query())


def by_selection(source: KVCache, chosen: Callable[[KVCache, int, int], list[int]], layer: int = 1) -> Tensor:
    """Attention of `query` over chosen(source, sequence, kv head) and the new token."""
    q, new_k, new_v = query()
    out = torch.empty_like(q)
    for b in range(BATCH):
        for h in range(HEADS):
            head = h // (HEADS // KV)
            index = torch.tensor(sorted(chosen(source, b, head)), dtype=torch.int64)
            keys = torch.cat((source.k[layer, b, head, index], new_k[b, head]))
            values = torch.cat((source.v[layer, b, head, index], new_v[b, head]))
            scores = keys @ q[b, h, 0] / math.sqrt(D)
            out[b, h, 0] = scores.softmax(0) @ values
    return out.transpose(1, 2).flatten(2)


def assert_attends_to(
    draft_view: kv.View, source: KVCache, chosen: Callable[[KVCache, int, int], list[int]]
) -> None:
    """The attention of a view is that over chosen tokens of its source."""
    wanted = by_selection(source, chosen)
    torch.testing.assert_close(attended(draft_view), wanted, rtol=1e-12, atol=1e-12)


def grow(source: KVCache, draft_view: kv.View, counts: list[list[int]]) -> None:
    """Commit, as after verifications; the tokens' keys lie in the cache already."""
    for count in counts:
        start = source.lengths.clone()
        source.advance(torch.tensor(count), GAMMA + 1)
        draft_view.commit(start, torch.tensor(count))
        draft_view.refresh()


GROWTH = [[5, 1, 0], [2, 5, 3], [0, 0, 0], [5, 5, 5], [1, 4, 2]]
LENGTHS = [100, 9, 41]


def best_pages(
    source: KVCache, b: int, head: int, score: Callable[[Tensor, Tensor], Tensor], page: int = 4
) -> list[int]:
    """The newest page, and four more: those of the highest score of their keys by either query head."""
    q = query()[0]
    length = int(source.lengths[b])
    starts = range(0, length, page)
    pages = [list(range(start, min(start + page, length))) for start in starts]

    def of(page: list[int]) -> float:
        keys = source.k[1, b, head, page]
        of_the_group = q[b, 2 * head : 2 * head + 2, 0]
        return max(float(score(keys, query)) for query in of_the_group)

    best = sorted(pages[:-1], key=of, reverse=True)[:4]
    return [token for page in [*best, pages[-1]] for token in page]
