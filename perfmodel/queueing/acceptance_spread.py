"""Acceptance that differs between requests: a Beta distribution around its mean."""

import math
from functools import cache
from typing import NamedTuple

import numpy as np

from perfmodel.operations import Array
from perfmodel.queueing.moments import shares_of
from perfmodel.speculation.acceptance import alpha_from_tokens_per_iteration

BETA_STEPS = 400
"""Number of values that represent a Beta distribution."""
LEAST_PARAMETER = 0.3
"""Lower bound of the smaller parameter of a Beta distribution. With a smaller parameter, most requests accept
all or nothing, and no distribution reaches the gain of a constant acceptance near 1.
"""


class GainSpread(NamedTuple):
    """The variation of the gain Omega (tokens per iteration). All values are dimensionless.

    - between, third: variance and third central moment of 1/Omega between requests, divided by the square and
      the cube of its mean.
    - within: variance of an iteration's gain divided by the mean gain. For an output of n tokens, `within` /
      n is the squared coefficient of variation of the number of iterations.
    """

    between: float
    third: float
    within: float


class BetaParameters(NamedTuple):
    """The two parameters of the Beta distribution of an acceptance: the usual alpha (`accepted`) and beta
    (`rejected`).
    """

    accepted: float
    rejected: float


class BetaValues(NamedTuple):
    """Values of a Beta distribution and their weights, which sum to 1."""

    values: Array
    weights: Array


@cache
def gain_spread(gamma: int, gained: float, spread: float) -> GainSpread:
    """The variation of the tokens per iteration with a draft of `gamma` tokens, if the acceptance of requests
    has a Beta distribution.

    - gained: the mean tokens per iteration, 1/E[1/Omega]. Engines count it as tokens divided by iterations.
    - spread: standard deviation of the acceptance.
    """
    if gained <= 1:
        return GainSpread(0.0, 0.0, 0.0)
    alpha = float(alpha_from_tokens_per_iteration(gained, float(gamma)))
    position = np.arange(gamma + 1.0)
    square = np.sum((2.0 * position + 1.0) * alpha**position)
    within = float(square - gained**2) / gained
    if spread == 0 or alpha == 1:
        return GainSpread(0.0, 0.0, within)
    nodes, weights = beta_weights(beta_of(alpha, spread))
    inverse = 1.0 / np.sum(nodes[:, None] ** position, -1)
    off = inverse / (weights @ inverse) - 1.0
    return GainSpread(float(weights @ off**2), float(weights @ off**3), within)


def beta_of(alpha: float, spread: float) -> BetaParameters:
    """Parameters of the Beta distribution with the mean `alpha` (between 0 and 1) and the standard deviation
    `spread` (above 0). A `spread` above the largest possible value is reduced to that value.
    """
    least = LEAST_PARAMETER / min(alpha, 1.0 - alpha)
    concentration = max(alpha * (1.0 - alpha) / spread**2 - 1.0, least)
    return BetaParameters(alpha * concentration, (1.0 - alpha) * concentration)


def possible_spread(alpha: float, spread: float) -> float:
    """The standard deviation of the distribution that `beta_of` returns: `spread`, or the largest possible
    value if `spread` is above it.
    """
    return math.sqrt(alpha * (1.0 - alpha) / (1.0 + sum(beta_of(alpha, spread))))


def beta_weights(parameters: BetaParameters) -> BetaValues:
    """Values sin^2(theta) of a Beta distribution at evenly spaced theta, and their weights."""
    theta = (np.arange(BETA_STEPS) + 0.5) * (np.pi / 2.0 / BETA_STEPS)
    sine = np.sin(theta)
    log_sine = (2.0 * parameters.accepted - 1.0) * np.log(sine)
    log_cosine = (2.0 * parameters.rejected - 1.0) * np.log(np.cos(theta))
    log_density = log_sine + log_cosine
    return BetaValues(sine**2, shares_of(log_density))
