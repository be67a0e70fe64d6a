"""CUDA graphs: a whole iteration recorded once and replayed, so that no kernel waits for its launch.

What makes it possible lies elsewhere: lengths, positions and counts are device tensors changed in place, and with fixed
bounds every shape is the same in every iteration.
"""

from collections.abc import Callable

import torch

from perfmodel.errors import InputError
from perfmodel.validate.decoder.speculative import Decoder
from perfmodel.validate.decoder.state import State

WARM_UP = 3


def record(work: Callable[[], object], generator: torch.Generator) -> Callable[[], object]:
    """A replay of what `work` does on the device; recording it changes nothing. It must have run before."""
    graph = torch.cuda.CUDAGraph()
    graph.register_generator_state(generator)
    with torch.cuda.graph(graph):
        work()
    return graph.replay


@torch.inference_mode()
def capture(made: Decoder, state: State) -> None:
    """Run `WARM_UP` real iterations, then record `made.step`; later iterations on `state` replay it."""
    device = made.target.model.device
    if device.type != "cuda":
        raise InputError(f"--graphs: needs a CUDA device, given {device.type}")
    if not made.capturable:
        raise InputError("--graphs: must not be given with --middle-kv: the host decides how many rounds there are")
    fix_bounds(made)
    side = torch.cuda.Stream(device)
    side.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(side):
        for _ in range(WARM_UP):
            made.iterate(state)
    torch.cuda.current_stream(device).wait_stream(side)
    made.captured = state, record(lambda: made.step(state), state.generator)


def fix_bounds(made: Decoder) -> None:
    """From the next iteration's commit on, passes look at whole caches whatever the lengths: shapes stay the same."""
    for cache in made.caches:
        cache.fixed = True
        cache.set_lengths(cache.lengths.clone(), cache.capacity)
