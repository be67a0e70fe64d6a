"""Fits the constants of serving engines to all rows, and again without each fold. The stated errors are those
of rows that were left out.

- Data: the steps of ``engine_decode.csv`` (`steps`) and the ratios of an iteration to a step (`iterations`).
- Model: the predicted time as a function of the constants (`fitted_parameters`), with the robust loss of
  `robust`.
- Folds: `engine_folds`.
- Result: the constants of all rows, and the errors of rows that were left out (`engine_replay`).

``results/engines.json`` has the constants of every fold. With this file, the accuracy check predicts held-out
rows without a fit.
"""

import datetime
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from perfmodel.specs import VERSION, load_model, release
from perfmodel.validate.solving import Estimate, shortened
from perfmodel.validate.studies.acceptance_errors import acceptance_error
from perfmodel.validate.studies.engine_folds import RATIO_FOLDS, SOURCE, STEP_FOLDS
from perfmodel.validate.studies.engine_replay import PATH, replayed
from perfmodel.validate.studies.engine_versions import version_of
from perfmodel.validate.studies.engines_file import PATH as CONSTANTS, render
from perfmodel.validate.studies.held_out import refits, rows_of
from perfmodel.validate.studies.iterations import Iteration, Iterations
from perfmodel.validate.studies.parameters import ENGINES
from perfmodel.validate.studies.published_engines import DecodeRow

Folds = dict[str, Mapping[Any, Mapping[str, Mapping[str, float]]]]
"""``step_folds`` or ``ratio_folds`` -> kind of fold -> name of a fold -> the constants that were fitted
without it. Steps also have folds by `SOURCE`.
"""


class FittedAnew(NamedTuple):
    """New fits.

    - steps: the fit to all steps.
    - iterations: the fit to all ratios of an iteration to a step.
    - folds: the constants that were fitted without each fold.
    """

    steps: Estimate
    iterations: Estimate
    folds: Folds


def make() -> FittedAnew:
    """Fits steps and ratios to all rows, and again without each fold. This takes some minutes."""
    steps = rows_of("seen")
    whole, slopes = steps.fit()
    fitted = {by: fold for by, fold in STEP_FOLDS.items() if by not in ("transferred", "maker")}
    keys = {by: fold.key for by, fold in fitted.items()} | {SOURCE: lambda row: row.source_id}
    step_folds = {by: refits(steps, key, whole.values, slopes) for by, key in keys.items()}
    rows = Iterations(whole.values)
    iteration, slopes = rows.fit()
    ratio_folds = {by: refits(rows, fold.key, iteration.values, slopes) for by, fold in RATIO_FOLDS.items()}
    return FittedAnew(whole, iteration, {"step_folds": step_folds, "ratio_folds": ratio_folds})


def refitted_files(date: datetime.date) -> dict[Path, str]:
    """Path -> new text of ``hardware/fitted/engines.yaml`` and ``results/engines.json``. The fit takes some
    minutes.
    """
    return files_of(*make(), date)


def files_of(decoding: Estimate, iteration: Estimate, folds: Folds, date: datetime.date) -> dict[Path, str]:
    """The result of `refitted_files`, from the fits that `make` returns."""
    constants: dict[str, Any] = {"steps": decoding.values, "iteration": iteration.values, **folds}
    errors = replayed(constants)
    steps = rows_of("seen").rows
    iterations = errors.rows
    facts = {}
    for engine in ENGINES:
        of_engine = [r for r in steps if r.engine == engine]
        iterations_of_engine = [r for r in iterations if r.engine == engine]
        facts[engine] = _facts(of_engine, iterations_of_engine)
    shared = {
        "acceptance": acceptance_error(),
        "unseen_draft": errors.unseen_draft(),
        "unseen_context": errors.unseen_context(),
        "unseen_width": errors.unseen_width(),
    }
    counts = (len(steps), len(iterations))
    yaml = render(decoding, iteration, errors.stated(), shared, facts, counts, date)
    return {CONSTANTS: yaml, PATH: json.dumps(shortened(constants, 4), indent=1) + "\n"}


def _facts(steps: Sequence[DecodeRow], iterations: Sequence[Iteration]) -> dict[str, Any]:
    """What the steps and iterations of one engine cover: versions, devices, models, drafts, and the largest
    sizes. The newest version is the last.
    """
    stacks = {*map(version_of, steps), *(row.version for row in iterations)}
    versions = {VERSION.search(stack)[0] for stack in stacks if release(stack)}  # type: ignore[index]
    measured = [(r.hardware, load_model(r.model).name) for r in steps]
    speculating = [(r.query.hardware, load_model(r.query.model).name) for r in iterations]
    contexts = [r.context for r in iterations]
    verified_tokens = [r.tokens for r in iterations]
    return {
        "versions": sorted(versions, key=release),
        "measured": _by_device(measured),
        "speculating": _by_device(speculating),
        "drafts": sorted({r.kind for r in iterations}),
        "longest_tokens": max(contexts, default=0.0),
        "widest_tokens": max(verified_tokens, default=0.0),
    }


def _by_device(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Device -> its models, without repetitions.

    - pairs: pairs of a device and a model.
    """
    models_of: dict[str, list[str]] = {}
    for gpu, model in dict.fromkeys(pairs):
        models_of.setdefault(gpu, []).append(model)
    return models_of
