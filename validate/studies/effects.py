"""The scales of errors of predictions for sources left out, and the error to expect of a source not yet seen.

    e = u(source) + v(server) + w(row),   each Student t with a scale of its own

e is the logarithm of predicted over measured, and t has `FREEDOM` degrees of freedom. A t variable is a
normal one whose precision is multiplied by a gamma variable, so every conditional distribution is a standard
one and the posterior is drawn by Gibbs sampling (Gelman et al., Bayesian Data Analysis, 3rd ed., 12.1 and
17.2). A scale has an inverse chi-squared prior with `PRIOR_FREEDOM` degrees of freedom around `PRIOR_SCALE`:
one level's worth of knowledge.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perfmodel.specs import COVERAGE
from perfmodel.validate.studies.robust import Array

FREEDOM = 4.0
"""Degrees of freedom of the three effects."""
PRIOR_SCALE, PRIOR_FREEDOM = 0.05, 1.0
"""Expected scale of an effect, and the number of levels that this expectation counts as."""
BURN_IN, DRAWS = 500, 4000
"""Draws that are thrown away, and draws that are kept."""
SEED = 57


@dataclass
class Effect:
    """The levels of one term and their present draw.

    level: [rows], the level of each row. values: [levels]. precisions: [levels], the gamma variables.
    """

    level: NDArray[np.intp]
    values: Array
    precisions: Array
    variance: float = PRIOR_SCALE**2

    @classmethod
    def of(cls, names: Sequence[Hashable]) -> "Effect":
        """The term with these names of levels, one for each row."""
        places = {name: i for i, name in enumerate(dict.fromkeys(names))}
        level = np.array([places[name] for name in names])
        return cls(level, np.zeros(len(places)), np.ones(len(places)))

    @property
    def of_rows(self) -> Array:
        """[rows], the value of each row's level."""
        return np.asarray(self.values[self.level])

    def draw_values(self, rng: np.random.Generator, left: Array, of_rows: "Effect") -> None:
        """Draws the levels, given what the other terms leave of each row and the rows' own precisions."""
        levels = len(self.values)
        weights = of_rows.precisions / of_rows.variance
        precision = np.bincount(self.level, weights, levels) + self.precisions / self.variance
        mean = np.bincount(self.level, weights * left, levels) / precision
        self.values = rng.normal(mean, precision**-0.5)

    def draw_scale(self, rng: np.random.Generator) -> None:
        """Draws the precision of each level, and then the variance of the term."""
        squares = self.values**2
        rate = 0.5 * (FREEDOM + squares / self.variance)
        self.precisions = rng.gamma(0.5 * (FREEDOM + 1.0), 1.0 / rate)
        freedom = PRIOR_FREEDOM + len(squares)
        total = PRIOR_FREEDOM * PRIOR_SCALE**2 + float(self.precisions @ squares)
        self.variance = total / float(rng.chisquare(freedom))


def scales(off: Array, sources: Sequence[Hashable], servers: Sequence[Hashable], draws: int = DRAWS) -> Array:
    """[draws, 3], draws of the scales of a source, a server and a row from their posterior.

    off: [rows], the errors. sources, servers: names of each row's levels.
    """
    rng = np.random.default_rng(SEED)
    source = Effect.of(sources)
    server = Effect.of(servers)
    row = Effect.of(range(len(off)))
    kept = np.empty((draws, 3))
    for done in range(-BURN_IN, draws):
        source.draw_values(rng, off - server.of_rows, row)
        server.draw_values(rng, off - source.of_rows, row)
        row.values = off - source.of_rows - server.of_rows
        for effect in (source, server, row):
            effect.draw_scale(rng)
        if done >= 0:
            kept[done] = [effect.variance**0.5 for effect in (source, server, row)]
    return kept


def log_within(drawn: Array) -> float:
    """The size that the error of a new row of a new source does not exceed with probability `COVERAGE`.

    drawn: [draws, 3], see `scales`. The posterior predictive distribution is drawn once per draw.
    """
    rng = np.random.default_rng(SEED)
    effects = drawn * rng.standard_t(FREEDOM, drawn.shape)
    return float(np.quantile(np.abs(effects.sum(axis=1)), COVERAGE))


def log_within_of_prior() -> float:
    """`log_within` without any row."""
    squares = np.random.default_rng(SEED).chisquare(PRIOR_FREEDOM, (DRAWS, 3))
    return log_within(PRIOR_SCALE * (PRIOR_FREEDOM / squares) ** 0.5)
