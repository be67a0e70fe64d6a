"""The tables of ``docs/accuracy.md`` on serving engines."""

from typing import Any

from perfmodel.specs.fits import COVERAGE
from perfmodel.validate.accuracy.engines import RATIOS, RELATIONS
from perfmodel.validate.accuracy.markdown import table
from perfmodel.validate.fit.engine_recipe import ENGINES

Record = dict[str, Any]


def _percent(value: float, digits: int = 1) -> str:
    return f"{100 * value:.{digits}f}"


def _signed(value: float) -> str:
    return f"{100 * value:+.1f}"


def engines(found: Record) -> list[str]:
    """Step times by engine and by what the constants have not seen."""
    rows = [
        [f"{ENGINES[engine]}, by {words}", str(e["groups"]), str(e["rows"]), _percent(e["mape"]),
         _percent(e["groups_mape"]), _signed(e["bias"]), _signed(e["worst"])]
        for relation, words in RELATIONS.items()
        for engine in ENGINES
        if (e := found["engines"]["steps"][relation].get(engine))
    ]  # fmt: skip
    head = ["T_T, held out", "groups", "rows", "mean error %", "of groups %", "bias %", "worst %"]
    return table(head, rows)


def cells(found: Record) -> list[str]:
    """Step times by engine, device and model, each degree predicted without its rows."""
    rows = []
    for name, e in sorted(found["engines"]["cells"].items()):
        engine, device, model = name.split(" ")[0], name.split(" ")[2], name.split(" ")[1]
        rows.append(
            [f"{ENGINES[engine]}, {device}, {model}", str(e["groups"]), str(e["rows"]), _percent(e["groups_mape"]),
             _signed(e["bias"]), _signed(e["worst"])]
        )  # fmt: skip
    return table(["engine, device, model", "degrees", "rows", "mean error %", "bias %", "worst %"], rows)


def coverage(found: Record) -> list[str]:
    """How often stated intervals hold what they have not seen, and how wide they are."""
    rows = []
    for relation, words in RELATIONS.items():
        for engine in ENGINES:
            if e := found["engines"]["steps"][relation].get(engine):
                rows.append([f"T_T of {ENGINES[engine]}, by {words}", *_inside(e)])
    for by, words in RATIOS.items():
        for engine, e in found["engines"]["ratios"][by].items():
            if engine != "all":
                rows.append([f"iteration over step of {ENGINES[engine]}, by {words}", *_inside(e)])
    return table([f"{COVERAGE:.0%} interval, held out", "inside", "of", "%", "± % (median)"], rows)


def _inside(e: Record) -> list[str]:
    return [str(e["inside"]), str(e["rows"]), _percent(e["inside"] / e["rows"], 0), _percent(e["width"])]


def ratios(found: Record) -> list[str]:
    """An iteration over a baseline step, and the side of 1 that the speedup is on."""
    rows = []
    for by, words in RATIOS.items():
        for engine, e in found["engines"]["ratios"][by].items():
            if engine == "all":
                continue
            side = found["engines"]["sides"][by][engine]
            right, wrong = f"{side['right']} of {side['rows']}", f"{side['sure_and_wrong']} of {side['sure']}"
            rows.append(
                [f"{ENGINES[engine]}, by {words}", str(e["rows"]), _percent(e["mape"]), _signed(e["bias"]),
                 _signed(e["worst"]), right, wrong]
            )  # fmt: skip
    head = ["iteration/step, held out", "rows", "mean error %", "bias %", "worst %", "side of 1 right", "sure, wrong"]
    return table(head, rows)


def ablations(found: Record) -> list[str]:
    """What each term is worth on models and devices that were left out."""
    rows = [
        [name, *(_percent(errors[by]) if by in errors else "-" for by in ("in sample", "model", "gpu"))]
        for name, errors in found["engines"]["ablations"].items()
    ]
    return table(["fitted anew", "in sample %", "models left out %", "devices left out %"], rows)


TABLES = {
    "engines": engines,
    "engine_cells": cells,
    "engine_coverage": coverage,
    "engine_ratios": ratios,
    "engine_ablations": ablations,
}
