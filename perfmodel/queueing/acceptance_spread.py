"""Acceptance that differs between requests: a Beta distribution around its mean."""

import math
from functools import cache

import numpy as np

from perfmodel.operations import Array
from perfmodel.queueing.moments import shares_of
from perfmodel.speculation.acceptance import alpha_from_tokens_per_iteration

BETA_STEPS = 400
LEAST_PARAMETER = 0.3
"""Smaller parameter of a Beta distribution, at least. With less, most requests accept all or nothing, and no
acceptance near 1 gains as much as its mean.
"""


@cache
def gain_spread(gamma: int, gained: float, spread: float) -> tuple[float, float, float]:
    """Variance and third moment of 1/Omega over requests, divided by powers of its mean, and the variance of
    an iteration's gain.

    The last is divided by the mean gain, so it is the squared deviation of one token's iterations. Acceptance
    has a Beta distribution. It keeps 1/E[1/Omega] at `gained`, because engines count iterations.
    """
    if gained <= 1:
        return 0.0, 0.0, 0.0
    alpha = float(alpha_from_tokens_per_iteration(gained, float(gamma)))
    position = np.arange(gamma + 1.0)
    square = np.sum((2.0 * position + 1.0) * alpha**position)
    within = float(square - gained**2) / gained
    if spread == 0 or alpha == 1:
        return 0.0, 0.0, within
    nodes, weights = beta_weights(*beta_of(alpha, spread))
    inverse = 1.0 / np.sum(nodes[:, None] ** position, -1)
    off = inverse / (weights @ inverse) - 1.0
    return float(weights @ off**2), float(weights @ off**3), within


def beta_of(alpha: float, spread: float) -> tuple[float, float]:
    """Parameters of the Beta distribution with this mean (not 0 or 1) and standard deviation (not 0), or with
    the largest possible deviation.
    """
    least = LEAST_PARAMETER / min(alpha, 1.0 - alpha)
    concentration = max(alpha * (1.0 - alpha) / spread**2 - 1.0, least)
    return alpha * concentration, (1.0 - alpha) * concentration


def possible_spread(alpha: float, spread: float) -> float:
    """The standard deviation of the distribution of `beta_of`: `spread`, or the largest possible one."""
    return math.sqrt(alpha * (1.0 - alpha) / (1.0 + sum(beta_of(alpha, spread))))


def beta_weights(a: float, b: float) -> tuple[Array, Array]:
    """Values of a Beta distribution and their weights, at even steps of theta with value sin^2(theta)."""
    theta = (np.arange(BETA_STEPS) + 0.5) * (np.pi / 2.0 / BETA_STEPS)
    sine = np.sin(theta)
    log_sine = (2.0 * a - 1.0) * np.log(sine)
    log_cosine = (2.0 * b - 1.0) * np.log(np.cos(theta))
    log_density = log_sine + log_cosine
    return sine**2, shares_of(log_density)
