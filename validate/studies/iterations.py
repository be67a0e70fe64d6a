"""Models published ratios of an iteration to a baseline step as functions of the fitted constants: the costs
of speculation outside the passes of an engine.

In a ratio, most errors that are common to all rows of an engine or model cancel. There are three kinds of
rows:

- Timed ratios: two studies of vLLM and one of TensorRT-LLM.
- Tokens per iteration over speedup, for Llama-3.1-8B with EAGLE heads. The tokens per iteration come from
  traces at batch 1, so the errors are larger and correlated within a data set.
- Tokens per iteration over speedup, for SGLang. The speedups come from throughputs that include prefill.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from perfmodel.answers.question import Query, resolve
from perfmodel.drafts import kinds
from perfmodel.operations import Array
from perfmodel.specs import Calibration
from perfmodel.speculation import with_calibration
from perfmodel.validate.solving import Values, grouped
from perfmodel.validate.studies.answered_runs import SET_ALPHA
from perfmodel.validate.studies.engine_versions import version_of
from perfmodel.validate.studies.error_parts import ErrorSpread, Parts, parts_of
from perfmodel.validate.studies.fitted_constants import FittedConstants
from perfmodel.validate.studies.fitted_parameters import DECODING, SPECULATING
from perfmodel.validate.studies.parameters import PlacedConstant
from perfmodel.validate.studies.published_engines import (
    EngineSpeculationRow,
    ServedRow,
    engine_speculation,
    query_of,
    served,
    step_laws,
)
from perfmodel.validate.studies.robust import FittedRows
from perfmodel.validate.studies.steps import StepGroup, batch_of

NAMED_CONTEXT = 512
"""Context, in tokens, of rows that state only a data set. Between 0 and 2048 tokens it changes a ratio by
less than 3 %.
"""
HARD = 1e6
"""Value of `soft` with which every ratio counts fully, regardless of its error."""
CLOCKED = ErrorSpread(row=0.05, group=0.05, kind=0.02, soft=HARD, soft_row=HARD)
"""Expected errors of timed ratios. 1 to 3 % come from reading the published figures, and the rest comes from
the formula.
"""
THROUGHPUTS = replace(CLOCKED, row=0.10, group=0.15)
"""Expected errors of ratios that come from throughputs."""
TRACES = replace(CLOCKED, row=0.05, group=0.12)
"""Expected errors of ratios whose tokens per iteration come from traces."""
LAW = replace(CLOCKED, row=0.03, group=0.10)
"""Expected errors of ratios that come from a published formula for step times."""


@dataclass(frozen=True)
class Iteration:
    """A measured ratio of an iteration to a baseline step.

    - study, group: keys of rows with correlated errors. A group is a part of a study.
    - batch, step_batch: the number of sequences in the iteration and in the baseline step.
    - steps: the number of draft steps.
    - width: 1 for a chain. A tree drafts up to `width` tokens in each step after the first.
    - verified: the number of tokens that are verified per sequence; for a chain, it is `steps` + 1.
    - spread: the expected size of the errors.
    - gained: the tokens per iteration; None if the row has no speedup (gained / ratio).
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
    spread: ErrorSpread
    gained: float | None = None
    width: int = 1

    @property
    def tokens(self) -> float:
        """The number of tokens that a pass verifies in all sequences."""
        return self.batch * self.verified

    @property
    def alike(self) -> tuple[object, ...]:
        """A key that is equal for rows that differ only in batch and context."""
        return (
            self.engine,
            self.version,
            replace(self.query, batch=1, context=1),
            self.width,
            self.verified,
        )

    @property
    def kind(self) -> str:
        """The kind of the draft."""
        word = (self.query.draft or "self").partition(":")[0]
        return word if word in kinds() else "model"


@dataclass
class IterationGroup(StepGroup):
    """Ratios that differ only in batch and context.

    - first: the row that represents them.
    """

    step_batch: Array
    first: Iteration

    def predict(self, calibration: Calibration) -> Array:
        """The predicted ratios of an iteration to a baseline step."""
        s = with_calibration(self.scenario, calibration)
        batch = self.batch
        context = self.context
        row = self.first
        draft_s = row.steps * s.draft_token_s(batch, context, np.array([row.steps]))
        if row.width > 1:
            wider_s = s.draft_pass_s(batch, context, float(row.width)) - s.draft_pass_s(batch, context)
            draft_s = draft_s + (row.steps - 1) * wider_s
        verify_s = s.target_pass_s(batch, context, float(row.verified))
        iteration_s = draft_s + verify_s + s.overhead_s(batch, context)
        return np.asarray(iteration_s / s.target_pass_s(self.step_batch, context))


class Iterations(FittedRows[Iteration]):
    """Ratios of iterations to baseline steps, with predictions as functions of the parameters.

    - decoding: the values of the constants that determine the times of passes (`DECODING`).
    - parameters: the constants to fit.
    - rows: the rows of the fit; by default `iterations`.
    """

    def __init__(
        self,
        decoding: Values,
        parameters: Sequence[PlacedConstant] = SPECULATING,
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
        first = rows[0]
        hardware = first.query.hardware
        parameters = (*DECODING, *self.parameters)
        constants = FittedConstants.of(hardware, first.engine, first.version, parameters)
        # the shards of a scenario depend only on the decoding, so they are made once
        expected = {p.place: p.expected for p in self.parameters}
        calibration = constants.calibration({**expected, **self._decoding})
        scenario = with_calibration(resolve(first.query), calibration)
        batch = np.array([row.batch for row in rows])
        context = np.array([row.context for row in rows])
        step_batch = np.array([row.step_batch for row in rows])
        return IterationGroup(constants, scenario, np.array(index), batch, context, step_batch, first)

    def predict(self, values: Values) -> Array:
        """See `FittedRows.predict`."""
        return super().predict({**self._decoding, **values})

    def parts(self, train: NDArray[np.bool_]) -> Parts:
        """The parts of the errors. Each group is also a kind, so no part is common to several groups."""
        groups: list[Hashable] = [row.group for row in self.rows]
        return parts_of(groups, groups, train, [row.spread for row in self.rows])


def iterations() -> list[Iteration]:
    """The measured ratios to which the constants are fitted."""
    rows = []
    for timed in engine_speculation():
        if not timed.clean:
            continue
        if timed.engine != "sglang" and timed.ratio:
            rows.append(_clocked(timed, timed.ratio, CLOCKED))
        elif timed.engine == "sglang" and timed.tokens_per_iteration:
            rows.append(_clocked(timed, timed.tokens_per_iteration / timed.speedup, THROUGHPUTS))
    for traced in served():
        if traced.draft != "ngram":  # the source does not state how often an n-gram draft finds a match
            ratio = traced.tokens_per_iteration / traced.speedup
            rows.append(_served(traced, f"{traced.draft} {traced.task}", ratio, TRACES))
    for law in step_laws():
        rows.append(_served(law, law.task, 1.0 / law.speedup, LAW))
    return rows


def _served(row: ServedRow, group: str, ratio: float, spread: ErrorSpread) -> Iteration:
    query = Query(
        row.target,
        row.hardware,
        row.batch,
        NAMED_CONTEXT,
        row.gamma,
        draft=row.draft,
        alpha=SET_ALPHA,
    )
    batch = float(row.batch)
    gained = row.tokens_per_iteration
    return Iteration(
        name=row.id,
        study="SpecDecode-Bench",
        group=group,
        engine="vllm",
        version=row.stack,
        query=query,
        batch=batch,
        step_batch=batch,
        context=NAMED_CONTEXT,
        steps=row.gamma,
        verified=row.gamma + 1,
        ratio=ratio,
        spread=spread,
        gained=gained if gained > 1 else None,
    )


def _clocked(row: EngineSpeculationRow, ratio: float, spread: ErrorSpread) -> Iteration:
    context = row.context_tokens or NAMED_CONTEXT
    query = query_of(
        row,
        row.target,
        context,
        row.batch,
        row.steps,
        draft=row.draft,
        alpha=SET_ALPHA,
        dp=row.data_parallel,
    )
    batch = batch_of(row)
    server = f"{row.target} {row.engine} {row.hardware} tp {row.tensor_parallel}"
    return Iteration(
        name=row.id,
        study=row.source_id,
        group=f"{server} {row.draft} gamma {row.steps}",
        engine=row.engine,
        version=version_of(row),
        query=query,
        batch=batch,
        step_batch=row.step_running or batch,
        context=context,
        steps=row.steps,
        width=row.topk,
        verified=row.verified_tokens,
        ratio=ratio,
        spread=spread,
        gained=row.tokens_per_iteration,
    )
