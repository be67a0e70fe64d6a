"""Captures work as a CUDA graph. After a failure the process can go on."""

import warnings
from collections.abc import Callable
from functools import partial
from weakref import WeakMethod, WeakSet

import torch

from perfmodel.validate.decoder.state import State

Capture = Callable[[Callable[[], object]], Callable[[], object]]
"""A function that makes a replay of work on the device, as `captured` does."""
_graphs: WeakSet[torch.cuda.CUDAGraph] = WeakSet()


def captured(work: Callable[[], object], generator: torch.Generator | None = None) -> Callable[[], object]:
    """A replay of the device's work in `work`. Capturing changes nothing; `work` must have run before.

    generator: source of random numbers for `work`. Each replay draws new ones.
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
    """Makes the method `step` a replay when it is called on `state`.

    The object owns the replay, and not the reverse, so caches are freed with the last reference to the
    object.
    """
    replay = capture(partial(step, state))
    eager = WeakMethod(step)
    return lambda given: replay() if given is state else eager()(given)  # type: ignore[misc]


def drop_all() -> None:
    """Clears every captured graph, whoever still holds it, because a process group must outlive graphs with
    its collectives.
    """
    for graph in list(_graphs):
        graph.reset()
    _graphs.clear()
