"""How sure a predicted speedup is: the calibration's own error, never a guess.

The variance of log speedup has two parts: the fitted constants' covariance, carried through the model by finite
differences, and the error that the calibration showed on rows it was not fitted to, or, where it is another device's,
the error it showed when it was used for another device. Acceptance is taken as given.
"""

import math
from copy import copy
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from perfmodel.specs.calibration import CONSTANTS, Calibration
from perfmodel.specs.constants import Constant
from perfmodel.specs.fits import square
from perfmodel.speculation.chain import speedups
from perfmodel.speculation.scenario import Scenario

COVERAGE = 0.90
Z = 1.6448536269514722
"""Two-sided normal quantile of COVERAGE."""
STEP_STDERR = 0.25
"""Finite-difference step in standard errors: small against the curvature, large against rounding."""
Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Interval:
    """A speedup interval that should hold the measured value in `coverage` of cases."""

    low: float
    high: float
    coverage: float


def speedup_interval(scenario: Scenario, batch: float, context: float, gamma: int, speedup: float) -> Interval | None:
    """Interval around a predicted speedup; None where the calibration states no observed error (ideal)."""
    error = log_error(scenario, np.asarray(batch), np.asarray(context), np.array([gamma]))
    if error is None:
        return Interval(1.0, 1.0, COVERAGE) if gamma == 0 else None
    factor = math.exp(Z * float(error[..., 0]))
    return Interval(speedup / factor, speedup * factor, COVERAGE)


def log_error(scenario: Scenario, batch: Array, context: Array, gammas: NDArray[np.int64]) -> Array | None:
    """Standard deviation of log speedup over ``[batch, context]`` with a trailing axis of gammas, 0 at gamma 0.

    None where the calibration states no observed error (ideal).
    """
    c = scenario.machine.calibration
    scatter = c.transfer_error if is_transferred(scenario) else c.observed_error.get("speedup")
    if scatter is None:
        return None
    variance = parameter_variance(scenario, batch, context, gammas) + scatter.log_rms**2
    return np.where(gammas == 0, 0.0, np.sqrt(variance))


def is_transferred(scenario: Scenario) -> bool:
    """True where the calibration is another device's."""
    c = scenario.machine.calibration
    return c.gpu is not None and c.gpu != scenario.machine.gpu.name


def parameter_variance(scenario: Scenario, batch: Array, context: Array, gammas: NDArray[np.int64]) -> Array:
    """Variance of log speedup from the covariance of the fitted constants; 0 where none was fitted.

    Over ``[batch, context]`` with a trailing axis of gammas.
    """
    c = scenario.machine.calibration
    base = np.log(speedups(scenario, batch, context, gammas))
    if c.fit is None:
        return np.zeros_like(base)
    slopes = []
    for name in c.fit.parameters:
        constant, step = _constant(c, name), STEP_STDERR
        if CONSTANTS[name].unit == "fraction":  # which must neither pass 1 nor reach 0
            step = -min(step, constant.value / (2 * constant.stderr)) if constant.stderr else -step
        values = {name: constant.value + step * (constant.stderr or 0.0)}
        changed = speedups(with_calibration(scenario, with_values(c, values)), batch, context, gammas)
        slopes.append((np.log(changed) - base) / step)
    slope = np.stack(slopes)
    return np.maximum(np.einsum("i...,ij,j...->...", slope, correlation(c), slope), 0.0)


def with_calibration(scenario: Scenario, calibration: Calibration) -> Scenario:
    """The same question answered with another calibration; shards are worked out anew only where they differ."""
    machine = replace(scenario.machine, calibration=calibration)
    if calibration.shards_lm_head != scenario.machine.calibration.shards_lm_head:
        return replace(scenario, machine=machine)
    changed = copy(scenario)
    object.__setattr__(changed, "machine", machine)
    object.__setattr__(changed, "draft_machine", replace(scenario.draft_machine, calibration=calibration))
    return changed


def with_values(c: Calibration, values: dict[str, float]) -> Calibration:
    """A calibration with some constants' values exchanged; bounds are the caller's to keep."""
    return c.model_copy(update={name: _constant(c, name).model_copy(update={"value": v}) for name, v in values.items()})


def correlation(c: Calibration) -> Array:
    """Correlation matrix of the fitted constants, in the order of `fit.parameters`."""
    return square(c.fit.correlation) if c.fit else np.zeros((0, 0))


def _constant(c: Calibration, name: str) -> Constant:
    constant = getattr(c, name)
    assert isinstance(constant, Constant)
    return constant
