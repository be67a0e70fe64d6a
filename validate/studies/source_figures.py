"""The part of the accuracy record for public runs: errors of sources left out, coverage, and verdicts.

Means are over rows and over sources (macro), where a source of hundreds of rows counts as one.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from perfmodel.answers.point.whatif import whatif
from perfmodel.answers.question import Query
from perfmodel.specs import DRIFT, LLAMACPP, VERSION, files, load_model
from perfmodel.validate.fit.errors import same_side
from perfmodel.validate.solving import grouped
from perfmodel.validate.studies import choices, llamacpp, mlx
from perfmodel.validate.studies.engines import replayed_as_recorded
from perfmodel.validate.studies.iterations import Iteration
from perfmodel.validate.studies.parameters import ENGINES
from perfmodel.validate.studies.public_runs import MOST_GAINED, Answered
from perfmodel.validate.studies.published_engines import engine_decode
from perfmodel.validate.studies.sources import (
    TITLES,
    asked,
    of_figure,
    recorded_sources,
)

DATA_CENTRE = ("a100", "h100", "h200", "b200", "b300", "gb200", "gb300")
"""Prefixes of the names of NVIDIA's data-centre devices."""
SURE = ("pays", "does_not_pay")
NEAR = 0.03
"""Part of the throughput that a draft length close to the best one may lose."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A row in the statistics.

    off: logarithm of predicted over measured, with constants fitted without the row's source. shipped: the
    same with the constants of answers. interval: of an answer, over the measured value.
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

    @property
    def half_width(self) -> float:
        """Half-width of the interval, as a ratio less 1."""
        assert self.interval
        low, high = self.interval
        return (high / low) ** 0.5 - 1.0

    def inside(self, by: float = 0.0) -> bool:
        """Whether the 90 % interval contains the measured value. by: log error that is first added to the
        prediction, which moves both ends.
        """
        assert self.interval
        low, high = self.interval
        return low * math.exp(by) <= 1.0 <= high * math.exp(by)


def judged(figure: str) -> list[Judged]:
    """Rows of public runs, and iterations of the tables to which constants are fitted.

    Ratios of public runs have one constant that saw its source, SGLang's time outside passes. The error of a
    llama.cpp speedup is the opposite of its ratio's.
    """
    rows = []
    left = errors_left_out(figure)
    for a in of_figure(figure):
        run = a.run
        interval = a.interval and (a.interval[0] / a.measured, a.interval[1] / a.measured)
        draft = run.draft.partition(":")[0]
        place = run.source_id, run.engine, run.hardware, load_model(run.model).name
        kind = llamacpp.kind_of(run) if run.engine == LLAMACPP else ""
        rows.append(Judged(*place, draft, left.get(run.id, a.off), a.off, interval, kind))
    return rows if figure == "step" else rows + _of_tables(figure)


def errors_left_out(figure: str) -> dict[str, float]:
    """Id of a run -> its error with constants fitted without its source.

    A ratio's is the opposite of its speedup's.
    """
    errors = recorded_sources()["errors"]
    if figure == "ratio":
        return {id: -off for id, off in errors["speedup"].items()}
    found: dict[str, float] = errors[figure]
    return found


def _of_tables(figure: str) -> list[Judged]:
    """Ratios of the tables by fits without their study, or the resulting speedups of chains."""
    ratios = replayed_as_recorded()
    rows = []
    for row, off in zip(ratios.rows, ratios.ratios["model"].off.tolist(), strict=True):
        place = row.study, row.engine, row.query.hardware, load_model(row.query.model).name, row.kind
        if figure == "ratio":
            rows.append(Judged(*place, off, off))
        elif row.gained and row.width == 1:
            a = whatif(_question_of(row, row.gained))
            measured = row.gained / row.ratio
            assert a.speedup
            assert a.speedup_interval
            low, high = a.speedup_interval
            shipped = math.log(a.speedup / measured)
            rows.append(Judged(*place, -off, shipped, (low / measured, high / measured)))
    return rows


def _question_of(row: Iteration, gained: float) -> Query:
    """The question of a row, with its version as a number."""
    named = VERSION.search(row.version)
    return replace(
        row.query,
        engine=row.engine + (DRIFT + named[0] if named else ""),
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
    found: dict[str, Any] = {
        figure: {name: _part(rows) for name, rows in _parts(judged(figure)) if rows}
        for figure in ("step", "ratio", "speedup")
    }
    speedups = of_figure("speedup")
    of_engines = [a for a in speedups if a.run.engine != LLAMACPP]
    of_llamacpp = [a for a in speedups if a.run.engine == LLAMACPP]
    return found | {
        "side": _side(speedups),
        "refused": asked()[1],
        "coverage": _coverage(),
        "choices": choices.recorded(),
        "best_length": {
            "engines": _best_length(of_engines),
            LLAMACPP: _best_length(of_llamacpp),
        },
    }


def _coverage() -> dict[str, Any]:
    """Figure -> class -> coverage, with MLX's classes, whose rows have a file of their own."""
    of_mlx = files.read_mapping(mlx.LEFT_OUT)["coverage"]
    return {figure: of | of_mlx[figure] for figure, of in recorded_sources()["coverage"].items()}


def _side(speedups: Sequence[Answered]) -> dict[str, int]:
    """Speedups predicted on the correct side of 1, and sure verdicts on the wrong one."""
    right = [same_side(a.predicted, a.measured) for a in speedups]
    sure = [side for a, side in zip(speedups, right, strict=True) if a.verdict in SURE]
    return {
        "rows": len(speedups),
        "right": sum(right),
        "sure": len(sure),
        "sure_and_wrong": len(sure) - sum(sure),
    }


def _best_length(rows: Sequence[Answered]) -> dict[str, Any]:
    """What the predicted best draft length loses of the throughput of the measured best one.

    A sweep has the draft lengths of one server, load and draft; runs of one length belong to different
    sweeps, in their order. No draft, with a speedup of 1, is one of the lengths.
    """
    left = errors_left_out("speedup")
    seen = Counter[Any]()
    sweeps: dict[Any, list[Answered]] = {}
    for a in rows:
        settings = a.run.server, a.run.batch, a.run.draft
        seen[settings, a.run.gamma] += 1
        sweeps.setdefault((settings, seen[settings, a.run.gamma]), []).append(a)
    several = [sweep for sweep in sweeps.values() if len(sweep) > 1]
    shipped = [_lost(sweep, [a.off for a in sweep]) for sweep in several]
    lost = [_lost(sweep, [left.get(a.run.id, a.off) for a in sweep]) for sweep in several]
    return {
        "sweeps": len(several),
        "lost": float(np.mean(lost)),
        "worst": max(lost),
        "near": sum(part <= NEAR for part in lost),
        "near_shipped": sum(part <= NEAR for part in shipped),
    }


def _lost(sweep: Sequence[Answered], offs: Sequence[float]) -> float:
    measured = [1.0, *(a.measured for a in sweep)]
    predicted = [1.0]
    for a, off in zip(sweep, offs, strict=True):
        predicted.append(a.measured * math.exp(off))
    best = int(np.argmax(predicted))
    return 1.0 - measured[best] / max(measured)


def _parts(rows: list[Judged]) -> list[tuple[str, list[Judged]]]:
    """Parts by engine; for serving engines also by the device and model that other sources have, and by
    draft.
    """
    seen: dict[tuple[str, str], set[str]] = {}
    known = [(r.engine, r.source, (r.hardware, r.model)) for r in judged("step")]
    known += [(r.engine, r.source_id, (r.hardware, load_model(r.model).name)) for r in engine_decode()]
    for engine, source, names in known:
        for name in names:
            seen.setdefault((engine, name), set()).add(source)
    engines = [(TITLES[e], of) for e, of in grouped(rows, lambda r: r.engine).items()]
    steps = [r for r in rows if r.kind and not r.draft]
    kinds = grouped(steps, lambda r: "llama.cpp, " + r.kind.replace("_", ", "))
    rows = [r for r in rows if r.engine in ENGINES]
    parts = [("all", rows), *engines, *kinds.items()]
    parts.append(("data-centre devices of NVIDIA", [r for r in rows if r.hardware.startswith(DATA_CENTRE)]))
    for word in ("device", "model"):
        by: dict[bool, list[Judged]] = {True: [], False: []}
        for r in rows:
            name = r.hardware if word == "device" else r.model
            by[bool(seen.get((r.engine, name), set()) - {r.source})].append(r)
        parts += [(f"{word} in other sources", by[True]), (f"new {word}", by[False])]
    drafts = grouped([r for r in rows if r.draft], lambda r: r.draft)
    return parts + [(f"draft {kind}", of) for kind, of in drafts.items()]


def _part(rows: list[Judged]) -> dict[str, Any]:
    """Errors are exp(mean |ln|) - 1, over rows and over the means of sources, with the name of the worst
    source.
    """
    sources = {name: _mean(of) for name, of in grouped(rows, lambda r: r.source).items()}
    worst = max(sources, key=lambda name: sources[name])
    bias = np.mean([r.off for r in rows])
    shipped = np.mean([abs(r.shipped) for r in rows])
    found = {
        "rows": len(rows),
        "sources": len(sources),
        "error": math.expm1(_mean(rows)),
        "macro": math.expm1(np.mean([*sources.values()])),
        "bias": math.expm1(bias),
        "worst": {"source": worst, "error": math.expm1(sources[worst])},
        "shipped": math.expm1(shipped),
    }
    stated = [r for r in rows if r.interval]
    if stated:
        inside = sum(r.inside(r.off - r.shipped) for r in stated)
        inside_shipped = sum(r.inside() for r in stated)
        found["inside"] = inside / len(stated)
        found["inside_shipped"] = inside_shipped / len(stated)
        found["width"] = float(np.median([r.half_width for r in stated]))
    return found


def _mean(rows: Sequence[Judged]) -> float:
    return float(np.mean([abs(r.off) for r in rows]))
