"""Computes the error of a predicted speedup or step, as the standard deviation of its logarithm.

For serving engines and llama.cpp, it is the error on public sources that were left out of the fit
(`source_errors`). For other calibrations, the variance of ln(speedup) has two parts. One part comes from the
fitted constants (`constants_variance`). The other part is the error of the calibration on rows that were left
out of its fit. For the calibration of another device, it is the error on other devices. A given acceptance
counts as exact. If it was not measured at the draft length in question, the error of its conversion to this
length is added.
"""

import math
from collections.abc import Callable

import numpy as np

from perfmodel.costs.pass_time import PassTime
from perfmodel.operations import Array, Floats, Ints
from perfmodel.specs import over_host, source_errors
from perfmodel.specs.engines.engines import engines
from perfmodel.specs.engines.rack_constants import rack_constants
from perfmodel.specs.engines.source_errors import extra_share
from perfmodel.speculation.constants_variance import variance_of
from perfmodel.speculation.evidence import speedup_class, step_class
from perfmodel.speculation.iteration import Passes
from perfmodel.speculation.scenario import Scenario
from perfmodel.speculation.widening import widening


def log_error(scenario: Scenario, batch: Array, context: Array, gammas: Ints) -> Array | None:
    """Standard deviation of ln(speedup), over ``[batch, context]`` with a trailing axis of gammas. It is 0 at
    gamma 0.

    The result is None if the calibration has no observed error, as for an ideal calibration.
    """
    passes = Passes(scenario, batch, context, gammas)
    deviation = stated_log_error(scenario, passes, lambda: np.moveaxis(passes.ratios(), 0, -1))
    if deviation is None:
        return None
    constants = variance_of(scenario, passes)
    variance = np.moveaxis(constants, 0, -1) + deviation**2
    return np.where(gammas == 0, 0.0, np.sqrt(variance + acceptance_log_error(scenario, gammas) ** 2))


def stated_log_error(scenario: Scenario, passes: Passes, ratios: Callable[[], Array]) -> Array | None:
    """Standard deviation of ln(time of an iteration / time of a baseline step), as the calibration or the
    public sources state it. The error is larger for a question outside the measured ranges. The result is
    None if no error was observed.

    - ratios: a function that computes these ratios. This function is called only if the error depends on the
      ratios.

    The ratios and the result are over ``[batch, context]`` with a trailing axis of gammas.
    """
    c = scenario.machine.calibration
    batch = passes.batch
    context = passes.context
    gammas = passes.gammas
    class_name = speedup_class(scenario)
    scatter = c.error("speedup", scenario.target.name, scenario.machine.gpu)
    if class_name is not None:
        share = extra_share(ratios())
        deviation: Floats = source_errors().speedups[class_name].deviation_on(scenario.machine.gpu) * share
    elif scatter is not None:
        deviation = scatter.deviation * widening(scenario, batch, context, gammas)
    else:
        return None
    if scenario.machine.fabric is not None:
        deviation = np.maximum(deviation, rack_constants().speedup_log_rms)
    tokens = np.asarray(batch, float)[..., None] * (np.asarray(gammas) + 1.0)
    beyond = c.unseen_log_error(np.asarray(context)[..., None], tokens)
    return np.asarray(np.hypot(deviation, beyond))


def acceptance_log_error(scenario: Scenario, gammas: Ints | int) -> Array:
    """Standard deviation of ln(tokens per iteration). This error is due to the distance from the measured
    draft length, and to differences between texts. It is 0 without an acceptance.
    """
    acceptance = scenario.acceptance
    if acceptance is None:
        return np.zeros(np.shape(gammas))
    return np.hypot(
        engines().acceptance.deviation * acceptance.log_distance(gammas), acceptance.log_spread(gammas)
    )


def ratio_log_error(scenario: Scenario, passes: Passes, ratio: float) -> float | None:
    """Standard deviation of ln(time of an iteration / time of a baseline step) at one point, given its
    passes. The result is None if no error was observed. It is 0 at gamma 0, which is the baseline.

    - ratio: the time of the iteration divided by the time of the step.
    """
    deviation = stated_log_error(scenario, passes, lambda: np.array([ratio]))
    if deviation is None or not passes.gammas[0]:
        return None if deviation is None else 0.0
    return math.hypot(math.sqrt(float(variance_of(scenario, passes)[0])), float(np.ravel(deviation)[0]))


def step_log_error(
    scenario: Scenario, step: PassTime[float] | None, batch: float, context: float
) -> Floats | None:
    """Standard deviation of ln(time of a baseline step). The result is None if the calibration states no
    error.

    - step: the times of the step. If `step` is None, the errors of communication over the host and between
      nodes are not added.
    """
    machine = scenario.machine
    scatter = machine.calibration.error("target_s", scenario.target.name, machine.gpu)
    if scatter is None:
        return None
    class_name = step_class(scenario)
    if class_name is not None:
        deviation: Floats = source_errors().steps[class_name].deviation_on(machine.gpu)
        if has_kernels_of_unseen_maker(scenario):
            deviation = np.hypot(deviation, scatter.deviation)
    else:
        deviation = scatter.deviation * widening(scenario, batch, context)
    if machine.fabric is not None:
        deviation = np.maximum(deviation, rack_constants().step_log_rms)
        if step is not None:
            links = machine.fabric.log_error(scenario.layout.exchanges)
            deviation = np.hypot(deviation, links * step.comm_s / step.predicted_s)
    if step is None or not machine.over_host:
        return deviation
    return np.hypot(deviation, over_host().box_log_rms * step.comm_s / step.predicted_s)


def has_kernels_of_unseen_maker(scenario: Scenario) -> bool:
    """Whether the kernels of a serving engine were measured on another vendor's device, and no public run
    used this device.
    """
    c = scenario.machine.calibration
    gpu = scenario.machine.gpu
    relation = c.relation("target_s", scenario.target.name, gpu)
    return bool(c.errors) and relation == "maker" and gpu.name not in source_errors().devices


def iteration_log_error(scenario: Scenario, step_error: float, ratio_error: float) -> float:
    """Standard deviation of ln(time of an iteration), from the error of a baseline step and the error of the
    ratio of iteration to step.

    If users measured their own engine, iterations were timed directly. The error of the ratio then comes from
    two measurements, but the error of an iteration comes from only one. It is at least the error of a step.
    """
    if scenario.machine.calibration.measured is not None and ratio_error:
        return max(step_error, ratio_error / math.sqrt(2.0))
    return math.hypot(step_error, ratio_error)
