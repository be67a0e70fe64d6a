"""How sure a predicted speedup is: the calibration's own error, never a guess.

The variance of log speedup has two parts: the fitted constants' covariance, carried through the model by finite
differences, and the error that the calibration showed on rows it was not fitted to, or, where it is another device's,
the error it showed when it was used for another device. Acceptance is taken as given; where it is carried to a draft
length at which it was not measured, what that is off by is a third.
"""

import math
from copy import copy
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from perfmodel.operations import Floats
from perfmodel.specs.calibration import CONSTANTS, Calibration, over_host
from perfmodel.specs.constants import Constant
from perfmodel.specs.engines import engines
from perfmodel.specs.fits import COVERAGE, Z, square
from perfmodel.speculation.acceptance import Acceptance
from perfmodel.speculation.chain import speedups
from perfmodel.speculation.scenario import Scenario

STEP_STDERR = 0.25
"""Finite-difference step in standard errors: small against the curvature, large against rounding."""
OF_SHARDS = ("shards_lm_head", "expert_popularity", "graph_tokens")
"""What of a calibration decides how a pass is counted."""
Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Interval:
    """An interval that should hold the measured value in `coverage` of cases."""

    low: float
    high: float
    coverage: float


def speedup_interval(scenario: Scenario, batch: float, context: float, gamma: int, speedup: float) -> Interval | None:
    """Interval around a predicted speedup; None where the calibration states no observed error (ideal).

    It ends at the tokens per iteration: no engine verifies in less than a baseline step takes.
    """
    error = log_error(scenario, np.asarray(batch), np.asarray(context), np.array([gamma]))
    if error is None:
        return Interval(1.0, 1.0, COVERAGE) if gamma == 0 else None
    factor = math.exp(Z * float(error[..., 0]))
    most = float(np.ravel(scenario.tokens_per_iteration(np.asarray(batch), gamma)[..., gamma])[0])
    return Interval(speedup / factor, max(min(speedup * factor, most), speedup), COVERAGE)


def log_error(scenario: Scenario, batch: Array, context: Array, gammas: NDArray[np.int64]) -> Array | None:
    """Standard deviation of log speedup over ``[batch, context]`` with a trailing axis of gammas, 0 at gamma 0.

    None where the calibration states no observed error (ideal).
    """
    machine = scenario.machine
    scatter = machine.calibration.error("speedup", scenario.target.name, machine.gpu)
    if scatter is None:
        return None
    beyond = np.asarray(machine.calibration.unseen_log_error(scenario.draft.kind, context))[..., None]
    variance = parameter_variance(scenario, batch, context, gammas) + scatter.deviation**2 + beyond**2
    return np.where(gammas == 0, 0.0, np.sqrt(variance + acceptance_log_error(scenario, gammas) ** 2))


def acceptance_log_error(scenario: Scenario, gammas: NDArray[np.int64] | int) -> Array:
    """Standard deviation of log tokens per iteration where a constant acceptance is carried to another draft length."""
    return np.asarray(engines().acceptance.deviation * scenario.acceptance.carried(gammas))


def ratio_log_error(scenario: Scenario, batch: float, context: float, gamma: int) -> float | None:
    """Standard deviation of the logarithm of an iteration over a baseline step; None where no error was observed."""
    known = replace(scenario.acceptance, measured_at=float(gamma))
    error = log_error(_with_acceptance(scenario, known), np.asarray(batch), np.asarray(context), np.array([gamma]))
    return None if error is None else float(error[..., 0])


def _with_acceptance(scenario: Scenario, acceptance: Acceptance) -> Scenario:
    """Shards as they are: acceptance decides nothing about a pass."""
    changed = copy(scenario)
    object.__setattr__(changed, "acceptance", acceptance)
    return changed


def step_log_error(scenario: Scenario, batch: Floats, context: Floats) -> Floats | None:
    """Standard deviation of the logarithm of a baseline step's time; None where the calibration states no error."""
    machine = scenario.machine
    scatter = machine.calibration.error("target_s", scenario.target.name, machine.gpu)
    if scatter is None:
        return None
    if not machine.over_host:
        return scatter.deviation
    step = scenario.target_step(batch, context)
    return np.hypot(scatter.deviation, over_host().box_log_rms * step.comm_s / step.predicted_s)


def interval_of(predicted: float, *log_errors: float) -> Interval:
    """Interval around a prediction with these independent errors of its logarithm."""
    factor = math.exp(Z * math.hypot(*log_errors))
    return Interval(predicted / factor, predicted * factor, COVERAGE)


def is_transferred(scenario: Scenario) -> bool:
    """True where the calibration is another device's."""
    c = scenario.machine.calibration
    return c.gpu is not None and c.gpu != scenario.machine.gpu.name


def parameter_variance(scenario: Scenario, batch: Array, context: Array, gammas: NDArray[np.int64]) -> Array:
    """Variance of log speedup from the covariance of the fitted constants, and from what a PCIe box may be.

    Over ``[batch, context]`` with a trailing axis of gammas; 0 where no constant was fitted and no box matters.
    """
    c = scenario.machine.calibration
    base = np.log(speedups(scenario, batch, context, gammas))

    def slope(name: str, step: float) -> Array:
        """Change of log speedup by a change of a constant."""
        values = {name: _constant(c, name).value + step}
        changed = speedups(with_calibration(scenario, with_values(c, values)), batch, context, gammas)
        return np.asarray(np.log(changed) - base)

    variance = np.zeros_like(base)
    if c.fit is not None:
        slopes = []
        for name in c.fit.parameters:
            constant, step = _constant(c, name), STEP_STDERR
            if CONSTANTS[name].unit == "fraction":  # which must neither pass 1 nor reach 0
                step = -min(step, constant.value / (2 * constant.stderr)) if constant.stderr else -step
            slopes.append(slope(name, step * (constant.stderr or 0.0)) / step)
        stacked = np.stack(slopes)
        variance = np.maximum(np.einsum("i...,ij,j...->...", stacked, correlation(c), stacked), 0.0)
    if scenario.machine.over_host:
        step = STEP_STDERR * c.allreduce_multiplier.value
        variance = variance + (over_host().box_log_rms / STEP_STDERR * slope("allreduce_multiplier", step)) ** 2
    return variance


def with_calibration(scenario: Scenario, calibration: Calibration) -> Scenario:
    """The same question answered with another calibration; shards are worked out anew only where they differ."""
    machine, before = replace(scenario.machine, calibration=calibration), scenario.machine.calibration
    if any(getattr(calibration, name) != getattr(before, name) for name in OF_SHARDS):
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
