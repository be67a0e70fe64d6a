"""The question that these tests ask, with changes."""

from dataclasses import replace
from typing import Any

from perfmodel.answers.question import Query, resolve
from perfmodel.speculation import Scenario, with_calibration, with_values


def scenario(core: bool = False, **flags: Any) -> Scenario:
    """Llama-3.1-8B on an A100 at an acceptance of 0.8; core: linear and attention ops alone."""
    question = {"model": "llama-3.1-8b", "hardware": "a100-sxm-80gb", "batch": 1, "context": 1, "alpha": 0.8}
    return replace(resolve(Query(**(question | flags))), core_ops=core)


def with_constants(s: Scenario, **values: float) -> Scenario:
    """The same with other values of constants of its calibration."""
    return with_calibration(s, with_values(s.machine.calibration, values))
