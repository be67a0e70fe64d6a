"""Separates the errors of rows into parts that are common to several rows, and the part of each row.

The log error of a row is the sum of three parts. One part is common to its kind (a model on an engine and an
architecture, measured by one source). One is common to its group within the kind (device, tensor-parallel
degree, version). The last part belongs to the row alone.

Each part has a Cauchy loss, so an engine version that was slow on one model does not distort the constants of
all models.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perfmodel.operations import Array
from perfmodel.validate.solving import grouped

LOCATION_ROUNDS = 10
"""Number of rounds of the search for a common error. In 99 of 100 random cases with one outlier, one more
round would change the result by less than 0.1 %.
"""
MOST_ROWS = 10
"""Upper limit of the number of independent rows of a group. Larger groups count as this many rows."""


@dataclass(frozen=True)
class Parts:
    """Separates the errors of rows into their parts.

    - matrix: the linear map from the errors to the parts in standard deviations, [parts, rows].
    - soft: the size of each part above which the part counts less, [parts].
    """

    matrix: Array
    soft: Array

    def residuals(self, parts: Array) -> Array:
        """The square root of the Cauchy loss of each part, with the sign of the part."""
        loss = np.log1p((parts / self.soft) ** 2)
        return np.asarray(np.sign(parts) * self.soft * np.sqrt(loss))

    def slopes(self, parts: Array) -> Array:
        """The derivatives of the residuals by the parts."""
        softened = self.residuals(parts)
        share = np.divide(parts, softened, out=np.ones_like(parts), where=softened != 0)
        return np.asarray(share / (1.0 + (parts / self.soft) ** 2))


@dataclass(frozen=True)
class ErrorSpread:
    """Standard deviations of the three parts of an error, in logarithms. The default values are those for
    steps, and an assumption.

    - row, group, kind: the standard deviations.
    - soft: the number of standard deviations above which the part of a kind or group counts less.
    - soft_row: the same number for the part of a row.
    """

    row: float = 0.02
    group: float = 0.02
    kind: float = 0.02
    soft: float = 2.0
    soft_row: float = 3.0


@dataclass(frozen=True)
class _Group:
    """The rows of one group in a fit.

    - index: the indices of the rows.
    - mean: the linear map from the errors of all rows to the mean error of these rows, [all rows].
    """

    index: list[int]
    mean: Array
    spread: ErrorSpread

    @classmethod
    def of(cls, index: list[int], rows: int, spread: ErrorSpread) -> "_Group":
        """The group of some of `rows` rows."""
        mean = np.zeros(rows)
        mean[index] = 1.0 / len(index)
        return cls(index, mean, spread)

    @property
    def deviation(self) -> float:
        """The standard deviation of the mean error, apart from the part of the kind."""
        of_rows = self.spread.row / min(len(self.index), MOST_ROWS) ** 0.5
        return float(np.hypot(self.spread.group, of_rows))

    def row_lines(self) -> list[Array]:
        """The linear map to the own part of each row, in standard deviations. All rows of a large group
        together count as `MOST_ROWS` rows.
        """
        share = min(1.0, MOST_ROWS / len(self.index)) ** 0.5 / self.spread.row
        lines = []
        for i in self.index:
            line = -self.mean * share
            line[i] += share
            lines.append(line)
        return lines


def parts_of(
    groups: Sequence[Hashable],
    kinds: Sequence[Hashable],
    train: NDArray[np.bool_],
    spreads: Sequence[ErrorSpread],
    off: Array | None = None,
) -> Parts:
    """The parts of the errors of the rows to which constants are fitted.

    - groups, kinds, spreads: the group, the kind and the spread of each row. A group has the spread of its
      first row, and a kind has that of its last group.
    - train: mask of the rows of the fit.
    - off: the errors of all rows near the solution. With these errors, an outlying group counts less in the
      common error of its kind (`shares_of_common`). Without them, all groups count fully.
    """
    lines: list[Array] = []
    soft: list[float] = []
    rows_of_kinds = grouped(np.flatnonzero(train).tolist(), lambda i: kinds[i])
    for rows_of_kind in rows_of_kinds.values():
        rows_of_groups = grouped(rows_of_kind, lambda i: groups[i])
        members = [_Group.of(index, len(train), spreads[index[0]]) for index in rows_of_groups.values()]
        for group in members:
            lines += group.row_lines()
            soft += [group.spread.soft_row] * len(group.index)
        common = _common_lines(members, off)
        lines += common
        soft += [members[-1].spread.soft] * len(common)
    return Parts(np.array(lines), np.array(soft))


def _common_lines(members: Sequence[_Group], off: Array | None) -> list[Array]:
    """The linear maps to the part of a kind, and then to the part of each of its groups, in standard
    deviations.
    """
    means = np.array([group.mean for group in members])
    deviations = np.array([group.deviation for group in members])
    spread = members[-1].spread
    weights = deviations**-2.0
    if off is not None:
        weights *= shares_of_common(means @ off, deviations, spread.soft)
    kind_mean = np.average(means, axis=0, weights=weights)
    kind_line = kind_mean / np.hypot(spread.kind, weights.sum() ** -0.5)
    group_lines = (means - kind_mean) / deviations[:, None]
    return [kind_line, *group_lines]


def shares_of_common(errors: Array, deviations: Array, soft: float) -> Array:
    """The weight of each group in the common error of its kind, from 0 to 1.

    The part of a group has a Cauchy loss. The common error with the smallest loss is a weighted mean, in
    which a group has the weight 1 / (1 + (distance / soft)^2). The distance is that of its error from the
    common error, in standard deviations. The search begins at the median.

    - errors, deviations: the mean error of each group and its standard deviation.
    """
    common = float(np.median(errors))
    for _ in range(LOCATION_ROUNDS):
        shares = 1.0 / (1.0 + ((errors - common) / (soft * deviations)) ** 2)
        common = float(np.average(errors, weights=shares / deviations**2))
    return np.asarray(shares)
