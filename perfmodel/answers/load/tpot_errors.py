"""Computes the error of a mean TPOT under load, and the interval of this TPOT with the closed form."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from perfmodel.answers.load.traffic_query import TrafficQuery
from perfmodel.operations import Array
from perfmodel.queueing.closed_form import mean_tpot_s
from perfmodel.queueing.load import Limits, Load
from perfmodel.queueing.served_load import ServedLoad
from perfmodel.queueing.steps import StepTimes
from perfmodel.specs import Z, engine_of
from perfmodel.specs.engines.request_costs import request_constants
from perfmodel.speculation import Scenario, log_error, step_log_error


def log_errors(
    question: TrafficQuery, scenario: Scenario, times: Sequence[StepTimes]
) -> dict[int, float | None]:
    """Draft length -> standard deviation of the logarithm of its mean TPOT. The batch is that of the baseline
    at the median load.

    The values are None if no error of the calibration is known.
    """
    context = question.lengths.context
    running = question.loop.values
    most = float(max(times[0].seats, 1))
    if question.opens and times[0].seats:
        alone = mean_tpot_s(times[0], question.loop.load(running), question.limits)
        running = running * alone * question.lengths.decoded  # Little's law
    n = min(float(max(round(float(np.median(running))), 1)), most)
    return served_log_errors(scenario, n, context, [t.gamma for t in times])


def served_log_errors(
    scenario: Scenario, batch: float, context: float, gammas: Sequence[int]
) -> dict[int, float | None]:
    """Draft length -> standard deviation of the logarithm of its mean TPOT, while `batch` requests decode.
    The values are None if no error is known.

    The ratio of an iteration to a step has the errors of two measurements. The error of an iteration is
    therefore the error of the ratio divided by the square root of 2, or the error of a step if that is
    larger. The error of the engine's time per request (`EngineRequests`) is added to it.
    """
    machine = scenario.machine
    sends = machine.over_host or machine.fabric is not None
    times = scenario.target_step(batch, context) if sends else None
    step = step_log_error(scenario, times, batch, context)  # type: ignore[arg-type]  # of one
    ratio = log_error(scenario, np.asarray(batch), np.asarray(context), np.asarray(gammas))
    if step is None or ratio is None:
        return dict.fromkeys(gammas)
    own = request_constants().error(engine_of(scenario.machine.calibration)).log_rms
    each = combined(float(np.max(step)), ratio, own)
    return dict(zip(gammas, np.ravel(each).tolist(), strict=True))


def combined(step: float, ratio: Array, requests: float) -> Array:
    """The error of a mean TPOT.

    - step, ratio, requests: the errors of a step, of the ratio of an iteration to a step, and of the engine's
      time per request.
    """
    iteration = np.maximum(step, ratio / math.sqrt(2.0))
    return np.asarray(np.hypot(iteration, requests))


class TpotInterval(NamedTuple):
    """The ends of the 90 % interval of a mean TPOT, in seconds, as arrays over loads."""

    low_s: Array
    high_s: Array

    def at(self, load: int) -> tuple[float, float]:
        """Both ends of the interval at one load.

        - load: the index of the load.
        """
        return float(self.low_s[load]), float(self.high_s[load])


def tpot_interval(
    log_off: float, steps: StepTimes, served: ServedLoad, load: Load, limits: Limits
) -> TpotInterval:
    """The interval of the mean TPOT. The closed form is computed again with passes that are faster, and with
    passes that are slower, by the error. At a request rate, there is a shortcut. The times of all passes are
    not multiplied by a factor. Instead, the rate is multiplied by this factor, and then all resulting times.
    """
    factors = np.exp([[-Z * log_off], [Z * log_off]])
    if load.rate is not None:
        clocks = replace(load, rate=np.ravel(factors * load.rate))
        ends = factors * mean_tpot_s(steps, clocks, limits).reshape(len(factors), -1)
    else:
        slowed = [steps.slowed(factor) for factor in factors.ravel().tolist()]
        ends = np.stack([mean_tpot_s(each, load, limits) for each in slowed])
    return TpotInterval(np.minimum(ends[0], served.tpot.mean), np.maximum(ends[1], served.tpot.mean))
