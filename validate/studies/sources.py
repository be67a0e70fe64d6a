"""Sources left out whole: how far steps, iterations over steps and speedups of public runs are off.

`fit` makes ``hardware/sources.yaml``, the deviations that intervals of steps are made of; `figures` what the
accuracy record holds. Means are over rows and over sources (macro), so that a source of hundreds of rows
counts as one.
"""

import datetime
from collections.abc import Hashable, Sequence
from functools import cache
from typing import Any

import numpy as np
import yaml

from perfmodel.errors import InputError
from perfmodel.specs.boundary import files
from perfmodel.specs.calibrations.fits import Z
from perfmodel.specs.engines.source_errors import OTHER, StepErrors
from perfmodel.validate.engine.fit import small_sample
from perfmodel.validate.solving import grouped, significant
from perfmodel.validate.studies.held_out import quantile
from perfmodel.validate.studies.mixed import MixedEffects
from perfmodel.validate.studies.public_runs import Answered, PublicRun, answers, public_runs

PATH = files.data_directory("") / "sources.yaml"
CROWDED = 16
"""Sequences from which on rows scatter more: prompts of other requests stall some engines' passes."""
FEW = 3
"""An engine of fewer rows takes the deviation of all."""
HEADER = (
    "# Written by `perfmodel validate calibrate sources --write` from results/published/public_runs.csv.\n"
)


@cache
def answered() -> tuple[tuple[Answered, ...], int]:
    """Every row that counts, asked; and how many cannot be."""
    found: list[Answered] = []
    refused = 0
    for run in public_runs():
        if run.counts:
            try:
                found += answers(run)
            except InputError:
                refused += 1
    return tuple(found), refused


def of_figure(figure: str) -> list[Answered]:
    """Answers of one figure."""
    return [a for a in answered()[0] if a.figure == figure]


def mixed(rows: Sequence[Answered]) -> MixedEffects:
    """The fit to the errors of steps."""
    levels: dict[str, list[Hashable]] = {
        "source": [a.run.source_id for a in rows],
        "server": [(a.run.source_id, a.run.engine, a.run.engine_version, *_place(a.run)) for a in rows],
    }
    return MixedEffects(np.array([-a.off for a in rows]), levels, [_class(a.run) for a in rows])


def _place(run: PublicRun) -> tuple[Any, ...]:
    return run.model, run.hardware, run.tensor_parallel, run.weights


def _class(run: PublicRun) -> str:
    return f"{run.engine} {'crowded' if run.batch >= CROWDED else 'alone'}"


def fit(date: datetime.date) -> str:
    """The text of the file."""
    rows = of_figure("step")
    found = mixed(rows)
    sources = [a.run.source_id for a in rows]
    left, deviation = found.left_out(sources)
    sizes = {name: len(of) for name, of in grouped(sources, lambda source: source).items()}
    weights = np.array([sizes[source] ** -0.5 for source in sources])
    widening = small_sample(quantile(np.abs(left / deviation), weights) / Z, len(sizes))
    whole = {
        crowd: float(
            np.sqrt(np.mean([found.residuals[name] ** 2 for name in found.residuals if crowd in name]))
        )
        for crowd in ("alone", "crowded")
    }
    words = dict.fromkeys(a.run.engine for a in rows)
    data = {
        "fitted_on": ["public_runs.csv"],
        "date": date,
        "sources": len(sizes),
        "rows": len(rows),
        "widening": widening,
        **found.deviations,
        "crowded_from": CROWDED,
        "devices": sorted({a.run.hardware for a in rows}),
        "engines": {
            word: {
                crowd: found.residuals[f"{word} {crowd}"]
                if sum(_class(a.run) == f"{word} {crowd}" for a in rows) >= FEW
                else whole[crowd]
                for crowd in whole
            }
            for word in words
        }
        | {OTHER: whole},
    }
    short = _short(data)
    StepErrors.model_validate(short)
    return HEADER + yaml.safe_dump(short, sort_keys=False, width=110)


def _short(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _short(inner) for key, inner in value.items()}
    return significant(value, 3) if isinstance(value, float) else value
