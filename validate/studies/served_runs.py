"""Reads the published runs of servers under load: the rows of ``results/published/traffic.csv``."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Any

import numpy as np

from perfmodel.queueing.load import Lengths
from perfmodel.specs import architecture_of
from perfmodel.specs.engines.request_costs import request_constants
from perfmodel.specs.published import read_published
from perfmodel.validate.studies.engine_versions import dated

DEEPSEEK = "DeepSeek-R1, random tokens"
LONG_PROMPTS = "DeepSeek-R1, 8K prompts"
COOKBOOK = "SGLang, cookbook"
BURSTS = "gpustack, bursts"
STUDIES = (
    "gpt-oss-120b, random tokens",
    "Qwen3-32B, mt-bench",
    "Qwen3-32B, InstructCoder",
    DEEPSEEK,
    LONG_PROMPTS,
    COOKBOOK,
    "SGLang, other sources",
    BURSTS,
)
"""The studies whose runs are simulated."""
MAIN_OF_2026_01 = "0.14"
"""The first release of vLLM after the commit with which Qwen3-32B was measured (dev13107)."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ServedRun:
    """A published run. A field is None or "" if the source does not state it. Lengths are in tokens, and
    times are in milliseconds.

    - concurrency: the number of clients, or the largest number of simultaneous requests.
    - requests: the number of requests that were sent.
    - steps: the draft length; 0 without a draft.
    """

    id: str
    source: str
    study: str
    engine: str
    engine_version: str
    hardware: str
    tensor_parallel: int
    expert_parallel: int
    data_parallel_attention: int
    target: str
    weights: str | None
    kv_dtype: str | None
    arrival: str
    request_rate: float | None
    concurrency: int
    requests: int | None
    max_num_batched_tokens: int | None
    scheduler_recv_interval: int | None
    attention_dp_timeout_iters: int | None
    input_tokens: float
    input_std: float | None
    output_tokens: float
    output_std: float | None
    draft: str | None
    steps: int | None
    tokens_per_iteration: float | None
    ttft_mean_ms: float | None
    ttft_p50_ms: float | None
    ttft_p90_ms: float | None
    ttft_p99_ms: float | None
    tpot_mean_ms: float | None
    tpot_p50_ms: float | None
    tpot_p90_ms: float | None
    tpot_p99_ms: float | None
    itl_p50_ms: float | None
    e2e_mean_ms: float | None
    e2e_p50_ms: float | None
    e2e_p99_ms: float | None
    output_tokens_per_s: float | None
    requests_per_s: float | None
    running: float | None
    kv_max_percent: float | None
    preemptions: float | None
    date: str

    @property
    def lengths(self) -> Lengths:
        """The lengths of the run's requests. If the source does not state the spread of the prompts, it is
        half their mean.
        """
        spread = 0.5 * self.input_tokens if self.input_std is None else self.input_std
        assert self.output_std is not None
        return Lengths(self.input_tokens, self.output_tokens, spread, self.output_std)

    @property
    def gamma(self) -> int:
        """The draft length; 0 without a draft. Every row of `rows_of` states it."""
        assert self.steps is not None
        return self.steps

    @property
    def sent(self) -> int:
        """The number of requests that were sent. Every row of `rows_of` states it."""
        assert self.requests is not None
        return self.requests

    @property
    def version(self) -> str:
        """The engine's version: the stated version, or else the assumed version on the day of the run
        (`dated`).
        """
        if "dev13107" in self.engine_version:
            return MAIN_OF_2026_01
        return self.engine_version.rpartition(":")[2] or dated(self.engine, self.date)

    @property
    def place(self) -> str:
        """The key of the run in `RequestConstants.engines`: the engine and perhaps the GPU architecture."""
        return request_constants().place(self.engine, architecture_of(self.hardware))

    @property
    def gained(self) -> float | None:
        """The measured tokens per iteration; None without a draft. If the source does not state them, they
        are estimated from the tokens per streamed chunk of all similar runs (`tokens_per_chunk`).
        """
        if self.steps == 0:
            return None
        if self.tokens_per_iteration:
            return float(self.tokens_per_iteration)
        alike = [row for row in rows_of(self.study) if self._is_like(row)]
        plain = tokens_per_chunk(row for row in alike if row.steps == 0)
        drafting = tokens_per_chunk(row for row in alike if row.steps == self.steps)
        return drafting / plain if plain and drafting else None

    def _is_like(self, row: "ServedRun") -> bool:
        """Whether another run has the same output length and the same data parallelism of attention. The
        study uses data-parallel attention from 256 clients on. There, prompts delay many chunks.
        """
        return self.agrees(row, ("output_tokens", "data_parallel_attention"))

    @property
    def ttft(self) -> str:
        """The column with the typical TTFT of the run. It is the median if no mean was published. It is also
        the median for the study `DEEPSEEK`, whose cold servers took up to 73 s for the first prompts.
        """
        return "ttft_p50_ms" if self.study == DEEPSEEK or self.ttft_mean_ms is None else "ttft_mean_ms"

    def agrees(self, run: "ServedRun", columns: Iterable[str]) -> bool:
        """Whether two runs have the same values in these columns."""
        return all(getattr(self, name) == getattr(run, name) for name in columns)

    def measured(self, name: str) -> Any:
        """A published figure; None if the source does not state it. If the source states only the median of a
        latency, it is used instead of the mean.

        - name: the column of the figure. ``ttft_mean_ms`` means the column `ttft`.
        """
        value = getattr(self, self.ttft if name == "ttft_mean_ms" else name)
        if value is None:
            return getattr(self, name.replace("mean", "p50"))
        return value

    @property
    def batch(self) -> float:
        """The mean number of requests that decode at the same time as a decoding request, including the
        request itself. A TTFT that was not published counts as 0.
        """
        decoding = self.measured("tpot_mean_ms") * self.lengths.decoded
        waiting = self.measured("ttft_mean_ms") or 0.0
        return float(1.0 + (self.concurrency - 1.0) * decoding / (decoding + waiting))


class HeldOutBy(StrEnum):
    """The runs that are left out of a fit together: all runs of a study (STUDY), or the runs of a study with
    one draft length (LENGTH).
    """

    STUDY = "study"
    LENGTH = "length"

    def group_of(self, run: ServedRun) -> str:
        """The name of the held-out group of a run."""
        if self is HeldOutBy.STUDY:
            return run.study
        return f"{run.study}, {run.gamma} draft tokens"


def tokens_per_chunk(rows: Iterable[ServedRun]) -> float:
    """The median number of tokens per streamed chunk, which is the time between chunks over the time per
    token. It is 0 if no row states both times.
    """
    shares = [row.itl_p50_ms / row.tpot_p50_ms for row in rows if row.itl_p50_ms and row.tpot_p50_ms]
    return float(np.median(shares)) if shares else 0.0


@cache
def rows_of(study: str) -> tuple[ServedRun, ...]:
    """All rows of one study with a stated device, number of requests and draft length."""
    of_study = read_published("traffic", ServedRun, study=study)
    return tuple(row for row in of_study if row.requests and row.hardware and row.steps is not None)


@cache
def runs(study: str) -> tuple[ServedRun, ...]:
    """The runs of one study that state all inputs of a simulation."""
    return tuple(r for r in rows_of(study) if r.steps == 0 or r.gained)
