"""Experts whose kernels also route and sort have no cost of default flags."""

import pytest

import perfmodel as pm
from perfmodel.specs import load_gpu, serving_engines

LAYERS = 94
"""MoE layers of Qwen3-235B-A22B."""
DEFAULT_FLAGS_S = 2.4e-5
"""`sglang.blackwell.expert_layer_s` of ``hardware/fitted/engines.yaml``."""


def _step_s(engine: str, weights: str | None = None) -> float:
    answer = pm.whatif(
        model="qwen3-235b-a22b-2507",
        hardware="b200",
        tp=4,
        weights=weights,
        engine=engine,
        batch=1,
        context=1000,
        gamma=0,
    )
    return answer.ar_tpot_s


def test_sglang_chooses_such_kernels_by_version() -> None:
    before, after = _step_s("sglang@0.5.7"), _step_s("sglang@0.5.8")
    assert before - after == pytest.approx(LAYERS * DEFAULT_FLAGS_S, rel=1e-3)


def test_sglang_chooses_such_kernels_by_format() -> None:
    older, newer = (_step_s(f"sglang@{version}", "fp8-block") for version in ("0.5.7", "0.5.8"))
    assert older == pytest.approx(newer)


def test_devices_of_another_maker_do_not_borrow_this_cost_with_the_kernels() -> None:
    sglang = serving_engines()["sglang"]
    assert sglang.tunes_experts("fp8-block", "qwen3_moe", load_gpu("mi355x"), "0.5.12")
    assert not sglang.tunes_experts("fp8-block", "qwen3_moe", load_gpu("h200"), "0.5.12")
