"""The part of the accuracy record for public runs: errors of sources left out, coverage, and verdicts.

Means are over rows and over sources (macro), where a source of hundreds of rows counts as one.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from perfmodel.answers.point.whatif import whatif
from perfmodel.answers.question import Query, resolve
from perfmodel.answers.question.caveats import slowing
from perfmodel.specs import DRIFT, LLAMACPP, VERSION, files, load_model
from perfmodel.specs.engines.source_errors import extra_share
from perfmodel.validate.fit.errors import same_side
from perfmodel.validate.solving import grouped
from perfmodel.validate.studies import choices, llamacpp, mlx
from perfmodel.validate.studies.engines import replayed_as_recorded
from perfmodel.validate.studies.iterations import Iteration
from perfmodel.validate.studies.parameters import ENGINES
from perfmodel.validate.studies.public_runs import MOST_GAINED, Answered, PublicRun, speculating_query
from perfmodel.validate.studies.published_engines import engine_decode
from perfmodel.validate.studies.sources import (
    TITLES,
    of_figure,
    recorded_sources,
    refusals,
)

DATA_CENTRE = ("a100", "h100", "h200", "b200", "b300", "gb200", "gb300")
"""Prefixes of the names of NVIDIA's data-centre devices."""
SURE = ("pays", "does_not_pay")
NEAR = 0.03
"""Part of the throughput that a draft length close to the best one may lose."""
ROUNDING = 1e-9
"""Relative distance to an end that is rounding: a width is the error of a row, which lies exactly there."""


@dataclass(frozen=True, slots=True)
class JudgedRun:
    """A row in the statistics.

    off: logarithm of predicted over measured, with constants fitted without the row's source. shipped: the
    same with the constants of answers. interval: of an answer, over the measured value. ratio: of an
    iteration to a step, behind a speedup, as answers predict it. slowed: whether the answer names a known
    defect of the engine that slows this draft, and so gives no verdict in its favour.
    """

    source: str
    engine: str
    hardware: str
    model: str
    draft: str
    off: float
    shipped: float
    interval: tuple[float, float] | None = None
    kind: str = ""
    ratio: float | None = None
    slowed: bool = False

    @property
    def half_width(self) -> float:
        """Half-width of the interval, as a ratio less 1."""
        assert self.interval
        low, high = self.interval
        return (high / low) ** 0.5 - 1.0

    @property
    def interval_left_out(self) -> tuple[float, float]:
        """The interval around the prediction by constants that were fitted without the row's source, over the
        measured value. That of a speedup has the width for its own share of extra time.
        """
        assert self.interval
        widening = 1.0
        if self.ratio is not None:
            ratio = self.ratio * math.exp(self.shipped - self.off)
            widening = float(extra_share(ratio) / extra_share(self.ratio))
        low, high = (math.log(end) - self.shipped for end in self.interval)
        return math.exp(self.off + widening * low), math.exp(self.off + widening * high)


def judged(figure: str) -> list[JudgedRun]:
    """Rows of public runs, and iterations of the tables to which constants are fitted.

    Ratios of public runs have one constant that saw its source, SGLang's time outside passes. The error of a
    llama.cpp speedup is the opposite of its ratio's.
    """
    errors = errors_left_out(figure)
    rows = [_of_run(a, errors.get(a.run.id, a.off)) for a in of_figure(figure)]
    return rows if figure == "step" else rows + _of_tables(figure)


def _of_run(a: Answered, off: float) -> JudgedRun:
    """A public run. off: its error with constants fitted without its source."""
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
        interval=interval,
        kind=llamacpp.kind_of(run) if run.engine == LLAMACPP else "",
        ratio=run.gained / a.predicted if a.figure == "speedup" else None,
        slowed=a.figure != "step" and is_slowed(run),
    )


def is_slowed(run: PublicRun) -> bool:
    """Whether the answer for a run with drafts names a known defect that slows them (`slowing`)."""
    return slowing(resolve(speculating_query(run)), run.context_tokens) is not None


def errors_left_out(figure: str) -> dict[str, float]:
    """Id of a run -> its error with constants fitted without its source.

    A ratio's is the opposite of its speedup's.
    """
    errors = recorded_sources()["errors"]
    if figure == "ratio":
        return {id: -off for id, off in errors["speedup"].items()}
    return dict(errors[figure])


def _of_tables(figure: str) -> list[JudgedRun]:
    """Ratios of the tables by fits without their study, or the resulting speedups of chains."""
    ratios = replayed_as_recorded()
    off_by_row = ratios.ratios["model"].off.tolist()
    rows = []
    for row, off in zip(ratios.rows, off_by_row, strict=True):
        if figure == "ratio":
            rows.append(_of_table_row(row, off, off))
        elif row.gained and row.width == 1:
            a = whatif(_question_of(row, row.gained))
            measured = row.gained / row.ratio
            assert a.speedup
            assert a.speedup_interval
            low, high = a.speedup_interval
            shipped = math.log(a.speedup / measured)
            of_table = _of_table_row(row, -off, shipped)
            interval = (low / measured, high / measured)
            rows.append(replace(of_table, interval=interval, ratio=a.iteration_s / a.ar_tpot_s))
    return rows


def _of_table_row(row: Iteration, off: float, shipped: float) -> JudgedRun:
    return JudgedRun(
        source=row.study,
        engine=row.engine,
        hardware=row.query.hardware,
        model=load_model(row.query.model).name,
        draft=row.kind,
        off=off,
        shipped=shipped,
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


def figures() -> dict[str, Any]:
    """The part of the accuracy record for public runs: errors by figure and part of the rows, and the correct
    verdicts of speedups.
    """
    errors: dict[str, Any] = {}
    for figure in ("step", "ratio", "speedup"):
        groups = _groups(judged(figure))
        errors[figure] = {name: group_errors(rows) for name, rows in groups if rows}
    speedups = of_figure("speedup")
    of_engines = [a for a in speedups if a.run.engine != LLAMACPP]
    of_llamacpp = [a for a in speedups if a.run.engine == LLAMACPP]
    best_length = {"engines": best_length_loss(of_engines), LLAMACPP: best_length_loss(of_llamacpp)}
    return errors | {
        "side": side_counts(speedups),
        "refused": refusals(),
        "coverage": _coverage(),
        "choices": choices.recorded(),
        "best_length": best_length,
    }


def _coverage() -> dict[str, Any]:
    """Figure -> class -> coverage, with MLX's classes, whose rows have a file of their own."""
    of_mlx = files.read_mapping(mlx.LEFT_OUT)["coverage"]
    of_sources = recorded_sources()["coverage"]
    return {figure: classes | of_mlx[figure] for figure, classes in of_sources.items()}


def side_counts(speedups: Sequence[Answered]) -> dict[str, int]:
    """Speedups predicted on the correct side of 1, and sure verdicts on the wrong one."""
    right = [same_side(a.predicted, a.measured) for a in speedups]
    sure = [side for a, side in zip(speedups, right, strict=True) if a.verdict in SURE]
    return {
        "rows": len(speedups),
        "right": sum(right),
        "sure": len(sure),
        "sure_and_wrong": len(sure) - sum(sure),
    }


def best_length_loss(rows: Sequence[Answered]) -> dict[str, Any]:
    """What the predicted best draft length loses of the throughput of the measured best one.

    A sweep has the draft lengths of one server, load and draft; runs of one length belong to different
    sweeps, in their order. No draft, with a speedup of 1, is one of the lengths.
    """
    errors = errors_left_out("speedup")
    runs_of = Counter[Any]()
    sweeps: dict[Any, list[Answered]] = {}
    for a in rows:
        settings = a.run.server, a.run.batch, a.run.draft
        at_length = settings, a.run.gamma
        runs_of[at_length] += 1
        sweeps.setdefault((settings, runs_of[at_length]), []).append(a)
    several = [sweep for sweep in sweeps.values() if len(sweep) > 1]
    lost = []
    lost_shipped = []
    for sweep in several:
        lost.append(_lost(sweep, [errors.get(a.run.id, a.off) for a in sweep]))
        lost_shipped.append(_lost(sweep, [a.off for a in sweep]))
    return {
        "sweeps": len(several),
        "lost": float(np.mean(lost)),
        "worst": max(lost),
        "near": sum(share <= NEAR for share in lost),
        "near_shipped": sum(share <= NEAR for share in lost_shipped),
    }


def _lost(sweep: Sequence[Answered], offs: Sequence[float]) -> float:
    """Share of the best measured throughput that the predicted best length loses. offs: log errors."""
    measured = [1.0, *(a.measured for a in sweep)]
    predicted = [1.0]
    for a, off in zip(sweep, offs, strict=True):
        predicted.append(a.measured * math.exp(off))
    best = int(np.argmax(predicted))
    return 1.0 - measured[best] / max(measured)


Groups = list[tuple[str, list[JudgedRun]]]
"""Headings, and the rows under them."""
NOVELTIES: dict[str, Callable[[JudgedRun], str]] = {
    "device": lambda r: r.hardware,
    "model": lambda r: r.model,
}
"""What may be new in a row -> its name."""


def _groups(rows: list[JudgedRun]) -> Groups:
    """Rows by engine; for serving engines also by the device and model that other sources have, and by
    draft. Drafts that a known defect slows have a heading of their own and are under no other.
    """
    slowed = [r for r in rows if r.slowed]
    rows = [r for r in rows if not r.slowed]
    by_engine = grouped(rows, lambda r: TITLES[r.engine])
    llamacpp_steps = [r for r in rows if r.kind and not r.draft]
    by_kind = grouped(llamacpp_steps, lambda r: "llama.cpp, " + r.kind.replace("_", ", "))
    of_engines = [r for r in rows if r.engine in ENGINES]
    data_centre = [r for r in of_engines if r.hardware.startswith(DATA_CENTRE)]
    by_draft = grouped([r for r in of_engines if r.draft], lambda r: f"draft {r.draft}")
    return [
        ("all", of_engines),
        *by_engine.items(),
        *by_kind.items(),
        ("data-centre devices of NVIDIA", data_centre),
        *_by_novelty(of_engines),
        *by_draft.items(),
        ("slowed by a known defect", slowed),
    ]


def _by_novelty(rows: list[JudgedRun]) -> Groups:
    """Rows whose device is measured in another source, and the others; then the same for models."""
    sources_of = _sources_of()
    groups: Groups = []
    for word, name_of in NOVELTIES.items():
        elsewhere: list[JudgedRun] = []
        new: list[JudgedRun] = []
        for r in rows:
            sources = sources_of.get((r.engine, name_of(r)), set())
            (elsewhere if sources - {r.source} else new).append(r)
        groups += [(f"{word} in other sources", elsewhere), (f"new {word}", new)]
    return groups


def _sources_of() -> dict[tuple[str, str], set[str]]:
    """Engine, with the name of a device or model -> the sources that measured its steps."""
    sources: dict[tuple[str, str], set[str]] = {}
    for r in judged("step"):
        for name in (r.hardware, r.model):
            sources.setdefault((r.engine, name), set()).add(r.source)
    for row in engine_decode():
        for name in (row.hardware, load_model(row.model).name):
            sources.setdefault((row.engine, name), set()).add(row.source_id)
    return sources


def group_errors(rows: list[JudgedRun]) -> dict[str, Any]:
    """Errors are exp(mean |ln|) - 1, over rows and over the means of sources, with the name of the worst
    source.
    """
    by_source = grouped(rows, lambda r: r.source)
    sources = {name: _mean(of_source) for name, of_source in by_source.items()}
    worst = max(sources, key=lambda name: sources[name])
    macro = np.mean([*sources.values()])
    bias = np.mean([r.off for r in rows])
    shipped = np.mean([abs(r.shipped) for r in rows])
    figures = {
        "rows": len(rows),
        "sources": len(sources),
        "error": math.expm1(_mean(rows)),
        "macro": math.expm1(macro),
        "bias": math.expm1(bias),
        "worst": {"source": worst, "error": math.expm1(sources[worst])},
        "shipped": math.expm1(shipped),
    }
    stated = [r for r in rows if r.interval]
    if stated:
        figures["inside"] = _share_inside([r.interval_left_out for r in stated])
        figures["inside_shipped"] = _share_inside([r.interval for r in stated if r.interval])
        figures["width"] = float(np.median([r.half_width for r in stated]))
    return figures


def _share_inside(intervals: Sequence[tuple[float, float]]) -> float:
    """Share of the intervals, which are over measured values, that contain theirs."""
    inside = [low <= 1.0 + ROUNDING and high >= 1.0 - ROUNDING for low, high in intervals]
    return float(np.mean(inside))


def _mean(rows: Sequence[JudgedRun]) -> float:
    """Mean absolute log error."""
    return float(np.mean([abs(r.off) for r in rows]))
