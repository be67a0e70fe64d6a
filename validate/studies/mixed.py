"""A mixed-effects fit of the log errors of predictions: contributions of engine, device and source.

    y = sum over terms k of u_k(level of the row) + e,   u_k ~ N(0, sigma_k^2),   e ~ t(0, tau_c^2) by class c

The deviations maximise the marginal likelihood (REML: levels are integrated out; Patterson and Thompson 1971,
Biometrika 58). The levels are their best linear unbiased predictions at these deviations. All of it is one
regularised least-squares problem with one unknown per level, so leaving a source out is one small
factorisation. Distant rows have less weight (Student's t by reweighting: Lange et al. 1989, JASA 84).
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize

from perfmodel.validate.studies.robust import Array

FREEDOM = 4.0
"""Degrees of freedom of the errors of rows."""
ROUNDS = 3
"""Rounds of weights and deviations in turn."""
EXPECTED, SPREAD = 0.1, 1.2
"""Expected size of a deviation, and its spread in e-folds, because a single level shows no variance."""
BOUNDS = (-5.0, 1.0)
"""Bounds of the logarithm of a deviation."""


@dataclass
class MixedEffects:
    """off: logarithms to explain. levels: term -> level of each row. classes: rows with equal spread.

    deviations: standard deviation of each term. residuals: of the remainder, by class.
    """

    off: Array
    levels: Mapping[str, Sequence[Hashable]]
    classes: Sequence[str]
    deviations: dict[str, float] = field(init=False)
    residuals: dict[str, float] = field(init=False)

    def __post_init__(self) -> None:
        self._places: dict[tuple[str, Hashable], int] = {}
        for term, of_rows in self.levels.items():
            for level in of_rows:
                self._places.setdefault((term, level), len(self._places))
        terms = [term for term, _ in self._places]
        self._term = np.array([list(self.levels).index(term) for term in terms])
        self._own = np.array(
            [[self._places[term, level] for level in of] for term, of in self.levels.items()]
        ).T
        classes, self._class = np.unique(self.classes, return_inverse=True)
        rows = np.ones(len(self.off))
        logs = np.full(len(self.levels) + len(classes), np.log(EXPECTED))
        for _ in range(ROUNDS):
            self._weights = rows
            logs = minimize(self._loss, logs, jac=True, method="L-BFGS-B", bounds=[BOUNDS] * len(logs)).x
            fitted, _ = self._solve(logs, np.ones(len(self.off)))
            noise = np.exp(2.0 * logs[len(self.levels) :])[self._class]
            squares = (self.off - self._sums(fitted)) ** 2 / noise
            rows = (FREEDOM + 1.0) / (FREEDOM + squares)
        self._logs = logs
        found = np.exp(logs).tolist()
        self.deviations = dict(zip(self.levels, found, strict=False))
        self.residuals = dict(zip(classes.tolist(), found[len(self.levels) :], strict=True))

    def _sums(self, fitted: Array) -> Array:
        """Sum of the levels of each row."""
        return np.asarray(fitted[self._own].sum(axis=1))

    def _precisions(self, logs: Array) -> tuple[Array, Array]:
        """Precisions of levels, and of rows."""
        of_rows = np.exp(-2.0 * logs[len(self.levels) :])[self._class]
        return np.exp(-2.0 * logs[: len(self.levels)])[self._term], of_rows * self._weights

    def _solve(self, logs: Array, keep: Array) -> tuple[Array, Array]:
        """Levels, and their covariance. keep: 1 or 0 for each row."""
        of_levels, of_rows = self._precisions(logs)
        precision = np.diag(of_levels)
        counts = of_rows * keep
        right = np.zeros(len(of_levels))
        np.add.at(precision, (self._own[:, :, None], self._own[:, None, :]), counts[:, None, None])
        np.add.at(right, self._own, (counts * self.off)[:, None])
        covariance = cho_solve(cho_factor(precision), np.eye(len(right)))
        return covariance @ right, covariance

    def _spread(self, covariance: Array) -> Array:
        """Variance of the sum of each row's levels."""
        return np.asarray(covariance[self._own[:, :, None], self._own[:, None, :]].sum(axis=(1, 2)))

    def _loss(self, logs: Array) -> tuple[float, Array]:
        """Negative logarithm of the marginal likelihood with the priors of the deviations, and its slopes."""
        of_levels, of_rows = self._precisions(logs)
        fitted, covariance = self._solve(logs, np.ones(len(self.off)))
        left = self.off - self._sums(fitted)
        unexpected = (logs - np.log(EXPECTED)) / SPREAD**2
        squares = of_rows @ left**2 + of_levels @ fitted**2
        volume = -np.linalg.slogdet(covariance)[1] - np.log(of_levels).sum() - np.log(of_rows).sum()
        loss = 0.5 * (squares + volume + unexpected @ (logs - np.log(EXPECTED)))
        levels = 1.0 - of_levels * (fitted**2 + np.diag(covariance))
        rows = 1.0 - of_rows * (left**2 + self._spread(covariance))
        slopes = np.concatenate((np.bincount(self._term, levels), np.bincount(self._class, rows)))
        return float(loss), slopes + unexpected

    def left_out(self, folds: Sequence[Hashable]) -> tuple[Array, Array]:
        """The unexplained part of each row and its standard deviation, with levels estimated without its
        fold.
        """
        left = np.empty(len(self.off))
        deviation = np.empty(len(self.off))
        names = np.array([str(fold) for fold in folds])
        noise = np.exp(2.0 * self._logs[len(self.levels) :])
        for name in np.unique(names):
            mine = names == name
            fitted, covariance = self._solve(self._logs, np.where(mine, 0.0, 1.0))
            left[mine] = (self.off - self._sums(fitted))[mine]
            deviation[mine] = np.sqrt(self._spread(covariance) + noise[self._class])[mine]
        return left, deviation
