"""Quantised weights with which a step takes longer: Qwen3-0.6B, whose GEMMs are small, on an H100."""

import functools
from dataclasses import replace

import pytest

from perfmodel.answers.point.warnings.quantising import quantising
from perfmodel.answers.question import Query, resolve
from perfmodel.speculation import Scenario

CONTEXT = 1024.0


@functools.cache
def server(weights: str) -> Scenario:
    return resolve(
        Query("qwen3-0.6b", "h100", 1, 1024, 0, engine="vllm", weights=weights, draft="ngram", alpha=0.6)
    )


def with_measured_steps(scenario: Scenario) -> Scenario:
    """The same, if its model were among those that were measured on this device."""
    calibration = scenario.machine.calibration.replace(measured_models=(scenario.target.name,))
    return replace(scenario, machine=replace(scenario.machine, calibration=calibration))


def test_a_step_that_takes_longer_says_by_how_much() -> None:
    (warning,) = quantising(server("fp8"), 1.0, CONTEXT)
    fp8_s, bf16_s = (float(server(weights).target_pass_s(1.0, CONTEXT)) for weights in ("fp8", "bf16"))
    assert warning == (
        f"a step with fp8 takes {fp8_s / bf16_s - 1:.0%} longer than with bf16: quantising the inputs of "
        "small GEMMs takes time (not measured here)"
    )


def test_a_measured_model_confirms_it() -> None:
    (warning,) = quantising(with_measured_steps(server("fp8")), 1.0, CONTEXT)
    assert warning.endswith("(as measured)")


@pytest.mark.parametrize(("batch", "warned"), [(16, True), (17, False)])
def test_more_sequences_get_no_warning(batch: int, warned: bool) -> None:
    assert bool([*quantising(server("fp8"), float(batch), CONTEXT)]) is warned


@pytest.mark.parametrize("weights", ["bf16", "fp8-wo"])
def test_weights_whose_inputs_stay_wide_quantise_nothing(weights: str) -> None:
    assert not [*quantising(server(weights), 1.0, CONTEXT)]


def test_less_than_one_percent_is_not_worth_a_warning() -> None:
    """16 long caches take most of the time of a step."""
    fp8_s, bf16_s = (float(server(weights).target_pass_s(16.0, 40_960.0)) for weights in ("fp8", "bf16"))
    assert 1.0 < fp8_s / bf16_s < 1.01
    assert not [*quantising(server("fp8"), 16.0, 40_960.0)]


def test_slightly_more_than_one_percent_is_worth_a_warning() -> None:
    """Shorter caches take a smaller part of the time of a step."""
    fp8_s, bf16_s = (float(server(weights).target_pass_s(16.0, 28_672.0)) for weights in ("fp8", "bf16"))
    assert 1.01 < fp8_s / bf16_s < 1.02
    assert [*quantising(server("fp8"), 16.0, 28_672.0)]
