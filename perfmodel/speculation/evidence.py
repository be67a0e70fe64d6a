"""Finds the measurements that apply to a question: the class of its errors, and whether a case of its kind
was measured.
"""

import math
from typing import cast

from perfmodel.specs import Calibration, device_class, source_errors
from perfmodel.specs.engines.source_errors import SpeedupClass, StepClass
from perfmodel.speculation.remembered import once
from perfmodel.speculation.scenario import Scenario


def step_class(scenario: Scenario) -> StepClass | None:
    """The class of errors that applies to a baseline step. The result is None for a calibration that states
    its own error.
    """
    c = scenario.machine.calibration
    if not is_judged_by_sources(c):
        return None
    if c.constants_of:
        return "other_engine"
    if c.stack in source_errors().steps:
        return cast(StepClass, c.stack)
    relation = c.relation("target_s", scenario.target.name, scenario.machine.gpu)
    return "borrowed" if relation in ("transferred", "maker") else "own"


@once
def speedup_class(scenario: Scenario) -> SpeedupClass | None:
    """The class of errors that applies to a speedup. The result is None for a calibration that states its own
    error. The class is "new" if the engine's speedup was never measured with this kind of draft, or if the
    kernels were measured on another vendor's device.
    """
    c = scenario.machine.calibration
    if not is_judged_by_sources(c):
        return None
    if c.constants_of:
        return "other_engine"
    borrowed = c.relation("target_s", scenario.target.name, scenario.machine.gpu) == "maker"
    if borrowed or not source_errors().devices_with(c.stack, scenario.draft.kind):
        return "new"
    return cast(SpeedupClass, c.stack) if c.stack in source_errors().speedups else "known"


def is_measured(scenario: Scenario) -> bool:
    """Whether a speedup was measured with this kind of draft, with this engine and on this class of device.

    If the errors of the calibration do not come from public runs, the calibration must state an error of
    speedups for this device. A case with layers or experts in host memory, or with the constants of another
    engine, counts as not measured.
    """
    if scenario.machine.host_experts or scenario.machine.host_layers:
        return False
    c = scenario.machine.calibration
    if c.constants_of:
        return False
    gpu = scenario.machine.gpu
    if is_judged_by_sources(c):
        return device_class(gpu) in source_errors().devices_with(c.stack, scenario.draft.kind)
    return "speedup" in c.observed_error and c.gpu in (None, gpu.name)


def is_beyond_measured_context(scenario: Scenario, context: float) -> bool:
    """Whether the acceptance was measured only for prompts that are shorter than the context."""
    return doublings_beyond(scenario, context) > 0.0


def doublings_beyond(scenario: Scenario, context: float) -> float:
    """Number of doublings from the longest context of the measured acceptance to the context. The result is 0
    if the acceptance was measured at this context.
    """
    longest = None if scenario.acceptance is None else scenario.acceptance.measured_context
    return 0.0 if longest is None else max(math.log2(context / longest), 0.0)


def is_judged_by_sources(c: Calibration) -> bool:
    """Whether the errors of a calibration come from public runs. This is the case for bundled calibrations of
    engines, unless they contain measurements of the user's own engine.
    """
    return c.measured is None and (bool(c.errors) or c.stack in source_errors().steps)


def is_transferred(scenario: Scenario) -> bool:
    """Whether the calibration was fitted to another device or another engine."""
    c = scenario.machine.calibration
    return c.gpu is not None and (c.gpu != scenario.machine.gpu.name or bool(c.constants_of))
