"""Fitting the engines' constants: least squares on logarithms, in which rows of one model or group err together.

A row's error has a part of its model on that engine and architecture, one of its group (model, device, degree, version)
and one of its own. Groups of many rows weigh as ten. The parts are taken by a Cauchy loss: an engine version that was
slow on one model must not bend the constants of all. Expectations of the recipe are rows too.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perfmodel.specs.engines import architecture_of
from perfmodel.validate.solving import least_squares
from perfmodel.validate.studies.parameters import Parameter
from perfmodel.validate.studies.steps import Array, DecodeRows, group_of

ROW, GROUP, MODEL = 0.02, 0.02, 0.02
"""Standard deviations of the three parts: repeats of one configuration differ by 0.3 to 3.3 %, versions by more."""
MOST_ROWS = 10
STEP = 1e-3
"""Of a finite difference, in the logarithm of a parameter."""
ROUNDS, EVALUATIONS = 5, 12
"""Of linearised errors, and of a solution in one of them."""
SOFT, SOFT_ROW = 2.0, 3.0
"""Standard deviations beyond which an error counts less."""


@dataclass(frozen=True)
class Found:
    """Values by place, and the covariance of their logarithms in the order of the parameters."""

    values: dict[str, float]
    covariance: Array


def weigh_steps(rows: DecodeRows, train: NDArray[np.bool_]) -> Callable[[Array], Array]:
    """The three parts of the errors of the rows of `train`, in standard deviations, softened."""
    index = np.flatnonzero(train)
    numbers: dict[Hashable, int] = {}
    models: dict[Hashable, int] = {}
    model_of: list[int] = []
    for i in index:
        row = rows.rows[i]
        model = models.setdefault((row.engine, row.model, architecture_of(row.hardware)), len(models))
        if numbers.setdefault((*group_of(row), row.engine_version[:4]), len(numbers)) == len(model_of):
            model_of.append(model)
    group = np.array([numbers[(*group_of(rows.rows[i]), rows.rows[i].engine_version[:4])] for i in index])
    count, of = np.bincount(group), np.array(model_of)
    spread = np.sqrt(GROUP**2 + ROW**2 / np.minimum(count, MOST_ROWS))
    weight = np.bincount(of, spread**-2.0)
    share = (np.minimum(1.0, MOST_ROWS / count) ** 0.5 / ROW)[group]

    def weigh(off: Array) -> Array:
        means = np.bincount(group, off[index]) / count
        mean = np.bincount(of, means * spread**-2.0) / weight
        return np.concatenate(
            [
                _soft(mean / np.sqrt(MODEL**2 + 1.0 / weight), SOFT),
                _soft((means - mean[of]) / spread, SOFT),
                _soft((off[index] - means[group]) * share, SOFT_ROW),
            ]
        )

    return weigh


def _soft(deviations: Array, width: float) -> Array:
    """Square roots of the Cauchy loss."""
    soft: Array = np.sign(deviations) * width * np.sqrt(np.log1p((deviations / width) ** 2))
    return soft


def solve(
    parameters: Sequence[Parameter],
    residual: Callable[[Mapping[str, float]], Array],
    start: Mapping[str, float],
) -> Found:
    """Least squares over the logarithms of the parameters from `start`, with their expectations beside `residual`."""
    expected = np.log([p.expected for p in parameters])
    spread = np.array([p.spread for p in parameters])
    places = [p.place for p in parameters]

    def fun(x: Array) -> Array:
        values = dict(zip(places, np.exp(x).tolist(), strict=True))
        return np.concatenate([residual(values), (x - expected) / spread])

    first = np.log([start[place] for place in places])
    found = least_squares(fun, first, x_scale=spread, max_nfev=EVALUATIONS)
    return Found(dict(zip(places, np.exp(found.x).tolist(), strict=True)), found.covariance)


@dataclass(frozen=True)
class Slopes:
    """How the errors of rows (logarithms) move with the logarithm of every parameter, around some values.

    off: errors of all rows under some values of the parameters.
    """

    off: Callable[[Mapping[str, float]], Array]
    parameters: Sequence[Parameter]
    by_parameter: Array

    @classmethod
    def at(
        cls, off: Callable[[Mapping[str, float]], Array], parameters: Sequence[Parameter], values: Mapping[str, float]
    ) -> "Slopes":
        """By finite differences."""
        base = off(values)
        moved = (off({**values, p.place: values[p.place] * np.exp(STEP)}) for p in parameters)
        return cls(off, parameters, np.stack([(each - base) / STEP for each in moved], axis=1))

    def fit(self, weigh: Callable[[Array], Array], start: Mapping[str, float], rounds: int = 2) -> Found:
        """Least squares of `weigh` (of the errors): errors are taken as linear, anew in every round."""
        found = Found(dict(start), np.zeros((0, 0)))
        places = [p.place for p in self.parameters]
        for _ in range(rounds):
            base, at = self.off(found.values), np.log([found.values[place] for place in places])

            def residual(values: Mapping[str, float], base: Array = base, at: Array = at) -> Array:
                return weigh(base + self.by_parameter @ (np.log([values[place] for place in places]) - at))

            found = solve(self.parameters, residual, found.values)
        return found


def fit_anew(
    off: Callable[[Mapping[str, float]], Array],
    parameters: Sequence[Parameter],
    weigh: Callable[[Array], Array],
    start: Mapping[str, float] | None = None,
    rounds: int = ROUNDS,
) -> tuple[Found, Slopes]:
    """The constants that the rows say, with slopes taken anew in every round, and the slopes around them.

    start: where the search begins; left out, at what is expected.
    """
    values = dict(start or {p.place: p.expected for p in parameters})
    for _ in range(rounds):
        found = Slopes.at(off, parameters, values).fit(weigh, values, rounds=1)
        values = found.values
    return found, Slopes.at(off, parameters, values)


def fit(rows: DecodeRows) -> tuple[Found, Slopes]:
    """The constants that all rows of steps say, and the slopes around them."""
    everything = np.ones(len(rows.rows), dtype=bool)
    return fit_anew(rows.off, rows.parameters, weigh_steps(rows, everything))
