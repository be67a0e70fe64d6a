"""Fits constants without a whole group of rows, and computes the prediction errors of these rows. The widths
of intervals follow from these errors.

The rows of one group (engine, model, device, tensor-parallel degree) have correlated errors. A group
therefore counts as its effective number of independent rows. An engine with few groups also uses the errors
of other engines, with a lower weight. The half-width of an interval is a quantile of these errors, so the
interval has the stated coverage.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from perfmodel.specs import COVERAGE, Relation, Scatter, architecture_of, calibration_of, load_gpu
from perfmodel.validate.engine.fit import small_sample
from perfmodel.validate.solving import grouped, significant
from perfmodel.validate.studies.fitted_parameters import DECODING
from perfmodel.validate.studies.published_engines import DecodeRow, engine_decode
from perfmodel.validate.studies.robust import Array, FittedRows, Row, Values
from perfmodel.validate.studies.steps import DecodeRows

BORROWED = 0.1
"""Weight of a group of another engine relative to a group of the same engine."""
FOLD_ROUNDS = 2
"""Number of rounds of a fit without a group. Such a fit needs few rounds, because it starts from the fit to
all rows.
"""
TOO_FEW_GROUPS = 2
"""Number of groups up to which the groups do not determine the width of an interval."""
STAND_INS = {
    "h100-sxm-80gb": "h200-sxm-141gb",
    "h100-sxm-94gb": "h200-sxm-141gb",
    "h200-sxm-141gb": "h100-sxm-80gb",
    "b200-sxm-180gb": "b300-sxm-288gb",
    "b300-sxm-288gb": "b200-sxm-180gb",
    "mi300x-192gb": "h200-sxm-141gb",
    "mi325x-256gb": "h200-sxm-141gb",
}
"""Device -> another device whose kernel constants replace its own, to measure the error of this
replacement.
"""


def name_of(key: Hashable) -> str:
    """The key of a fold as text."""
    if isinstance(key, tuple):
        return " ".join(map(str, key))
    return str(key)


def is_own(row: DecodeRow) -> bool:
    """Whether the engine has kernel constants for the row's device, or for a device of the same vendor and
    architecture.
    """
    gpu = load_gpu(row.hardware)
    kernels = calibration_of(gpu, row.engine).gpu or ""
    of_maker = load_gpu(kernels).vendor == gpu.vendor
    return of_maker and architecture_of(kernels) == architecture_of(row.hardware)


def rows_of(relation: Relation) -> DecodeRows:
    """The rows that measure the error of a relation of a question to the fitted rows (see `STEP_FOLDS`).

    For "maker", they are the rows of devices that use the kernel constants of another vendor or architecture.
    For all other relations, they are the remaining rows.
    """
    rows = [row for row in engine_decode() if is_own(row) == (relation != "maker")]
    return DecodeRows(rows, DECODING, STAND_INS if relation in ("maker", "transferred") else None)


def refits(
    rows: FittedRows[Row], key: Callable[[Row], Hashable], whole: Values, slopes: Array
) -> dict[str, dict[str, float]]:
    """Name of a fold -> the constants that were fitted without its rows.

    - key: a function that returns the fold of a row.
    - whole, slopes: the constants and slopes of the fit to all rows, from which each fit starts.
    """
    keys = np.array([name_of(key(row)) for row in rows.rows])
    fits = {}
    for name in dict.fromkeys(keys.tolist()):
        estimate = rows.fit(whole, FOLD_ROUNDS, keys != name, slopes).estimate
        fits[name] = estimate.values
    return fits


def replay(rows: FittedRows[Row], key: Callable[[Row], Hashable], folds: Mapping[str, Values]) -> Array:
    """The log error of each row, predicted with constants that were fitted without its fold.

    - key: a function that returns the fold of a row.
    - folds: name of a fold -> the constants that were fitted without it.
    """
    keys = np.array([name_of(key(row)) for row in rows.rows])
    errors = np.full(len(keys), np.nan)
    for name in dict.fromkeys(keys.tolist()):
        fold = keys == name
        errors[fold] = rows.off(folds[name])[fold]
    return errors


@dataclass(frozen=True)
class HeldOutErrors:
    """Log errors of rows, each predicted with constants that were fitted without its fold.

    - off: the log errors.
    - engines, groups: the engine and the group of each row. Rows of one group have correlated errors.
    """

    off: Array
    engines: Sequence[str]
    groups: Sequence[Any]

    def weights(self, engine: str, borrowed: float = BORROWED) -> Array:
        """The weights of all rows for the error of one engine. The weights of other engines' rows are
        multiplied by `borrowed`.

        A group of n rows counts as n / (1 + (n - 1) rho) independent rows (Kish 1965, Survey Sampling, 5.4).
        Here rho is the share of the squared errors that is common to the rows of a group. It is estimated
        from all groups of an engine.
        """
        rows_by_group = grouped(range(len(self.groups)), lambda i: self.groups[i])
        groups = list(rows_by_group.values())
        groups_of = grouped(groups, lambda index: self.engines[index[0]])
        common = {name: self._common(of_engine) for name, of_engine in groups_of.items()}
        weights = np.empty(len(self.off))
        for index in groups:
            name = self.engines[index[0]]
            share = 1.0 / (1.0 + (len(index) - 1) * common[name])
            weights[index] = share if name == engine else borrowed * share
        return weights

    def _common(self, groups: list[list[int]]) -> float:
        """rho of these groups; 1 if no group has several rows, so each row counts once."""
        several = [self.off[index] for index in groups if len(index) > 1]
        within_groups = sum(float(np.var(off, ddof=1)) * len(off) for off in several)
        in_all = sum(float(np.sum(off**2)) for off in several)
        return max(1.0 - within_groups / in_all, 0.0) if in_all else 1.0

    def part(self, keep: Iterable[int | np.integer]) -> "HeldOutErrors":
        """The errors of some rows."""
        index = [int(i) for i in keep]
        engines = [self.engines[i] for i in index]
        groups = [self.groups[i] for i in index]
        return HeldOutErrors(self.off[index], engines, groups)

    def beside_others(self) -> "HeldOutErrors":
        """The errors of only those rows whose engine, model and device also have rows at another
        tensor-parallel degree. The fits used these other rows.
        """
        degrees = grouped(dict.fromkeys(self.groups), lambda group: group[:3])
        return self.part(i for i, group in enumerate(self.groups) if len(degrees[group[:3]]) > 1)

    def scatter(self, engine: str, source: str, borrowed: float = BORROWED) -> Scatter:
        """The error that the file of an engine states: the root mean square, and a quantile that is widened
        for the small number of groups.

        The widening is that of a prediction interval: Student's t, and the square root of 1 + 1/n.

        - source: the description of the rows.
        - borrowed: see `weights`.
        """
        weights = self.weights(engine, borrowed)
        size = np.abs(self.off)
        rms = float(np.sqrt(np.average(size**2, weights=weights)))
        rows = sum(e == engine for e in self.engines) or len(self.off)
        count = float(np.sum(weights))
        prediction = small_sample(1.0, count) * (1.0 + 1.0 / count) ** 0.5
        within = quantile(size, weights) * prediction
        return Scatter(
            log_rms=significant(rms, 3), log_within=significant(within, 3), rows=rows, source=source
        )


def of_groups(off: Array, groups: Sequence[Hashable]) -> Array:
    """The mean absolute relative error of each group.

    - off: the log errors of the rows.
    """
    sizes = np.abs(np.expm1(off))
    members = grouped(range(len(off)), lambda i: groups[i])
    return np.array([sizes[index].mean() for index in members.values()])


def quantile(values: Array, weights: Array, level: float = COVERAGE) -> float:
    """The weighted quantile: the smallest value that has at least the share `level` of the weight at or below
    it.
    """
    order = np.argsort(values)
    share = np.cumsum(weights[order])
    place = np.searchsorted(share, level * share[-1] * (1 - 1e-12))
    return float(values[order][place])


class Covered(NamedTuple):
    """The intervals of rows, each from the errors of the other groups.

    - inside: 1 if the interval of a row contains its measured value, else 0.
    - half_width: the half-width of the interval of each row, in logarithms.
    """

    inside: Array
    half_width: Array


def covered(errors: HeldOutErrors, least: Mapping[str, float]) -> Covered:
    """Compares each row with the interval that follows from the errors of the other groups.

    - least: engine -> smallest half-width of its intervals.
    """
    inside = np.empty(len(errors.off))
    width = np.empty(len(errors.off))
    groups = grouped(range(len(errors.off)), lambda i: errors.groups[i])
    for group, index in groups.items():
        engine = errors.engines[index[0]]
        others = errors.part(i for i, name in enumerate(errors.groups) if name != group)
        stated = others.scatter(engine, "rows of the other groups")
        width[index] = max(stated.log_within or 0.0, least.get(engine, 0.0))
        inside[index] = np.abs(errors.off[index]) <= width[index]
    return Covered(inside, width)
