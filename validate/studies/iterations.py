"""What speculation costs an engine beyond its passes, from the ratio of an iteration to a plain step.

A ratio is free of most of what a whole engine or model is off by, and rows of two studies of vLLM have it: gpt-oss-120b
with EAGLE-3, iterations and steps by the clock, and Llama-3.1-8B with EAGLE heads, tokens per iteration over speedup.
The second study's tokens per iteration are of traces at batch 1, so a data set's rows err together, and by more. The
rows of SGLang are throughputs with prefill in them, trees among them, from four sources.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from perfmodel.answers.query import Query, resolve
from perfmodel.specs.calibration import Calibration
from perfmodel.specs.constants import Constant
from perfmodel.specs.published_engines import EngineSpeculationRow, ServedRow, engine_speculation, served, step_law
from perfmodel.speculation.scenario import Scenario
from perfmodel.speculation.uncertainty import with_calibration
from perfmodel.validate.studies.parameters import DECODING, SPECULATING, Parameter
from perfmodel.validate.studies.robust import Found, fit_anew
from perfmodel.validate.studies.steps import Array, Setting

NAMED_CONTEXT = 512.0
"""Context of rows that name a data set instead: between 0 and 2048 it moves a ratio by less than 3 %."""
LAW_BATCHES = (1, 4, 16, 64)
"""Batches within those that the published law of step times was fitted to."""
CLOCKED = (0.05, 0.05)
"""Errors of ratios by the clock: 1 to 3 % are the figures', the rest the form's, which weak priors must bear."""
REFITS = 3
"""Rounds of a fit without some rows: small constants are far from linear in their logarithm."""
Values = Mapping[str, float]


@dataclass(frozen=True)
class Iteration:
    """One measured ratio. study, group: rows that err together; own, shared: standard deviations of their two parts.

    A chain of `steps` drafted tokens has a `width` of 1 and verifies one token more; a tree drafts up to `width` tokens
    in each step after the first. gained: tokens per iteration where the row has a speedup, gained / ratio.
    """

    name: str
    study: str
    group: str
    scenario: Scenario
    batch: float
    context: float
    steps: int
    width: int
    verified: int
    ratio: float
    own: float
    shared: float
    gained: float | None = None

    def predict(self, calibration: Calibration) -> float:
        """The ratio under these constants."""
        s = with_calibration(self.scenario, calibration)
        batch, context, steps = np.array([self.batch]), np.array([self.context]), self.steps
        drafting = steps * s.draft_token_s(batch, context, np.array([steps]))
        if self.width > 1:
            drafting = drafting + (steps - 1) * (
                s.draft_pass_s(batch, context, float(self.width)) - s.draft_pass_s(batch, context)
            )
        iteration = drafting + s.target_pass_s(batch, context, float(self.verified)) + s.overhead_s(batch, context)
        return float((iteration / s.target_pass_s(batch, context))[0])

    @property
    def engine(self) -> str:
        """Word of the engine."""
        return self.scenario.machine.calibration.stack


def iterations(decoding: Values) -> list[Iteration]:
    """The rows to fit to, steps being priced with these values of the engines' other constants."""
    found = []
    for row in engine_speculation():
        if row.engine == "vllm" and row.is_chain and row.clean and row.ratio:
            found.append(_clocked(row, decoding, row.ratio, CLOCKED))
        elif row.engine == "sglang" and row.clean:
            found.append(_clocked(row, decoding, row.tokens_per_iteration / row.speedup, (0.10, 0.15)))
    for printed in served():
        if printed.draft != "ngram":  # how often an n-gram draft finds anything is not printed
            ratio = printed.tokens_per_iteration / printed.speedup
            found.append(_served(printed, decoding, printed.id, f"{printed.draft} {printed.task}", ratio, (0.05, 0.12)))
    law, first = step_law(), next(row for row in served() if row.draft == "eagle")
    for batch in LAW_BATCHES:
        asked = replace(first, batch=batch, tokens_per_iteration=1.0)
        ratio = 1.0 / law.speedup(asked, NAMED_CONTEXT, 1.0)
        found.append(_served(asked, decoding, f"{law.id}-{batch}", "the law", ratio, (0.03, 0.10)))
    return found


def _priced(query: Query, engine: str, decoding: Values) -> Scenario:
    return with_calibration(resolve(query), Setting.of(query.hardware, engine, DECODING).calibration(decoding))


def _served(
    row: ServedRow, decoding: Values, name: str, group: str, ratio: float, errors: tuple[float, float]
) -> Iteration:
    query = Query(
        model=row.target,
        hardware=row.hardware,
        batch=row.batch,
        context=NAMED_CONTEXT,
        gamma=row.gamma,
        draft=row.draft,
        alpha=0.7,
    )
    return Iteration(
        name=name,
        study="SpecDecode-Bench",
        group=group,
        scenario=_priced(query, "vllm", decoding),
        batch=row.batch,
        context=NAMED_CONTEXT,
        steps=row.gamma,
        width=1,
        verified=row.gamma + 1,
        ratio=ratio,
        own=errors[0],
        shared=errors[1],
        gained=row.tokens_per_iteration if row.tokens_per_iteration > 1 else None,
    )


def _clocked(row: EngineSpeculationRow, decoding: Values, ratio: float, errors: tuple[float, float]) -> Iteration:
    context = row.context_tokens or NAMED_CONTEXT
    query = Query(
        model=row.target,
        hardware=row.hardware,
        batch=row.batch,
        context=context,
        gamma=row.steps,
        tp=row.tensor_parallel,
        draft=row.draft,
        alpha=0.7,
        weights=row.weights,
        kv_dtype=row.kv_dtype,
    )
    return Iteration(
        name=row.id,
        study=row.source,
        group=f"{row.target} {row.engine} tp {row.tensor_parallel} gamma {row.steps}",
        scenario=_priced(query, row.engine, decoding),
        batch=row.batch,
        context=context,
        steps=row.steps,
        width=row.topk,
        verified=row.verified_tokens,
        ratio=ratio,
        own=errors[0],
        shared=errors[1],
        gained=row.tokens_per_iteration,
    )


def with_values(calibration: Calibration, values: Values) -> Calibration:
    """A calibration with values of what an iteration costs its engine: of all engines, or of this one."""
    stated = {}
    for scope in ("all", calibration.stack):
        for place, value in values.items():
            where, _, name = place.rpartition(".")
            if where == scope:
                stated[name] = Constant(value=value, source="being fitted")
    return calibration.model_copy(update=stated)


def off_by(rows: Sequence[Iteration], values: Values) -> Array:
    """Logarithm of predicted over measured ratio."""
    return np.array([np.log(r.predict(with_values(r.scenario.machine.calibration, values)) / r.ratio) for r in rows])


def weigh(rows: Sequence[Iteration], train: NDArray[np.bool_]) -> Callable[[Array], Array]:
    """The two parts of the errors of the rows of `train`."""
    groups = [
        [i for i, r in enumerate(rows) if r.group == group and train[i]]
        for group in dict.fromkeys(r.group for r in rows)
    ]

    def parts(off: Array) -> Array:
        found = []
        for index in filter(None, groups):
            first, mean = rows[index[0]], off[index].mean()
            found.append(np.array([mean / np.hypot(first.shared, first.own / len(index) ** 0.5)]))
            found.append((off[index] - mean) / first.own)
        return np.concatenate(found)

    return parts


def fit(rows: Sequence[Iteration], parameters: Sequence[Parameter] = SPECULATING) -> Found:
    """The constants of an iteration that all rows say."""
    everything = np.ones(len(rows), dtype=bool)
    return fit_anew(partial(off_by, rows), parameters, weigh(rows, everything))[0]


def refits(
    rows: Sequence[Iteration], keys: Sequence[str], whole: Values, parameters: Sequence[Parameter] = SPECULATING
) -> dict[str, dict[str, float]]:
    """Constants fitted without the rows of each key, from those of all rows."""
    found = {}
    for key in dict.fromkeys(keys):
        kept = [row for row, k in zip(rows, keys, strict=True) if k != key]
        everything = np.ones(len(kept), dtype=bool)
        fitted, _ = fit_anew(partial(off_by, kept), parameters, weigh(kept, everything), whole, REFITS)
        found[key] = fitted.values
    return found
