"""Reads the published measurements of serving engines, with and without speculation.

The tables are ``results/published/<name>.csv``. The test ``tests/specs/test_published.py`` checks that the
fields of each row are consistent.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

from perfmodel.answers.question import Query
from perfmodel.specs.published import MS, read_published


@dataclass(frozen=True, slots=True)
class EngineRow:
    """The common fields of the tables: the configuration of a measurement.

    - batch: the requested batch.
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
    """The name of the repository, thread or paper: the first word of `source`, without a commit. A fit leaves
    out all rows with the same name together.
    """
    return source.partition(" ")[0].partition("@")[0].rstrip(",")


def alike(source: str, other_source: str) -> bool:
    """Whether two names mean the same source. The repository of InferenceX, its threads and its dashboard are
    one source.
    """
    return source == other_source or ("InferenceX" in source and "InferenceX" in other_source)


@dataclass(frozen=True, slots=True)
class DecodeRow(EngineRow):
    """One baseline step of a batch.

    - context_std_tokens: the standard deviation of the contexts of the batch, in tokens.
    - measured_as: the published quantity, which is a step, the median ITL, the median gap between chunks, or
      the mean or median TPOT.
    """

    model: str
    context_tokens: float
    context_std_tokens: float
    step_ms: float
    measured_as: str
    samples: int

    @property
    def step_s(self) -> float:
        """The time of the step, in seconds."""
        return self.step_ms * MS


@dataclass(frozen=True, slots=True)
class EngineSpeculationRow(EngineRow):
    """One run with speculation and its baseline. If `topk` is 1, the draft is a chain of `steps` tokens.
    Otherwise, it is a tree of `verified_tokens` nodes, including the root.

    - clean: whether the times exclude steps with prefill.
    - running, step_running: the running sequences in an iteration and in a baseline step.
    - positions: the shares of iterations that accept at least 1, 2, ... tokens, separated by slashes; None if
      the source does not state them.
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
    """The question about a row that has the columns of an `EngineRow`."""
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
    """One speedup as a ratio of throughputs. The row names a data set (`task`) and states no context.

    - positions: the conditional acceptance at each position, separated by slashes. It comes from the traces
      of the same study.
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
        """The conditional acceptance at each position, a_1 ... a_gamma."""
        return tuple(float(part) for part in self.positions.split("/"))


engine_decode = partial(read_published, "engine_decode", DecodeRow)
"""Reads the baseline steps."""
engine_speculation = partial(read_published, "engine_speculation", EngineSpeculationRow)
"""Reads the runs with speculation."""
served = partial(read_published, "served", ServedRow)
"""Reads the speedups of SpecDecode-Bench in vLLM."""
step_laws = partial(read_published, "step_laws", ServedRow)
"""Reads ratios of a step to an iteration, which come from a published formula for vLLM's step times. They
have one token per iteration and no task.
"""
