"""Each draft cache against its definition, written out."""

import math
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
import torch
from torch import Tensor

from perfmodel.validate.decoder import KVCache, Request, make_decoder
from tests.validate.decoder.views import (
    GROWTH,
    LENGTHS,
    D,
    assert_attends_to,
    attended,
    best_pages,
    cache,
    grow,
    observed,
    query,
    view,
)


def window(source: KVCache, b: int, head: int) -> list[int]:
    """Four sinks and the last 16 tokens."""
    length = int(source.lengths[b])
    return [t for t in range(length) if t < 4 or t >= length - 16]


def voted(source: KVCache, b: int, head: int, size: int = 8, kernel: int = 5, budget: int = 24) -> list[int]:
    """What the prompt's last tokens vote for, and all since."""
    length = LENGTHS[b]
    seen = observed(size).queries
    votes = np.zeros(LENGTHS[b])
    for h in (2 * head, 2 * head + 1):
        for slot in range(size):
            query_positions = length - size + slot
            past = source.k[1, b, head, : query_positions + 1]
            scores = past @ seen[1, b, h, slot] / math.sqrt(D)
            votes[: query_positions + 1] += scores.softmax(0).numpy()
    prefix = max(0, length - size)
    votes = np.pad(votes[:prefix], kernel // 2)  # what the window's own tokens got does not spill over
    pooled = [votes[t : t + kernel].sum() for t in range(prefix)]
    prefix = np.argsort(pooled)[::-1][: budget - size]
    return [*prefix, *range(length - size, int(source.lengths[b]))]


def heaviest(source: KVCache, b: int, head: int) -> list[int]:
    """The 12 tokens of the largest weights."""
    q, *_ = query()
    keys = source.k[1, b, head, : source.lengths[b]]
    of_the_group = q[b, 2 * head : 2 * head + 2, 0]
    scores = of_the_group @ keys.mT / math.sqrt(D)
    votes = scores.softmax(-1).sum(0)
    return votes.topk(min(12, len(keys))).indices.tolist()


def by_bounds(source: KVCache, b: int, head: int, page: int = 4) -> list[int]:
    def bound(keys: Tensor, q: Tensor) -> Tensor:
        least = q * keys.amin(0)
        most = q * keys.amax(0)
        return torch.maximum(least, most).sum()

    return best_pages(source, b, head, bound, page)


@pytest.mark.parametrize(
    ("method", "chosen", "times"),
    [
        ("streamingllm:20,sinks=4", window, 4),
        ("snapkv:24,window=8,kernel=5", voted, 1),
        ("topk:12", heaviest, 1),
        ("quest:20,page=4", by_bounds, 1),
    ],
)
def test_a_view_is_its_definition(
    method: str, chosen: Callable[[KVCache, int, int], list[int]], times: int
) -> None:
    source = cache(LENGTHS)
    draft_view = view(method, source)
    for growth in ([], GROWTH * times):
        grow(source, draft_view, growth)
        assert_attends_to(draft_view, source, chosen)


def test_pages_of_a_full_cache_whose_last_is_not_full() -> None:
    source = cache([255, 9, 256])
    assert_attends_to(view("quest:25,page=5", source), source, partial(by_bounds, page=5))


SPARSE = [
    "streamingllm:32",
    "streamingllm:320,sinks=300",
    "snapkv:64,window=8",
    "retrieval:32,every=2",
    "quest:32,page=8",
]


@pytest.mark.parametrize("method", SPARSE)
@pytest.mark.parametrize("lengths", [[0, 0, 0], [0, 1, 0], [1, 1, 3]])
def test_prompts_of_which_a_separate_draft_holds_nothing(method: str, lengths: list[int]) -> None:
    """Its cache lags by a token."""
    source = cache(lengths)
    draft_view = view(method, source)
    torch.testing.assert_close(attended(draft_view), attended(view("full", source)))
    grow(source, draft_view, GROWTH)
    torch.testing.assert_close(attended(draft_view), attended(view("full", source)))


@torch.inference_mode()
def test_a_draft_reads_no_more_of_a_sliding_layer_than_its_budget(make_model, prompts) -> None:
    """The same weights with windows of 24 and of 8 tokens. A budget of 8 makes the first the second, and a
    budget of 24 leaves the second as it is.
    """

    def hidden(window: int, draft_kv: str) -> Tensor:
        model = make_model(num_hidden_layers=1, num_sliding_layers=1, sliding_window=window)
        decoder = make_decoder(model, Request(len(prompts), 70, 20, 3, "self", draft_kv))
        decoder.start(prompts, 20)
        (draft,) = decoder.models
        draft.view.begin()
        return draft.run(torch.full((len(prompts), 1), 7))

    torch.testing.assert_close(hidden(24, "topk:8"), hidden(8, "full"))
    torch.testing.assert_close(hidden(8, "topk:24"), hidden(8, "full"))
