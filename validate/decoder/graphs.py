"""CUDA graphs: an iteration recorded once and replayed, so that no kernel waits for its launch.

What makes it possible lies elsewhere: lengths, positions and counts are device tensors changed in place, and
with fixed bounds every shape is the same in every iteration. Where the host decides how much is drafted, a
round is a graph, and so is what follows for each number of tokens to verify.
"""

from collections.abc import Callable
from functools import partial

import torch

from perfmodel.errors import InputError
from perfmodel.validate.decoder.recording import record
from perfmodel.validate.decoder.speculative import Decoder
from perfmodel.validate.decoder.state import State
from perfmodel.validate.decoder.two_levels import TwoLevelDecoder

WARM_UP = 3


@torch.inference_mode()
def capture(decoder: Decoder, state: State) -> None:
    """Run some real iterations, then record `step`; later iterations on `state` replay it."""
    device = decoder.target.model.device
    if device.type != "cuda":
        raise InputError(f"--graphs: needs a CUDA device, given {device.type}")
    fix_bounds(decoder)
    side = torch.cuda.Stream(device)
    side.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(side):
        warm_up(decoder, state)
    torch.cuda.current_stream(device).wait_stream(side)
    decoder.replay = decoder.replayed(state, partial(record, generator=state.generator))


def warm_up(decoder: Decoder, state: State) -> None:
    """Run everything that is to be recorded, in real iterations: of two levels every width, else
    `WARM_UP`.
    """
    steps: list[Callable[[State], object]] = [decoder.step] * WARM_UP
    if isinstance(decoder, TwoLevelDecoder):
        steps = [partial(decoder.step_at, width) for width in decoder.widths]
    for step in steps:
        step(state)
        decoder.refresh()


def fix_bounds(decoder: Decoder) -> None:
    """From the next iteration's commit on, passes look at whole caches whatever the lengths: shapes stay the
    same.
    """
    for cache in decoder.caches:
        cache.fixed = True
        cache.set_lengths(cache.lengths.clone(), cache.capacity)
