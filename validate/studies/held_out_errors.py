"""Errors of rows that were predicted with constants fitted without them, and the error that a file states.

The rows of one group (engine, model, device, tensor-parallel degree) have correlated errors. A group
therefore counts as its effective number of independent rows. An engine with few groups also uses the errors
of other engines, with a lower weight. The half-width of an interval is a quantile of these errors, so the
interval has the stated coverage.
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from perfmodel.operations import Array
from perfmodel.specs import COVERAGE, Scatter
from perfmodel.validate.engine.fit import small_sample
from perfmodel.validate.solving import grouped, significant

BORROWED = 0.1
"""Weight of a group of another engine relative to a group of the same engine. An assumption: it may change
only together with the sources (`choices`).

- Its effect on the widths of public runs (`widths`) was computed as the interval score (Gneiting and Raftery
  2007, JASA 102:359-378, 6.2) of intervals that were fitted without the source of each row (2026-11-29). Of
  the weights from 0 to 1, this weight has the least mean score of the classes of steps. The scores of the
  other weights are up to 4 % larger. For speedups the score falls by at most 3 % above this weight, and rises
  by 2 % without other classes.
- SGLang has few groups, and its intervals show why the weight is neither 0 nor 1 (means over the kinds of
  folds, 2026-11-29). Without other engines, the half-width of its steps is 0.29 instead of 0.14. With the
  weight 1, the intervals of its ratios contain 63 % of the rows instead of 88 %.
"""


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

        A group of n rows counts as n / (1 + (n - 1) rho) independent rows, so each row has the weight
        1 / (1 + (n - 1) rho) (Kish 1965, Survey Sampling, 5.4). rho is the same for all groups of an engine
        (`_common`).
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
        """The share rho of the squared errors that is common to the rows of a group, 0 to 1.

        With the errors e of the groups that have several rows:

            rho = max(0, 1 - sum over groups(n var(e)) / sum over rows(e^2)),
            var(e) = sum over rows of the group((e - mean(e))^2) / (n - 1).

        If all errors of a group are equal, var is 0 and rho is 1. If they cancel, rho is 0. If no group has
        several rows, or if all errors are 0, the result is 1. A single row counts once for every rho.

        - groups: the indices of the rows of each group.
        """
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

        The quantile is multiplied by t(0.95, n - 1) / z(0.95) * sqrt(1 + 1 / n), where n is the sum of the
        weights. t is the quantile of Student's distribution (with at least one degree of freedom) and z that
        of the normal one. This is the widening of a prediction interval: the n errors estimate the spread,
        which t allows for (`small_sample`), and their mean, which 1 / n allows for. 0.95 leaves the share
        `COVERAGE` between both ends.

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
