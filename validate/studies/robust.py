"""The fit: least squares on logarithms, in which rows of one kind err together and far-off ones count less.

An error of a row has a part of its kind (a model on an engine and architecture), one of its group in that kind (device,
degree, version) and one of its own; `Parts` takes errors apart so. Each counts by a Cauchy loss: an engine version that
was slow on one model must not bend the constants of all. What is expected of a parameter is a row too. Errors are taken
to be linear in the logarithms of the parameters, anew in every round, so that a fit without some rows costs little.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from perfmodel.validate.solving import least_squares
from perfmodel.validate.studies.parameters import Parameter

Array = NDArray[np.float64]
Values = Mapping[str, float]
STEP = 1e-3
"""Of a finite difference, in the logarithm of a parameter."""
ROUNDS = 5
MOST_ROWS = 10
"""A group of more rows weighs as one of so many."""


@dataclass(frozen=True)
class Parts:
    """Errors of rows taken apart: `matrix` [parts, rows] times them are the parts, in standard deviations.

    soft: [parts], the size from which a part counts less.
    """

    matrix: Array
    soft: Array

    def residuals(self, off: Array) -> Array:
        """Square roots of the Cauchy loss of the parts of these errors."""
        parts = self.matrix @ off
        softened: Array = np.sign(parts) * self.soft * np.sqrt(np.log1p((parts / self.soft) ** 2))
        return softened

    def slopes(self, off: Array) -> Array:
        """d residuals / d errors, [parts, rows]."""
        parts, softened = self.matrix @ off, self.residuals(off)
        share = np.divide(parts, softened, out=np.ones_like(parts), where=softened != 0)
        return (share / (1.0 + (parts / self.soft) ** 2))[:, None] * self.matrix


@dataclass(frozen=True)
class Spread:
    """Standard deviations of the three parts of an error, and from how many of them on each counts less."""

    row: float = 0.02
    group: float = 0.02
    kind: float = 0.02
    soft: float = 2.0
    soft_row: float = 3.0


def parts_of(
    groups: Sequence[Hashable], kinds: Sequence[Hashable], train: NDArray[np.bool_], spreads: Sequence[Spread]
) -> Parts:
    """The parts of the errors of the rows of `train`, by the group and the kind of each row; spreads: of each row."""
    lines: list[Array] = []
    soft: list[float] = []
    by_kind: dict[Hashable, dict[Hashable, list[int]]] = {}
    for i in map(int, np.flatnonzero(train)):
        by_kind.setdefault(kinds[i], {}).setdefault(groups[i], []).append(i)
    for within in by_kind.values():
        means, deviations = [], []
        for index in within.values():
            spread, mean = spreads[index[0]], np.zeros(len(train))
            mean[index] = 1.0 / len(index)
            means.append(mean)
            deviations.append(np.hypot(spread.group, spread.row / min(len(index), MOST_ROWS) ** 0.5))
            share = min(1.0, MOST_ROWS / len(index)) ** 0.5 / spread.row
            for i in index:
                own = -mean * share
                own[i] += share
                lines.append(own)
                soft.append(spread.soft_row)
        weights = np.array(deviations) ** -2.0
        kind = np.average(means, axis=0, weights=weights)
        lines.append(kind / np.hypot(spread.kind, weights.sum() ** -0.5))
        soft.append(spread.soft)
        lines += [(mean - kind) / deviation for mean, deviation in zip(means, deviations, strict=True)]
        soft += [spread.soft] * len(means)
    return Parts(np.array(lines), np.array(soft))


@dataclass(frozen=True)
class FittedValues:
    """Values by place, and the covariance of their logarithms in the order of the parameters."""

    values: dict[str, float]
    covariance: Array


@dataclass(frozen=True)
class Linearised:
    """Errors of rows around some values of the parameters. slopes: [rows, parameters], by logarithms."""

    at: Values
    off: Array
    slopes: Array


Row = TypeVar("Row")


class FittedRows(ABC, Generic[Row]):
    """Measured rows in a fixed order, with their errors as functions of the parameters."""

    rows: tuple[Row, ...]
    parameters: Sequence[Parameter]

    @abstractmethod
    def off(self, values: Values) -> Array:
        """Logarithm of predicted over measured, of each row."""

    @abstractmethod
    def parts(self, train: NDArray[np.bool_]) -> Parts:
        """The parts of the errors of the rows of `train`."""

    def fit(self, start: Values | None = None, rounds: int = ROUNDS) -> tuple[FittedValues, Array]:
        """What all rows say: see `fit`."""
        return fit(self.off, self.parameters, self.parts(np.ones(len(self.rows), dtype=bool)), start, rounds)


def linear(off: Callable[[Values], Array], parameters: Sequence[Parameter], at: Values) -> Linearised:
    """By finite differences. off: errors of all rows under some values."""
    base = off(at)
    moved = (off({**at, p.place: at[p.place] * np.exp(STEP)}) for p in parameters)
    return Linearised(at, base, np.stack([(errors - base) / STEP for errors in moved], axis=1))


def solve(parameters: Sequence[Parameter], parts: Parts, near: Linearised) -> FittedValues:
    """The values with the least squared parts of the errors, which are linear, and deviations from expectations."""
    places = [p.place for p in parameters]
    expected, spread = np.log([p.expected for p in parameters]), np.array([p.spread for p in parameters])
    at = np.log([near.at[place] for place in places])

    def residuals(x: Array) -> Array:
        return np.concatenate([parts.residuals(near.off + near.slopes @ (x - at)), (x - expected) / spread])

    def slopes(x: Array) -> Array:
        by_error = parts.slopes(near.off + near.slopes @ (x - at))
        return np.concatenate([by_error @ near.slopes, np.diag(1.0 / spread)])

    end = least_squares(residuals, at, jac=slopes, x_scale=spread)
    return FittedValues(dict(zip(places, np.exp(end.x).tolist(), strict=True)), end.covariance)


def fit(
    off: Callable[[Values], Array],
    parameters: Sequence[Parameter],
    parts: Parts,
    start: Values | None = None,
    rounds: int = ROUNDS,
    slopes: Array | None = None,
) -> tuple[FittedValues, Array]:
    """The values that the rows say, and the slopes of errors around them.

    start: where the search begins; left out, at what is expected. slopes: taken as they are instead of anew in every
    round, as for a fit without some rows, which ends near the one with all.
    """
    values: Values = dict(start or {p.place: p.expected for p in parameters})
    for _ in range(rounds):
        near = linear(off, parameters, values) if slopes is None else Linearised(values, off(values), slopes)
        estimate = solve(parameters, parts, near)
        values = estimate.values
    return estimate, near.slopes
