"""The variance of ln(speedup) that is due to the errors of fitted constants. If devices communicate over
PCIe, differences between machines also contribute.

The covariance of the fit is propagated through the model with finite differences.
"""

import numpy as np

from perfmodel.operations import Array
from perfmodel.specs import CONSTANTS, Constant, over_host
from perfmodel.specs.calibrations.fit_errors import square
from perfmodel.speculation.changed_constants import constant_of, with_calibration, with_values
from perfmodel.speculation.evidence import speedup_class
from perfmodel.speculation.iteration import Passes
from perfmodel.speculation.scenario import Scenario

STEP_STDERR = 0.25
"""Step of a finite difference, in standard errors: small against the curvature, large against rounding."""
EXPERT_CONSTANTS = ("expert_popularity", "routing_independence")
"""Constants of a fit that change how routed experts are counted."""


def variance_of(scenario: Scenario, passes: Passes) -> Array:
    """The variance of ln(speedup) that is due to the fitted constants, and to differences between machines
    with PCIe.

    The result is over ``[gamma, batch, context]``. It is 0 without fitted constants and without PCIe.
    Constants do not contribute if the error of the speedup was measured on left-out sources, because that
    error already includes theirs.
    """
    c = scenario.machine.calibration
    fit = c.fit if speedup_class(scenario) is None else None
    if fit is None and not scenario.machine.over_host:
        return np.zeros((len(passes.gammas), *np.broadcast_shapes(passes.batch.shape, passes.context.shape)))
    changes = _Changes(scenario, passes)
    variance = np.zeros_like(changes.log_speedups)
    if fit is not None:
        slopes = []
        for name in fit.parameters:
            constant = constant_of(c, name)
            step = _step_of(name, constant)
            slopes.append(changes.of(name, step * (constant.stderr or 0.0)) / step)
        stacked = np.stack(slopes)
        variance = np.maximum(np.einsum("i...,ij,j...->...", stacked, square(fit.correlation), stacked), 0.0)
    if scenario.machine.over_host:
        change = changes.of("allreduce_multiplier", STEP_STDERR * c.allreduce_multiplier.value)
        variance = variance + (over_host().box_log_rms / STEP_STDERR * change) ** 2
    return variance


class _Changes:
    """Changes of ln(speedup) when one constant changes. Only the operations that the constant affects are
    timed again.
    """

    def __init__(self, scenario: Scenario, passes: Passes) -> None:
        self._scenario = scenario
        self._passes = passes
        self._known = passes.op_seconds(scenario)
        self.log_speedups = np.log(passes.speedups(scenario, self._known))

    def of(self, name: str, step: float) -> Array:
        """The change of ln(speedup) if a constant is larger by `step`, over ``[gamma, batch, context]``."""
        scenario = self._scenario
        passes = self._passes
        c = scenario.machine.calibration
        moved = with_calibration(scenario, with_values(c, {name: constant_of(c, name).value + step}))
        if name in EXPERT_CONSTANTS and scenario.target.moe:
            again = Passes(moved, passes.batch, passes.context, passes.gammas).speedups(moved)
        else:
            again = passes.speedups(moved, passes.op_seconds(moved, self._known, CONSTANTS[name].work))
        return np.asarray(np.log(again) - self.log_speedups)


def _step_of(name: str, constant: Constant) -> float:
    """The step of a finite difference in standard errors. A fraction must not exceed 1 or reach 0."""
    if CONSTANTS[name].unit != "fraction":
        return STEP_STDERR
    if not constant.stderr:
        return -STEP_STDERR
    return -min(STEP_STDERR, constant.value / (2 * constant.stderr))
