"""Starts decoding without a prefill, for timing: fills the caches with random values and makes the state of
decoding after a prefill.
"""

import torch

from perfmodel.validate.decoder.cache import KVCache
from perfmodel.validate.decoder.fp8 import FP8
from perfmodel.validate.decoder.runner import Observed
from perfmodel.validate.decoder.speculative import Decoder
from perfmodel.validate.decoder.state import State


@torch.inference_mode()
def start_random(
    decoder: Decoder, context: int, new_tokens: int, seed: int = 0, lengths: tuple[int, ...] | None = None
) -> State:
    """The state after the prefill of prompts of `context` tokens, with random values in the caches.

    - lengths: the prompt length of each sequence, at most `context`; None if all have `context` tokens.
    """
    model = decoder.target.model
    cache = decoder.target.cache
    generator = torch.Generator(model.device).manual_seed(seed)
    batch = len(cache.lengths)
    tokens = torch.randint(model.spec.vocab_size, (batch, context), generator=generator, device=model.device)
    state = State.from_prompts(tokens, new_tokens, decoder.gamma, model.device, seed)
    if lengths is not None:
        state.length.copy_(torch.tensor(lengths, device=model.device))
        state.limit.copy_(state.length + new_tokens)
    _fill(cache, state.length, context, generator)
    for passes in decoder.models:
        if passes.owns_cache:
            _fill(passes.runner.cache, state.length - passes.behind, context - passes.behind, generator)
        observed = Observed.of(passes.runner.model, batch, passes.view.window)
        observed.queries.normal_(generator=generator)
        passes.view.build(observed)
    state.append(tokens[:, -1:], torch.ones_like(state.length), decoder.eos)
    return state


def _fill(cache: KVCache, lengths: torch.Tensor, bound: int, generator: torch.Generator) -> None:
    """Fills every slot of a cache with random keys and values.

    - bound: the largest of the lengths.
    """
    for layer in cache.kv.flatten(0, 1):
        is_fp8 = layer.dtype == FP8  # which torch cannot draw
        values = torch.empty(layer.shape, device=layer.device) if is_fp8 else layer
        layer.copy_(values.normal_(generator=generator))
    cache.set_lengths(lengths, bound)
