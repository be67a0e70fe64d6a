"""The drafts that `advise` searches if the question names none."""

import functools

import pytest

from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.searched_drafts import searched_drafts
from perfmodel.kv import KVMethod
from perfmodel.specs import load_model


@functools.cache
def drafts_of(model: str) -> tuple[tuple[str, KVMethod], ...]:
    return tuple(searched_drafts(AdviseQuery(model, "h100"), load_model(model), None))


def test_a_self_draft_is_searched_with_four_budgets() -> None:
    budgets = [
        kv.budget for name, kv in drafts_of("qwen3-14b") if (name, kv.name) == ("self", "streamingllm")
    ]
    assert budgets == [512, 1024, 2048, 4096]
    assert all(not kv.reads_all for name, kv in drafts_of("qwen3-14b") if name == "self")


@pytest.mark.parametrize(("model", "searched"), [("qwen3-4b", True), ("qwen3-8b", False)])
def test_a_model_drafts_for_one_with_more_than_twice_its_parameters(model: str, searched: bool) -> None:
    """Qwen3-14B has 14.8 billion parameters, Qwen3-8B 8.2 and Qwen3-4B 4.0."""
    assert (model in dict(drafts_of("qwen3-14b"))) is searched


def test_a_model_with_another_vocabulary_and_a_head_that_does_not_fit_are_left_out() -> None:
    names = dict(drafts_of("llama-3.1-70b"))
    assert "qwen3-4b" not in names
    assert "mtp" not in names
    assert "eagle3" in names
    assert "mtp" in dict(drafts_of("deepseek-v3"))
