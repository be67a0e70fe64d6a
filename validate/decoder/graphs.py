"""CUDA graphs: an iteration is captured once and replayed, so no kernel waits for its launch.

This works because lengths, positions and counts are tensors on the device that change in place. With fixed
bounds, every shape is the same in every iteration.
"""

from functools import partial

import torch

from perfmodel.errors import InputError
from perfmodel.validate.decoder.capture import captured, replayed
from perfmodel.validate.decoder.speculative import Decoder
from perfmodel.validate.decoder.state import State
from perfmodel.validate.decoder.two_levels import TwoLevelDecoder

WARM_UP = 3


@torch.inference_mode()
def capture(decoder: Decoder, state: State) -> None:
    """Runs `WARM_UP` real iterations, then captures `step`. Later iterations on `state` replay it. Raises
    InputError without CUDA and for two levels.
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
    """Runs `WARM_UP` real iterations before a capture."""
    for _ in range(WARM_UP):
        decoder.step(state)
        decoder.refresh()


def fix_bounds(decoder: Decoder) -> None:
    """Fixes the bounds of all caches at their capacity. From the next commit on, passes then read whole
    caches, so shapes stay the same.
    """
    for cache in decoder.caches:
        cache.fixed = True
        cache.set_lengths(cache.lengths.clone(), cache.capacity)
