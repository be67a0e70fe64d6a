"""Warns about quantised weights with which a step takes longer than with 16-bit weights."""

from collections.abc import Iterator
from dataclasses import replace

from perfmodel.specs import BF16
from perfmodel.speculation import Scenario, once

FEW_SEQUENCES = 16
"""Largest number of sequences at which quantising the inputs of a GEMM may take more time than the smaller
weights save.
"""
WORTH_A_WARNING = 0.01
"""A warning is given if a step with quantised weights takes longer by more than this fraction."""


def quantising(scenario: Scenario, batch: float, context: float) -> Iterator[str]:
    """A warning if a step with quantised weights takes longer than with 16-bit weights. The warning says
    whether steps of this model were measured on this device. Weight-only formats get no warning, because
    the inputs of their GEMMs are not quantised.
    """
    weights = scenario.precision.weights
    if weights.base.input_bytes is None or batch > FEW_SEQUENCES:
        return
    quantised_s = float(scenario.target_pass_s(batch, context))
    wide_s = float(_with_wide_weights(scenario).target_pass_s(batch, context))
    slower = quantised_s / wide_s - 1.0
    if slower > WORTH_A_WARNING:
        evidence = "as measured" if _is_measured(scenario) else "not measured here"
        yield (
            f"a step with {weights.name} takes {slower:.0%} longer than with bf16: quantising the inputs of "
            f"small GEMMs takes time ({evidence})"
        )


def _is_measured(scenario: Scenario) -> bool:
    """Whether steps of this model were measured on this device."""
    calibration = scenario.machine.calibration
    return calibration.relation("target_s", scenario.target.name, scenario.machine.gpu) == "seen"


@once
def _with_wide_weights(scenario: Scenario) -> Scenario:
    """The scenario with weights of 16 bits."""
    return replace(scenario, precision=scenario.precision.replace(weights=BF16))
