"""Collects the steps, ratios and speedups of public runs that judge predictions, each with its errors.

The rows are public runs, and iterations of the tables to which constants are fitted. Errors are log errors
(`log_errors`). Each row is predicted with constants that were fitted without its source.
"""

import math
from dataclasses import dataclass, replace

from perfmodel.answers.point.whatif import whatif
from perfmodel.answers.question import Query, resolve
from perfmodel.answers.question.defects import slowing
from perfmodel.specs import DRIFT, LLAMACPP, VERSION, load_model
from perfmodel.specs.engines.source_errors import extra_share
from perfmodel.validate.studies import llamacpp
from perfmodel.validate.studies.answered_runs import Answered, speculating_query
from perfmodel.validate.studies.engines import replayed_as_recorded
from perfmodel.validate.studies.iterations import Iteration
from perfmodel.validate.studies.log_errors import log_error, of_reciprocal
from perfmodel.validate.studies.public_runs import MOST_GAINED, PublicRun
from perfmodel.validate.studies.sources import of_figure, recorded_sources


@dataclass(frozen=True, slots=True)
class JudgedRun:
    """A row of the statistics.

    - off: log error with constants that were fitted without the row's source.
    - shipped: log error with the bundled constants.
    - measured: seconds, a ratio or a speedup.
    - interval: that of an answer, divided by the measured value.
    - kind: the kind of a llama.cpp step.
    - ratio: for a speedup, the predicted ratio of an iteration to a step.
    - slowed: whether the answer names a known defect of the engine that slows this draft; it then gives no
      verdict in favour of the draft.
    """

    source: str
    engine: str
    hardware: str
    model: str
    draft: str
    off: float
    shipped: float
    measured: float
    interval: tuple[float, float] | None = None
    kind: str = ""
    ratio: float | None = None
    slowed: bool = False

    @property
    def half_width(self) -> float:
        """The relative half-width of the interval."""
        assert self.interval
        low, high = self.interval
        return (high / low) ** 0.5 - 1.0

    @property
    def interval_left_out(self) -> tuple[float, float]:
        """The interval around the prediction with constants that were fitted without the row's source,
        divided by the measured value. For a speedup, its width is scaled to the extra time of this
        prediction.
        """
        assert self.interval
        widening = 1.0
        if self.ratio is not None:
            ratio = self.ratio * math.exp(self.shipped - self.off)
            widening = float(extra_share(ratio) / extra_share(self.ratio))
        low, high = (math.log(end) - self.shipped for end in self.interval)
        return math.exp(self.off + widening * low), math.exp(self.off + widening * high)


def judged(figure: str) -> list[JudgedRun]:
    """The rows of public runs for a figure, and iterations of the tables to which constants are fitted.

    - figure: ``step``, ``ratio`` or ``speedup``.

    For ratios of public runs, SGLang's time outside passes was also fitted to the same source.
    """
    errors = errors_left_out(figure)
    rows = [_of_run(a, errors.get(a.run.id, a.off)) for a in of_figure(figure)]
    if figure == "ratio":
        rows += _ratios_of_tables()
    if figure == "speedup":
        rows += _speedups_of_tables()
    return rows


def _of_run(a: Answered, off: float) -> JudgedRun:
    """A public run.

    - off: the log error of the run, predicted with constants that were fitted without its source.
    """
    run = a.run
    interval = None
    if a.interval:
        low, high = a.interval
        interval = (low / a.measured, high / a.measured)
    return JudgedRun(
        source=run.source_id,
        engine=run.engine,
        hardware=run.hardware,
        model=load_model(run.model).name,
        draft=run.draft.partition(":")[0],
        off=off,
        shipped=a.off,
        measured=a.measured,
        interval=interval,
        kind=llamacpp.kind_of(run) if run.engine == LLAMACPP else "",
        ratio=run.gained / a.predicted if a.figure == "speedup" else None,
        slowed=a.figure != "step" and is_slowed(run),
    )


def is_slowed(run: PublicRun) -> bool:
    """Whether the answer for a run with drafts names a known defect that slows the drafts (`slowing`)."""
    return slowing(resolve(speculating_query(run)), run.context_tokens) is not None


def errors_left_out(figure: str) -> dict[str, float]:
    """Id of a run -> its log error with constants that were fitted without its source."""
    errors = recorded_sources()["errors"]
    if figure == "ratio":
        return {id: of_reciprocal(error) for id, error in errors["speedup"].items()}
    return dict(errors[figure])


def _ratios_of_tables() -> list[JudgedRun]:
    """Ratios of the tables by fits without their study."""
    return [_of_table_row(row, error, error, row.ratio) for row, error in _table_rows()]


def _speedups_of_tables() -> list[JudgedRun]:
    """Speedups of the tables' chains, from their ratios by fits without their study."""
    return [speedup_of_table(row, error) for row, error in _table_rows() if row.gained and row.width == 1]


def speedup_of_table(row: Iteration, error_of_ratio: float) -> JudgedRun:
    """The judged speedup of a row of the tables.

    - error_of_ratio: the log error of the row's ratio, predicted with a fit without its study.
    """
    assert row.gained
    a = whatif(_question_of(row, row.gained))
    assert a.speedup
    assert a.speedup_interval
    measured = row.gained / row.ratio
    low, high = a.speedup_interval
    shipped = log_error(a.speedup, measured)
    of_speedup = _of_table_row(row, of_reciprocal(error_of_ratio), shipped, measured)
    return replace(of_speedup, interval=(low / measured, high / measured), ratio=a.iteration_s / a.ar_tpot_s)


def _table_rows() -> list[tuple[Iteration, float]]:
    """The tables' rows, each with the log error of its ratio by a fit without its study."""
    replayed = replayed_as_recorded()
    return list(zip(replayed.rows, replayed.ratios["model"].off.tolist(), strict=True))


def _of_table_row(row: Iteration, off: float, shipped: float, measured: float) -> JudgedRun:
    """A row of the tables.

    - off, shipped: log errors, as in `JudgedRun`.
    """
    return JudgedRun(
        source=row.study,
        engine=row.engine,
        hardware=row.query.hardware,
        model=load_model(row.query.model).name,
        draft=row.kind,
        off=off,
        shipped=shipped,
        measured=measured,
    )


def _question_of(row: Iteration, gained: float) -> Query:
    """The question of a row, with its version as a number."""
    number = VERSION.search(row.version)
    return replace(
        row.query,
        engine=f"{row.engine}{DRIFT}{number[0]}" if number else row.engine,
        batch=round(row.batch),
        context=round(row.context),
        gamma=row.steps,
        alpha=None,
        tokens_per_iteration=min(gained, row.steps + MOST_GAINED),
    )
