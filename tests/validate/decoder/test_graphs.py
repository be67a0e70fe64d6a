"""An iteration can be captured once and replayed: on a CPU by an emulation of what a CUDA graph does."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from perfmodel.speculation.tree_shape import branching
from perfmodel.validate.decoder import (
    Decoder,
    Generation,
    Model,
    Request,
    Sampling,
    State,
    capture,
    collect,
    graphs,
    make_decoder,
    shard,
)
from perfmodel.validate.harness import point_runner
from tests.refusals import refused
from tests.sampled import diagonal
from tests.validate.decoder.methods import METHODS

READS_A_VALUE = ("item", "is_nonzero", "_local_scalar_dense", "equal", "nonzero")


class Recorder(TorchDispatchMode):
    """Logs every operator with the very tensors it was given and gave; reading a value on the host is
    refused.
    """

    def __init__(self) -> None:
        super().__init__()
        self.log: list[tuple[Any, Any, Any, Any]] = []
        self.made = set[int]()
        self.before = dict[int, tuple[Any, Any]]()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        assert func.overloadpacket.__name__ not in READS_A_VALUE, "an iteration must not wait for the device"
        for storage in _storages((args, kwargs)):
            if storage.data_ptr() not in self.made | self.before.keys():
                self.before[storage.data_ptr()] = storage, storage.clone()
        out = func(*args, **(kwargs or {}))
        self.made |= {storage.data_ptr() for storage in _storages(out)} - self.before.keys()
        self.log.append((func, args, kwargs or {}, out))
        return out

    def replay(self) -> None:
        """Run the log again into the same memory; the host's code has no say in it."""
        for func, args, kwargs, out in self.log:
            for old, new in zip(tree_leaves(out), tree_leaves(func(*args, **kwargs)), strict=True):
                if isinstance(old, torch.Tensor) and old.data_ptr() != new.data_ptr():
                    old.copy_(new)

    def undo(self) -> None:
        """What there was before is as it was: capturing a graph changes nothing."""
        for storage, before in self.before.values():
            storage.copy_(before)


def _storages(tree: Any) -> list[Any]:
    return [leaf.untyped_storage() for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def emulated(work: Callable[[], object], generator: torch.Generator) -> Callable[[], None]:
    """A replay of what `work` does on the device."""
    recorder = Recorder()
    drawn = generator.get_state()
    with recorder:
        work()
    recorder.undo()
    generator.set_state(drawn)
    return recorder.replay


SNAPKV = "snapkv:24,window=8"
QUEST = "quest:24,page=4"
REPLAYED = [
    ("full", "plain"),
    ("full", "sampled plain"),
    ("full", "sampled self"),
    (SNAPKV, "tree of a model"),
    (SNAPKV, "fp8"),
    (QUEST, "fp8"),
    *diagonal(METHODS, [("self",), ("sampled model",)]),
    *diagonal([SNAPKV, QUEST], [("tree",), ("sampled tree",)]),
]
"""KV method of the draft, and how the draft is made and accepted."""


@pytest.mark.parametrize(("method", "kind"), REPLAYED)
@torch.inference_mode()
def test_replayed_iterations_equal_eager_ones(make_model, target, small, prompts, method, kind) -> None:
    gamma = 0 if "plain" in kind else 3
    draft = small if "model" in kind else None
    sampling = Sampling(0.8, 0.9) if "sampled" in kind else Sampling()
    tree = branching("3x2x1") if "tree" in kind else None
    request = Request(4, 70, 50, gamma, "model" if draft else "self", method, sampling, tree=tree)
    if kind == "fp8":
        target = make_model(fp8=True)
        request = replace(request, kv_dtype="fp8")
    one, two = eager_and_replayed(target, draft, request, prompts)
    assert one == two


def whole(decoder: Any, state: State, replayed: bool) -> Callable[[], object]:
    """Iterations; where they are replayed, nothing else can run."""
    if replayed:
        decoder.verify = None
    return partial(decoder.iterate, state)


def eager_and_replayed(
    target: Model,
    draft: Model | None,
    request: Request,
    prompts: list[list[int]],
    ready: Callable[..., Any] = whole,
) -> tuple[Generation, ...]:
    """What ten iterations or more decode, each by itself and eight of them as replays of one. ready: makes
    one run.
    """
    results = []
    for replayed in (False, True):
        decoder = make_decoder(target, request, draft)
        state = decoder.start(prompts, 50, seed=3)
        decoder.iterate(state)
        graphs.fix_bounds(decoder)
        graphs.warm_up(decoder, state)
        if replayed:
            decoder.replay = capture.replayed(
                decoder.step, state, partial(emulated, generator=state.generator)
            )
        iterate = ready(decoder, state, replayed)
        for _ in range(8):
            iterate()
        results.append(collect(state, prompts))
    return tuple(results)


@torch.inference_mode()
def test_captured_parts_equal_eager_ones(target, small, prompts) -> None:
    def by_parts(decoder: Decoder, state: State, replayed: bool) -> Callable[[], object]:
        parts = point_runner.PhaseRunner(point_runner.DecoderRun(decoder, state), replayed, emulated)

        def run() -> None:
            for phase in parts.phases:
                parts.run(phase)

        return run

    request = Request(4, 140, 50, 3, "model")
    one, two = eager_and_replayed(target, small, request, [prompt * 2 for prompt in prompts], by_parts)
    assert one == two


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What `capture.captured` did on a device, and which stream became current when."""
    happened: list[object] = []

    class FakeGraph:
        register_generator_state = staticmethod(happened.append)

        def reset(self) -> None:
            happened.append("graph dropped")

        def replay(self) -> None:
            happened.append("replayed")

    @contextmanager
    def fake_graph(graph: FakeGraph) -> Iterator[None]:
        """As torch.cuda.graph: another stream is current until its end, and a failed capture raises there
        once more.
        """
        happened.append("capture")
        yield
        happened.append("own")

    for name, value in (("CUDAGraph", FakeGraph), ("graph", fake_graph), ("current_stream", lambda: "own")):
        monkeypatch.setattr(torch.cuda, name, value)
    monkeypatch.setattr(torch.cuda, "set_stream", happened.append)
    return happened


def test_a_graph_is_told_what_draws(events) -> None:
    """Or each of its replays would draw the same numbers."""
    generator = torch.Generator()
    capture.captured(lambda: events.append("work"), generator)()
    assert events == [generator, "capture", "work", "own", "replayed"]


def test_a_failed_capture_gives_the_stream_back(events) -> None:
    def work() -> None:
        raise RuntimeError("not permitted when stream is capturing")

    with pytest.raises(RuntimeError, match="not permitted"):
        capture.captured(work)
    assert events == ["capture", "own"]


@pytest.mark.parametrize("fails", [False, True])
def test_graphs_go_before_their_process_group(monkeypatch, events, fails) -> None:
    """Also where an error is on its way up, which holds what it has passed."""
    monkeypatch.setattr(shard.dist, "init_process_group", lambda backend: None)
    monkeypatch.setattr(shard.dist, "get_rank", lambda: 0)
    monkeypatch.setattr(shard.dist, "barrier", lambda: events.append("waited"))
    monkeypatch.setattr(shard.dist, "destroy_process_group", lambda: events.append("group destroyed"))
    monkeypatch.setenv("WORLD_SIZE", "2")
    with suppress(ZeroDivisionError), shard.joined(2, torch.device("cpu")):
        graph = capture.captured(lambda: None)
        if fails:
            raise ZeroDivisionError
    assert graph is not None
    assert events == ["capture", "own", *([] if fails else ["waited"]), "graph dropped", "group destroyed"]


def test_graphs_need_cuda(target, prompts) -> None:
    decoder = make_decoder(target, Request(4, 70, 50))
    refused("--graphs: needs a CUDA device", graphs.capture, decoder, decoder.start(prompts, 50))
