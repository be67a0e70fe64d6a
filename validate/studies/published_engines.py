"""Published step times of serving engines, with and without speculation.

The tables are ``results/published/<name>.csv``. tests/specs/test_published.py checks the relations within a
row.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

from perfmodel.answers.question import Query
from perfmodel.specs.published import MS, read_published


@dataclass(frozen=True, slots=True)
class EngineRow:
    """The configuration of a measured row.

    - batch: the requested one.
    - running: mean number of running sequences; None if the source does not state it.
    """

    id: str
    source: str
    engine: str
    engine_version: str
    hardware: str
    tensor_parallel: int
    expert_parallel: int
    weights: str
    kv_dtype: str
    batch: int
    running: float | None
    date: str
    notes: str

    @property
    def source_id(self) -> str:
        """See `source_of`."""
        return source_of(self.source)


def source_of(source: str) -> str:
    """The repository, thread or paper of a source, which is held out as a whole: its first word, at any
    commit.
    """
    return source.partition(" ")[0].partition("@")[0].rstrip(",")


def alike(source: str, other_source: str) -> bool:
    """Whether two names are of one source. A thread of a repository is held out together with its
    dashboard.
    """
    return source == other_source or ("InferenceX" in source and "InferenceX" in other_source)


@dataclass(frozen=True, slots=True)
class DecodeRow(EngineRow):
    """One baseline step of a batch.

    - context_std_tokens: over the sequences of the batch.
    - measured_as: step, median ITL, median chunk gap, mean or median TPOT.
    """

    model: str
    context_tokens: float
    context_std_tokens: float
    step_ms: float
    measured_as: str
    samples: int

    @property
    def step_s(self) -> float:
        """Seconds."""
        return self.step_ms * MS


@dataclass(frozen=True, slots=True)
class EngineSpeculationRow(EngineRow):
    """One run with speculation next to the baseline. `clean` is no if the times include steps with prefill.
    running, step_running: running sequences in an iteration and in a baseline step. A chain drafts `steps`
    tokens (`topk` 1); otherwise it is a tree of `verified_tokens`, including its root.

    - positions: share of iterations that accept a first token, a second, ..., with slashes; None if the
      source does not state them.
    """

    data_parallel: int
    target: str
    step_running: float | None
    context_tokens: float | None
    task: str
    draft: str
    steps: int
    topk: int
    verified_tokens: int
    tokens_per_iteration: float | None
    positions: str
    step_ms: float | None
    iteration_ms: float | None
    speedup: float
    clean: bool

    @property
    def ratio(self) -> float | None:
        """The ratio of an iteration to a baseline step."""
        return self.iteration_ms / self.step_ms if self.iteration_ms and self.step_ms else None


def query_of(row: Any, model: str, context: float, batch: int, gamma: int, **more: Any) -> Query:
    """The question of a row with the columns of an `EngineRow`."""
    return Query(
        model,
        row.hardware,
        batch,
        round(context),
        gamma,
        tp=row.tensor_parallel,
        ep=row.expert_parallel,
        weights=row.weights,
        kv_dtype=row.kv_dtype,
        **more,
    )


@dataclass(frozen=True, slots=True)
class ServedRow:
    """A throughput ratio of a serving engine: batch, draft length and accepted length, with a data set's name
    instead of a context.

    - positions: conditional acceptance by position, with slashes, from the same study's traces.
    """

    id: str
    source: str
    hardware: str
    stack: str
    tensor_parallel: int
    target: str
    weights: str
    draft: str
    task: str
    batch: int
    gamma: int
    tokens_per_iteration: float
    positions: str
    speedup: float
    notes: str

    @property
    def conditional(self) -> tuple[float, ...]:
        """a_1 ... a_gamma."""
        return tuple(float(part) for part in self.positions.split("/"))


engine_decode = partial(read_published, "engine_decode", DecodeRow)
"""Baseline steps."""
engine_speculation = partial(read_published, "engine_speculation", EngineSpeculationRow)
"""Speculating runs."""
served = partial(read_published, "served", ServedRow)
"""SpecDecode-Bench's speedups in vLLM."""

step_laws = partial(read_published, "step_laws", ServedRow)
"""One step over one iteration by a published fit of vLLM's step times, with one token per iteration and no
task.
"""
