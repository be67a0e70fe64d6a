"""Work recorded as a CUDA graph; what goes wrong there leaves the process able to go on."""

from collections.abc import Callable
from functools import partial
from weakref import WeakMethod, WeakSet

import torch

from perfmodel.validate.decoder.state import State

Record = Callable[[Callable[[], object]], Callable[[], object]]
"""Makes a replay of work on the device, as `record` does."""
_recorded: WeakSet[torch.cuda.CUDAGraph] = WeakSet()


def record(work: Callable[[], object], generator: torch.Generator | None = None) -> Callable[[], object]:
    """A replay of what `work` does on the device; recording it changes nothing. It must have run before.

    generator: what `work` draws random numbers from: each replay draws anew.
    """
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.current_stream()
    if generator is not None:
        graph.register_generator_state(generator)
    try:
        with torch.cuda.graph(graph):
            work()
    except (
        BaseException
    ):  # ending a capture that failed raises too, and its stream would stay the current one
        torch.cuda.set_stream(stream)
        raise
    _recorded.add(graph)
    return graph.replay


def replayed(step: Callable[[State], object], state: State, record: Record) -> Callable[[State], object]:
    """The method `step`, from now on a replay where it is called on `state`.

    Its object keeps the replay, and is not kept by it: caches are given back when the last name of it goes.
    """
    replay, eager = record(partial(step, state)), WeakMethod(step)
    return lambda given: replay() if given is state else eager()(given)  # type: ignore[misc]


def drop_all() -> None:
    """Forget every recorded graph, whoever still holds it: a process group must outlive graphs with its
    collectives.
    """
    for graph in list(_recorded):
        graph.reset()
    _recorded.clear()
