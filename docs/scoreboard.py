"""The tables of the public scoreboard: this tool and other simulators on the same measurements."""

import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from statistics import fmean

from perfmodel.answers.point.predictor import predictor
from perfmodel.errors import InputError
from perfmodel.specs.published import read_published
from perfmodel.validate.accuracy.markdown import table

ROOT = Path(__file__).parents[1]
FIGURES = {"step": "step", "ratio": "iteration over step", "speedup": "speedup"}
"""Figure of ``results/accuracy.json`` -> its name here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """A measurement that another simulator answers too. measured, answer: milliseconds of a step, or a
    speedup. answered_by: tables of that device (current), or others (hybrid).
    """

    id: str
    kind: str
    source_id: str
    source: str
    engine: str
    engine_version: str | None
    model: str
    hardware: str
    tensor_parallel: int
    expert_parallel: int
    data_parallel: int
    weights: str | None
    kv_dtype: str | None
    attention_backend: str | None
    batch: int
    context_tokens: int
    draft: str | None
    gamma: int | None
    measured: float
    iteration_over_step: float | None
    simulator: str
    simulator_version: str
    answer: float
    answer_iteration_over_step: float | None
    answered_by: str
    answered_model: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Errors:
    """Errors in % on rows that nobody had tuned to. perfmodel: of the release in ``scoreboard_releases``."""

    figure: str
    subset: str
    rows: int
    sources: int | None
    perfmodel: float
    aisimulate: float
    blis: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """Errors in % of whole sources left out, at one release."""

    release: str
    commit: str
    date: str
    figure: str
    rows: int
    sources: int
    error: float
    of_sources: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Cells:
    """A row of text."""

    what: str
    perfmodel: str
    aisimulate: str
    blis: str | None
    unit: str


@dataclass(frozen=True, slots=True)
class Answered:
    """A shared row and the logarithms of both answers over the measurement."""

    row: Shared
    own: float
    other: float


def unseen() -> str:
    """Errors on rows that nobody had tuned to."""
    return _with_best(
        ["figure", "subset", "rows", "sources"],
        ("perfmodel", "aisimulate", "BLIS"),
        (
            ([e.figure, e.subset, str(e.rows), _text(e.sources)], (e.perfmodel, e.aisimulate, e.blis))
            for e in read_published("scoreboard_errors", Errors)
        ),
    )


def _with_best(
    heads: Sequence[str],
    tools: Sequence[str],
    rows: Iterable[tuple[Sequence[str], Sequence[float | None]]],
) -> str:
    """A table whose lowest error of each row is bold."""
    lines = []
    for cells, errors in rows:
        best = min(error for error in errors if error is not None)
        shown = ["" if e is None else f"**{e:.1f}**" if e == best else f"{e:.1f}" for e in errors]
        lines.append([*cells, *shown])
    return "\n".join(table([*heads, *tools], lines, text_columns=(0, 1))) + "\n"


def _text(value: object) -> str:
    return "" if value is None else str(value)


@cache
def answered() -> tuple[Answered, ...]:
    """The shared rows that this version answers."""
    found = []
    for row in read_published("scoreboard", Shared):
        try:
            own = _own(row)
        except InputError:
            continue
        found.append(Answered(row, math.log(own / row.measured), math.log(row.answer / row.measured)))
    return tuple(found)


def _own(row: Shared) -> float:
    """This version's answer: milliseconds of a step, or the speedup at the measured tokens per iteration."""
    p = predictor(
        row.model,
        row.hardware,
        tp=row.tensor_parallel,
        ep=row.expert_parallel,
        dp=row.data_parallel,
        engine=f"{row.engine}@{row.engine_version}" if row.engine_version else row.engine,
        weights=row.weights,
        kv_dtype=row.kv_dtype,
        attention_backend=row.attention_backend,
        draft=row.draft,
        gamma=row.gamma or 0,
        alpha=0.5 if row.draft else None,
    )
    step_s = float(p.step_s(row.batch, row.context_tokens))
    if row.kind == "step":
        return 1e3 * step_s
    assert row.iteration_over_step is not None
    tokens = row.measured * row.iteration_over_step
    return tokens * step_s / float(p.iteration_s(row.batch, row.context_tokens))


def now() -> str:
    """Errors of this version on the bundled rows."""
    groups: dict[str, Callable[[Shared], bool]] = {
        "all": lambda row: True,
        "with kernel tables of the device": lambda row: row.answered_by == "current",
        "with kernel tables of other devices": lambda row: row.answered_by == "hybrid",
        "vLLM": lambda row: row.engine == "vllm",
        "SGLang": lambda row: row.engine == "sglang",
        "1 client": lambda row: row.batch == 1,
        "2 to 16 clients": lambda row: 2 <= row.batch <= 16,
        "17 and more clients": lambda row: row.batch >= 17,
        "nvfp4": lambda row: row.weights == "nvfp4",
        "int4": lambda row: (row.weights or "").startswith("int4"),
        "checkpoint's format": lambda row: row.weights is None,
    }
    lines = []
    for kind in ("step", "speedup"):
        for name, within in groups.items():
            cells = [a for a in answered() if a.row.kind == kind and within(a.row)]
            if not cells:
                continue
            own = error_of(a.own for a in cells)
            other = error_of(a.other for a in cells)
            nearer = sum(abs(a.own) < abs(a.other) for a in cells)
            head = [kind, name, str(len(cells)), str(len({a.row.source_id for a in cells})), str(nearer)]
            lines.append((head, (own, other)))
    heads = ["figure", "subset", "rows", "sources", "rows for which this tool is nearer"]
    return _with_best(heads, ("this version", "aisimulate"), lines)


def error_of(logs: Iterable[float]) -> float:
    """The mean error in %."""
    return 100.0 * math.expm1(fmean(map(abs, logs)))


def releases() -> str:
    """Errors of sources left out by release."""
    rows = [
        [e.release, e.commit, e.figure, str(e.rows), str(e.sources), f"{e.error:.1f}", f"{e.of_sources:.1f}"]
        for e in read_published("scoreboard_releases", Release)
    ]
    record = json.loads((ROOT / "results" / "accuracy.json").read_text(encoding="utf-8"))
    for figure, name in FIGURES.items():
        e = record["sources"][figure]["all"]
        errors = (f"{100 * e['error']:.1f}", f"{100 * e['macro']:.1f}")
        rows.append(["this version", "", name, str(e["rows"]), str(e["sources"]), *errors])
    heads = ["release", "commit", "figure", "rows", "sources", "mean error %", "of sources %"]
    return "\n".join(table(heads, rows, text_columns=(0, 1, 2))) + "\n"


def speed() -> str:
    """Times and sizes of the tools."""
    rows = []
    for cells in read_published("scoreboard_speed", Cells):
        what = f"{cells.what} ({cells.unit})" if cells.unit in ("ms", "MB") else cells.what
        rows.append([what, cells.perfmodel, cells.aisimulate, _text(cells.blis)])
    return "\n".join(table(["what", "perfmodel", "aisimulate", "BLIS"], rows)) + "\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """What each tool can do: yes, partly or no."""

    feature: str
    perfmodel: str
    aisimulate: str
    blis: str
    inference_lab: str
    llm_serving_sim: str
    sglang_simulator: str

    @property
    def lost(self) -> bool:
        """Whether another tool has it wholly, and this one does not."""
        others = [getattr(self, f.name) for f in fields(self)[2:]]
        return self.perfmodel != "yes" and "yes" in others


def missing() -> str:
    """Features that another tool has wholly, and this one does not."""
    heads = ["", "perfmodel", "aisimulate", "BLIS", "inference-lab", "LLMServingSim", "SGLang simulator"]
    rows = [
        [getattr(row, f.name) for f in fields(Feature)]
        for row in read_published("scoreboard_features", Feature)
        if row.lost
    ]
    return "\n".join(table(heads, rows, text_columns=range(7))) + "\n"


MADE = {
    "scoreboard_unseen": unseen,
    "scoreboard_now": now,
    "scoreboard_releases": releases,
    "scoreboard_speed": speed,
    "scoreboard_missing": missing,
}
"""Block of the page -> what writes it."""
