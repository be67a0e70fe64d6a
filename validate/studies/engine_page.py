"""The tables of ``docs/accuracy.md`` on serving engines."""

from typing import Any

from perfmodel.specs.fits import COVERAGE
from perfmodel.validate.accuracy.markdown import table
from perfmodel.validate.studies.engine_errors import RATIOS, RELATIONS
from perfmodel.validate.studies.parameters import ENGINES

Record = dict[str, Any]
INSIDE = (f"in {COVERAGE:.0%} interval", "its ± % (median)")


def percent(value: float, digits: int = 1) -> str:
    """A share in percent."""
    return f"{100 * value:.{digits}f}"


def signed(value: float) -> str:
    """The same with its sign."""
    return f"{100 * value:+.1f}"


def engines(found: Record) -> list[str]:
    """Step times by engine and by what the constants have not seen."""
    rows = [
        [f"{ENGINES[engine]}, by {words}", str(e["groups"]), str(e["rows"]), percent(e["mape"]),
         percent(e["groups_mape"]), signed(e["bias"]), signed(e["worst"]), *_inside(e)]
        for relation, words in RELATIONS.items()
        for engine in ENGINES
        if (e := found["engines"]["steps"][relation].get(engine))
    ]  # fmt: skip
    head = ["T_T, held out", "groups", "rows", "mean error %", "of groups %", "bias %", "worst %", *INSIDE]
    return table(head, rows)


def cells(found: Record) -> list[str]:
    """Step times by engine, device and model, each degree predicted without its rows."""
    rows = []
    for name, e in sorted(found["engines"]["cells"].items()):
        engine, device, model = name.split(" ")[0], name.split(" ")[2], name.split(" ")[1]
        rows.append(
            [f"{ENGINES[engine]}, {device}, {model}", str(e["groups"]), str(e["rows"]), percent(e["groups_mape"]),
             signed(e["bias"]), signed(e["worst"])]
        )  # fmt: skip
    return table(["engine, device, model", "degrees", "rows", "mean error %", "bias %", "worst %"], rows)


def _inside(e: Record) -> list[str]:
    """How often the stated interval holds what it has not seen, and how wide it is; one group has no other to say."""
    if "inside" not in e:
        return ["-", "-"]
    return [f"{e['inside']} ({percent(e['inside'] / e['rows'], 0)} %)", percent(e["width"], 0)]


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
                [f"{ENGINES[engine]}, by {words}", str(e["rows"]), percent(e["mape"]), signed(e["bias"]),
                 signed(e["worst"]), *_inside(e), right, wrong]
            )  # fmt: skip
    head = ["iteration/step, held out", "rows", "mean error %", "bias %", "worst %"]
    return table([*head, *INSIDE, "side of 1 right", "sure, wrong"], rows)


def ablations(found: Record) -> list[str]:
    """What each term of a step is worth on models and devices that were left out."""
    return _ablations(found, {"in sample": "in sample", "model": "models left out", "gpu": "devices left out"})


def ratio_ablations(found: Record) -> list[str]:
    """What each term of an iteration is worth on draft lengths or tasks, and on studies, that were left out."""
    return _ablations(
        found, {"in sample": "in sample", "seen": "lengths or tasks left out", "model": "studies left out"}
    )


def _ablations(found: Record, folds: dict[str, str]) -> list[str]:
    ablations = found["engines"]["ablations"].items()
    rows = [[name, *(percent(errors[by]) for by in folds)] for name, errors in ablations if errors.keys() == {*folds}]
    return table(["fitted anew", *(f"{words} %" for words in folds.values())], rows)


TABLES = {
    "engines": engines,
    "engine_cells": cells,
    "engine_ratios": ratios,
    "engine_ablations": ablations,
    "engine_ratio_ablations": ratio_ablations,
}
