"""An answer says when the acceptance of a searched draft was measured on other text than the question's."""

import pytest

from perfmodel.answers.advice.advice import Advice
from perfmodel.answers.advice.advise import advise


def _of_text(answer: Advice) -> list[str]:
    """The notes of an answer about the text of acceptances."""
    return [note for note in answer.warnings if note.startswith("no acceptance on")]


@pytest.mark.parametrize("load", [{}, {"request_rate": 2.0, "input_len": 4096, "output_len": 500}])
def test_only_the_draft_that_was_measured_on_other_text_is_named(load: dict[str, float]):
    answer = advise(model="kimi-k2.7-code", hardware="8xb200", **load)
    assert _of_text(answer) == [
        "no acceptance on chat or mixed text is published for dspark (measured on agent text)"
    ]


def test_all_drafts_that_were_measured_on_other_text_are_named_in_one_note():
    answer = advise(model="kimi-k2.7-code", hardware="8xb200", task="summary")
    assert _of_text(answer) == [
        "no acceptance on summary text is published for dspark (measured on agent text) and eagle3 (measured "
        "on mixed text)"
    ]


@pytest.mark.parametrize("task", [None, "code"])
def test_drafts_that_were_measured_on_the_text_of_the_question_need_no_note(task: str | None):
    assert _of_text(advise(model="qwen3-8b", hardware="h100", task=task)) == []


def test_an_acceptance_that_the_question_states_has_no_text():
    looked_up = advise(model="deepseek-v4-pro", hardware="8xb200", draft="mtp")
    stated = advise(model="deepseek-v4-pro", hardware="8xb200", draft="mtp", rate={"mtp": "0.7"})
    assert _of_text(looked_up)
    assert not _of_text(stated)
