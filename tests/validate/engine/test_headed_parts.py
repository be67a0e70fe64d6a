"""Texts of several answers of a program that prints no drafts: headings say which of them ran with one."""

from dataclasses import replace

import pytest

from perfmodel.validate.engine.formats import read_pasted
from perfmodel.validate.engine.timing import GivenFacts, drafted_length
from tests.refusals import refused
from tests.validate.engine.pasting import sample

GIVEN = GivenFacts(input=500, accepted=2.0)


def test_headings_divide_the_answers_of_mlx_lm() -> None:
    one = sample("mlx_lm")
    text = f"My Mac:\n# without a draft\n{one}\n# --draft-model a/b --num-draft-tokens 2\n{one}"
    alone, drafting = read_pasted("-", text, GIVEN)
    assert (alone.gamma, alone.tokens_per_iteration, alone.seconds) == (0, 1.0, pytest.approx(1 / 41.382))
    assert (drafting.gamma, drafting.seconds) == (2, pytest.approx(2 / 41.382))


def test_words_before_the_first_heading_are_no_part_but_with_an_answer_there_the_text_is_one() -> None:
    """An answer without a heading does not say whether it ran with a draft."""
    one = sample("mlx_lm")
    both = f"# without a draft\n{one}\n# --num-draft-tokens 2\n{one}"
    assert [step.gamma for step in read_pasted("-", f"On my Mac\n{both}", GIVEN)] == [0, 2]
    whole = read_pasted("-", f"{one}\n{both}", replace(GIVEN, gamma=3))
    assert [step.gamma for step in whole] == [3, 3, 3]


@pytest.mark.parametrize(("given", "accepted"), [(None, 1.8), (1.5, 1.5)])
def test_a_heading_states_the_acceptance_of_its_part_unless_the_user_does(given, accepted) -> None:
    one = sample("mlx_lm")
    text = f"# baseline\n{one}\n# MTP, gamma 2, tokens per step 1.8\n{one}"
    alone, drafting = read_pasted("-", text, replace(GIVEN, accepted=given))
    assert (alone.gamma, alone.tokens_per_iteration) == (0, 1.0)
    assert (drafting.gamma, drafting.tokens_per_iteration) == (2, accepted)


@pytest.mark.parametrize(
    "after", ["# MTP, gamma 2\nit did not start", f"# MTP, gamma 2 {'x' * 110}\n{{one}}"]
)
def test_a_heading_without_figures_and_a_long_line_divide_no_text(after: str) -> None:
    one = sample("mlx_lm")
    text = f"# baseline\n{one}\n" + after.format(one=one)
    assert {step.gamma for step in read_pasted("-", text, replace(GIVEN, gamma=3))} == {3}


def test_a_part_with_a_draft_must_have_its_length() -> None:
    one = sample("mlx_lm")
    text = f"# without a draft\n{one}\n# with a draft\n{one}"
    refused("gamma", read_pasted, "-", text, GIVEN)
    _, drafting = read_pasted("-", text, replace(GIVEN, gamma=3))
    assert drafting.gamma == 3


def test_without_two_kinds_of_headings_a_text_is_read_whole() -> None:
    one = sample("mlx_lm")
    for text in (f"# with a draft\n{one}", f"# baseline\n{one}# vanilla\n{one}", f"# baseline\n# MTP\n{one}"):
        assert {step.gamma for step in read_pasted("-", text, GivenFacts(gamma=3, accepted=2.0))} == {3}


@pytest.mark.parametrize(("mean", "length"), [(0.2, 1), (2.1, 2), (2.6, 3), (2.98, 3), (6.6, 7), (15.8, 16)])
def test_a_mean_draft_is_no_longer_than_the_draft_length(mean: float, length: int) -> None:
    assert drafted_length(mean) == length
