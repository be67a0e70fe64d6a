"""Changes the calibration of a question, or constants in it."""

from collections.abc import Mapping
from dataclasses import replace

from perfmodel.operations import Floats
from perfmodel.specs import Calibration, Constant
from perfmodel.speculation.scenario import Scenario

OF_SHARDS = ("stack", "shards_lm_head", "expert_popularity", "graph_tokens")
"""Fields of a calibration that change one device's share of a model: all fields that `CountedScenario._shard`
reads. The stack is one of them, because its engine may gather logits.
"""


def with_calibration(scenario: Scenario, calibration: Calibration) -> Scenario:
    """A copy of the scenario with another calibration. Shards are computed again only if they differ."""
    before = scenario.machine.calibration
    machine = replace(scenario.machine, calibration=calibration)
    if any(getattr(calibration, name) != getattr(before, name) for name in OF_SHARDS):
        return replace(scenario, machine=machine)
    return scenario.on_same_shards(machine=machine)


def with_values(c: Calibration, values: Mapping[str, Floats]) -> Calibration:
    """A copy of the calibration with other values of some constants. A value may be an array with one number
    per point. The caller must keep the values within their bounds.
    """
    return c.replace(**{name: constant_of(c, name).replace(value=v) for name, v in values.items()})


def constant_of(c: Calibration, name: str) -> Constant:
    """The constant of a calibration with this name."""
    constant = getattr(c, name)
    assert isinstance(constant, Constant)
    return constant
