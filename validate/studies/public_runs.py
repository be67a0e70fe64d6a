"""Runs of public sources, as measured by users of the engines (`answered_runs` asks each).

The rows are ``results/published/public_runs.csv``, the address of each source ``public_sources.csv``. A
*source* is one repository, page or thread. Its rows have correlated errors, and it is held out as a whole.
"""

from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Any, ClassVar, NamedTuple

from perfmodel.errors import InputError
from perfmodel.specs import DRIFT
from perfmodel.specs.published import read_published
from perfmodel.validate.studies.reasons import Reason

MOST_GAINED = 0.98
"""Largest acceptance of the last drafted token; 1 would be an acceptance without misses."""


class RunKind(StrEnum):
    """What a row times: passes alone; the mean TPOT of a closed loop of `batch` clients; decoding with
    drafts, next to a baseline; a verification without an engine around it; a whole prompt.
    """

    STEP = "step"
    SERVED = "served"
    SPECULATION = "speculation"
    PASS = "pass"
    PROMPT = "prompt"


class Server(NamedTuple):
    """The common part of the runs of one server.

    - weights: blank if the model's own.
    """

    source_id: str
    engine: str
    engine_version: str
    model: str
    hardware: str
    tensor_parallel: int | None
    weights: str


class Series(NamedTuple):
    """What runs have in common that differ only in batch and context."""

    server: Server
    kv_dtype: str
    draft: str
    gamma: int | None


@dataclass(frozen=True, slots=True)
class PublicRun:
    """One row.

    - time_ms: per token; for a speculation with drafts, and baseline_ms without.
    - context_tokens: mean over the run.
    - lengths: ``uniform`` if they are drawn from 1 to twice their mean.
    - left_out: the reason why a row does not count; blank if it counts.
    """

    table: ClassVar[str] = "public_runs"
    """Name of the file of these rows, without its suffix."""
    id: str
    source_id: str
    source: str
    kind: RunKind
    engine: str
    engine_version: str
    model: str
    hardware: str
    tensor_parallel: int | None
    expert_parallel: int
    data_parallel: int
    weights: str
    kv_dtype: str
    batch: int
    requests: int | None
    context_tokens: float
    input_tokens: float | None
    output_tokens: float | None
    lengths: str
    time_ms: float | None
    measured_as: str
    draft: str
    gamma: int | None
    tokens_per_iteration: float | None
    baseline_ms: float | None
    speedup: float | None
    date: str
    left_out: Reason | None

    @property
    def server(self) -> Server:
        """The server that was timed."""
        return Server(
            self.source_id,
            self.engine,
            self.engine_version,
            self.model,
            self.hardware,
            self.tensor_parallel,
            self.weights,
        )

    @property
    def series(self) -> Series:
        """The series of its batches and contexts."""
        return Series(self.server, self.kv_dtype, self.draft, self.gamma)

    @property
    def counts(self) -> bool:
        """Whether predictions are judged by it."""
        return self.left_out is None

    @property
    def counts_as_inside(self) -> bool:
        """Whether intervals are judged by it: also if it is left out by judgement."""
        return self.left_out is None or self.left_out.is_judgement

    @property
    def is_complete(self) -> bool:
        """Whether it can be asked: a speculation needs a draft, its accepted length and its speedup."""
        needed = (self.draft, self.gamma, self.tokens_per_iteration, self.speedup)
        return self.kind is not RunKind.SPECULATION or all(needed)

    @property
    def gained(self) -> float:
        """Tokens per iteration of a run with drafts, as a question states them. Raises InputError without
        them.
        """
        most = self.stated("gamma") + MOST_GAINED
        return min(self.stated("tokens_per_iteration"), most)

    @property
    def ratio(self) -> float | None:
        """The ratio of an iteration to a baseline step."""
        if self.tokens_per_iteration and self.time_ms and self.baseline_ms:
            return self.tokens_per_iteration * self.time_ms / self.baseline_ms
        return None

    def stated(self, column: str) -> float:
        """The number in a column. Raises InputError for a blank."""
        number = getattr(self, column)
        if number is None:
            raise InputError(f"{self.table}.csv: {self.id}: {column}: must be stated")
        return float(number)

    def query_arguments(self, degree: int | None = None) -> dict[str, Any]:
        """Arguments of a question from this row.

        - degree: used if the source states none.
        """
        version = DRIFT + self.engine_version if self.engine_version else ""
        return {
            "model": self.model,
            "hardware": self.hardware,
            "tp": self.tensor_parallel or degree or 1,
            "ep": self.expert_parallel,
            "dp": self.data_parallel,
            "engine": self.engine + version,
            "weights": self.weights or None,
            "kv_dtype": self.kv_dtype or None,
        }


@cache
def public_runs() -> tuple[PublicRun, ...]:
    """All rows, including those that do not count."""
    return read_published(PublicRun.table, PublicRun)
