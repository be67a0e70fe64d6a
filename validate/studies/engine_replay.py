"""The errors of steps and ratios of serving engines. Each row is predicted with constants that were fitted
without its fold.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from perfmodel.operations import Array
from perfmodel.specs import Quantity, Relation, Scatter, Z, files
from perfmodel.specs.calibrations.calibration import beyond
from perfmodel.validate.records import BUNDLED
from perfmodel.validate.solving import Values
from perfmodel.validate.studies.engine_folds import (
    LONG_CONTEXT,
    RATIO_FOLDS,
    SOURCE,
    STEP_FOLDS,
    WIDE,
    Fold,
    RatioFold,
)
from perfmodel.validate.studies.engines_file import Stated
from perfmodel.validate.studies.held_out import replay, rows_of
from perfmodel.validate.studies.held_out_errors import BORROWED, HeldOutErrors
from perfmodel.validate.studies.iterations import Iteration, Iterations
from perfmodel.validate.studies.parameters import ENGINES
from perfmodel.validate.studies.published_engines import DecodeRow, alike
from perfmodel.validate.studies.steps import DecodeRows, group_of

PATH = BUNDLED / "engines.json"
"""The file with the constants of all folds."""
TOO_FEW_GROUPS = 2
"""Number of groups up to which no interval is stated. Two groups leave one degree of freedom, so an interval
would be 4.7 times as wide as the errors (`HeldOutErrors.scatter`). Its coverage could not be measured either,
because one group remains if the other one is left out.
"""


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
