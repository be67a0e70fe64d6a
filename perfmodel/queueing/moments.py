"""Sums and percentiles of random times from three moments.

The means, variances and third central moments of independent times add up. Percentiles are those of the
Pearson III (shifted gamma) distribution with these moments. Percentiles are computed with the approximation
of Wilson and Hilferty (1931). The inverse of this approximation also has a closed form.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from perfmodel.operations import Array, Floats

NORMAL = {0.5: 0.0, 0.9: 1.2815515655446004, 0.99: 2.3263478740408408}
"""The quantile of the standard normal distribution for each probability."""
MOST_SKEW = 2.0
"""Largest skewness that is used: that of an exponential distribution. Above it, the approximation of Wilson
and Hilferty is poor.
"""
LEAST_SKEW = 1e-3
"""Skewness below which a normal distribution is used, because the approximation divides by it."""


class _Shape(NamedTuple):
    """A distribution about its mean: the standard deviation, and a sixth of the skewness."""

    deviation: Array
    sixth: Array


@dataclass(frozen=True, slots=True)
class Moments:
    """A random time: its mean, variance and third central moment. The time is never below `least`."""

    mean: Floats
    variance: Floats = 0.0
    third: Floats = 0.0
    least: Floats = 0.0

    def __add__(self, other: "Moments") -> "Moments":
        """The sum of two independent times."""
        return Moments(
            np.add(self.mean, other.mean),
            np.add(self.variance, other.variance),
            np.add(self.third, other.third),
            np.add(self.least, other.least),
        )

    def times(self, factor: Floats) -> "Moments":
        """The time multiplied by a number."""
        f = np.asarray(factor)
        return Moments(f * self.mean, f**2 * self.variance, f**3 * self.third, f * self.least)

    @property
    def _shape(self) -> _Shape:
        deviation = np.sqrt(np.maximum(self.variance, 0.0))
        cube = deviation**3  # 0 for very small times
        zeros = np.zeros_like(cube + self.third)
        skew = np.divide(self.third, cube, out=zeros, where=cube > 0)
        skew = np.clip(skew, -MOST_SKEW, MOST_SKEW)
        skew = np.where(np.abs(skew) < LEAST_SKEW, LEAST_SKEW, skew)
        return _Shape(deviation, skew / 6.0)

    def quantiles(self, *shares: float) -> Array:
        """The quantiles at the given probabilities (0.5, 0.9 or 0.99), along the first axis."""
        deviation, sixth = self._shape
        normal = np.reshape([NORMAL[share] for share in shares], (-1, *(1,) * deviation.ndim))
        cubed = (1.0 + sixth * normal - sixth**2) ** 3
        z = (cubed - 1.0) / (3.0 * sixth)
        return np.maximum(self.mean + deviation * z, self.least)

    def below(self, limit: Floats) -> Array:
        """The probability that the time is at or below a limit."""
        deviation, sixth = self._shape
        over = limit - np.asarray(self.mean)
        endless = np.full_like(deviation, np.inf)
        away = np.divide(over, deviation, out=endless, where=deviation > 0)
        away = np.where((deviation > 0) | (np.asarray(self.mean) <= limit), away, -np.inf)
        inner = np.maximum(1.0 + 3.0 * sixth * away, 0.0)
        share = normal_share((np.cbrt(inner) - 1.0 + sixth**2) / sixth)
        share = np.where(np.less(limit, self.least), 0.0, share)
        return np.where(np.isinf(away), away > 0, share)


def mixed(weights: Array, part: Moments) -> Moments:
    """The moments of the mixture of the distributions along the last axis.

    - weights: probabilities, which sum to 1 along that axis.
    """
    mean = np.sum(weights * part.mean, -1)
    off = part.mean - mean[..., None]
    square = off * off
    variance = np.sum(weights * (part.variance + square), -1)
    thirds = part.third + off * (3.0 * part.variance + square)
    least = np.min(np.broadcast_to(part.least, off.shape), -1)
    return Moments(mean, variance, np.sum(weights * thirds, -1), least)


def shares_of(logs: Array) -> Array:
    """Scales numbers to shares that sum to 1 along the last axis.

    - logs: logarithms of the numbers.
    """
    parts = np.exp(logs - logs.max(-1, keepdims=True))
    return np.asarray(parts / parts.sum(-1, keepdims=True))


def uniform(width: Floats) -> Moments:
    """The uniform distribution from 0 to `width`."""
    widths = np.asarray(width)
    return Moments(widths / 2.0, np.square(widths) / 12.0, np.zeros_like(widths, float))


def sometimes(chance: Floats, mean: Floats) -> Moments:
    """A time that is 0 with probability 1 - `chance`, and otherwise exponentially distributed with this
    mean.
    """
    p = np.asarray(chance, float)
    m = np.asarray(mean, float)
    first = p * m
    second = 2.0 * p * m**2
    about_0 = 6.0 * p * m**3
    third = about_0 - 3.0 * first * second + 2.0 * first**3
    return Moments(first, second - first**2, third)


def normal_share(z: Floats) -> Array:
    """Probability of a standard normal variable below z, within 2e-7 (Abramowitz and Stegun 7.1.26)."""
    x = np.abs(np.asarray(z, float)) / np.sqrt(2.0)
    t = 1.0 / (1.0 + 0.3275911 * x)
    series = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    return 0.5 + np.copysign(0.5 - 0.5 * series * np.exp(-(x**2)), z)
