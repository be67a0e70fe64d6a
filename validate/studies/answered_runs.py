"""Predicts the figures of public runs with the bundled constants. A prediction uses only inputs that the
run's author would know.
"""

from dataclasses import dataclass
from typing import Any

from perfmodel.answers.load.traffic import traffic
from perfmodel.answers.point.whatif import whatif
from perfmodel.answers.point.whatif_answer import WhatIf
from perfmodel.answers.question import Query, resolve
from perfmodel.errors import InputError
from perfmodel.specs.published import MS
from perfmodel.uniform import largest_std
from perfmodel.validate.studies.log_errors import log_error
from perfmodel.validate.studies.public_runs import PublicRun, RunKind

SET_ALPHA = 0.7
"""Acceptance in questions about the ratio of an iteration to a step. The ratio does not depend on this
value.
"""
DEGREES = (1, 2, 4, 8)
"""Tensor-parallel degrees that are tried if the source does not state the degree of its run."""
REQUESTS_PER_CLIENT = 10
"""Requests per client if the source does not state their number. The value is a choice."""


def spelled_kind(run: PublicRun) -> str:
    """The kind of a run's draft, as a value of `--draft`."""
    return resolve(speculating_query(run)).draft.kind


def step_query(run: PublicRun) -> Query:
    """The question about the baseline step of a run."""
    return Query(batch=run.batch, context=round(run.context_tokens), gamma=0, **run.query_arguments())


def speculating_query(run: PublicRun) -> Query:
    """The question about a run with drafts, with the acceptance `SET_ALPHA`. Raises InputError if the run
    states no draft length.
    """
    return Query(
        batch=run.batch,
        context=round(run.context_tokens),
        gamma=int(run.stated("gamma")),
        draft=run.draft,
        alpha=SET_ALPHA,
        **run.query_arguments(degree_of(run)),
    )


@dataclass(frozen=True, slots=True)
class Answered:
    """A measured figure of a run, and its prediction with the bundled constants.

    - figure: ``step`` (seconds), ``speedup`` or ``ratio`` (an iteration over a step).
    - interval: the 90 % interval of the prediction; None if there is none.
    - verdict: the verdict on a speedup.
    """

    run: PublicRun
    figure: str
    predicted: float
    measured: float
    interval: tuple[float, float] | None
    verdict: str = ""

    @property
    def off(self) -> float:
        """The log error: log(predicted / measured)."""
        return log_error(self.predicted, self.measured)


def answers(run: PublicRun) -> list[Answered]:
    """The figures of a run with their predictions. A run with drafts has a speedup, and also a ratio if it
    states its times. Raises InputError for a run that cannot be predicted.
    """
    match run.kind:
        case RunKind.STEP:
            return [_step(run)]
        case RunKind.SERVED:
            return [_served(run)]
        case RunKind.SPECULATION:
            return _speculation(run)
    raise InputError(f"{run.table}.csv: {run.id}: kind: no question is about a {run.kind} alone")


def _baseline(run: PublicRun, degree: int | None = None) -> WhatIf:
    """The answer for a run without drafts.

    - degree: the tensor-parallel degree to use if the source states none.
    """
    arguments = run.query_arguments(degree)
    return whatif(batch=run.batch, context=round(run.context_tokens), gamma=0, **arguments)


def _step(run: PublicRun) -> Answered:
    a = _baseline(run)
    return Answered(run, "step", a.ar_tpot_s, run.stated("time_ms") * MS, a.ar_tpot_interval)


def served_arguments(run: PublicRun) -> dict[str, Any]:
    """The arguments of `traffic` for a run with a constant number of clients."""
    input_mean = run.stated("input_tokens")
    output_mean = run.stated("output_tokens")
    spreads: dict[str, int] = {}
    if run.lengths == "uniform":
        spreads = {"input_std": _uniform_std(input_mean), "output_std": _uniform_std(output_mean)}
    return {
        "input_len": int(input_mean),
        "output_len": int(output_mean),
        "max_concurrency": run.batch,
        "num_prompts": run.requests or REQUESTS_PER_CLIENT * run.batch,
        "gamma": 0,
        "replay": True,
        **spreads,
        **run.query_arguments(),
    }


def _uniform_std(mean: float) -> int:
    """The standard deviation of lengths that are drawn uniformly from 1 to twice their mean. It is rounded
    down to a value that `traffic` accepts.
    """
    return int(largest_std(mean)) - 1


def _served(run: PublicRun) -> Answered:
    measured_s = run.stated("time_ms") * MS
    a = traffic(**served_arguments(run))
    if not a.replay:
        raise InputError(f"{run.id}: its run cannot be replayed")
    predicted_s = a.replay[0].tpot_s.mean
    return Answered(run, "step", predicted_s, measured_s, a.rows[0].tpot_interval)


def _speculation(run: PublicRun) -> list[Answered]:
    measured = run.stated("speedup")
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
    answered = [Answered(run, "speedup", a.speedup, measured, a.speedup_interval, a.verdict)]
    if run.ratio:
        answered.append(Answered(run, "ratio", a.iteration_s / a.ar_tpot_s, run.ratio, None))
    return answered


def degree_of(run: PublicRun) -> int:
    """The tensor-parallel degree of a run. If the source states none, it is the degree whose predicted
    baseline step is closest to the measured step. Without a measured baseline step, it is 1.
    """
    if run.tensor_parallel:
        return run.tensor_parallel
    if not run.baseline_ms:
        return 1
    distances: dict[int, float] = {}
    for degree in DEGREES:
        try:
            a = _baseline(run, degree)
        except InputError:
            continue  # the model cannot be divided so, or does not fit
        distances[degree] = abs(log_error(a.ar_tpot_s, run.baseline_ms * MS))
    return min(distances, key=lambda degree: distances[degree], default=1)
