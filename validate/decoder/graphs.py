"""CUDA graphs: a whole iteration recorded once and replayed, so that no kernel waits for its launch.

What makes it possible lies elsewhere: lengths, positions and counts are device tensors changed in place, and with fixed
bounds every shape is the same in every iteration.
"""

from collections.abc import Callable

import torch

from perfmodel.errors import InputError
from perfmodel.validate.decoder.recording import record
from perfmodel.validate.decoder.speculative import Decoder
from perfmodel.validate.decoder.state import State

WARM_UP = 3


@torch.inference_mode()
def capture(decoder: Decoder, state: State) -> None:
    """Run `WARM_UP` real iterations, then record `step`; later iterations on `state` replay it."""
    device = decoder.target.model.device
    if device.type != "cuda":
        raise InputError(f"--graphs: needs a CUDA device, given {device.type}")
    if not decoder.capturable:
        raise InputError("--graphs: must not be given with --middle-kv: the host decides how many rounds there are")
    fix_bounds(decoder)
    side = torch.cuda.Stream(device)
    side.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(side):
        for _ in range(WARM_UP):
            decoder.iterate(state)
    torch.cuda.current_stream(device).wait_stream(side)
    replay_on(decoder, state, record(lambda: decoder.step(state), state.generator))


def replay_on(decoder: Decoder, state: State, replay: Callable[[], object]) -> None:
    """From now on iterations on `state` are replays; on any other they are `step`."""

    def advance(given: State) -> None:
        if given is state:
            replay()
        else:
            decoder.step(given)

    decoder.advance = advance


def fix_bounds(decoder: Decoder) -> None:
    """From the next iteration's commit on, passes look at whole caches whatever the lengths: shapes stay the same."""
    for cache in decoder.caches:
        cache.fixed = True
        cache.set_lengths(cache.lengths.clone(), cache.capacity)
