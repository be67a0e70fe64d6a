"""The weight formats of a draft beside `weights`, those of the target."""

from dataclasses import replace

import pytest

from perfmodel.answers.question import Query, resolve_costs
from perfmodel.answers.question.named import Named
from perfmodel.speculation.capacity import draft_weight_bytes

HEAD = 2 * 4096 * (32 + 2 * 8) * 128 + 4096 * 4096 + 3 * 4096 * 14336 + 3 * 4096 * 4096 + 32000 * 4096
"""Weights of EAGLE-3's published head of Llama-3.1-8B: projections of a layer that takes two widths, its
output and MLP, the projection of three hidden states, and an LM head.
"""
NORMS_BYTES = 2 * 3 * 4096
SMALL = 1235.8e6
"""Parameters of Llama-3.2-1B."""
MTP_LAYER = 424.7e6
"""Parameters in the GEMMs of Qwen3.5-27B's layer."""
ON_H100 = Query("llama-3.1-8b", "h100", 1, 1024, gamma=3, draft="eagle3")
ON_4090 = replace(ON_H100, hardware="rtx-4090", engine="llamacpp")


def draft_bytes(question: Query, **changed: object) -> float:
    return draft_weight_bytes(resolve_costs(replace(question, **changed)))


@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm"])
@pytest.mark.parametrize("weights", ["fp8", "int4-g128", None])
def test_a_head_keeps_the_bf16_of_its_repository(engine: str, weights: str | None) -> None:
    assert draft_bytes(ON_H100, engine=engine, weights=weights) == 2 * HEAD + NORMS_BYTES


def test_a_draft_model_keeps_the_format_of_its_checkpoint() -> None:
    in_bf16 = draft_bytes(ON_H100, draft="llama-3.2-1b", weights="fp8")
    assert in_bf16 == pytest.approx(2 * SMALL, rel=1e-3)


def test_a_pass_of_a_head_in_bf16_takes_longer_than_in_fp8() -> None:
    in_bf16, in_fp8 = (
        resolve_costs(replace(ON_H100, weights="fp8", draft_weights=weights)) for weights in (None, "fp8")
    )
    assert in_bf16.draft_pass_s(1.0, 1024.0) > 1.2 * in_fp8.draft_pass_s(1.0, 1024.0)


@pytest.mark.parametrize(("weights", "value_bytes"), [("fp8", 1), ("int4-g128", 0.53125)])
def test_a_layer_in_the_targets_checkpoint_is_quantised_with_it(weights: str, value_bytes: float) -> None:
    question = replace(ON_H100, model="qwen3.5-27b", draft="mtp", weights=weights)
    assert draft_bytes(question) == pytest.approx(MTP_LAYER * value_bytes, rel=1e-2)


@pytest.mark.parametrize(("weights", "value_bytes"), [("q8_0", 34 / 32), (None, 2)])
def test_a_gguf_head_is_quantised_if_the_question_names_the_format(
    weights: str | None, value_bytes: float
) -> None:
    assert draft_bytes(ON_4090, weights=weights) == value_bytes * HEAD + NORMS_BYTES


@pytest.mark.parametrize(("weights", "bits"), [("8bit", 8.5), (None, 4.5)])
def test_mlx_converts_a_draft_model_as_its_target(weights: str | None, bits: float) -> None:
    mlx = replace(ON_H100, hardware="m3-ultra", engine="mlx", draft="llama-3.2-1b", weights=weights)
    assert draft_bytes(mlx) == pytest.approx(SMALL * bits / 8, rel=1e-3)


@pytest.mark.parametrize(
    ("question", "stack", "weights", "head_bytes"),
    [(ON_H100, "vllm-0.22", "fp8", 2 * HEAD), (ON_4090, "llamacpp-b10624", "q8_0", 34 / 32 * HEAD)],
)
def test_a_calibration_of_ones_own_server_has_the_drafts_of_its_engine(
    question: Query, stack: str, weights: str, head_bytes: float
) -> None:
    named = Named.of(question)
    own = named.replace(calibration=named.calibration.replace(stack=stack))
    scenario = resolve_costs(replace(question, weights=weights), own)
    assert draft_weight_bytes(scenario) == head_bytes + NORMS_BYTES
