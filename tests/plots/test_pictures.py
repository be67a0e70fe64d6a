"""The pictures of README and docs are fresh, and captions say what moves a picture."""

import re
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from perfmodel import plots
from perfmodel.answers.question import Query, resolve
from tests.plots.questions import ASK, ROOT
from tests.scripts import of_docs

PICTURE = of_docs("picture")
NUMBER = re.compile(r"-?\d+\.\d+(?:e-?\d+)?")


def fresh(one: str, two: str, within: float = 0.5) -> bool:
    """Are two .svg files alike to half a point? The last digits of a coordinate differ between processors."""
    made = re.compile(r"Matplotlib v[\d.]+")
    if made.search(one)[0] != made.search(two)[0]:  # type: ignore[index]
        pytest.skip("the picture was drawn by another matplotlib: `make docs` redraws it")
    bare = [re.sub(r'(id|href|url)="[^"]*"|url\([^)]*\)', "", NUMBER.sub("", text)) for text in (one, two)]
    numbers = [np.array([float(x) for x in NUMBER.findall(text)]) for text in (one, two)]
    return (
        bare[0] == bare[1]
        and numbers[0].size == numbers[1].size
        and bool(np.all(np.abs(numbers[0] - numbers[1]) < within))
    )


@pytest.mark.parametrize("name", PICTURE.PICTURES)
def test_pictures_are_fresh(name: str, tmp_path: Path) -> None:
    made, kept = PICTURE.drawn(name, tmp_path), ROOT / "docs" / "img" / f"{name}.svg"
    assert fresh(made.read_text(encoding="utf-8"), kept.read_text(encoding="utf-8")), (
        f"{name}: run `make docs` and commit"
    )


def test_a_stale_picture_would_be_noticed(tmp_path: Path) -> None:
    one, two = (
        plots.save(plots.surface(resolve(replace(ASK, alpha=alpha)), points=9), tmp_path / f"{alpha}.svg")
        for alpha in (0.81, 0.83)
    )
    assert not fresh(one.read_text(encoding="utf-8"), two.read_text(encoding="utf-8"))


# A caption says whatever of the question moves the picture.

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
    "state_rollback": ({}, "replay"),
    "max_gamma": ({"gamma": None, "alpha": 0.95}, 3),
    "batch_range": ({}, (1.0, 8.0)),
    "memory_fraction": ({}, 0.5),
    "attention_backend": ({}, "triton"),
    "cpu_moe": (ON_HOST | {"model": "qwen3-30b-a3b", "cpu_moe": 4}, 8),
    "gpu_layers": (ON_HOST | {"gpu_layers": 16}, 8),
    "host_bandwidth": (ON_HOST | {"gpu_layers": 8}, 30.0),
    "power_limit": ({"hardware": "rtx-5090", "tp": 1, "engine": "llamacpp"}, 400),
}


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
    labels = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    return f"{figure.get_supxlabel()} {labels} {figure.axes[0].get_xlim()} {figure.axes[0].get_ylim()}"


def test_every_field_of_a_question_is_tried() -> None:
    assert {*CHANGES, "acceptance", "acceptance_rate", "layer_split", "task"} == {
        field.name for field in fields(Query)
    }


@pytest.mark.parametrize("field", CHANGES)
def test_a_caption_says_what_moves_the_picture(field: str) -> None:
    base, value = CHANGES[field]
    question = replace(ASK, **base)
    assert described(question) != described(replace(question, **{field: value}))
    if question.engine is None:
        assert described(question) == described(replace(question, calibration="a100-sxm-80gb.vllm"))
