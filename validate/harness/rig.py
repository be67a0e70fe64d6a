"""One point made ready to be timed: a plain and a speculating decoder over one cache, and a way back to the start."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from perfmodel.validate.decoder import graphs
from perfmodel.validate.decoder.drafts import ModelDraft
from perfmodel.validate.decoder.model import Model
from perfmodel.validate.decoder.sampling import scripted_weights
from perfmodel.validate.decoder.setup import Request, decoder, start_random
from perfmodel.validate.decoder.shard import Shard
from perfmodel.validate.decoder.speculative import Decoder
from perfmodel.validate.decoder.state import State
from perfmodel.validate.decoder.weights import load
from perfmodel.validate.harness.plans import Plan, Point, model_reference

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}


class Models:
    """The models of a plan; the last pair stays loaded, since neighbouring points share it."""

    def __init__(self, plan: Plan, device: torch.device, shard: Shard | None = None) -> None:
        self.device, self.dtype, self.shard = device, DTYPES[plan.precision.weights], shard
        self._key: tuple[str, ...] = ()
        self._pair: tuple[Model, Model | None] | None = None

    def pair(self, point: Point) -> tuple[Model, Model | None]:
        """Target and draft model (None for a draft that is the target)."""
        key = (point.target, point.weights, point.draft, point.draft_weights)
        if self._pair is None or key != self._key:
            self._pair = None  # let go before the next ones are made
            target = self._load(point.target, point.weights)
            draft = None if point.draft == "self" else self._load(point.draft, point.draft_weights)
            self._key, self._pair = key, (target, draft)
        return self._pair

    def _load(self, name: str, weights: str) -> Model:
        return load(model_reference(name), weights, self.device, self.dtype, self.shard)


@dataclass
class Lane:
    """A decoder with the state it works on, and what both looked like at the start."""

    decoder: Decoder
    state: State
    _start: dict[str, Tensor] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._start = {name: getattr(self.state, name).clone() for name in ("length", "limit", "finished")}

    def reset(self) -> None:
        """Back to the start; the histogram goes on counting."""
        for name, value in self._start.items():
            getattr(self.state, name).copy_(value)

    def run(self, iterations: int, read_every: int) -> None:
        """The loop as `Decoder.generate` has it: nothing waits for the device but the look at the lengths."""
        for done in range(1, iterations + 1):
            self.decoder.iterate(self.state)
            if done % read_every == 0:
                self.decoder.tighten()

    def gained(self) -> list[int]:
        """Tokens gained since the start, per sequence."""
        return (self.state.length - self._start["length"]).tolist()


class Phases:
    """The four parts of an iteration one by one; on CUDA each is a graph of its own, recorded when it is first run."""

    def __init__(self, lane: Lane, recorded: bool) -> None:
        self.lane, self.recorded = lane, recorded
        self._got: dict[str, Any] = {}
        self._replays: dict[str, Callable[[], object]] = {}

    def propose(self) -> None:
        """All draft steps."""
        self._run("propose", lambda: self._got.update(drafted=self.lane.decoder.propose(self.lane.state)))

    def verify(self) -> None:
        """The target's pass; in plain decoding, its step."""
        self._run(
            "verify",
            lambda: self._got.update(logits=self.lane.decoder.verify(self.lane.state, self._got["drafted"][0])),
        )

    def decide(self) -> None:
        """What stands."""
        decide, state = self.lane.decoder.decide, self.lane.state
        self._run(
            "decide",
            lambda: self._got.update(
                verdict=decide(state, self._got["drafted"][0], self._got["drafted"][1], self._got["logits"])
            ),
        )

    def commit(self) -> None:
        """Caches and view take it; periodic work included."""
        commit, state = self.lane.decoder.commit, self.lane.state
        self._run("commit", lambda: commit(state, self._got["drafted"][0], self._got["verdict"]))
        self.lane.decoder.refresh()

    def _run(self, name: str, work: Callable[[], object]) -> None:
        if not self.recorded:
            work()
            return
        if name not in self._replays:
            self._replays[name] = graphs.record(work, self.lane.state.generator)
        self._replays[name]()


class Rewinder:
    """Brings lanes, their caches and the draft's view back to how they were when it was made.

    What was written beyond a length is never read, so the contents may stay.
    """

    def __init__(self, *lanes: Lane) -> None:
        self.lanes, fast = lanes, lanes[0].decoder
        self._caches = [(cache, cache.lengths.clone(), cache.bound) for cache in _caches(fast)]
        self._view = fast.draft.view if isinstance(fast.draft, ModelDraft) else None
        self._kept = _snapshot(self._view) if self._view is not None else {}

    def __call__(self) -> None:
        """Back to the start."""
        for lane in self.lanes:
            lane.reset()
        for cache, lengths, bound in self._caches:
            cache.set_lengths(lengths, bound)
        for name, value in self._kept.items():
            if isinstance(value, Tensor):
                getattr(self._view, name).copy_(value)
            else:
                setattr(self._view, name, value)


class Rig:
    """Both lanes of a point. They share the target's cache, so only one copy of it has to fit."""

    def __init__(self, models: Models, plan: Plan, point: Point) -> None:
        target, draft = models.pair(point)
        room = max(plan.protocol.iterations, graphs.WARM_UP + 1) * (point.gamma + 1) + 1
        request = Request(
            batch=point.batch,
            context=point.context,
            new_tokens=room,
            gamma=point.gamma,
            draft="self" if draft is None else "model",
            draft_kv=point.draft_kv,
            script=tuple(scripted_weights(point.alpha, point.gamma)),
            attention=plan.attention,
        )
        fast = decoder(target, request, draft)
        state = start_random(fast, point.context, room, plan.protocol.seed)
        other = {n: getattr(state, n).clone() for n in ("tokens", "length", "limit", "finished")}
        alone = replace(state, **other, histogram=torch.zeros(1, dtype=torch.int64, device=target.device))
        self.fast, self.plain = Lane(fast, state), Lane(Decoder(fast.target, None, fast.sampling), alone)
        self.attention = fast.target.attention.name
        self.reset = Rewinder(self.fast, self.plain)
        self.graphs = plan.protocol.graphs and target.device.type == "cuda"
        if self.graphs:
            for lane in (self.fast, self.plain):
                graphs.capture(lane.decoder, lane.state)
                self.reset()
        self.phases = {"plain": Phases(self.plain, self.graphs), "draft": Phases(self.fast, self.graphs)}


def _caches(made: Decoder) -> list[Any]:
    draft = made.draft
    own = [draft.runner.cache] if isinstance(draft, ModelDraft) and draft.own else []
    return [made.target.cache, *own]


def _snapshot(view: Any) -> dict[str, Any]:
    """A view's counters and small tensors; packed keys and values are random anyway and may stay as they are."""
    kept: dict[str, Any] = {}
    for name, value in vars(view).items():
        if isinstance(value, Tensor) and name not in ("k", "v", "low", "high", "sums"):
            kept[name] = value.clone()
        elif isinstance(value, int) and not isinstance(value, bool):
            kept[name] = value
    return kept
