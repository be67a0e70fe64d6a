"""The tables of ``docs/accuracy.md`` and of the page behind it. Prose is by hand, figures come from the
accuracy record.

A table follows a line ``<!-- table: NAME -->``; `filled` writes it anew.
"""

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from perfmodel.errors import unknown_name
from perfmodel.specs.calibrations.fit_errors import COVERAGE
from perfmodel.validate.accuracy.compare import LABELS
from perfmodel.validate.accuracy.markdown import table
from perfmodel.validate.fit.recipes import RECIPES
from perfmodel.validate.studies.engines import RATIO_FOLDS, STEP_FOLDS
from perfmodel.validate.studies.parameters import ENGINES
from perfmodel.validate.studies.traffic import FIGURES as SERVED

BLOCK = re.compile(r"^<!-- table: (\w+) -->\n\n(?:\|.*\n)*", re.MULTILINE)
QUANTITIES = ("speedup", "target_s", "draft_s", "verify_s", "overhead_s")
HEADS = tuple(LABELS[q] for q in QUANTITIES)
FOLDS = {
    "point": "device, model, batch, context",
    "batch": "batch",
    "draft": "draft and KV method",
    "model": "target model",
    "context": "context",
    "tp": "device count",
}
Record = dict[str, Any]
DOCS = Path(__file__).parents[2] / "docs"
PAGES = (DOCS / "accuracy.md", DOCS / "accuracy_tables.md")
"""The pages: the short one, and the one with all tables."""
VERDICT = "correct verdict (speedup above or below 1)"
INSIDE = (f"in {COVERAGE:.0%} interval", "its ± % (median)")


def filled(text: str, found: Record) -> str:
    """A page with the tables of a record. Raises InputError for an unknown table."""

    def replaced(block: re.Match[str]) -> str:
        name = block[1]
        if name not in TABLES:
            raise unknown_name("a page of docs", "table", name, TABLES)
        return "\n".join([f"<!-- table: {name} -->", "", *TABLES[name](found), ""])

    return BLOCK.sub(replaced, text)


def _sources(found: Record, by_draft: bool = False) -> list[str]:
    """The headline: held-out sources, by engine and by the data of other sources."""
    rows = []
    for figure, words in FIGURES.items():
        for name, e in found["sources"][figure].items():
            if by_draft != name.startswith("draft") or (figure != "step" and name.startswith(OF_STEPS)):
                continue
            held = [_percent(e[k], 0) if k in e else "-" for k in ("inside", "inside_shipped", "width")]
            worst = f"{_percent(e['worst']['error'], 0)} ({e['worst']['source']})"
            errors = [_percent(e[key], 0) for key in ("error", "macro", "shipped")]
            rows.append([f"{words}, {name}", str(e["rows"]), str(e["sources"]), *errors, *held, worst])
    head = ["whole sources left out", "rows", "sources", "mean error %", "of sources %", "as shipped %"]
    head += ["in 90% interval %", "in it, as shipped %", "its ± % (median)", "worst source %"]
    return table(head, rows, text_columns=(0, 9))


FIGURES = {"step": "step", "ratio": "iteration over step", "speedup": "speedup"}
"""Figure of a public run -> its heading."""
OF_STEPS = ("device", "model", "new", "data")
"""Prefixes of parts that are shown for steps only."""


def _decide(found: Record) -> list[str]:
    """The errors behind decisions."""
    sides, gamma = found["engines"]["sides"]["seen"], found["gamma_optimal"]["held-out"]
    stack = found["replays"]["held-out"]["side_of_one"]
    rows = [
        [
            f"{ENGINES[engine]}: {VERDICT}",
            f"{of['right']} of {of['rows']}; certain but wrong: {of['sure_and_wrong']}",
        ]
        for engine, of in sides.items()
        if engine != "all"
    ]
    public = found["sources"]["side"]
    wrong = f"certain but wrong: {public['sure_and_wrong']} of {public['sure']}"
    rows.insert(0, [f"public runs: {VERDICT}", f"{public['right']} of {public['rows']}; {wrong}"])
    rows.append([f"research stacks: {VERDICT}", f"{stack['right']} of {stack['rows']}"])
    lost = f"{_percent(gamma['regret_mean'])} %, worst {_percent(gamma['regret_worst'])} %"
    rows.append(["speedup lost with the predicted best γ (eight A100)", lost])
    return table(["decision", "held out"], rows, text_columns=(0, 1))


def _percent(value: float, digits: int = 1) -> str:
    return f"{100 * value:.{digits}f}"


def _signed(value: float) -> str:
    return f"{100 * value:+.1f}"


def _figures(e: Record | None, *names: str) -> list[str]:
    """Error figures by name, all except counts in per cent; signed where the sign matters."""
    if e is None:
        return ["-"] * len(names)
    signed = ("bias", "worst")
    return [
        str(e[n]) if isinstance(e[n], int) else _signed(e[n]) if n in signed else _percent(e[n])
        for n in names
    ]


def _worst(part: Record) -> str:
    return f"{_signed(part['worst'])} ({part['worst_row']})"


def _summary(found: Record) -> list[str]:
    replay, bounds = found["replays"]["held-out"], found["bounds"]
    overall, side, gamma = replay["overall"], replay["side_of_one"], found["gamma_optimal"]["held-out"]
    wrong = ", ".join(f"{measured:.2f} ({predicted:.2f})" for measured, predicted in side["wrong"].values())
    constant = ", ".join(f"{_percent(v)} % for {k}" for k, v in gamma["constant_regret_mean"].items())
    choices = ", ".join(f"{predicted} ({measured})" for measured, predicted in gamma["choices"].values())
    rows = {
        "figures of fitted stacks (T_T, T_D, T_V, speedup)": str(overall["rows"]),
        "mean error, each fold left out of the fit": f"**{_percent(overall['mape'], 2)} %**",
        "bias; worst": f"{_signed(overall['bias'])} %; {_signed(overall['worst'])} % "
        f"({overall['worst_row']})",
        "verdict (speedup above or below 1.0)": f"correct in {side['right']} of {side['rows']} rows",
        "incorrect rows, measured (predicted)": wrong,
        "times compared with their lower bound (above the last-level cache)": str(bounds["checked"]),
        "times below the bound; closest": f"{len(bounds['violations'])}; bound at "
        f"{_percent(bounds['closest'])} % of the time",
        "best γ, predicted (measured)": choices,
        "speedup at the measured best γ": f"{_percent(gamma['speedup_mape'])} % off, worst "
        f"{_signed(gamma['speedup_worst'])} %",
        "speedup lost with the predicted γ": f"**{_percent(gamma['regret_mean'])} %**, worst "
        f"{_percent(gamma['regret_worst'])} %",
        "speedup lost with a constant γ": constant,
    }
    return table(["quantity", "result"], [list(row) for row in rows.items()], text_columns=(0, 1))


def _held_out(found: Record) -> list[str]:
    rows = []
    held, shipped = (found["replays"][mode]["partitions"] for mode in ("held-out", "shipped"))
    for name, recipe in RECIPES.items():
        elsewhere = found["elsewhere"].get(name, {"literature": {}, "ideal": {}})
        for q in (*QUANTITIES, "speedup_alpha"):
            part = f"{recipe.set_name}/{recipe.gpu}/{q}"
            if part in held:
                h = held[part]
                others = [_figures(elsewhere[kind].get(q), "mape")[0] for kind in ("literature", "ideal")]
                errors = [str(h["rows"]), _percent(h["mape"], 2), _signed(h["bias"]), _worst(h)]
                rows.append([f"{name}: {LABELS[q]}", *errors, _percent(shipped[part]["mape"], 2), *others])
    head = [
        "calibration",
        "rows",
        "mean error %",
        "bias %",
        "worst %",
        "in sample %",
        "literature %",
        "ideal %",
    ]
    return table(head, rows)


def _folds(found: Record) -> list[str]:
    rows = []
    for name, made in found["calibrations"].items():
        for by, errors in made["held_out_by"].items():
            cells = [
                f"{_percent(e['mape'])} / {_signed(e['worst'])}" if (e := errors.get(q)) else "-"
                for q in QUANTITIES[:4]
            ]
            inside = found["coverage"].get(name, {}).get(by)
            cells.append(f"{inside['inside']} of {inside['rows']}" if inside else "-")
            rows.append([f"{name}, by {FOLDS[by]}", *cells])
    return table(["calibration, held out by", *HEADS[:4], f"in the {COVERAGE:.0%} interval"], rows)


def _traffic(found: Record) -> list[str]:
    """The table of the short page: by study and by engine, with its draft length held out."""
    of = found["traffic"]["length"]
    rows = [
        _served(name, part) for name, part in {**of["studies"], **of["engines"], "all": of["all"]}.items()
    ]
    return table(["a served run, its draft length left out", *HEAD], rows)


HEAD = (
    *("runs", "sources", *(f"{name} %" for name in SERVED.values()), "TPOT bias %", "growth of TPOT %"),
    *(f"in {COVERAGE:.0%} interval %", "correct verdict"),
)


def _served_runs(found: Record) -> list[str]:
    """All served runs, by study and by held-out group."""
    rows = [
        _served(f"{name}; {by} left out", part)
        for by, of in found["traffic"].items()
        for name, part in {**of["studies"], **of["engines"], "all": of["all"]}.items()
    ]
    return table(["served runs", *HEAD], rows)


def _served(name: str, part: Record) -> list[str]:
    errors = [*(part["mape"][figure] for figure in SERVED), part["bias"], part["growth"]]
    cells = [str(part["rows"]), str(part["sources"]), *("-" if e is None else _percent(e) for e in errors)]
    sides = f"{part['right']} of {part['asked']}" if part["asked"] else "-"
    return [name, *cells, _percent(part["inside"] / part["rows"], 0), sides]


def _engines(found: Record) -> list[str]:
    """Step times by engine and by held-out group."""
    rows = [
        [
            f"{ENGINES[engine]}, by {fold.words}",
            *_figures(e, "groups", "rows", "mape", "groups_mape", "bias", "worst"),
            *_inside(e),
        ]
        for relation, fold in STEP_FOLDS.items()
        for engine in ENGINES
        if (e := found["engines"]["steps"][relation].get(engine))
    ]
    head = ["T_T, held out", "groups", "rows", "mean error %", "of groups %", "bias %", "worst %", *INSIDE]
    return table(head, rows)


def _engine_cells(found: Record) -> list[str]:
    """Step times by engine, device and model. Each degree is predicted without its rows."""
    rows = []
    for name, e in sorted(found["engines"]["cells"].items()):
        engine, model, device = name.split(" ")
        cells = _figures(e, "groups", "rows", "groups_mape", "bias", "worst")
        rows.append([f"{ENGINES[engine]}, {device}, {model}", *cells])
    return table(["engine, device, model", "degrees", "rows", "mean error %", "bias %", "worst %"], rows)


def _inside(e: Record) -> list[str]:
    """Coverage of the stated interval on held-out rows, and its width. A single group has no other group for
    an estimate.
    """
    if "inside" not in e:
        return ["-", "-"]
    return [f"{e['inside']} ({_percent(e['inside'] / e['rows'], 0)} %)", _percent(e["width"], 0)]


def _engine_ratios(found: Record) -> list[str]:
    """The ratio of an iteration to a baseline step, and the correct side of 1 of the speedup."""
    rows = []
    for by, fold in RATIO_FOLDS.items():
        for engine, e in found["engines"]["ratios"][by].items():
            if engine == "all":
                continue
            side = found["engines"]["sides"][by][engine]
            sides = [f"{side['right']} of {side['rows']}", f"{side['sure_and_wrong']} of {side['sure']}"]
            cells = _figures(e, "rows", "mape", "bias", "worst")
            rows.append([f"{ENGINES[engine]}, by {fold.words}", *cells, *_inside(e), *sides])
    head = ["iteration/step, held out", "rows", "mean error %", "bias %", "worst %"]
    return table([*head, *INSIDE, "correct verdict", "certain but wrong"], rows)


TABLES: dict[str, Callable[[Record], list[str]]] = {
    "sources": _sources,
    "sources_by_draft": partial(_sources, by_draft=True),
    "decide": _decide,
    "summary": _summary,
    "held_out": _held_out,
    "folds": _folds,
    "traffic": _traffic,
    "served_runs": _served_runs,
    "engines": _engines,
    "engine_cells": _engine_cells,
    "engine_ratios": _engine_ratios,
}
