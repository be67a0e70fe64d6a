"""What a draft cache states of itself: the bounds of its lengths, and all that iterations change."""

import pytest
import torch
from torch import Tensor

from perfmodel.validate.decoder import Model, Request, make_decoder, start_random
from perfmodel.validate.decoder.kv.base import Packed
from perfmodel.validate.harness.point_runner import DecoderRun, Snapshot
from tests.validate.decoder.methods import METHODS
from tests.validate.decoder.views import GAMMA, GROWTH, NEW, cache, grow, view


@pytest.mark.parametrize(
    ("method", "slots", "bounds", "lengths"),
    [
        ("streamingllm:20,sinks=4", 20, (20, 20, 20), [20, 20, 20]),
        ("snapkv:24,window=8", 24 + NEW + GAMMA + 1, (24, 49, 41), [37, 39, 34]),
        ("retrieval:20,every=9,chunk=4", 20, (20, 20, 20), [20, 20, 20]),
        ("snapkv:200,window=8", 200 + NEW + GAMMA + 1, (100, 125, 113), [113, 113, 106]),
        ("streamingllm:200", 200, (100, 125, 125), [113, 113, 106]),
        ("retrieval:200,every=9,chunk=4", 200, (100, 125, 125), [113, 113, 106]),
    ],
)
def test_the_bounds_of_a_view(method: str, slots: int, bounds: tuple[int, ...], lengths: list[int]) -> None:
    """As built; five tokens further after each iteration; and what the source's lengths bring down again."""
    source = cache([100, 98, 96])
    draft_view = view(method, source)
    assert isinstance(draft_view, Packed)
    view_bounds = [draft_view.bound]
    grow(source, draft_view, GROWTH)
    view_bounds.append(draft_view.bound)
    source.tighten()
    draft_view.tighten()
    assert (*view_bounds, draft_view.bound) == bounds
    assert draft_view.lengths.tolist() == lengths
    source.fixed = True
    draft_view.raise_bound(3)
    assert draft_view.bound == draft_view.slots == draft_view.k.shape[3] - 1 == slots


@pytest.mark.parametrize("method", METHODS)
@torch.inference_mode()
def test_a_view_states_all_that_iterations_change(target: Model, method: str) -> None:
    """A snapshot brings back every number and every small tensor; the large ones are contents."""
    request = Request(2, 20, 60, 3, draft_kv=method, script=(0, 1, 2, 1))
    decoder = make_decoder(target, request)
    state = start_random(decoder, 20, 60)
    view = decoder.models[0].view
    snapshot = Snapshot(DecoderRun(decoder, state))

    def small() -> dict[str, object]:
        own_tensors = {
            name: torch.as_tensor(value)
            for name, value in vars(view).items()
            if isinstance(value, (int, Tensor))
        }
        return {name: value.tolist() for name, value in own_tensors.items() if value.numel() <= 256}

    before = small()
    for _ in range(2):
        for _ in range(7):
            decoder.iterate(state)
        assert not isinstance(view, Packed) or small() != before
        snapshot.restore()
        assert small() == before
