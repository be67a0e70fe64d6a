"""The uncertainty of a predicted speedup, from errors on rows to which nothing was fitted.

For serving engines and llama.cpp it is the error of public sources that were left out (`source_errors`). For
other calibrations the variance of log speedup has two parts: the covariance of the fitted constants,
propagated through the model by finite differences, and the error of the calibration on held-out rows (for
another device's calibration, its error on other devices). The given acceptance has no error. If it is carried
to a draft length at which it was not measured, the error of that step is a further part.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from perfmodel.costs.pass_time import PassTime
from perfmodel.operations import Array, Floats, Ints
from perfmodel.specs import CONSTANTS, Calibration, Constant, Z, over_host, source_errors
from perfmodel.specs.calibrations.fit_errors import square
from perfmodel.specs.engines.engines import engines
from perfmodel.specs.engines.rack_constants import rack_constants
from perfmodel.specs.engines.source_errors import extra_share
from perfmodel.speculation.evidence import speedup_class, step_class
from perfmodel.speculation.iteration import Passes
from perfmodel.speculation.scenario import Scenario

STEP_STDERR = 0.25
"""Step of a finite difference, in standard errors: small against the curvature, large against rounding."""
ERROR_PER_DOUBLING = 0.5
"""For an engine's own rows: growth of the error for each doubling beyond them.

vLLM on a CPU (results/cpu-engine): steps at batch 8 predicted from those at 1 and 4 are off by 3.5 %, steps
at 4 from those at 1 and 8 by 6.9 %. On the earlier record, from which 0.5 comes, it is 5.4 and 3.6 %.
"""
WITHIN_DOUBLINGS = 0.35
"""For an engine's own rows: doublings beyond them that still count as within."""
OF_SHARDS = ("shards_lm_head", "expert_popularity", "graph_tokens")
"""Constants of a calibration that change one device's share of a model."""
EXPERT_CONSTANTS = ("expert_popularity", "routing_independence")
"""Constants of a fit that change how routed experts are counted."""
Interval = tuple[float, float]
"""Ends of an interval that should contain the measured value in `COVERAGE` of cases, the lower one first."""


def speedup_interval(
    scenario: Scenario, batch: float, context: float, gamma: int, speedup: float
) -> Interval | None:
    """Interval around a predicted speedup; None if the calibration has no observed error (ideal)."""
    passes = Passes(scenario, batch, context, np.array([gamma]))
    error = ratio_log_error(scenario, passes, float(passes.ratios()[0]))
    return interval_of_speedup(scenario, gamma, float(passes.gained[0]), speedup, error)


def interval_of_timed(
    scenario: Scenario, batch: float, context: float, gamma: int, gained: float, speedup: float
) -> Interval | None:
    """`speedup_interval` of a point whose passes are timed already. gained: its tokens per iteration."""
    passes = Passes(scenario, batch, context, np.array([gamma]))
    error = ratio_log_error(scenario, passes, gained / speedup)
    return interval_of_speedup(scenario, gamma, gained, speedup, error)


def interval_of_speedup(
    scenario: Scenario, gamma: int, most: float, speedup: float, ratio_error: float | None
) -> Interval | None:
    """`speedup_interval` of one point from its `ratio_log_error`; exactly 1 at gamma 0.

    most: the tokens per iteration, at which it ends, because no engine verifies in less time than a baseline
    step.
    """
    if not gamma:
        return 1.0, 1.0
    if ratio_error is None:
        return None
    error = math.hypot(ratio_error, float(acceptance_log_error(scenario, gamma)))
    low, high = interval_ends(speedup, error, most, log_middle(scenario))
    return float(low), float(high)


def interval_ends(speedup: Floats, error: Floats, most: Floats, middle: float = 0.0) -> tuple[Array, Array]:
    """Ends of the intervals of speedups, from the error of their logarithm. No end exceeds `most`, the tokens
    per iteration.

    middle: see `log_middle`. The interval holds the speedup itself, and is only that without an error.
    """
    shift = np.where(np.equal(error, 0.0), 0.0, middle * extra_share(np.divide(most, speedup)))
    around = speedup * np.exp(shift)
    factor = np.exp(Z * np.asarray(error))
    low = np.minimum(around / factor, speedup)
    return np.asarray(low), np.maximum(np.minimum(around * factor, most), speedup)


def log_middle(scenario: Scenario) -> float:
    """Logarithm of the middle of a speedup's interval over the speedup, per share of extra time: below 0 for
    a class whose iterations are predicted too short more often than too long. 0 beyond a box, where other
    rows determine the width.
    """
    class_name = speedup_class(scenario)
    if class_name is None or scenario.machine.fabric is not None:
        return 0.0
    return source_errors().speedups[class_name].log_middle_on(scenario.machine.gpu)


def log_error(scenario: Scenario, batch: Array, context: Array, gammas: Ints) -> Array | None:
    """Standard deviation of log speedup over ``[batch, context]`` with a trailing axis of gammas, 0 at gamma
    0.

    None if the calibration has no observed error (ideal).
    """
    passes = Passes(scenario, batch, context, gammas)
    deviation = stated_log_error(scenario, passes, lambda: np.moveaxis(passes.ratios(), 0, -1))
    if deviation is None:
        return None
    constants = variance_of(scenario, passes)
    variance = np.moveaxis(constants, 0, -1) + deviation**2
    return np.where(gammas == 0, 0.0, np.sqrt(variance + acceptance_log_error(scenario, gammas) ** 2))


def stated_log_error(scenario: Scenario, passes: Passes, ratios: Callable[[], Array]) -> Array | None:
    """The error of the ratio of an iteration to a step, larger for a question unlike the measured rows.

    ratios: computes these ratios, where the error depends on them. Over ``[batch, context]`` with a trailing
    axis of gammas, as the result, which is None if no error was observed.
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


def widening(scenario: Scenario, batch: Floats, context: Floats, gammas: Ints | None = None) -> Floats:
    """Factor by which an engine's own observed error widens for a question outside its rows.

    Over ``[batch, context]``, and gammas if given. It is 1 within the ranges of the calibration, and without
    ranges. It grows by `ERROR_PER_DOUBLING` for each doubling of batch, context and tokens beyond them, for
    another model and for another draft.
    """
    measured = scenario.machine.calibration.measured
    if measured is None:
        return 1.0
    other_model = float(scenario.target.name != measured.model)
    beyond: Floats = np.asarray(
        other_model + doublings(batch, measured.batch) + doublings(context, measured.context)
    )
    if gammas is not None:
        draft = (scenario.draft.name, scenario.draft.kv.label())
        other_draft = float(draft != (measured.draft, measured.draft_kv))
        shortest, longest = measured.gamma
        tokens = doublings(np.add(gammas, 1), (shortest + 1, longest + 1))
        beyond = np.expand_dims(beyond, -1) + np.where(gammas == 0, 0.0, other_draft + tokens)
    return 1.0 + ERROR_PER_DOUBLING * beyond


def doublings(value: Floats, limits: tuple[float, float]) -> Floats:
    """Doublings by which a value is above or below a range, less `WITHIN_DOUBLINGS`; 0 within it."""
    low, high = limits
    above = np.log2(np.divide(value, high))
    below = np.log2(np.divide(low, value))
    return np.maximum(0.0, np.maximum(above, below) - WITHIN_DOUBLINGS)


def acceptance_log_error(scenario: Scenario, gammas: Ints | int) -> Array:
    """Standard deviation of ln(tokens per iteration), from the distance to the measured draft length and from
    text to text; 0 without an acceptance.
    """
    acceptance = scenario.acceptance
    if acceptance is None:
        return np.zeros(np.shape(gammas))
    return np.hypot(
        engines().acceptance.deviation * acceptance.carried(gammas), acceptance.log_spread(gammas)
    )


def ratio_log_error(scenario: Scenario, passes: Passes, ratio: float) -> float | None:
    """Standard deviation of the logarithm of an iteration over a baseline step, from the passes of one point.

    ratio: of their times. None if no error was observed; 0 at gamma 0, which is the baseline.
    """
    deviation = stated_log_error(scenario, passes, lambda: np.array([ratio]))
    if deviation is None or not passes.gammas[0]:
        return None if deviation is None else 0.0
    return math.hypot(math.sqrt(float(variance_of(scenario, passes)[0])), float(np.ravel(deviation)[0]))


def step_log_error(
    scenario: Scenario, step: PassTime[float] | None, batch: float, context: float
) -> Floats | None:
    """Standard deviation of the logarithm of a baseline step's time; None if the calibration states no
    error.

    step: its times, needed where devices communicate over the host or beyond a box.
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
    """Whether a serving engine's kernels are those of another maker's device, and no public run is of the
    device.
    """
    c = scenario.machine.calibration
    gpu = scenario.machine.gpu
    relation = c.relation("target_s", scenario.target.name, gpu)
    return bool(c.errors) and relation == "maker" and gpu.name not in source_errors().devices


def iteration_log_error(scenario: Scenario, step_error: float, ratio_error: float) -> float:
    """Standard deviation of the logarithm of an iteration's time, from those of a step and of the ratio.

    Rows of a user's own engine time iterations directly: the error of a ratio is that of two such rows, the
    error of an iteration that of one, and at least that of a step.
    """
    if scenario.machine.calibration.measured is not None and ratio_error:
        return max(step_error, ratio_error / math.sqrt(2.0))
    return math.hypot(step_error, ratio_error)


def interval_of(predicted: float, *log_errors: float) -> Interval:
    """Interval around a prediction whose logarithm has these independent errors."""
    factor = math.exp(Z * math.hypot(*log_errors))
    return predicted / factor, predicted * factor


def is_transferred(scenario: Scenario) -> bool:
    """Whether the calibration is another device's, or another engine's."""
    c = scenario.machine.calibration
    return c.gpu is not None and (c.gpu != scenario.machine.gpu.name or bool(c.constants_of))


def variance_of(scenario: Scenario, passes: Passes) -> Array:
    """Variance of log speedup from the covariance of the fitted constants and the spread between PCIe boxes.

    Over ``[gamma, batch, context]``; 0 without fitted constants and PCIe. Errors of sources left out contain
    those of the constants already.
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
            constant = _constant(c, name)
            step = _step_of(name, constant)
            slopes.append(changes.of(name, step * (constant.stderr or 0.0)) / step)
        stacked = np.stack(slopes)
        variance = np.maximum(np.einsum("i...,ij,j...->...", stacked, square(fit.correlation), stacked), 0.0)
    if scenario.machine.over_host:
        change = changes.of("allreduce_multiplier", STEP_STDERR * c.allreduce_multiplier.value)
        variance = variance + (over_host().box_log_rms / STEP_STDERR * change) ** 2
    return variance


class _Changes:
    """Changes of log speedup when one constant changes. The ops of other work keep their times."""

    def __init__(self, scenario: Scenario, passes: Passes) -> None:
        self._scenario = scenario
        self._passes = passes
        self._known = passes.op_seconds(scenario)
        self.log_speedups = np.log(passes.speedups(scenario, self._known))

    def of(self, name: str, step: float) -> Array:
        """The change for a constant that is larger by `step`, over ``[gamma, batch, context]``."""
        scenario = self._scenario
        passes = self._passes
        c = scenario.machine.calibration
        moved = with_calibration(scenario, with_values(c, {name: _constant(c, name).value + step}))
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


def with_calibration(scenario: Scenario, calibration: Calibration) -> Scenario:
    """The same question with another calibration. Shards are computed again only if they differ."""
    before = scenario.machine.calibration
    machine = replace(scenario.machine, calibration=calibration)
    if any(getattr(calibration, name) != getattr(before, name) for name in OF_SHARDS):
        return replace(scenario, machine=machine)
    return scenario.on_same_shards(machine=machine)


def with_values(c: Calibration, values: Mapping[str, Floats]) -> Calibration:
    """A calibration with other values of some constants, possibly by point. The caller keeps them within
    bounds.
    """
    return c.replace(**{name: _constant(c, name).replace(value=v) for name, v in values.items()})


def _constant(c: Calibration, name: str) -> Constant:
    constant = getattr(c, name)
    assert isinstance(constant, Constant)
    return constant
