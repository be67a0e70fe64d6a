"""Fits the constants of serving engines to all rows, and again without each fold. The stated errors are those
of rows that were left out.

``results/engines.json`` has the constants of every fold. With this file, the accuracy check predicts held-out
rows without a fit. `STEP_FOLDS` and `RATIO_FOLDS` list the kinds of folds.
"""

import datetime
import json
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from perfmodel.operations import Array
from perfmodel.specs import VERSION, Quantity, Relation, Scatter, Z, files, load_model, release
from perfmodel.specs.calibrations.calibration import beyond
from perfmodel.validate.records import BUNDLED
from perfmodel.validate.solving import Estimate, Values, shortened
from perfmodel.validate.studies.acceptance_errors import acceptance_error
from perfmodel.validate.studies.engine_versions import version_of
from perfmodel.validate.studies.engines_file import PATH as CONSTANTS, Stated, render
from perfmodel.validate.studies.held_out import refits, replay, rows_of
from perfmodel.validate.studies.held_out_errors import BORROWED, HeldOutErrors
from perfmodel.validate.studies.iterations import Iteration, Iterations
from perfmodel.validate.studies.parameters import ENGINES
from perfmodel.validate.studies.published_engines import DecodeRow, alike
from perfmodel.validate.studies.steps import DecodeRows, group_of

PATH = BUNDLED / "engines.json"
"""The file with the constants of all folds."""
LONG_CONTEXT = 1024.0
"""Context, in tokens, above which a row has a long context."""
WIDE = 256.0
"""Number of verified tokens above which a verification is wide."""
TOO_FEW_GROUPS = 2
"""Number of groups up to which no interval is stated. Two groups leave one degree of freedom, so an interval
would be 4.7 times as wide as the errors (`HeldOutErrors.scatter`). Its coverage could not be measured either,
because one group remains if the other one is left out.
"""
RatioFold = Literal["seen", "version", "model", "draft", "context", "width", "transferred"]
Folds = dict[str, Mapping[Any, Mapping[str, Mapping[str, float]]]]
"""``step_folds`` or ``ratio_folds`` -> kind of fold -> name of a fold -> the constants that were fitted
without it. Steps also have folds by `SOURCE`.
"""
SOURCE = "source"
"""The kind of fold that leaves out all steps of a source."""


class Fold(NamedTuple):
    """A kind of fold.

    - key: a function of a row. Rows with the same key are held out together.
    - words: the name of the fold in tables.
    - stated_as: the held-out rows in the description of a stated error; empty if no file states it.
    - ratio: for steps, the kind of fold whose errors of ratios are stated together with those of steps.
    """

    key: Callable[[Any], Hashable]
    words: str
    stated_as: str = ""
    ratio: RatioFold = "seen"


STEP_FOLDS: dict[Relation, Fold] = {
    "seen": Fold(
        group_of,
        "model x device x degree",
        "at one degree of a device, left out where another degree was seen",
    ),
    "version": Fold(
        lambda row: (row.engine, version_of(row)), "version", "of versions left out whole", "version"
    ),
    "model": Fold(lambda row: (row.engine, row.model), "model", "of models left out whole", "model"),
    "gpu": Fold(lambda row: row.hardware, "device", "of devices left out whole", "model"),
    "transferred": Fold(
        lambda row: row.hardware,
        "device and its kernels",
        "of devices left out whole, with the kernels of another",
        "transferred",
    ),
    "maker": Fold(
        lambda row: row.hardware,
        "maker of the device",
        "of a device of another maker, with the kernels of an H200",
        "transferred",
    ),
}
"""Relation of a question to the fitted rows -> the folds of steps that measure its error, from the least to
the most novel relation. The last two relations have the constants of "gpu", which were fitted without the
device.
"""
RATIO_FOLDS: dict[RatioFold, Fold] = {
    "seen": Fold(lambda row: row.group, "draft length or task", "draft lengths or tasks"),
    "version": Fold(lambda row: f"{row.engine} {release(row.version)[:2]}", "version", "versions"),
    "model": Fold(lambda row: row.study, "study", "studies"),
    "draft": Fold(lambda row: row.kind, "kind of draft"),
    "context": Fold(lambda row: "long" if row.context > LONG_CONTEXT else "short", "context"),
    "width": Fold(lambda row: "wide" if row.tokens > WIDE else "narrow", "tokens verified at once"),
    "transferred": Fold(lambda row: row.engine, "engine", "engines"),
}
"""Kind of fold -> the folds of ratios (an iteration over a step)."""


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


@dataclass(frozen=True)
class HeldOutReplay:
    """The errors of all rows. Each row is predicted with constants that were fitted without its fold.

    - steps: relation -> the errors of steps.
    - ratios: kind of fold -> the errors of ratios (an iteration over a step).
    - rows: the rows of `ratios`, in order.
    """

    steps: dict[Relation, HeldOutErrors]
    ratios: dict[RatioFold, HeldOutErrors]
    rows: tuple[Iteration, ...]

    def stated(self) -> Stated:
        """Engine -> relation -> the errors that ``hardware/fitted/engines.yaml`` states."""
        stated: Stated = {}
        for engine in ENGINES:
            stated[engine] = {}
            less_novel: dict[Quantity, Scatter] = {}
            for relation, fold in STEP_FOLDS.items():
                observed = self._observed(engine, relation, fold.ratio)
                widened = {q: no_narrower(less_novel.get(q), scatter) for q, scatter in observed.items()}
                stated[engine][relation] = widened
                less_novel = widened
        return stated

    def _observed(self, engine: str, relation: Relation, ratio_fold: RatioFold) -> dict[Quantity, Scatter]:
        """The errors of an engine's steps and ratios for a relation. If the relation has no rows of the
        engine, they are those of the next more novel relation that has some.
        """
        step_fold = _first(STEP_FOLDS, relation, self.steps, engine)
        ratio_fold = _first(RATIO_FOLDS, ratio_fold, self.ratios, engine)
        of_steps = f"steps {STEP_FOLDS[step_fold].stated_as}"
        of_ratios = f"{RATIO_FOLDS[ratio_fold].stated_as} left out of ratios"
        return {
            "target_s": _of_few(self.steps[step_fold], engine, of_steps),
            "ratio": _of_few(self.ratios[ratio_fold], engine, of_ratios),
        }

    def unseen_draft(self) -> Scatter:
        """The error of ratios if all rows with the same kind of draft are held out."""
        return self.ratios["draft"].scatter("", "ratios of kinds of draft left out whole", borrowed=1.0)

    def unseen_context(self) -> Scatter:
        """The error of ratios at long contexts, per e-fold of the context beyond the other contexts. All long
        contexts are held out together.
        """
        source = f"ratios of contexts above {LONG_CONTEXT:g} tokens left out whole"
        return self._for_each_fold(
            "context", [row.context for row in self.rows], LONG_CONTEXT, LONG_CONTEXT, source
        )

    def unseen_width(self) -> Scatter:
        """The error of ratios with very wide verifications (more than `2 * WIDE` tokens), per e-fold of the
        tokens beyond the other rows. All wide verifications are held out together.
        """
        source = f"ratios of verifications of more than {WIDE:g} tokens left out whole"
        return self._for_each_fold("width", [row.tokens for row in self.rows], WIDE, 2 * WIDE, source)

    def _for_each_fold(
        self, by: RatioFold, values: Sequence[float], most: float, above: float, source: str
    ) -> Scatter:
        """The error of rows with a value greater than `above`, per e-fold beyond the largest value up to
        `most`.

        - values: the context or the number of verified tokens of each row.
        """
        largest = max(value for value in values if value <= most)
        judged = [i for i, value in enumerate(values) if value > above]
        errors = self.ratios[by].part(judged)
        folds = np.log([values[i] / largest for i in judged])
        return HeldOutErrors(errors.off / folds, errors.engines, errors.groups).scatter(
            "", source, borrowed=1.0
        )

    def widened(self, by: RatioFold, width: Array) -> Array:
        """The half-widths `width`, widened for rows that verify more tokens than the other folds of their
        engine.

        - width: the half-width of each row (`covered`).
        """
        keys = np.array([RATIO_FOLDS[by].key(row) for row in self.rows])
        width_per_fold = Z * self.unseen_width().deviation
        tokens = np.array([row.tokens for row in self.rows])
        engines = np.array([row.engine for row in self.rows])
        widest = []
        for engine, key in zip(engines, keys, strict=True):
            other_folds = (engines == engine) & (keys != key)
            widest.append(max(tokens[other_folds], default=np.inf))
        return np.hypot(width, beyond(tokens, np.array(widest)) * width_per_fold)


def _first(folds: Mapping[Any, Fold], relation: str, errors: Mapping[Any, HeldOutErrors], engine: str) -> Any:
    """The first kind of fold from `relation` on that has rows of the engine. If none has, it is the last,
    whose error is the largest.
    """
    stated = [by for by, fold in folds.items() if fold.stated_as]
    later = stated[stated.index(relation) :]
    return next((by for by in later if engine in errors[by].engines), later[-1])


def _of_few(errors: HeldOutErrors, engine: str, source: str) -> Scatter:
    """The error that the file of an engine states. It is that of all other engines if the engine has no rows.
    It has no quantile if there are only one or two groups.
    """
    scatter = errors.scatter(engine, source, BORROWED if engine in errors.engines else 1.0)
    if len(set(errors.groups)) <= TOO_FEW_GROUPS:
        return scatter.replace(log_within=None)
    return scatter


def no_narrower(less: Scatter | None, more: Scatter) -> Scatter:
    """The larger of two errors. The error of a relation must be at least that of a less novel relation,
    because a new device can also run a new model.

    - less: the error of the less novel relation; None if there is none.
    - more: the error of the more novel relation.
    """
    return less if less is not None and less.deviation > more.deviation else more


def step_errors(
    rows: DecodeRows, key: Callable[[DecodeRow], Hashable], folds: Mapping[str, Values]
) -> HeldOutErrors:
    """The errors of steps. Each step is predicted with constants that were fitted without its fold."""
    engines = [r.engine for r in rows.rows]
    groups = [group_of(r) for r in rows.rows]
    return HeldOutErrors(replay(rows, key, folds), engines, groups)


def replayed(constants: Mapping[str, Any]) -> HeldOutReplay:
    """The errors of all rows. Each row is predicted with constants that were fitted without its fold.

    - constants: as `recorded` returns them.
    """
    whole = constants["steps"]
    steps = {}
    ratios = {}
    for relation, fold in STEP_FOLDS.items():
        rows = rows_of(relation)
        folds = constants["step_folds"].get(relation, constants["step_folds"]["gpu"])
        of_devices = dict.fromkeys((r.hardware for r in rows.rows), whole)
        errors = step_errors(rows, fold.key, of_devices | folds)
        steps[relation] = errors.beside_others() if relation == "seen" else errors
    measured = Iterations(whole)
    engines = [row.engine for row in measured.rows]
    groups = [row.group for row in measured.rows]
    for by, fold in RATIO_FOLDS.items():
        off = replay(measured, fold.key, constants["ratio_folds"][by])
        ratios[by] = HeldOutErrors(off, engines, groups)
    return HeldOutReplay(steps, ratios, measured.rows)


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


@cache
def recorded() -> dict[str, Any]:
    """The content of ``results/engines.json``. Raises InputError if it is missing or malformed."""
    return files.read_mapping(PATH)


def steps_without(source: str) -> Values:
    """The constants of steps that were fitted without the rows of a source. If the source has no rows, they
    are those of the fit to all rows.
    """
    record = recorded()
    folds = record["step_folds"][SOURCE]
    return dict(next((folds[name] for name in folds if alike(name, source)), record["steps"]))


@cache
def replayed_as_recorded() -> HeldOutReplay:
    """The errors of all rows with the constants in ``results/engines.json``."""
    return replayed(recorded())


def _by_device(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Device -> its models, without repetitions.

    - pairs: pairs of a device and a model.
    """
    models_of: dict[str, list[str]] = {}
    for gpu, model in dict.fromkeys(pairs):
        models_of.setdefault(gpu, []).append(model)
    return models_of
