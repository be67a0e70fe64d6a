"""The cache after rollback is the cache of a fresh prefill, and nothing beyond a length is ever read."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from perfmodel.validate.decoder.cache import KVCache
from perfmodel.validate.decoder.factory import make_decoder
from perfmodel.validate.decoder.request import Request
from tests.validate.decoder.methods import METHODS, check_cache


@pytest.mark.parametrize("gamma", [0, 1, 8])
@pytest.mark.parametrize("kind", ["self", "model"])
@torch.inference_mode()
def test_rollback_equals_a_fresh_prefill(target, small, prompts, kind, gamma) -> None:
    asked = Request(4, 70, 40, gamma, kind, "streamingllm:24")
    made = make_decoder(target, asked, small if kind == "model" else None)
    state = made.start(prompts, 40)
    for _ in range(12):
        made.iterate(state)
    check_cache(made.target.cache, target, state)
    for own in made.caches[1:]:
        check_cache(own, small, state, behind=2)


def poison(cache: KVCache) -> None:
    """Make everything that is not committed poisonous (large: a masked value times a zero weight must stay zero)."""
    outside = torch.arange(cache.capacity) >= cache.lengths[:, None]
    for part in (cache.k, cache.v):
        part.masked_fill_(outside[None, :, None, :, None], 1e6)


@pytest.mark.parametrize("method", METHODS)
@torch.inference_mode()
def test_neither_what_is_not_committed_nor_a_fixed_bound_changes_a_token(target, prompts, method) -> None:
    """Captured graphs need shapes that stay the same whatever the lengths."""

    def run(spoil: Callable[[KVCache], object]) -> Tensor:
        made = make_decoder(target, Request(4, 70, 40, 4, draft_kv=method))
        state = made.start(prompts, 40)
        for _ in range(8):
            spoil(made.target.cache)
            made.iterate(state)
        return state.tokens.where(torch.arange(state.tokens.shape[1]) < state.length[:, None], -1)

    free = run(lambda cache: None)
    assert torch.equal(run(poison), free)
    assert torch.equal(run(lambda cache: setattr(cache, "fixed", True)), free)
