"""Runs of public sources, as measured by users of the engines. Each becomes the question that its author
would ask.

The rows are ``results/published/public_runs.csv``, the address of each source ``public_sources.csv``. A
*source* is one repository, page or thread. Its rows have correlated errors, and it is held out as a whole.
"""

import math
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Any

from perfmodel.answers.load.traffic import traffic
from perfmodel.answers.point.whatif import whatif
from perfmodel.answers.point.whatif_answer import WhatIf
from perfmodel.answers.question import Query, resolve
from perfmodel.errors import InputError
from perfmodel.specs import DRIFT
from perfmodel.specs.published import MS, read_published
from perfmodel.validate.studies.log_errors import log_error
from perfmodel.validate.studies.reasons import Reason

MOST_GAINED = 0.98
"""Largest acceptance of the last drafted token; 1 would be an acceptance without misses."""
SET_ALPHA = 0.7
"""Acceptance of a question about the ratio of an iteration to a step, which does not depend on it."""
DEGREES = (1, 2, 4, 8)
"""Degrees that are tried if a source does not state its tensor-parallel degree."""


class RunKind(StrEnum):
    """What a row times: passes alone; the mean TPOT of a closed loop of `batch` clients; decoding with
    drafts, next to a baseline; a verification without an engine around it; a whole prompt.
    """

    STEP = "step"
    SERVED = "served"
    SPECULATION = "speculation"
    PASS = "pass"
    PROMPT = "prompt"


@dataclass(frozen=True, slots=True)
class PublicRun:
    """One row.

    time_ms: per token; for a speculation with drafts, and baseline_ms without. context_tokens: mean over
    the run. lengths: ``uniform`` if they are drawn from 1 to twice their mean. left_out: the reason why a row
    does not count; blank if it counts.
    """

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
    def server(self) -> tuple[object, ...]:
        """The common part of the runs of one server."""
        return (
            self.source_id,
            self.engine,
            self.engine_version,
            self.model,
            self.hardware,
            self.tensor_parallel,
            self.weights,
        )

    @property
    def series(self) -> tuple[object, ...]:
        """Key of the runs that differ only in batch and context."""
        return (*self.server, self.kv_dtype, self.draft, self.gamma)

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
        """Tokens per iteration of a run with drafts, as a question states them."""
        assert self.gamma
        assert self.tokens_per_iteration
        return min(self.tokens_per_iteration, self.gamma + MOST_GAINED)

    @property
    def ratio(self) -> float | None:
        """The ratio of an iteration to a baseline step."""
        if self.tokens_per_iteration and self.time_ms and self.baseline_ms:
            return self.tokens_per_iteration * self.time_ms / self.baseline_ms
        return None

    def query_arguments(self, degree: int | None = None) -> dict[str, Any]:
        """Arguments of a question from this row. degree: used if the source states none."""
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


def spelled_kind(run: PublicRun) -> str:
    """The kind of a run's draft, as `--draft` spells it."""
    return resolve(speculating_query(run)).draft.kind


def step_query(run: PublicRun) -> Query:
    """The question of a run's baseline step."""
    return Query(batch=run.batch, context=round(run.context_tokens), gamma=0, **run.query_arguments())


def speculating_query(run: PublicRun) -> Query:
    """The question of a run with drafts, at a set acceptance."""
    assert run.gamma
    return Query(
        batch=run.batch,
        context=round(run.context_tokens),
        gamma=run.gamma,
        draft=run.draft,
        alpha=SET_ALPHA,
        **run.query_arguments(degree_of(run)),
    )


@dataclass(frozen=True, slots=True)
class Answered:
    """A row and its answer. figure: ``step``, ``speedup`` or ``ratio`` (an iteration over a step).

    verdict: of a speedup.
    """

    run: PublicRun
    figure: str
    predicted: float
    measured: float
    interval: tuple[float, float] | None
    verdict: str = ""

    @property
    def off(self) -> float:
        """Logarithm of predicted over measured."""
        return log_error(self.predicted, self.measured)


@cache
def public_runs() -> tuple[PublicRun, ...]:
    """All rows, including those that do not count."""
    return read_published("public_runs", PublicRun)


def answers(run: PublicRun) -> list[Answered]:
    """The answer for a row. Raises InputError for a row that cannot be asked."""
    if run.kind is RunKind.SERVED:
        return [_served(run)]
    return [_step(run)] if run.kind is RunKind.STEP else _speculation(run)


def _baseline(run: PublicRun, degree: int | None = None) -> WhatIf:
    """The answer for a run without drafts. degree: used if the source states none."""
    arguments = run.query_arguments(degree)
    return whatif(batch=run.batch, context=round(run.context_tokens), gamma=0, **arguments)


def _step(run: PublicRun) -> Answered:
    a = _baseline(run)
    assert run.time_ms
    return Answered(run, "step", a.ar_tpot_s, run.time_ms * MS, a.ar_tpot_interval)


def _uniform_std(mean: float) -> int:
    """The spread of lengths that are drawn from 1 to twice their mean."""
    return int(mean / 3**0.5) - 1


def _served(run: PublicRun) -> Answered:
    assert run.time_ms
    assert run.input_tokens
    assert run.output_tokens
    spreads: dict[str, int] = {}
    if run.lengths == "uniform":
        spreads["input_std"] = _uniform_std(run.input_tokens)
        spreads["output_std"] = _uniform_std(run.output_tokens)
    arguments: dict[str, Any] = spreads | run.query_arguments()
    a = traffic(
        input_len=int(run.input_tokens),
        output_len=int(run.output_tokens),
        max_concurrency=run.batch,
        num_prompts=run.requests or 10 * run.batch,
        gamma=0,
        replay=True,
        **arguments,
    )
    if not a.replay:
        raise InputError(f"{run.id}: its run cannot be replayed")
    predicted_s = a.replay[0].tpot_s.mean
    return Answered(run, "step", predicted_s, run.time_ms * MS, a.rows[0].tpot_interval)


def _speculation(run: PublicRun) -> list[Answered]:
    assert run.speedup
    a = whatif(
        batch=run.batch,
        context=round(run.context_tokens),
        gamma=run.gamma,
        draft=run.draft,
        tokens_per_iteration=run.gained,
        **run.query_arguments(degree_of(run)),
    )
    if a.speedup is None:
        raise InputError(f"{run.id}: no acceptance is known")
    answered = [Answered(run, "speedup", a.speedup, run.speedup, a.speedup_interval, a.verdict)]
    if run.ratio:
        answered.append(Answered(run, "ratio", a.iteration_s / a.ar_tpot_s, run.ratio, None))
    return answered


def degree_of(run: PublicRun) -> int:
    """The stated degree, or the one with the nearest baseline."""
    if run.tensor_parallel or not run.baseline_ms:
        return run.tensor_parallel or 1
    off = {}
    for degree in DEGREES:
        try:
            a = _baseline(run, degree)
        except InputError:
            continue
        off[degree] = abs(math.log(a.ar_tpot_s / (run.baseline_ms * MS)))
    return min(off, key=lambda degree: off[degree]) if off else 1
