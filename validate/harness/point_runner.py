"""Makes a point ready to be timed: baseline and speculative decoding with one cache, and a snapshot of the
start to which each sample returns.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch

from perfmodel.validate.decoder import (
    Decoder,
    Model,
    RankShard,
    Request,
    State,
    captured,
    graphs,
    load,
    make_decoder,
    scripted_weights,
    start_random,
)
from perfmodel.validate.decoder.pair import LoadedPair
from perfmodel.validate.records import Plan, PlanPoint, model_reference

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}


class LoadedModels:
    """Loads the models of a plan. The last pair stays loaded, because successive points often share it."""

    def __init__(self, plan: Plan, device: torch.device, shard: RankShard | None = None) -> None:
        self.device = device
        self.dtype = DTYPES[plan.precision.activations]
        self.shard = shard
        self.fp8 = plan.precision.weights == "fp8"
        self._key: tuple[str, ...] = ()
        self._pair: LoadedPair | None = None

    def pair(self, point: PlanPoint) -> LoadedPair:
        """The models of a point. They are loaded unless the last point had the same models."""
        key = (point.target, point.weights, point.draft, point.draft_weights)
        if self._pair is None or key != self._key:
            self._pair = None  # freed before the next models are loaded
            target = self._load(point.target, point.weights)
            draft = None if point.draft == "self" else self._load(point.draft, point.draft_weights)
            self._key = key
            self._pair = LoadedPair(target, draft)
        return self._pair

    def _load(self, name: str, weights: str) -> Model:
        return load(model_reference(name), weights, self.device, self.dtype, self.shard, fp8=self.fp8)


@dataclass
class DecoderRun:
    """A decoder and the state of its sequences."""

    decoder: Decoder
    state: State

    def run(self, iterations: int, read_every: int) -> None:
        """Runs the loop of `Decoder.generate`. It waits for the device only when it reads the lengths, every
        `read_every` iterations.
        """
        for done in range(1, iterations + 1):
            self.decoder.iterate(self.state)
            if done % read_every == 0:
                self.decoder.tighten()


class PhaseRunner:
    """Runs the four phases of an iteration one by one.

    - graphs: whether each phase is a CUDA graph.
    - capture: captures the work of a phase, which uses the random generator, and returns its replay.
    """

    def __init__(
        self,
        run: DecoderRun,
        graphs: bool,
        capture: Callable[[Callable[[], object], torch.Generator], Callable[[], object]] = captured,
    ) -> None:
        decoder = run.decoder
        state = run.state
        results = dict[str, Any]()
        self.decoder = decoder
        self.generator = state.generator
        self._results = results

        def verify() -> object:
            return decoder.verify(state, results["draft"].tokens)

        def accept() -> object:
            drafted = results["draft"]
            return decoder.accept(state, drafted.tokens, drafted.probs, results["verify"])

        def commit() -> None:
            decoder.commit(state, results["draft"].tokens, results["accept"])

        self.phases: dict[str, Callable[[], object]] = {
            "draft": lambda: decoder.propose(state),
            "verify": verify,
            "accept": accept,
            "commit": commit,
        }
        self._run: dict[str, Callable[[], object]] = {}
        for phase in self.phases:
            work = partial(self._keep, phase)
            self._run[phase] = capture(work, self.generator) if graphs else work

    def run(self, phase: str) -> None:
        """Runs one of `phases`. "draft" is all draft steps (none in the baseline), and "commit" includes
        periodic work.
        """
        self._run[phase]()
        if phase == "commit":
            self.decoder.refresh()

    def _keep(self, phase: str) -> None:
        """Runs a phase and keeps its result for the phases after it."""
        self._results[phase] = self.phases[phase]()


class Snapshot:
    """The state of some runs, their caches and the draft's views at one moment.

    The contents of caches are not copied, because data beyond a length are never read. Histograms are not
    reset and continue to count.
    """

    def __init__(self, *runs: DecoderRun) -> None:
        decoder = runs[0].decoder
        self._caches = [(cache, cache.lengths.clone(), cache.bound) for cache in decoder.caches]
        self._before: list[tuple[Any, str, Any]] = []
        for run in runs:
            self._keep(run.state, ("length", "limit", "finished"))
        for passes in decoder.models:
            self._keep(passes.view, passes.view.changing)

    def _keep(self, owner: Any, names: Iterable[str]) -> None:
        """Copies attributes of an object."""
        for name in names:
            value = getattr(owner, name)
            copy = value.clone() if isinstance(value, torch.Tensor) else value
            self._before.append((owner, name, copy))

    def restore(self) -> None:
        """Returns to the moment of the snapshot."""
        for cache, lengths, bound in self._caches:
            cache.set_lengths(lengths, bound)
        for owner, name, value in self._before:
            if isinstance(value, torch.Tensor):
                getattr(owner, name).copy_(value)
            else:
                setattr(owner, name, value)


class PointRunner:
    """Baseline (`ar`) and speculative (`sd`) decoding of a point. Both use the same cache of the target, so
    memory is needed for only one.

    - graphs: whether iterations are captured.
    """

    def __init__(self, models: LoadedModels, plan: Plan, point: PlanPoint) -> None:
        target, draft = models.pair(point)
        iterations = max(plan.protocol.iterations, graphs.WARM_UP + 1)
        room = iterations * (point.gamma + 1) + 1
        request = _request(plan, point, room)
        decoder = make_decoder(target, request, draft)
        state = start_random(decoder, max(point.lengths), room, plan.protocol.seed, point.lengths)
        self.batch = point.batch
        self.attention = decoder.target.attention.name
        self.runs = {
            "ar": DecoderRun(Decoder(decoder.target, None, decoder.sampling), _baseline_state(state)),
            "sd": DecoderRun(decoder, state),
        }
        self.snapshot = Snapshot(self.runs["sd"], self.runs["ar"])
        self.graphs = plan.protocol.graphs and target.device.type == "cuda"
        if self.graphs:
            for run in self.runs.values():
                graphs.capture(run.decoder, run.state)
                self.snapshot.restore()
        self.phases = {name: PhaseRunner(run, self.graphs) for name, run in self.runs.items()}

    @property
    def histogram(self) -> torch.Tensor:
        """The number of speculative iterations so far with 0, 1, ... accepted tokens, [batch, largest number
        + 1].
        """
        return self.runs["sd"].state.histogram


def _request(plan: Plan, point: PlanPoint, room: int) -> Request:
    """The request that decodes a point with its scripted acceptance.

    - room: number of new tokens for which the cache has room.
    """
    script = point.rates
    if not script:
        script = tuple(scripted_weights(point.alpha or 0.0, point.gamma))
    return Request(
        batch=point.batch,
        context=max(point.lengths),
        new_tokens=room,
        gamma=point.gamma,
        draft="self" if point.draft == "self" else "model",
        draft_kv=point.draft_kv,
        script=script,
        attention=plan.attention,
        tree=point.parents,
        kv_dtype="fp8" if plan.precision.kv == "fp8" else "auto",
    )


def _baseline_state(state: State) -> State:
    """A copy of a speculative state for the baseline, which accepts no drafted tokens."""
    return replace(
        state,
        tokens=state.tokens.clone(),
        length=state.length.clone(),
        limit=state.limit.clone(),
        finished=state.finished.clone(),
        histogram=torch.zeros(len(state.length), 1, dtype=torch.int64, device=state.length.device),
    )
