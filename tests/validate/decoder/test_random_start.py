"""A start without a prefill."""

import torch

from perfmodel.validate.decoder import Model, Request, make_decoder, start_random


@torch.inference_mode()
def test_sequences_have_the_lengths_that_are_asked_for(target: Model) -> None:
    """Each has one more token, the input of the first iteration, and room for as many as the others."""
    decoder = make_decoder(target, Request(2, 20, 8, gamma=2))
    state = start_random(decoder, 20, 8, lengths=(20, 11))
    assert decoder.target.cache.lengths.tolist() == [20, 11]
    assert state.length.tolist() == [21, 12]
    assert state.limit.tolist() == [28, 19]


@torch.inference_mode()
def test_one_seed_gives_one_start(target: Model) -> None:
    def cached(seed: int) -> torch.Tensor:
        decoder = make_decoder(target, Request(2, 20, 8))
        start_random(decoder, 20, 8, seed)
        return decoder.target.cache.kv

    assert torch.equal(cached(1), cached(1))
    assert not torch.equal(cached(1), cached(2))
