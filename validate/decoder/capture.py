"""Captures work as CUDA graphs. If a capture fails, the process can continue."""

import warnings
from collections.abc import Callable
from functools import partial
from weakref import WeakMethod, WeakSet

import torch

from perfmodel.validate.decoder.state import State

Capture = Callable[[Callable[[], object]], Callable[[], object]]
"""A function that captures work on the device and returns a function that replays it, such as `captured`."""
_graphs: WeakSet[torch.cuda.CUDAGraph] = WeakSet()
"""All captured graphs that still exist."""


def captured(work: Callable[[], object], generator: torch.Generator | None = None) -> Callable[[], object]:
    """Captures the work that `work` enqueues on the device, and returns a function that replays it. The
    capture itself computes nothing. `work` must have run once before.

    - generator: the source of random numbers for `work`. Each replay draws new numbers.
    """
    graph = torch.cuda.CUDAGraph()
    stream = torch.cuda.current_stream()
    if generator is not None:
        graph.register_generator_state(generator)
    try:
        with warnings.catch_warnings(), torch.cuda.graph(graph):
            warnings.filterwarnings("ignore", "The CUDA Graph is empty")  # the draft phase without a draft
            work()
    except BaseException:
        # the end of a failed capture also raises, and would leave its stream as the current one
        torch.cuda.set_stream(stream)
        raise
    _graphs.add(graph)
    return graph.replay


def replayed(step: Callable[[State], object], state: State, capture: Capture) -> Callable[[State], object]:
    """Captures the method `step` on `state`. Returns a function that replays the capture for this state, and
    calls `step` for any other state.

    The function has only a weak reference to the object of `step`. Its caches are therefore freed when the
    last other reference to the object ends.
    """
    replay = capture(partial(step, state))
    eager = WeakMethod(step)
    return lambda given: replay() if given is state else eager()(given)  # type: ignore[misc]


def drop_all() -> None:
    """Clears every captured graph, even if it is still referenced. A process group must not end before the
    graphs that contain its collectives.
    """
    for graph in list(_graphs):
        graph.reset()
    _graphs.clear()
