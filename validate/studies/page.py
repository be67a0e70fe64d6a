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
from perfmodel.validate.studies.decisions import NEAR
from perfmodel.validate.studies.engines import RATIO_FOLDS, STEP_FOLDS
from perfmodel.validate.studies.memory import FAR as FAR_TOKENS, NEAR as NEAR_TOKENS
from perfmodel.validate.studies.parameters import ENGINES
from perfmodel.validate.studies.record import PATH, render
from perfmodel.validate.studies.traffic_figures import FIGURES as SERVED

TABLE_BLOCK = re.compile(r"^<!-- table: (\w+) -->\n\n(?:\|.*\n)*", re.MULTILINE)
QUANTITIES = ("speedup", "target_s", "draft_s", "verify_s", "overhead_s")
FOLD_WORDS = {
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
TEXT_COLUMNS = {
    "choices": (0, 1),
    "sources": (0, 9),
    "sources_by_draft": (0, 9),
    "decide": (0, 1),
    "summary": (0, 1),
}
"""Table -> its columns of text; by default the first."""
DOCS = Path(__file__).parents[2] / "docs"
PAGES = (DOCS / "accuracy.md", DOCS / "accuracy_tables.md")
"""The pages: the short one, and the one with all tables."""
VERDICT = "correct verdict (speedup above or below 1)"
INTERVAL_HEAD = (f"in {COVERAGE:.0%} interval", "its ± % (median)")


def files(record: Record) -> dict[Path, str]:
    """The record's file, and all pages that are derived from it; by path."""
    text = render(record)
    read_again = json.loads(text)
    pages = {path: filled(read_text(path), read_again) for path in PAGES}
    return {PATH: text, **pages}


def filled(text: str, record: Record) -> str:
    """A page with the tables of a record. Raises InputError for an unknown table."""

    def replaced(block: re.Match[str]) -> str:
        name = block[1]
        if name not in TABLES:
            raise unknown_name("a page of docs", "table", name, TABLES)
        head, *rows = TABLES[name](record)
        lines = table(head, rows, TEXT_COLUMNS.get(name, (0,)))
        return "\n".join([f"<!-- table: {name} -->", "", *lines, ""])

    return TABLE_BLOCK.sub(replaced, text)


def _sources(record: Record, by_draft: bool = False) -> Rows:
    """The headline: held-out sources, by engine and by the data of other sources."""
    yield [
        *("whole sources left out", "rows", "sources", "mean error %", "of sources %", "as shipped %"),
        *("in 90% interval %", "in it, as shipped %", "its ± % (median)", "worst source %"),
    ]
    names = "rows", "sources", "error", "macro", "shipped", "inside", "inside_shipped", "width"
    for figure, heading in FIGURE_HEADINGS.items():
        for name, errors in record["sources"][figure].items():
            if name.startswith("draft") != by_draft or not _is_shown(figure, name):
                continue
            worst = errors["worst"]
            worst_source = f"{_percent(worst['error'], 0)} ({worst['source']})"
            yield [f"{heading}, {name}", *_figures(errors, *names, digits=0), worst_source]


def _is_shown(figure: str, part: str) -> bool:
    """Whether a part of the rows of a figure has a line of its own."""
    return figure == "step" or not part.startswith(OF_STEPS)


CLASS_HEADINGS = {
    "step own": "step, kernels or steps of the device itself",
    "step borrowed": "step, kernels of another device",
    "step llamacpp": "step, llama.cpp",
    "step other_engine": "step, constants of another engine",
    "step mlx": "step, MLX",
    "speedup known": "speedup, kind of draft measured in the engine",
    "speedup new": "speedup, kind of draft never measured in the engine",
    "speedup llamacpp": "speedup, llama.cpp",
    "speedup other_engine": "speedup, constants of another engine",
    "speedup mlx": "speedup, MLX's own kernels",
    "speedup mlx-dspark": "speedup, mlx-dspark",
}
"""Figure and class of an error -> its heading."""


def _coverage(record: Record) -> Rows:
    """Intervals by class: each source is judged by a width that was fitted without it."""
    yield [
        *("class", "rows", "sources", "mean error %", "± %", "± over error"),
        *(f"in {COVERAGE:.0%} interval %", "of sources %"),
        *("rows with those left out by judgement", "in it %"),
    ]
    for figure, classes in record["sources"]["coverage"].items():
        for name, covered in classes.items():
            heading = CLASS_HEADINGS[f"{figure} {name}"]
            errors = _figures(covered, "rows", "sources", "error", "width", digits=0)
            inside = _figures(covered, "inside", "inside_sources", "all_rows", "inside_all", digits=0)
            yield [heading, *errors, f"{covered['ratio']:.1f}", *inside]


def _choices(record: Record) -> Rows:
    """What was chosen with the sources in sight."""
    yield ["choice", "value"]
    chosen = record["sources"]["choices"]
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


FIGURE_HEADINGS = {"step": "step", "ratio": "iteration over step", "speedup": "speedup"}
"""Figure of a public run -> its heading."""
OF_STEPS = ("device", "model", "new", "data")
"""Prefixes of parts that are shown for steps only."""


def _decide(record: Record) -> Rows:
    """The errors behind decisions."""
    yield ["decision", "held out"]
    public = record["sources"]["side"]
    wrong = f"certain but wrong: {public['sure_and_wrong']} of {public['sure']}"
    yield [f"public runs: {VERDICT}", f"{_right_of_all(public)}; {wrong}"]
    for engine, side in record["engines"]["sides"]["seen"].items():
        if engine != "all":
            wrong = f"certain but wrong: {side['sure_and_wrong']}"
            yield [f"{ENGINES[engine]}: {VERDICT}", f"{_right_of_all(side)}; {wrong}"]
    research = record["replays"]["held-out"]["side_of_one"]
    yield [f"research stacks: {VERDICT}", _right_of_all(research)]
    gamma = record["gamma_optimal"]["held-out"]
    lost = f"{_percent(gamma['regret_mean'])} %, worst {_percent(gamma['regret_worst'])} %"
    yield ["speedup lost with the predicted best γ (eight A100)", lost]
    best_length = record["sources"]["best_length"]
    yield ["throughput lost with the predicted best γ (serving engines)", _lost(best_length["engines"])]
    yield ["throughput lost with the predicted best γ (llama.cpp)", _lost(best_length[LLAMACPP])]


def _lost(sweeps: Record) -> str:
    """The throughput lost with the predicted best draft length, over sweeps of lengths."""
    lost = f"{_percent(sweeps['lost'])} %, worst {_percent(sweeps['worst'], 0)} %"
    near = f"in {sweeps['near']} of {sweeps['sweeps']} sweeps (as shipped {sweeps['near_shipped']})"
    return f"{lost}; at most {_percent(NEAR, 0)} % {near}"


def _right_of_all(side: Record) -> str:
    """Correct verdicts out of all."""
    return f"{side['right']} of {side['rows']}"


def _percent(value: float, digits: int = 1, sign: str = "") -> str:
    return f"{100 * value:{sign}.{digits}f}"


def _figures(errors: Record | None, *names: str, digits: int = 1) -> list[str]:
    """Figures by name, all except counts in per cent; signed where the sign matters. Missing ones are
    dashes.
    """
    stated = errors or {}
    return [_figure(name, stated.get(name), digits) for name in names]


def _figure(name: str, value: float | None, digits: int) -> str:
    if value is None:
        return "-"
    if isinstance(value, int):
        return str(value)
    if name in ("bias", "worst"):
        return _percent(value, sign="+")
    return _percent(value, digits)


def _summary(record: Record) -> Rows:
    yield ["quantity", "result"]
    yield from _replay_rows(record["replays"]["held-out"])
    yield from _bound_rows(record["bounds"])
    yield from _gamma_rows(record["gamma_optimal"]["held-out"])


def _replay_rows(replay: Record) -> Rows:
    """Errors and verdicts of published rows, each with its fold left out of the fit."""
    overall = replay["overall"]
    yield ["figures of fitted stacks (T_T, T_D, T_V, speedup)", str(overall["rows"])]
    yield ["mean error, each fold left out of the fit", f"**{_percent(overall['mape'], 2)} %**"]
    bias = _percent(overall["bias"], sign="+")
    worst = _percent(overall["worst"], sign="+")
    yield ["bias; worst", f"{bias} %; {worst} % ({overall['worst_row']})"]
    side = replay["side_of_one"]
    yield ["verdict (speedup above or below 1.0)", f"correct in {_right_of_all(side)} rows"]
    wrong = [f"{measured:.2f} ({predicted:.2f})" for measured, predicted in side["wrong"].values()]
    yield ["incorrect rows, measured (predicted)", ", ".join(wrong)]


def _bound_rows(bounds: Record) -> Rows:
    """Measured times against their physical lower bounds."""
    yield ["times compared with their lower bound (above the last-level cache)", str(bounds["checked"])]
    closest = f"bound at {_percent(bounds['closest'])} % of the time"
    yield ["times below the bound; closest", f"{len(bounds['violations'])}; {closest}"]


def _gamma_rows(gamma: Record) -> Rows:
    """The predicted best draft length against the measured one."""
    choices = [f"{predicted} ({measured})" for measured, predicted in gamma["choices"].values()]
    yield ["best γ, predicted (measured)", ", ".join(choices)]
    error = _percent(gamma["speedup_mape"])
    worst = _percent(gamma["speedup_worst"], sign="+")
    yield ["speedup at the measured best γ", f"{error} % off, worst {worst} %"]
    regret = _percent(gamma["regret_mean"])
    worst_regret = _percent(gamma["regret_worst"])
    yield ["speedup lost with the predicted γ", f"**{regret} %**, worst {worst_regret} %"]
    constant = [f"{_percent(lost)} % for {length}" for length, lost in gamma["constant_regret_mean"].items()]
    yield ["speedup lost with a constant γ", ", ".join(constant)]


def _held_out(record: Record) -> Rows:
    yield [
        *("calibration", "rows", "mean error %", "bias %", "worst %"),
        *("in sample %", "literature %", "ideal %"),
    ]
    replays = record["replays"]
    held_out = replays["held-out"]["partitions"]
    shipped = replays["shipped"]["partitions"]
    for name, recipe in RECIPES.items():
        elsewhere = record["elsewhere"].get(name, {})
        for quantity in (*QUANTITIES, "speedup_alpha"):
            partition = f"{recipe.set_name}/{recipe.gpu}/{quantity}"
            if partition not in held_out:
                continue
            errors = held_out[partition]
            *cells, worst = _figures(errors, "rows", "mape", "bias", "worst", digits=2)
            worst_row = f"{worst} ({errors['worst_row']})"
            in_sample = _percent(shipped[partition]["mape"], 2)
            literature = _mape(elsewhere.get("literature", {}).get(quantity))
            ideal = _mape(elsewhere.get("ideal", {}).get(quantity))
            yield [f"{name}: {LABELS[quantity]}", *cells, worst_row, in_sample, literature, ideal]


def _mape(errors: Record | None) -> str:
    """The mean error as a cell."""
    return _figures(errors, "mape")[0]


def _folds(record: Record) -> Rows:
    shown = QUANTITIES[:4]
    headings = [LABELS[quantity] for quantity in shown]
    yield ["calibration, held out by", *headings, f"in the {COVERAGE:.0%} interval"]
    for name, calibration in record["calibrations"].items():
        coverage = record["coverage"].get(name, {})
        for by, errors in calibration["held_out_by"].items():
            covered = coverage.get(by)
            inside = f"{covered['inside']} of {covered['rows']}" if covered else "-"
            cells = [_mape_and_worst(errors.get(quantity)) for quantity in shown]
            yield [f"{name}, by {FOLD_WORDS[by]}", *cells, inside]


def _mape_and_worst(errors: Record | None) -> str:
    """The mean and the worst error as one cell."""
    return "-" if errors is None else " / ".join(_figures(errors, "mape", "worst"))


def _traffic(record: Record) -> Rows:
    """The table of the short page: by study and by engine, with its draft length held out."""
    yield ["a served run, its draft length left out", *SERVED_HEAD]
    yield from _served(record["traffic"]["length"])


SERVED_HEAD = (
    *("runs", "sources", *(f"{name} %" for name in SERVED.values()), "TPOT bias %", "growth of TPOT %"),
    *(f"in {COVERAGE:.0%} interval %: TPOT", "throughput", "TTFT", "correct verdict"),
)


def _served_runs(record: Record) -> Rows:
    """All served runs, by study and by held-out group."""
    yield ["served runs", *SERVED_HEAD]
    for by, fold in record["traffic"].items():
        yield from _served(fold, f"; {by} left out")


def _served(fold: Record, words: str = "") -> Rows:
    lines = {**fold["studies"], **fold["engines"], "all": fold["all"]}
    for name, errors in lines.items():
        counts = _figures(errors, "rows", "sources")
        means = _figures(errors["mape"], *SERVED)
        growth = _figures(errors, "growth")
        inside = _figures(errors["inside"], *errors["inside"], digits=0)
        verdicts = f"{errors['right']} of {errors['asked']}" if errors["asked"] else "-"
        yield [name + words, *counts, *means, _percent(errors["bias"]), *growth, *inside, verdicts]


MEMORY_MODES = {"shipped": "as shipped", "held_out": "its source left out"}
"""Numbers of the account -> their words."""


def _memory(record: Record) -> Rows:
    """KV tokens by engine, as shipped and with fitted numbers from other sources."""
    near = f"share of logs within {_percent(NEAR_TOKENS, 0)} %, %"
    far = f"share of logs within {_percent(FAR_TOKENS, 0)} %, %"
    yield [
        "KV tokens",
        "logs",
        "sources",
        "median error %",
        "bias %",
        near,
        far,
        "error that 90 % of logs do not exceed, %",
    ]
    for engine, logs in record.get("memory", {}).items():
        counts = _figures(logs, "rows", "sources")
        title = ENGINES.get(engine, engine)
        for mode, words in MEMORY_MODES.items():
            cells = _figures(logs[mode], "median", "bias", "near", "far", "p90", digits=0)
            yield [f"{title}, {words}", *counts, *cells]


def _engines(record: Record) -> Rows:
    """Step times by engine and by held-out group."""
    names = ["groups", "rows", "mean error %", "of groups %", "bias %", "worst %"]
    yield ["T_T, held out", *names, *INTERVAL_HEAD]
    for relation, fold in STEP_FOLDS.items():
        by_engine = record["engines"]["steps"][relation]
        for engine, title in ENGINES.items():
            if errors := by_engine.get(engine):
                cells = _figures(errors, "groups", "rows", "mape", "groups_mape", "bias", "worst")
                yield [f"{title}, by {fold.words}", *cells, *_inside(errors)]


def _engine_cells(record: Record) -> Rows:
    """Step times by engine, device and model. Each degree is predicted without its rows."""
    yield ["engine, device, model", "degrees", "rows", "mean error %", "bias %", "worst %"]
    for name, errors in sorted(record["engines"]["cells"].items()):
        engine, model, device = name.split(" ")
        cells = _figures(errors, "groups", "rows", "groups_mape", "bias", "worst")
        yield [f"{ENGINES[engine]}, {device}, {model}", *cells]


def _inside(errors: Record) -> list[str]:
    """Coverage of the stated interval on held-out rows, and its width. A single group has no other group for
    an estimate.
    """
    if "inside" not in errors:
        return ["-", "-"]
    share = _percent(errors["inside"] / errors["rows"], 0)
    return [f"{errors['inside']} ({share} %)", _percent(errors["width"], 0)]


def _engine_ratios(record: Record) -> Rows:
    """The ratio of an iteration to a baseline step, and the correct side of 1 of the speedup."""
    yield [
        *("iteration/step, held out", "rows", "mean error %", "bias %", "worst %"),
        *(*INTERVAL_HEAD, "correct verdict", "certain but wrong"),
    ]
    engines = record["engines"]
    for by, fold in RATIO_FOLDS.items():
        for engine, title in ENGINES.items():
            errors = engines["ratios"][by].get(engine)
            if errors is None:
                continue
            side = engines["sides"][by][engine]
            cells = _figures(errors, "rows", "mape", "bias", "worst")
            wrong = f"{side['sure_and_wrong']} of {side['sure']}"
            yield [f"{title}, by {fold.words}", *cells, *_inside(errors), _right_of_all(side), wrong]


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
