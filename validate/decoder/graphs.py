"""Captures an iteration as a CUDA graph and replays it, so kernels do not wait for the host to launch them.

This works because lengths, positions and counts are tensors on the device that change in place. With fixed
bounds, all shapes are the same in every iteration.
"""

from functools import partial

import torch

from perfmodel.errors import InputError
from perfmodel.validate.decoder.capture import captured, replayed
from perfmodel.validate.decoder.speculative import Decoder
from perfmodel.validate.decoder.state import State
from perfmodel.validate.decoder.two_levels import TwoLevelDecoder

WARM_UP = 3
"""Number of iterations before a capture. They compile and initialise all kernels."""


@torch.inference_mode()
def capture(decoder: Decoder, state: State) -> None:
    """Runs `WARM_UP` iterations of decoding, then captures `step`. Later iterations on `state` replay the
    capture. Raises InputError without CUDA and for two-level drafts.
    """
    device = decoder.target.model.device
    if isinstance(decoder, TwoLevelDecoder):
        raise InputError("--graphs: two levels cannot be captured: the host decides on each inner round")
    if device.type != "cuda":
        raise InputError(f"--graphs: needs a CUDA device, given {device.type}")
    fix_bounds(decoder)
    side = torch.cuda.Stream(device)
    side.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(side):
        warm_up(decoder, state)
    torch.cuda.current_stream(device).wait_stream(side)
    decoder.replay = replayed(decoder.step, state, partial(captured, generator=state.generator))


def warm_up(decoder: Decoder, state: State) -> None:
    """Runs `WARM_UP` iterations of decoding."""
    for _ in range(WARM_UP):
        decoder.step(state)
        decoder.refresh()


def fix_bounds(decoder: Decoder) -> None:
    """Fixes the bounds of all caches at their capacities. From the next commit on, the shapes of passes do
    not depend on the lengths.
    """
    for cache in decoder.caches:
        cache.fixed = True
        cache.set_lengths(cache.lengths.clone(), cache.capacity)
