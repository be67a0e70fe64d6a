"""Everything that the engines' rows say, made in one go: the constants, the folds, the errors to state, the ablations.

``results/engines.json`` keeps the constants of every fold, so that the accuracy gate replays held-out rows without
fitting anything; what is left out together is in `engine_study.KEYS`.
"""

import datetime
import itertools
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from perfmodel.errors import InputError
from perfmodel.specs.fits import Relation, Scatter
from perfmodel.specs.model import load_model
from perfmodel.specs.published_engines import engine_speculation, served
from perfmodel.speculation.acceptance import alpha_from_tokens_per_iteration, tokens_per_iteration
from perfmodel.validate.records.store import BUNDLED
from perfmodel.validate.solving import significant
from perfmodel.validate.studies import iterations as ratios
from perfmodel.validate.studies.engines_file import Stated, render
from perfmodel.validate.studies.held_out import BORROWED, KEYS, Errors, Values, refits, replay, rows_of
from perfmodel.validate.studies.iterations import Iteration
from perfmodel.validate.studies.parameters import ENGINES
from perfmodel.validate.studies.robust import Found, fit
from perfmodel.validate.studies.steps import group_of

SCHEMA_VERSION = 1
RATIO_KEYS: dict[Relation, Callable[[Iteration], str]] = {
    "seen": lambda row: row.group,
    "model": lambda row: row.study,
    "transferred": lambda row: row.engine,
}
"""What is held out together of ratios: another draft length or task of a study, all of a study, all of an engine."""
RATIO_OF: dict[Relation, Relation] = {
    "seen": "seen", "model": "model", "gpu": "model", "transferred": "transferred", "maker": "transferred",
}  # fmt: skip
"""Which of them says what is stated."""
STEPS_LEFT_OUT: dict[Relation, str] = {
    "seen": "at one degree of a device, left out where another degree was seen",
    "model": "of models left out whole",
    "gpu": "of devices left out whole",
    "transferred": "of devices left out whole, with the kernels of another",
    "maker": "of a device of another maker, with the kernels of an H200",
}
RATIOS_LEFT_OUT: dict[Relation, str] = {
    "seen": "draft lengths or tasks",
    "model": "studies",
    "transferred": "engines",
}
"""Both in words, from what says little to what says more."""
FITTED: tuple[Relation, ...] = ("seen", "model", "gpu")
"""Whose folds are fitted; where kernels are transferred too, the constants are those of the device left out."""
Constants = Mapping[str, Mapping[str, float]]
"""Name of a fold -> the constants fitted without it."""


@dataclass(frozen=True)
class Made:
    """Fits to all rows and without each fold: of steps, and of ratios."""

    steps: Found
    iteration: Found
    step_folds: Mapping[Relation, Constants]
    ratio_folds: Mapping[Relation, Constants]


def path() -> Path:
    """Where the constants of the folds are kept."""
    return BUNDLED / "engines.json"


def make() -> Made:
    """Fit everything anew: some minutes."""
    steps = rows_of("seen")
    whole, slopes = fit(steps)
    folds = {relation: refits(steps, slopes, relation, whole.values) for relation in FITTED}
    rows = ratios.iterations(whole.values)
    iteration = ratios.fit(rows)
    keys = {by: [key(row) for row in rows] for by, key in RATIO_KEYS.items()}
    apart = {by: ratios.refits(rows, named, iteration.values) for by, named in keys.items()}
    return Made(whole, iteration, folds | {"transferred": folds["gpu"], "maker": folds["gpu"]}, apart)


@dataclass(frozen=True)
class Replayed:
    """Held-out errors of steps by relation, and of ratios."""

    steps: dict[Relation, Errors]
    ratios: dict[Relation, Errors]

    def stated(self) -> Stated:
        """The errors to state of each engine."""
        return {engine: self._of(engine) for engine in ENGINES}

    def _of(self, engine: str) -> Any:
        stated: Any = {}
        before: dict[str, Scatter] = {}
        for relation in STEPS_LEFT_OUT:
            by = _first(STEPS_LEFT_OUT, relation, self.steps, engine)
            over = _first(RATIOS_LEFT_OUT, RATIO_OF[relation], self.ratios, engine)
            made = {
                "target_s": _of_few(self.steps[by], engine, f"steps {STEPS_LEFT_OUT[by]}"),
                "ratio": _of_few(self.ratios[over], engine, f"{RATIOS_LEFT_OUT[over]} left out of ratios"),
            }
            before = {q: _wider(before.get(q), scatter) for q, scatter in made.items()}
            stated[relation] = before
        return stated


def _first(order: Iterable[Relation], relation: Relation, errors: Mapping[Relation, Errors], engine: str) -> Relation:
    """The first that has rows of the engine, from `relation` on; else the last, which is the widest."""
    *_, last = later = [*itertools.dropwhile(lambda each: each != relation, order)]
    return next((each for each in later if engine in errors[each].engines), last)


def _of_few(errors: Errors, engine: str, source: str) -> Scatter:
    """What to state: of an engine without rows what all others say; of a single group no quantile."""
    scatter = errors.scatter(engine, source, BORROWED if engine in errors.engines else 1.0)
    return scatter.model_copy(update={"log_within": None}) if len(set(errors.groups)) == 1 else scatter


def _wider(less: Scatter | None, more: Scatter) -> Scatter:
    """Where less was held out, errors can only be smaller: a new device may run a new model too."""
    return less if less is not None and less.deviation > more.deviation else more


def replayed(
    whole: Values, step_folds: Mapping[Any, Any], ratio_folds: Mapping[Any, Any], iteration: Values
) -> Replayed:
    """Predictions of every row by constants that have not seen its fold."""
    steps: dict[Relation, Errors] = {}
    for relation in KEYS:
        rows = rows_of(relation)
        folds = {
            **step_folds[relation],
            **{r.hardware: whole for r in rows.rows if r.hardware not in step_folds["gpu"]},
        }
        off = replay(rows, relation, folds)
        errors = Errors(off, [r.engine for r in rows.rows], [group_of(r) for r in rows.rows])
        steps[relation] = errors.beside_others() if relation == "seen" else errors
    found, measured = {}, ratios.iterations(whole)
    for by, key in RATIO_KEYS.items():
        off = np.array([float(ratios.off_by([row], ratio_folds[by][key(row)])[0]) for row in measured])
        found[by] = Errors(off, [row.engine for row in measured], [row.group for row in measured])
    return Replayed(steps, found)


def acceptance() -> Scatter:
    """How far tokens per iteration are off where a constant acceptance is carried to another draft length."""
    lists = {row.positions: row.conditional for row in served() if row.draft != "ngram"}
    for row in engine_speculation():
        if row.positions and row.steps > 1:
            survival = [1.0, *map(float, row.positions.split("/"))]
            lists[row.positions] = tuple(b / a for a, b in itertools.pairwise(survival))
    off = np.array([error for rates in lists.values() for error in _carried(rates)])
    within = float(np.quantile(np.abs(off), 0.9))
    source = f"every two draft lengths of {len(lists)} acceptances by position, served.csv and engine_speculation.csv"
    return Scatter(
        log_rms=significant(float(np.sqrt(np.mean(off**2))), 4),
        log_within=significant(within, 4),
        rows=len(off),
        source=source,
    )


def _carried(rates: Sequence[float]) -> list[float]:
    gained = np.cumsum(np.cumprod([1.0, *rates]))
    found = []
    for known in range(1, len(gained)):
        alpha = alpha_from_tokens_per_iteration(min(gained[known], known + 1.0), known)
        for asked in range(1, len(gained)):
            if asked != known:
                off = np.log(tokens_per_iteration(asked, alpha) / gained[asked])
                found.append(float(off / np.log((asked + 1.0) / (known + 1.0))))
    return found


def texts(made: Made, ablations: Mapping[str, Any], date: datetime.date) -> tuple[str, str]:
    """``hardware/engines.yaml`` and ``results/engines.json``."""
    found = replayed(made.steps.values, made.step_folds, made.ratio_folds, made.iteration.values)
    rows = rows_of("seen")
    fitted = ratios.iterations(made.steps.values)
    measured = _by_device((r.engine, r.hardware, load_model(r.model).name) for r in rows.rows)
    speculating = _by_device((r.engine, r.scenario.machine.gpu.name, r.scenario.target.name) for r in fitted)
    yaml = render(
        made.steps, made.iteration, found.stated(), acceptance(), measured, speculating,
        (len(rows.rows), len(fitted)), date,
    )  # fmt: skip
    kept = {
        "schema_version": SCHEMA_VERSION,
        "steps": _short(made.steps.values),
        "iteration": _short(made.iteration.values),
        "step_folds": {by: {k: _short(v) for k, v in made.step_folds[by].items()} for by in FITTED},
        "ratio_folds": {by: {k: _short(v) for k, v in folds.items()} for by, folds in made.ratio_folds.items()},
        "ablations": ablations,
    }
    return yaml, json.dumps(kept, indent=1) + "\n"


def kept() -> dict[str, Any]:
    """``results/engines.json``. Raises InputError where there is none that this version can read."""
    try:
        found: dict[str, Any] = json.loads(path().read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path()}: must be there; `perfmodel validate calibrate engines --write` ({error})") from None
    if found.get("schema_version") != SCHEMA_VERSION:
        raise InputError(f"{path()}: schema_version must be {SCHEMA_VERSION}, given {found.get('schema_version')}")
    found["step_folds"]["transferred"] = found["step_folds"]["maker"] = found["step_folds"]["gpu"]
    return found


def replayed_from(found: Mapping[str, Any]) -> Replayed:
    """What `kept` says."""
    return replayed(found["steps"], found["step_folds"], found["ratio_folds"], found["iteration"])


def _by_device(rows: Any) -> dict[str, dict[str, tuple[str, ...]]]:
    found: dict[str, dict[str, tuple[str, ...]]] = {}
    for engine, gpu, model in rows:
        models = found.setdefault(engine, {}).setdefault(gpu, ())
        found[engine][gpu] = models if model in models else (*models, model)
    return found


def _short(values: Mapping[str, float]) -> dict[str, float]:
    return {name: significant(value, 4) for name, value in values.items()}
