"""The cache after rollback is the cache of a fresh prefill, and nothing beyond a length is ever read."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from perfmodel.validate.decoder.cache import KVCache
from perfmodel.validate.decoder.drafts import ModelDrafter
from perfmodel.validate.decoder.factory import make_decoder
from perfmodel.validate.decoder.model import Model
from perfmodel.validate.decoder.request import Request
from perfmodel.validate.decoder.speculative import Decoder
from perfmodel.validate.decoder.state import State
from tests.validate.decoder.methods import METHODS


def prefilled(model: Model, state: State, room: int) -> KVCache:
    """The cache of a fresh prefill of everything but the newest token."""
    made = make_decoder(model, Request(len(state.tokens), room, 1))
    made.target.prefill(state.tokens[:, : int(state.length.max()) - 1], state.length - 1)
    return made.target.cache


def assert_same(ours: KVCache, fresh: KVCache) -> None:
    assert ours.lengths.tolist() == fresh.lengths.tolist()
    for row, length in enumerate(fresh.lengths.tolist()):
        for mine, theirs in ((ours.k, fresh.k), (ours.v, fresh.v)):
            torch.testing.assert_close(mine[:, row, :, :length], theirs[:, row, :, :length], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("gamma", [0, 1, 8])
@pytest.mark.parametrize("kind", ["self", "model"])
@torch.inference_mode()
def test_rollback_equals_a_fresh_prefill(
    target: Model, small: Model, prompts: list[list[int]], kind: str, gamma: int
) -> None:
    asked = Request(4, 70, 40, gamma, kind, "streamingllm:24")
    made = make_decoder(target, asked, small if kind == "model" else None)
    state = made.start(prompts, 40)
    for _ in range(12):
        made.iterate(state)
        assert torch.equal(made.target.cache.lengths, state.length - 1)
    assert_same(made.target.cache, prefilled(target, state, 128))
    if kind == "model" and isinstance(made.draft, ModelDrafter):
        cache = made.draft.runner.cache
        assert torch.equal(cache.lengths, state.length - 2)


def poison(cache: KVCache) -> None:
    """Make everything that is not committed poisonous (large: a masked value times a zero weight must stay zero)."""
    outside = torch.arange(cache.capacity) >= cache.lengths[:, None]
    for part in (cache.k, cache.v):
        part.masked_fill_(outside[None, :, None, :, None], 1e6)


@pytest.mark.parametrize("method", METHODS)
@torch.inference_mode()
def test_what_is_not_committed_is_not_read(target: Model, prompts: list[list[int]], method: str) -> None:
    def run(spoil: Callable[[Decoder], None]) -> Tensor:
        made = make_decoder(target, Request(4, 70, 40, 4, draft_kv=method))
        state = made.start(prompts, 40)
        for _ in range(8):
            spoil(made)
            made.iterate(state)
        return torch.cat(
            (state.length[:, None], state.tokens[:, :80].where(torch.arange(80) < state.length[:, None], 0)), 1
        )

    assert torch.equal(run(lambda made: None), run(lambda made: poison(made.target.cache)))


def test_a_fixed_bound_changes_no_token(target: Model, small: Model, prompts: list[list[int]]) -> None:
    """As captured graphs need: shapes stay the same whatever the lengths."""
    for method in METHODS:
        asked = Request(4, 70, 40, 4, draft_kv=method)
        made = make_decoder(target, asked)
        made.target.cache.fixed = True
        assert made.generate(prompts, 40).tokens == make_decoder(target, asked).generate(prompts, 40).tokens, method
