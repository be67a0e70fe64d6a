"""The tables of ``docs/accuracy.md`` and of the page behind it. Prose is by hand, figures come from the
accuracy record.

A table follows a line ``<!-- table: NAME -->``; `filled` writes it anew.
"""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from perfmodel.errors import unknown_name
from perfmodel.reading import read_text
from perfmodel.specs import COVERAGE, LLAMACPP
from perfmodel.validate.accuracy.compare import LABELS
from perfmodel.validate.accuracy.markdown import table
from perfmodel.validate.fit.recipes import RECIPES
from perfmodel.validate.studies.engines import RATIO_FOLDS, STEP_FOLDS
from perfmodel.validate.studies.memory import FAR as FAR_TOKENS, NEAR as NEAR_TOKENS
from perfmodel.validate.studies.parameters import ENGINES
from perfmodel.validate.studies.record import PATH, render
from perfmodel.validate.studies.source_figures import NEAR
from perfmodel.validate.studies.traffic_figures import FIGURES as SERVED

BLOCK = re.compile(r"^<!-- table: (\w+) -->\n\n(?:\|.*\n)*", re.MULTILINE)
QUANTITIES = ("speedup", "target_s", "draft_s", "verify_s", "overhead_s")
FOLDS = {
    "point": "device, model, batch, context",
    "batch": "batch",
    "draft": "draft and KV method",
    "model": "target model",
    "context": "context",
    "tp": "device count",
}
Record = dict[str, Any]
Rows = Iterable[Sequence[str]]
"""The header of a table, then its rows."""
TEXT = {"choices": (0, 1), "sources": (0, 9), "sources_by_draft": (0, 9), "decide": (0, 1), "summary": (0, 1)}
"""Table -> its columns of text; by default the first."""
DOCS = Path(__file__).parents[2] / "docs"
PAGES = (DOCS / "accuracy.md", DOCS / "accuracy_tables.md")
"""The pages: the short one, and the one with all tables."""
VERDICT = "correct verdict (speedup above or below 1)"
INSIDE = (f"in {COVERAGE:.0%} interval", "its ± % (median)")


def files(found: Record) -> dict[Path, str]:
    """The record's file, and all pages that are derived from it; by path."""
    text = render(found)
    read_again = json.loads(text)
    pages = {path: filled(read_text(path), read_again) for path in PAGES}
    return {PATH: text, **pages}


def filled(text: str, found: Record) -> str:
    """A page with the tables of a record. Raises InputError for an unknown table."""

    def replaced(block: re.Match[str]) -> str:
        name = block[1]
        if name not in TABLES:
            raise unknown_name("a page of docs", "table", name, TABLES)
        head, *rows = TABLES[name](found)
        return "\n".join([f"<!-- table: {name} -->", "", *table(head, rows, TEXT.get(name, (0,))), ""])

    return BLOCK.sub(replaced, text)


def _sources(found: Record, by_draft: bool = False) -> Rows:
    """The headline: held-out sources, by engine and by the data of other sources."""
    yield [
        *("whole sources left out", "rows", "sources", "mean error %", "of sources %", "as shipped %"),
        *("in 90% interval %", "in it, as shipped %", "its ± % (median)", "worst source %"),
    ]
    names = "rows", "sources", "error", "macro", "shipped", "inside", "inside_shipped", "width"
    for figure, words in FIGURES.items():
        for name, e in found["sources"][figure].items():
            if by_draft == name.startswith("draft") and (figure == "step" or not name.startswith(OF_STEPS)):
                worst = f"{_percent(e['worst']['error'], 0)} ({e['worst']['source']})"
                yield [f"{words}, {name}", *_figures(e, *names, digits=0), worst]


CLASSES = {
    "step own": "step, kernels or steps of the device itself",
    "step borrowed": "step, kernels of another device",
    "step llamacpp": "step, llama.cpp",
    "step mlx": "step, MLX",
    "speedup known": "speedup, kind of draft measured in the engine",
    "speedup new": "speedup, kind of draft never measured in the engine",
    "speedup llamacpp": "speedup, llama.cpp",
    "speedup mlx": "speedup, MLX's own kernels",
    "speedup mlx-dspark": "speedup, mlx-dspark",
}
"""Figure and class of an error -> its heading."""


def _coverage(found: Record) -> Rows:
    """Intervals by class: each source is judged by a width that was fitted without it."""
    yield [
        *("class", "rows", "sources", "mean error %", "± %", "± over error"),
        *(f"in {COVERAGE:.0%} interval %", "of sources %"),
        *("rows with those left out by judgement", "in it %"),
    ]
    for figure, classes in found["sources"]["coverage"].items():
        for name, of in classes.items():
            shown = _figures(of, "rows", "sources", "error", "width", digits=0)
            inside = _figures(of, "inside", "inside_sources", "all_rows", "inside_all", digits=0)
            yield [CLASSES[f"{figure} {name}"], *shown, f"{of['ratio']:.1f}", *inside]


def _choices(found: Record) -> Rows:
    """What was chosen with the sources in sight."""
    yield ["choice", "value"]
    chosen = found["sources"]["choices"]
    yield ["sources in sight", ", ".join(chosen["sources"])]
    for name, value in chosen["choices"].items():
        yield [name.replace("_", " "), _in_words(value)]


def _in_words(value: Any) -> str:
    """A choice as one cell."""
    if isinstance(value, dict):
        return ", ".join(f"{key} {_in_words(each)}" for key, each in value.items())
    if isinstance(value, list):
        named = not value or isinstance(value[0], str)
        return ", ".join(value) if named else " ".join(map(_in_words, value))
    return f"{value:g}"


FIGURES = {"step": "step", "ratio": "iteration over step", "speedup": "speedup"}
"""Figure of a public run -> its heading."""
OF_STEPS = ("device", "model", "new", "data")
"""Prefixes of parts that are shown for steps only."""


def _decide(found: Record) -> Rows:
    """The errors behind decisions."""
    yield ["decision", "held out"]
    public = found["sources"]["side"]
    gamma = found["gamma_optimal"]["held-out"]
    wrong = f"certain but wrong: {public['sure_and_wrong']} of {public['sure']}"
    yield [f"public runs: {VERDICT}", f"{_right_of_all(public)}; {wrong}"]
    for engine, of in found["engines"]["sides"]["seen"].items():
        if engine != "all":
            wrong = f"certain but wrong: {of['sure_and_wrong']}"
            yield [f"{ENGINES[engine]}: {VERDICT}", f"{_right_of_all(of)}; {wrong}"]
    yield [f"research stacks: {VERDICT}", _right_of_all(found["replays"]["held-out"]["side_of_one"])]
    lost = f"{_percent(gamma['regret_mean'])} %, worst {_percent(gamma['regret_worst'])} %"
    yield ["speedup lost with the predicted best γ (eight A100)", lost]
    for name, words in (("engines", "serving engines"), (LLAMACPP, "llama.cpp")):
        of = found["sources"]["best_length"][name]
        lost = f"{_percent(of['lost'])} %, worst {_percent(of['worst'], 0)} %"
        near = f"in {of['near']} of {of['sweeps']} sweeps (as shipped {of['near_shipped']})"
        most = f"at most {_percent(NEAR, 0)} %"
        yield [f"throughput lost with the predicted best γ ({words})", f"{lost}; {most} {near}"]


def _right_of_all(side: Record) -> str:
    """Correct verdicts out of all."""
    return f"{side['right']} of {side['rows']}"


def _percent(value: float, digits: int = 1, sign: str = "") -> str:
    return f"{100 * value:{sign}.{digits}f}"


def _figures(e: Record | None, *names: str, digits: int = 1) -> list[str]:
    """Figures by name, all except counts in per cent; signed where the sign matters. Missing ones are
    dashes.
    """
    return [_figure(name, (e or {}).get(name), digits) for name in names]


def _figure(name: str, value: float | None, digits: int) -> str:
    if value is None or isinstance(value, int):
        return "-" if value is None else str(value)
    if name in ("bias", "worst"):
        return _percent(value, sign="+")
    return _percent(value, digits)


def _summary(found: Record) -> Rows:
    replay = found["replays"]["held-out"]
    bounds = found["bounds"]
    overall = replay["overall"]
    side = replay["side_of_one"]
    gamma = found["gamma_optimal"]["held-out"]
    wrong = ", ".join(f"{measured:.2f} ({predicted:.2f})" for measured, predicted in side["wrong"].values())
    bias = _percent(overall["bias"], sign="+")
    worst = _percent(overall["worst"], sign="+")
    closest = _percent(bounds["closest"])
    speedup_error = _percent(gamma["speedup_mape"])
    speedup_worst = _percent(gamma["speedup_worst"], sign="+")
    regret = _percent(gamma["regret_mean"])
    regret_worst = _percent(gamma["regret_worst"])
    constant = ", ".join(f"{_percent(v)} % for {k}" for k, v in gamma["constant_regret_mean"].items())
    choices = ", ".join(f"{predicted} ({measured})" for measured, predicted in gamma["choices"].values())
    return {
        "quantity": "result",
        "figures of fitted stacks (T_T, T_D, T_V, speedup)": str(overall["rows"]),
        "mean error, each fold left out of the fit": f"**{_percent(overall['mape'], 2)} %**",
        "bias; worst": f"{bias} %; {worst} % ({overall['worst_row']})",
        "verdict (speedup above or below 1.0)": f"correct in {_right_of_all(side)} rows",
        "incorrect rows, measured (predicted)": wrong,
        "times compared with their lower bound (above the last-level cache)": str(bounds["checked"]),
        "times below the bound; closest": f"{len(bounds['violations'])}; bound at {closest} % of the time",
        "best γ, predicted (measured)": choices,
        "speedup at the measured best γ": f"{speedup_error} % off, worst {speedup_worst} %",
        "speedup lost with the predicted γ": f"**{regret} %**, worst {regret_worst} %",
        "speedup lost with a constant γ": constant,
    }.items()


def _held_out(found: Record) -> Rows:
    yield [
        *("calibration", "rows", "mean error %", "bias %", "worst %"),
        *("in sample %", "literature %", "ideal %"),
    ]
    held, shipped = (found["replays"][mode]["partitions"] for mode in ("held-out", "shipped"))
    for name, recipe in RECIPES.items():
        elsewhere = found["elsewhere"].get(name, {"literature": {}, "ideal": {}})
        for q in (*QUANTITIES, "speedup_alpha"):
            part = f"{recipe.set_name}/{recipe.gpu}/{q}"
            if part in held:
                rows, error, bias, worst = _figures(held[part], "rows", "mape", "bias", "worst", digits=2)
                others = [_figures(elsewhere[kind].get(q), "mape")[0] for kind in ("literature", "ideal")]
                in_sample = _percent(shipped[part]["mape"], 2)
                at = f"{worst} ({held[part]['worst_row']})"
                yield [f"{name}: {LABELS[q]}", rows, error, bias, at, in_sample, *others]


def _folds(found: Record) -> Rows:
    shown = QUANTITIES[:4]
    yield ["calibration, held out by", *(LABELS[q] for q in shown), f"in the {COVERAGE:.0%} interval"]
    for name, made in found["calibrations"].items():
        for by, errors in made["held_out_by"].items():
            inside = found["coverage"].get(name, {}).get(by)
            within = f"{inside['inside']} of {inside['rows']}" if inside else "-"
            cells = [" / ".join(_figures(errors[q], "mape", "worst")) if q in errors else "-" for q in shown]
            yield [f"{name}, by {FOLDS[by]}", *cells, within]


def _traffic(found: Record) -> Rows:
    """The table of the short page: by study and by engine, with its draft length held out."""
    yield ["a served run, its draft length left out", *HEAD]
    yield from _served(found["traffic"]["length"])


HEAD = (
    *("runs", "sources", *(f"{name} %" for name in SERVED.values()), "TPOT bias %", "growth of TPOT %"),
    *(f"in {COVERAGE:.0%} interval %: TPOT", "throughput", "TTFT", "correct verdict"),
)


def _served_runs(found: Record) -> Rows:
    """All served runs, by study and by held-out group."""
    yield ["served runs", *HEAD]
    for by, of in found["traffic"].items():
        yield from _served(of, f"; {by} left out")


def _served(of: Record, words: str = "") -> Rows:
    for name, part in {**of["studies"], **of["engines"], "all": of["all"]}.items():
        errors = *_figures(part, "rows", "sources"), *_figures(part["mape"], *SERVED)
        sides = f"{part['right']} of {part['asked']}" if part["asked"] else "-"
        inside = _figures(part["inside"], *part["inside"], digits=0)
        yield [name + words, *errors, _percent(part["bias"]), *_figures(part, "growth"), *inside, sides]


def _memory(found: Record) -> Rows:
    """KV tokens by engine, as shipped and with fitted numbers from other sources."""
    near, far = (f"within {_percent(limit, 0)} %: % of logs" for limit in (NEAR_TOKENS, FAR_TOKENS))
    yield ["KV tokens", "logs", "sources", "median error %", "bias %", near, far, "90 % of logs within %"]
    for engine, e in found.get("memory", {}).items():
        for mode, words in (("shipped", "as shipped"), ("held_out", "its source left out")):
            errors = e[mode]
            cells = _figures(errors, "median", "bias", "near", "far", "p90", digits=0)
            yield [f"{ENGINES.get(engine, engine)}, {words}", str(e["rows"]), str(e["sources"]), *cells]


def _engines(found: Record) -> Rows:
    """Step times by engine and by held-out group."""
    yield ["T_T, held out", "groups", "rows", "mean error %", "of groups %", "bias %", "worst %", *INSIDE]
    for relation, fold in STEP_FOLDS.items():
        for engine, title in ENGINES.items():
            if e := found["engines"]["steps"][relation].get(engine):
                cells = _figures(e, "groups", "rows", "mape", "groups_mape", "bias", "worst")
                yield [f"{title}, by {fold.words}", *cells, *_inside(e)]


def _engine_cells(found: Record) -> Rows:
    """Step times by engine, device and model. Each degree is predicted without its rows."""
    yield ["engine, device, model", "degrees", "rows", "mean error %", "bias %", "worst %"]
    for name, e in sorted(found["engines"]["cells"].items()):
        engine, model, device = name.split(" ")
        cells = _figures(e, "groups", "rows", "groups_mape", "bias", "worst")
        yield [f"{ENGINES[engine]}, {device}, {model}", *cells]


def _inside(e: Record) -> list[str]:
    """Coverage of the stated interval on held-out rows, and its width. A single group has no other group for
    an estimate.
    """
    if "inside" not in e:
        return ["-", "-"]
    share = _percent(e["inside"] / e["rows"], 0)
    return [f"{e['inside']} ({share} %)", _percent(e["width"], 0)]


def _engine_ratios(found: Record) -> Rows:
    """The ratio of an iteration to a baseline step, and the correct side of 1 of the speedup."""
    yield [
        *("iteration/step, held out", "rows", "mean error %", "bias %", "worst %"),
        *(*INSIDE, "correct verdict", "certain but wrong"),
    ]
    for by, fold in RATIO_FOLDS.items():
        for engine, title in ENGINES.items():
            if e := found["engines"]["ratios"][by].get(engine):
                side = found["engines"]["sides"][by][engine]
                cells = *_figures(e, "rows", "mape", "bias", "worst"), *_inside(e)
                wrong = f"{side['sure_and_wrong']} of {side['sure']}"
                yield [f"{title}, by {fold.words}", *cells, _right_of_all(side), wrong]


TABLES: dict[str, Callable[[Record], Rows]] = {
    "sources": _sources,
    "coverage": _coverage,
    "choices": _choices,
    "sources_by_draft": partial(_sources, by_draft=True),
    "decide": _decide,
    "summary": _summary,
    "held_out": _held_out,
    "folds": _folds,
    "traffic": _traffic,
    "served_runs": _served_runs,
    "memory": _memory,
    "engines": _engines,
    "engine_cells": _engine_cells,
    "engine_ratios": _engine_ratios,
}
