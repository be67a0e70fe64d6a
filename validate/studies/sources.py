"""Held-out sources: errors of steps, iterations over steps and speedups of public runs.

`texts` makes ``hardware/sources.yaml``, the deviations behind intervals of steps. `figures` makes the part of
the accuracy record. Means are over rows and over sources (macro), where a source of hundreds of rows counts
as one.
"""

import datetime
import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from perfmodel.answers.point.whatif import whatif
from perfmodel.answers.question import Query
from perfmodel.specs import (
    DRIFT,
    ENGINES as KNOWN_ENGINES,
    LLAMACPP,
    VERSION,
    Z,
    calibration_of,
    files,
    kernels_of,
    load_gpu,
    load_model,
)
from perfmodel.specs.engines.source_errors import BORROWED, OTHER, StepErrors
from perfmodel.validate.fit.errors import same_side
from perfmodel.validate.records import BUNDLED
from perfmodel.validate.solving import grouped, shortened, significant
from perfmodel.validate.studies import llamacpp
from perfmodel.validate.studies.engines import recorded, replayed
from perfmodel.validate.studies.held_out import quantile
from perfmodel.validate.studies.iterations import Iteration
from perfmodel.validate.studies.left_out import left_out
from perfmodel.validate.studies.mixed import MixedEffects
from perfmodel.validate.studies.parameters import ENGINES
from perfmodel.validate.studies.public_runs import MOST_GAINED, Answered, PublicRun, answers, public_runs
from perfmodel.validate.studies.published_engines import engine_decode
from perfmodel.validate.studies.robust import Array

PATH = files.data_directory("") / "sources.yaml"
LEFT_OUT = BUNDLED / "sources.json"
"""Id of each step -> its log error without its source."""
CROWDED = 16
"""Sequences from which rows scatter more, because prompts of other requests delay some engines' passes."""
FEW = 3
"""An engine with fewer rows takes the deviation of all."""
NEWEST = "blackwell"
"""An architecture with its own deviation, because engines still change its kernels from version to
version.
"""
HEADER = (
    "# Written by `perfmodel validate calibrate sources --write` from results/published/public_runs.csv.\n"
)


TITLES = ENGINES | {LLAMACPP: KNOWN_ENGINES[LLAMACPP]}
"""Headings of the judged engines."""


@cache
def answered() -> tuple[Answered, ...]:
    """Every row that counts with its answer. Raises InputError for a row that cannot be asked."""
    counted = (run for run in public_runs() if run.counts and run.engine in TITLES)
    return tuple(a for run in counted for a in answers(run))


def of_figure(figure: str) -> list[Answered]:
    """The answers of one figure."""
    return [a for a in answered() if a.figure == figure]


def mixed(rows: Sequence[Answered]) -> MixedEffects:
    """The fit to the errors of steps."""
    return MixedEffects(
        off=np.array([-a.off for a in rows]),
        levels={"source": [a.run.source_id for a in rows], "server": [a.run.server for a in rows]},
        classes=[_class(a.run) for a in rows],
    )


def _class(run: PublicRun) -> str:
    return f"{run.engine} {'crowded' if run.batch >= CROWDED else 'alone'}"


def texts(date: datetime.date) -> dict[Path, str]:
    """The texts of the two files: deviations, and errors of steps with constants fitted without their source.

    llama.cpp's are in the files of its constants (`llamacpp.texts`).
    """
    rows = [a for a in of_figure("step") if a.run.engine in ENGINES]
    found = mixed(rows)
    sources = [a.run.source_id for a in rows]
    left = left_out(rows)
    whole = {
        crowd: float(np.sqrt(np.mean([s**2 for name, s in found.residuals.items() if crowd in name])))
        for crowd in ("alone", "crowded")
    }
    counts = {name: len(of) for name, of in grouped(rows, lambda a: _class(a.run)).items()}
    of_engines = {
        word: {
            crowd: found.residuals[name] if counts.get(name := f"{word} {crowd}", 0) >= FEW else whole[crowd]
            for crowd in whole
        }
        for word in dict.fromkeys(a.run.engine for a in rows)
    }
    data = {
        "fitted_on": ["public_runs.csv"],
        "date": date,
        "sources": len(set(sources)),
        "rows": len(rows),
        "widening": _widening(rows, left, found.left_out(sources)[1]),
        **found.deviations,
        "crowded_from": CROWDED,
        "devices": sorted({a.run.hardware for a in rows}),
        "engines": of_engines | {OTHER: whole},
    }
    short = shortened(data, 3)
    StepErrors.model_validate(short)
    errors = {a.run.id: significant(float(off), 4) for a, off in zip(rows, left, strict=True)}
    stated = HEADER + yaml.safe_dump(short, sort_keys=False, width=110)
    return {PATH: stated, LEFT_OUT: json.dumps(errors, indent=1) + "\n"}


def _widening(rows: Sequence[Answered], left: Array, deviation: Array) -> dict[str, float]:
    """Factors on deviations, by kernels.

    They lie between the factors for constants fitted with a source and those fitted without it, because a
    new source often shares devices and flags with others. A source counts as one.
    """
    sizes = np.abs(np.stack((np.array([a.off for a in rows]), left))) / deviation
    found = {}
    for name, index in grouped(range(len(rows)), lambda i: _kernels(rows[i].run)).items():
        sources = [rows[i].run.source_id for i in index]
        weights = np.array([1.0 / sources.count(source) for source in sources])
        within = [quantile(size[index], weights) for size in sizes]
        found[name] = math.sqrt(math.prod(within)) / Z
    return found


def _kernels(run: PublicRun) -> str:
    gpu = load_gpu(run.hardware)
    key = kernels_of(gpu, calibration_of(gpu, run.engine).gpu)
    return key if key in (BORROWED, NEWEST) else OTHER


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

    def inside(self, by: float = 0.0) -> bool:
        """Whether the 90 % interval contains the measured value. by: log error that is first added to the
        prediction, which moves both ends.
        """
        assert self.interval
        return self.interval[0] * math.exp(by) <= 1.0 <= self.interval[1] * math.exp(by)


def judged(figure: str) -> list[Judged]:
    """Rows of public runs, and iterations of the tables to which constants are fitted.

    Ratios of public runs have one constant that saw its source, SGLang's time outside passes. The error of a
    llama.cpp speedup is the opposite of its ratio's.
    """
    rows = []
    left = _errors_left_out()[figure]
    for a in of_figure(figure):
        interval = a.interval and (a.interval[0] / a.measured, a.interval[1] / a.measured)
        draft = a.run.draft.partition(":")[0]
        place = a.run.source_id, a.run.engine, a.run.hardware, load_model(a.run.model).name
        kind = llamacpp.kind_of(a.run) if a.run.engine == LLAMACPP else ""
        rows.append(Judged(*place, draft, left.get(a.run.id, a.off), a.off, interval, kind))
    return rows if figure == "step" else rows + _of_tables(figure)


def _of_tables(figure: str) -> list[Judged]:
    """Ratios of the tables by fits without their study, or the resulting speedups of chains."""
    ratios = replayed(recorded())
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


def _errors_left_out() -> dict[str, dict[str, float]]:
    """Figure -> id of a run -> its error with constants fitted without its source."""
    step, llama = (json.loads(path.read_text(encoding="utf-8")) for path in (LEFT_OUT, llamacpp.LEFT_OUT))
    return {
        "step": step | llama["step"],
        "ratio": llama["ratio"],
        "speedup": {id: -off for id, off in llama["ratio"].items()},
    }


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
    sure = [a for a in speedups if a.verdict in SURE]
    return found | {
        "side": {
            "rows": len(speedups),
            "right": sum(same_side(a.predicted, a.measured) for a in speedups),
            "sure": len(sure),
            "sure_and_wrong": sum(not same_side(a.predicted, a.measured) for a in sure),
        },
        "best_length": {
            "engines": _best_length([a for a in speedups if a.run.engine != LLAMACPP]),
            LLAMACPP: _best_length([a for a in speedups if a.run.engine == LLAMACPP]),
        },
    }


def _best_length(rows: Sequence[Answered]) -> dict[str, Any]:
    """What the predicted best draft length loses of the throughput of the measured best one.

    A sweep has the draft lengths of one server, load and draft; runs of one length belong to different
    sweeps, in their order. No draft, with a speedup of 1, is one of the lengths.
    """
    left = _errors_left_out()["speedup"]
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
    predicted = [1.0, *(a.measured * math.exp(off) for a, off in zip(sweep, offs, strict=True))]
    return 1.0 - measured[int(np.argmax(predicted))] / max(measured)


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
    found = {
        "rows": len(rows),
        "sources": len(sources),
        "error": math.expm1(_mean(rows)),
        "macro": math.expm1(float(np.mean([*sources.values()]))),
        "bias": math.expm1(float(np.mean([r.off for r in rows]))),
        "worst": {"source": worst, "error": math.expm1(sources[worst])},
        "shipped": math.expm1(float(np.mean([abs(r.shipped) for r in rows]))),
    }
    stated = [r for r in rows if r.interval]
    if stated:
        found["inside"] = sum(r.inside(r.off - r.shipped) for r in stated) / len(stated)
        found["inside_shipped"] = sum(r.inside() for r in stated) / len(stated)
        found["width"] = float(np.median([(r.interval[1] / r.interval[0]) ** 0.5 - 1 for r in stated]))  # type: ignore[index]
    return found


def _mean(rows: Sequence[Judged]) -> float:
    return float(np.mean([abs(r.off) for r in rows]))
