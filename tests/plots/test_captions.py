"""A caption says whatever of the question moves the picture."""

import re
from dataclasses import fields, replace
from functools import cache
from typing import Any

import pytest

from perfmodel import plots
from perfmodel.answers.question import Query, resolve
from perfmodel.validate.accuracy.compare import compare
from tests.plots.figures import ASK, legend_of, words_around

ON_NODES: dict[str, Any] = {
    "model": "deepseek-v3",
    "hardware": "h200",
    "engine": "sglang",
    "nodes": "2x8",
    "tp": 1,
    "ep": 16,
    "dp": 16,
    "draft": "mtp",
    "draft_kv": "full",
    "context": 8000,
}


ON_HOST: dict[str, Any] = {"hardware": "rtx-3090", "engine": "llamacpp", "host_bandwidth": 60.0}


CHANGES: dict[str, tuple[dict[str, Any], Any]] = {
    "model": ({}, "qwen3-30b-a3b"),
    "hardware": ({}, "h100"),
    "batch": ({}, 65),
    "context": ({}, 32001),
    "gamma": ({}, 3),
    "tp": ({}, 4),
    "ep": ({"model": "qwen3-30b-a3b", "tp": 4}, 2),
    "dp": ({"model": "qwen3-30b-a3b", "tp": 4}, 2),
    "draft": ({}, "llama-3.2-1b"),
    "draft_tp": ({}, 2),
    "draft_kv": ({}, "streamingllm:513"),
    "alpha": ({}, 0.8101),
    "tokens_per_iteration": ({"alpha": None, "tokens_per_iteration": 2.0}, 2.001),
    "weights": ({}, "int8"),
    "draft_weights": ({}, "int8"),
    "kv_dtype": ({}, "fp8"),
    "draft_kv_dtype": ({}, "fp8"),
    "kv_reread": ({}, 1.5),
    "engine": ({}, "sglang"),
    "calibration": ({}, "ideal"),
    "context_std": ({}, 4000),
    "kv_page": ({}, 16),
    "topk_reuse": ({}, 0.5),
    "state_dtype": ({"model": "qwen3-next-80b-a3b"}, "bf16"),
    "state_rollback": ({}, "replay"),
    "max_gamma": ({"gamma": None, "alpha": 0.95}, 3),
    "batch_range": ({}, (1.0, 8.0)),
    "memory_fraction": ({}, 0.5),
    "max_num_seqs": ({}, 64),
    "max_num_batched_tokens": ({}, 4096),
    "max_model_len": ({}, 65536),
    "attention_backend": ({}, "triton"),
    "cpu_moe": (ON_HOST | {"model": "qwen3-30b-a3b", "cpu_moe": 4}, 8),
    "gpu_layers": (ON_HOST | {"gpu_layers": 16}, 8),
    "host_bandwidth": (ON_HOST | {"gpu_layers": 8}, 30.0),
    "nodes": (ON_NODES | {"nodes": "4x8", "ep": 32, "dp": 32}, "8x4"),
    "pp": ({"tp": 2}, 2),
    "redundant_experts": (ON_NODES, 32),
    "moe_imbalance": (ON_NODES, 1.5),
    "overlap": (ON_NODES, "two-batch"),
    "all_to_all": (ON_NODES, "gather"),
    "power_limit": ({"hardware": "rtx-5090", "tp": 1, "engine": "llamacpp"}, 400),
}
"""Field of a question -> what the question has beside the usual, and another value of the field."""


@cache
def described(query: Query) -> str:
    """The caption of a picture of the question, and what its axes say."""
    figure = plots.surface(
        resolve(query),
        gamma=query.gamma,
        batch=(1, query.batch),
        context=(1024, query.context),
        max_gamma=query.max_gamma,
        batch_range=query.batch_range,
        memory_fraction=query.memory_fraction,
        points=3,
    )
    axes = figure.axes[0]
    return f"{words_around(figure)} {legend_of(axes)} {axes.get_xlim()} {axes.get_ylim()}"


def test_every_field_of_a_question_is_tried() -> None:
    elsewhere = {"acceptance", "acceptance_rate", "layer_split", "rate", "task"}
    assert CHANGES.keys() | elsewhere == {field.name for field in fields(Query)}


@pytest.mark.parametrize("field", CHANGES)
def test_a_caption_says_what_moves_the_picture(field: str) -> None:
    base, value = CHANGES[field]
    question = replace(ASK, **base)
    assert described(question) != described(replace(question, **{field: value}))
    if question.engine is None:
        assert described(question) == described(replace(question, calibration="a100-sxm-80gb.vllm"))


@pytest.mark.parametrize("field", CHANGES)
def test_a_caption_has_words_and_no_code(field: str) -> None:
    base, value = CHANGES[field]
    words = described(replace(ASK, **base, **{field: value} if field not in base else {}))
    assert not re.search(r"\w+\(\w+=", words)


def test_a_picture_counts_the_devices_of_all_pipeline_stages() -> None:
    words = described(replace(ASK, tp=2, pp=2))
    assert f"on 4 × {resolve(ASK).machine.gpu.name}" in words
    assert "2 pipeline stages" in words


def test_the_caption_of_errors_names_the_tables_of_the_measurements() -> None:
    of_magicdec = words_around(plots.residuals(compare(["magicdec"])))
    assert "measurements: magicdec, arXiv:2408.11049 camera-ready, Tables 3a, 3b, 3c, 6" in of_magicdec
    other = words_around(plots.residuals(compare(["gptfast_decode"])))
    assert "pytorch-labs/gpt-fast@32971d31 README" in other
