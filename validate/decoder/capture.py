"""Captures work as a CUDA graph. If a capture fails, the process can continue."""

import warnings
from collections.abc import Callable
from functools import partial
from weakref import WeakMethod, WeakSet

import torch

from perfmodel.validate.decoder.state import State

Capture = Callable[[Callable[[], object]], Callable[[], object]]
"""A function that captures work on the device and returns its replay, such as `captured`."""
_graphs: WeakSet[torch.cuda.CUDAGraph] = WeakSet()


def captured(work: Callable[[], object], generator: torch.Generator | None = None) -> Callable[[], object]:
    """A function that replays the work of `work` on the device. The capture itself computes nothing. `work`
    must have run once before.

    - generator: the source of random numbers for `work`. Each replay draws new numbers.
    """
    graph = torch.cuda.CUDAGraph()
    stream = torch.cuda.current_stream()
    if generator is not None:
        graph.register_generator_state(generator)
    try:
        with warnings.catch_warnings(), torch.cuda.graph(graph):
            warnings.filterwarnings("ignore", "The CUDA Graph is empty")  # a baseline drafts nothing
            work()
    except (
        BaseException
    ):  # ending a capture that failed raises too, and its stream would stay the current one
        torch.cuda.set_stream(stream)
        raise
    _graphs.add(graph)
    return graph.replay


def replayed(step: Callable[[State], object], state: State, capture: Capture) -> Callable[[State], object]:
    """A function that replays the method `step` if it is called on `state`, and otherwise calls it.

    The replay holds only a weak reference to the object of `step`, so the last other reference to that object
    frees its caches.
    """
    replay = capture(partial(step, state))
    eager = WeakMethod(step)
    return lambda given: replay() if given is state else eager()(given)  # type: ignore[misc]


def drop_all() -> None:
    """Clears every captured graph, even if it is still referenced. A process group must outlive the graphs
    that contain its collectives.
    """
    for graph in list(_graphs):
        graph.reset()
    _graphs.clear()
