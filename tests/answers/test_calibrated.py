"""Whose measurements an answer rests on, in words."""

from typing import Any

import pytest

from perfmodel.answers.point.calibrated import Calibrated
from perfmodel.answers.question import Query, resolve
from perfmodel.speculation import with_calibration


def calibrated(model: str, hardware: str, **more: Any) -> Calibrated:
    return Calibrated.of(resolve(Query(model, hardware, 1, 1024, 0, draft="ngram", alpha=0.6, **more)))


@pytest.mark.parametrize(
    ("model", "hardware", "more", "rests_on"),
    [
        ("minimax-m2", "h100", {"tp": 8, "ep": 8}, "fitted to this model on this device"),
        ("qwen3-0.6b", "h100", {}, "fitted to other models on this device"),
        ("llama-3.1-8b", "l40s", {}, "fitted to this device's kernels and to steps on other devices"),
        ("llama-3.1-8b", "rtx-4090", {}, "fitted to the kernels of another device"),
        ("llama-3.1-8b", "mi300x", {}, "fitted to the kernels of another vendor's device"),
    ],
)
def test_the_nearest_measurement_of_an_engine(model: str, hardware: str, more: Any, rests_on: str) -> None:
    assert calibrated(model, hardware, engine="vllm", **more).rests_on == rests_on


def test_a_research_stack_rests_on_its_own_rows() -> None:
    magicdec = calibrated("llama-3.1-8b", "h100", calibration="h100-sxm-80gb.magicdec")
    assert (magicdec.stack, magicdec.kind) == ("magicdec", "fitted")
    assert magicdec.fitted_on == ("magicdec",)
    assert magicdec.rests_on is None


def test_another_devices_calibration_is_transferred() -> None:
    near = calibrated("llama-3.1-8b", "rtx-4090", engine="vllm")
    assert near.name == "l40s-48gb.vllm"
    assert near.kind == "transferred"


def test_an_engine_that_borrows_constants_names_the_lender() -> None:
    own = resolve(Query("minimax-m2", "h100", 1, 1024, 0, tp=8, ep=8, engine="vllm", alpha=0.6))
    borrows = with_calibration(own, own.machine.calibration.replace(constants_of="sglang"))
    assert Calibrated.of(borrows).rests_on == "the constants of SGLang"
    assert Calibrated.of(borrows).kind == "transferred"
