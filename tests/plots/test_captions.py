"""A caption says whatever of the question moves the picture."""

from dataclasses import fields, replace
from typing import Any

import pytest

from perfmodel import plots
from perfmodel.answers.advise import advise
from perfmodel.answers.query import Query, resolve
from perfmodel.answers.whatif import whatif
from tests.plots.asked import ASK, REQUEST

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
}


def described(query: Query) -> str:
    """The caption of a picture of the question, and what its axes say."""
    figure = plots.surface(
        resolve(query), gamma=query.gamma, batch=(1, query.batch), context=(1024, query.context),
        max_gamma=query.max_gamma, batch_range=query.batch_range, memory_fraction=query.memory_fraction, points=3,
    )  # fmt: skip
    return f"{figure.get_supxlabel()} {figure.axes[0].get_xlim()} {figure.axes[0].get_ylim()}"


def test_every_field_of_a_question_is_tried() -> None:
    assert {*CHANGES, "acceptance", "acceptance_rate", "task"} == {field.name for field in fields(Query)}


@pytest.mark.parametrize("field", CHANGES)
def test_a_caption_says_what_moves_the_picture(field: str) -> None:
    base, value = CHANGES[field]
    asked = replace(ASK, **base)
    assert described(asked) != described(replace(asked, **{field: value}))
    assert described(asked) == described(replace(asked, calibration="a100-sxm-80gb.vllm"))


def test_devices_side_by_side_say_what_was_asked() -> None:
    before = plots.devices([whatif(ASK)]).get_supxlabel()
    for field in ("alpha", "draft_tp", "draft_weights", "draft_kv_dtype", "kv_reread", "kv_page"):
        other = replace(ASK, **{field: CHANGES[field][1]})
        assert plots.devices([whatif(other)]).get_supxlabel() != before, field


def test_a_front_says_what_was_asked() -> None:
    before = plots.pareto(advise(REQUEST)).get_supxlabel()
    for change in ({"rate": {"eagle": "0.7"}}, {"max_tpot_ms": 20}, {"kv_dtype": "fp8"}, {"draft_tp": 1},
                   {"max_gamma": 4}, {"memory_fraction": 0.8}, {"batch": (1, 8)}):  # fmt: skip
        assert plots.pareto(advise(replace(REQUEST, **change))).get_supxlabel() != before, change
