"""Public runs: measurements that users of the engines published. `answered_runs` predicts each of them.

The rows are in ``results/published/public_runs.csv``, and the addresses of the sources in
``public_sources.csv``. A *source* is one repository, page or thread. The errors of its rows are correlated,
so a fit leaves out all of them together.
"""

from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Any, ClassVar, NamedTuple

from perfmodel.errors import InputError
from perfmodel.specs import VERSION_SEPARATOR
from perfmodel.specs.published import read_published
from perfmodel.validate.studies.reasons import Reason

MOST_GAINED = 0.98
"""Largest acceptance of the last drafted token in a question. A question must not state that every drafted
token is accepted.
"""


class RunKind(StrEnum):
    """The measured quantity of a row.

    - STEP: the time of decode steps.
    - SERVED: the mean TPOT under a constant number of clients (`batch`).
    - SPECULATION: decoding with drafts, compared with a baseline.
    - PASS: one verification pass without an engine.
    - PROMPT: the prefill of a whole prompt.
    """

    STEP = "step"
    SERVED = "served"
    SPECULATION = "speculation"
    PASS = "pass"
    PROMPT = "prompt"


class Server(NamedTuple):
    """The common fields of the runs of one server.

    - weights: the weight format; blank if it is the model's own.
    """

    source_id: str
    engine: str
    engine_version: str
    model: str
    hardware: str
    tensor_parallel: int | None
    weights: str


class Series(NamedTuple):
    """The common fields of runs that differ only in batch and context."""

    server: Server
    kv_dtype: str
    draft: str
    gamma: int | None


@dataclass(frozen=True, slots=True)
class PublicRun:
    """One row of the table.

    - time_ms: milliseconds per token, with drafts if the run has any.
    - baseline_ms: milliseconds per token of the same server without drafts.
    - context_tokens: the mean context of the run, in tokens.
    - lengths: ``uniform`` if the lengths of the requests are drawn uniformly from 1 to twice their mean.
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
        """The series to which the run belongs."""
        return Series(self.server, self.kv_dtype, self.draft, self.gamma)

    @property
    def counts(self) -> bool:
        """Whether the run counts in the errors of predictions."""
        return self.left_out is None

    @property
    def counts_as_inside(self) -> bool:
        """Whether the run counts in the coverage of intervals. Runs that were left out by judgement
        (`Reason.is_judgement`) also count there.
        """
        return self.left_out is None or self.left_out.is_judgement

    @property
    def is_complete(self) -> bool:
        """Whether the row states enough for a prediction. A run with drafts must state the draft, the draft
        length, the accepted length and the speedup.
        """
        needed = (self.draft, self.gamma, self.tokens_per_iteration, self.speedup)
        return self.kind is not RunKind.SPECULATION or all(needed)

    @property
    def gained(self) -> float:
        """The tokens per iteration that a question about the run may state (`MOST_GAINED`). Raises InputError
        if the row does not state them.
        """
        most = self.stated("gamma") + MOST_GAINED
        return min(self.stated("tokens_per_iteration"), most)

    @property
    def ratio(self) -> float | None:
        """The time of an iteration over the time of a baseline step; None if the row does not state both."""
        if self.tokens_per_iteration and self.time_ms and self.baseline_ms:
            return self.tokens_per_iteration * self.time_ms / self.baseline_ms
        return None

    def stated(self, column: str) -> float:
        """The number in a column. Raises InputError if the column is blank."""
        number = getattr(self, column)
        if number is None:
            raise InputError(f"{self.table}.csv: {self.id}: {column}: must be stated")
        return float(number)

    def query_arguments(self, degree: int | None = None) -> dict[str, Any]:
        """The arguments of a question about this run.

        - degree: the tensor-parallel degree to use if the source states none; 1 by default.
        """
        version = VERSION_SEPARATOR + self.engine_version if self.engine_version else ""
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
