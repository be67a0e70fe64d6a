"""Collects the measured steps, ratios and speedups that judge predictions, each with its log errors.

The measurements are public runs and the rows of `iterations`. Each is predicted with constants that were
fitted without its source.
"""

import math
from dataclasses import dataclass, replace

from perfmodel.answers.point.whatif import whatif
from perfmodel.answers.question import Query, resolve
from perfmodel.answers.question.defects import slowing
from perfmodel.specs import LLAMACPP, VERSION, VERSION_SEPARATOR, load_model
from perfmodel.specs.engines.source_errors import extra_share
from perfmodel.validate.studies import llamacpp
from perfmodel.validate.studies.answered_runs import Answered, speculating_query
from perfmodel.validate.studies.engine_replay import replayed_as_recorded
from perfmodel.validate.studies.iterations import Iteration
from perfmodel.validate.studies.log_errors import log_error, of_reciprocal
from perfmodel.validate.studies.public_answers import of_figure
from perfmodel.validate.studies.public_runs import MOST_GAINED, PublicRun
from perfmodel.validate.studies.sources_file import recorded_sources


@dataclass(frozen=True, slots=True)
class JudgedRun:
    """A measured figure with its errors.

    - off: the log error with constants that were fitted without the row's source.
    - shipped: the log error with the bundled constants.
    - measured: the measured seconds, ratio or speedup.
    - interval: the 90 % interval of the prediction with the bundled constants, divided by the measured value.
    - kind: the kind of a llama.cpp step (`StepKind`); empty for other figures.
    - ratio: for a speedup, the predicted ratio of an iteration to a step.
    - slowed: whether a known defect of the engine slows this draft (`is_slowed`).
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
        divided by the measured value. For a speedup, the width is scaled by the extra time of this
        prediction (`extra_share`).
        """
        assert self.interval
        widening = 1.0
        if self.ratio is not None:
            ratio = self.ratio * math.exp(self.shipped - self.off)
            widening = float(extra_share(ratio) / extra_share(self.ratio))
        low, high = (math.log(end) - self.shipped for end in self.interval)
        return math.exp(self.off + widening * low), math.exp(self.off + widening * high)


def judged(figure: str) -> list[JudgedRun]:
    """The measurements of one figure, in public runs and in `iterations`.

    - figure: ``step``, ``ratio`` or ``speedup``.

    The ratios of SGLang's public runs are an exception: SGLang's time outside passes was also fitted to the
    same source.
    """
    errors = errors_left_out(figure)
    rows = [_of_run(a, errors.get(a.run.id, a.off)) for a in of_figure(figure)]
    if figure == "ratio":
        rows += _ratios_of_tables()
    if figure == "speedup":
        rows += _speedups_of_tables()
    return rows


def _of_run(a: Answered, off: float) -> JudgedRun:
    """The judged figure of a public run.

    - off: the log error, with constants that were fitted without the run's source.
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
    """Whether the answer for a run with drafts names a known defect of the engine that slows the draft
    (`slowing`). Such an answer never recommends the draft.
    """
    return slowing(resolve(speculating_query(run)), run.context_tokens) is not None


def errors_left_out(figure: str) -> dict[str, float]:
    """Id of a public run -> the log error of a figure, with constants that were fitted without its source."""
    errors = recorded_sources()["errors"]
    if figure == "ratio":
        return {id: of_reciprocal(error) for id, error in errors["speedup"].items()}
    return dict(errors[figure])


def _ratios_of_tables() -> list[JudgedRun]:
    """The ratios of `iterations`, predicted by fits without their study."""
    return [_of_table_row(row, error, error, row.ratio) for row, error in _table_rows()]


def _speedups_of_tables() -> list[JudgedRun]:
    """The speedups of the chains of `iterations`, predicted by fits without their study."""
    return [speedup_of_table(row, error) for row, error in _table_rows() if row.gained and row.width == 1]


def speedup_of_table(row: Iteration, error_of_ratio: float) -> JudgedRun:
    """The judged speedup of a row of `iterations`.

    - error_of_ratio: the log error of the row's ratio, predicted by a fit without its study.
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
    """The rows of `iterations`, each with the log error of its ratio. The fit left out the row's study."""
    replayed = replayed_as_recorded()
    return list(zip(replayed.rows, replayed.ratios["model"].off.tolist(), strict=True))


def _of_table_row(row: Iteration, off: float, shipped: float, measured: float) -> JudgedRun:
    """The judged figure of a row of `iterations`.

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
    """The question about a row. The version of the engine is reduced to its number."""
    number = VERSION.search(row.version)
    return replace(
        row.query,
        engine=f"{row.engine}{VERSION_SEPARATOR}{number[0]}" if number else row.engine,
        batch=round(row.batch),
        context=round(row.context),
        gamma=row.steps,
        alpha=None,
        tokens_per_iteration=min(gained, row.steps + MOST_GAINED),
    )
