"""The cost of speculation to an engine outside its passes, from the ratio of an iteration to a baseline step.

A ratio is free of most errors that a whole engine or model has in common. The timed rows are of two studies
of vLLM (gpt-oss-120b with EAGLE-3; Qwen3-32B with a small model and with EAGLE-3) and of one of TensorRT-LLM.
The other rows are tokens per iteration over speedup: Llama-3.1-8B with EAGLE heads, whose tokens per
iteration come from traces at batch 1, so that rows of a data set have larger, correlated errors; and SGLang's
throughputs, which include prefill and some trees.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from perfmodel.answers.question import Query, resolve
from perfmodel.drafts import kinds
from perfmodel.specs import Calibration
from perfmodel.speculation import with_calibration
from perfmodel.validate.solving import grouped
from perfmodel.validate.studies.parameters import DECODING, SPECULATING, Parameter
from perfmodel.validate.studies.published_engines import (
    EngineSpeculationRow,
    ServedRow,
    engine_speculation,
    query_of,
    served,
    step_laws,
)
from perfmodel.validate.studies.robust import Array, FittedRows, Parts, Spread, Values, parts_of
from perfmodel.validate.studies.steps import FittedConstants, StepGroup, batch_of, version_of

NAMED_CONTEXT = 512
"""Context of rows that name only a data set. Between 0 and 2048 it changes a ratio by less than 3 %."""
HARD = 1e6
"""Weighting in which every ratio counts in full, regardless of its error."""
CLOCKED = Spread(row=0.05, group=0.05, kind=0.02, soft=HARD, soft_row=HARD)
"""Errors of timed ratios: 1 to 3 % come from the figures, the rest from the form of the model, which weak
priors must absorb.
"""
THROUGHPUTS = replace(CLOCKED, row=0.10, group=0.15)
TRACES = replace(CLOCKED, row=0.05, group=0.12)
LAW = replace(CLOCKED, row=0.03, group=0.10)


@dataclass(frozen=True)
class Iteration:
    """One measured ratio. study, group: sets of rows with correlated errors. spread: the size of these
    errors.

    A chain of `steps` drafted tokens has a `width` of 1 and verifies one token more. A tree drafts up to
    `width` tokens in each step after the first. step_batch: sequences of the baseline step. gained: tokens
    per iteration if the row has a speedup, gained / ratio.
    """

    name: str
    study: str
    group: str
    engine: str
    version: str
    query: Query
    batch: float
    step_batch: float
    context: float
    steps: int
    verified: int
    ratio: float
    spread: Spread
    gained: float | None = None
    width: int = 1

    @property
    def tokens(self) -> float:
        """Tokens that a pass verifies, over all sequences."""
        return self.batch * self.verified

    @property
    def alike(self) -> tuple[object, ...]:
        """Key of the rows that differ only in batch and context."""
        return (
            self.engine,
            self.version,
            replace(self.query, batch=1, context=1),
            self.width,
            self.verified,
        )

    @property
    def kind(self) -> str:
        """The kind of its draft."""
        word = (self.query.draft or "self").partition(":")[0]
        return word if word in kinds() else "model"


@dataclass
class IterationGroup(StepGroup):
    """Iterations over baseline steps with a common part, represented by the first."""

    step_batch: Array
    first: Iteration

    def predict(self, calibration: Calibration) -> Array:
        """Predicted ratio of an iteration to a baseline step."""
        s = with_calibration(self.scenario, calibration)
        batch = self.batch
        context = self.context
        row = self.first
        drafting = row.steps * s.draft_token_s(batch, context, np.array([row.steps]))
        if row.width > 1:
            wider_s = s.draft_pass_s(batch, context, float(row.width)) - s.draft_pass_s(batch, context)
            drafting = drafting + (row.steps - 1) * wider_s
        verify_s = s.target_pass_s(batch, context, float(row.verified))
        iteration = drafting + verify_s + s.overhead_s(batch, context)
        return np.asarray(iteration / s.target_pass_s(self.step_batch, context))


class Iterations(FittedRows[Iteration]):
    """Iterations over baseline steps, with their ratios as functions of the parameters.

    decoding: values of the engines' other constants, which price the passes.
    """

    def __init__(
        self,
        decoding: Values,
        parameters: Sequence[Parameter] = SPECULATING,
        rows: Sequence[Iteration] | None = None,
    ) -> None:
        self.rows = tuple(iterations() if rows is None else rows)
        self.parameters = parameters
        self._decoding = decoding
        self.logs = np.log([row.ratio for row in self.rows])
        alike = grouped(range(len(self.rows)), lambda i: self.rows[i].alike)
        self.groups = [self._group(index) for index in alike.values()]

    def _group(self, index: list[int]) -> IterationGroup:
        rows = [self.rows[i] for i in index]
        r = rows[0]
        constants = FittedConstants.of(r.query.hardware, r.engine, r.version, (*DECODING, *self.parameters))
        # the shards of a scenario depend only on the decoding, so they are made once
        nothing = {p.place: p.expected for p in self.parameters}
        scenario = with_calibration(resolve(r.query), constants.calibration({**nothing, **self._decoding}))
        batch = np.array([row.batch for row in rows])
        context = np.array([row.context for row in rows])
        step_batch = np.array([row.step_batch for row in rows])
        return IterationGroup(constants, scenario, np.array(index), batch, context, step_batch, r)

    def predict(self, values: Values) -> Array:
        """See `FittedRows.predict`."""
        return super().predict({**self._decoding, **values})

    def parts(self, train: NDArray[np.bool_]) -> Parts:
        """The parts of the errors; every group is a kind of its own."""
        groups: list[Hashable] = [row.group for row in self.rows]
        return parts_of(groups, groups, train, [row.spread for row in self.rows])


def iterations() -> list[Iteration]:
    """The rows of the fit."""
    rows = []
    for row in engine_speculation():
        if row.clean and row.ratio and row.engine != "sglang":
            rows.append(_clocked(row, row.ratio, CLOCKED))
        elif row.clean and row.engine == "sglang" and row.tokens_per_iteration:
            rows.append(_clocked(row, row.tokens_per_iteration / row.speedup, THROUGHPUTS))
    for printed in served():
        if printed.draft != "ngram":  # the source does not state how often an n-gram draft finds a match
            ratio = printed.tokens_per_iteration / printed.speedup
            rows.append(_served(printed, f"{printed.draft} {printed.task}", ratio, TRACES))
    rows += [_served(row, row.task, 1.0 / row.speedup, LAW) for row in step_laws()]
    return rows


def _served(row: ServedRow, group: str, ratio: float, spread: Spread) -> Iteration:
    return Iteration(
        name=row.id,
        study="SpecDecode-Bench",
        group=group,
        engine="vllm",
        version=row.stack,
        query=Query(
            row.target, row.hardware, row.batch, NAMED_CONTEXT, row.gamma, draft=row.draft, alpha=0.7
        ),
        batch=float(row.batch),
        step_batch=float(row.batch),
        context=NAMED_CONTEXT,
        steps=row.gamma,
        verified=row.gamma + 1,
        ratio=ratio,
        spread=spread,
        gained=row.tokens_per_iteration if row.tokens_per_iteration > 1 else None,
    )


def _clocked(row: EngineSpeculationRow, ratio: float, spread: Spread) -> Iteration:
    context = row.context_tokens or NAMED_CONTEXT
    server = f"{row.target} {row.engine} {row.hardware} tp {row.tensor_parallel}"
    query = query_of(
        row,
        row.target,
        context,
        row.batch,
        row.steps,
        draft=row.draft,
        alpha=0.7,
        dp=row.data_parallel,
    )
    return Iteration(
        name=row.id,
        study=row.source_id,
        group=f"{server} {row.draft} gamma {row.steps}",
        engine=row.engine,
        version=version_of(row),
        query=query,
        batch=batch_of(row),
        step_batch=row.step_running or batch_of(row),
        context=context,
        steps=row.steps,
        width=row.topk,
        verified=row.verified_tokens,
        ratio=ratio,
        spread=spread,
        gained=row.tokens_per_iteration,
    )
