"""The reason of a verdict: what an iteration saves against what it adds."""

import pytest

import perfmodel as pm
from perfmodel.answers.point.whatif_answer import WhatIf
from perfmodel.answers.text import seconds

QUESTION = {"model": "llama-3.1-8b", "hardware": "h100", "batch": 4, "context": 8192, "draft": "eagle3"}


@pytest.fixture(scope="module")
def answer() -> WhatIf:
    return pm.whatif(**QUESTION, gamma=3, alpha=0.8)


def test_the_tokens_beyond_the_first_are_what_an_iteration_saves(answer: WhatIf) -> None:
    tokens = answer.acceptance.tokens_per_iteration
    saved_s = (tokens - 1) * answer.target_step.predicted_s
    saves = f"an iteration of {tokens:.2f} tokens saves {seconds(saved_s)} of baseline decoding (limited by "
    assert answer.reason.startswith(saves)


def test_drafting_verifying_and_overhead_are_what_it_adds(answer: WhatIf) -> None:
    target_s = answer.target_step.predicted_s
    drafting_s = 3 * answer.cost_ratios.draft_to_target * target_s
    verifying_s = answer.verify_step.predicted_s - target_s
    added_s = drafting_s + verifying_s + answer.overhead_s
    assert drafting_s > verifying_s
    assert answer.reason.endswith(
        f") and adds {seconds(added_s)} ({seconds(drafting_s)} of it for draft steps)"
    )


def test_a_draft_that_saves_less_than_it_adds() -> None:
    loses = pm.whatif(**QUESTION, gamma=3, alpha=0.05)
    assert loses.speedup < 1
    assert ") but adds " in loses.reason


def test_gamma_0_names_the_best_length() -> None:
    baseline = pm.whatif(**QUESTION, gamma=0, alpha=0.8)
    best = baseline.speedup_at_gamma_optimal
    assert baseline.gamma_optimal > 0
    assert baseline.reason == (
        f"gamma 0 is the baseline; gamma {baseline.gamma_optimal} would give {best:.2f}x"
    )


def test_gamma_0_where_no_length_is_faster() -> None:
    baseline = pm.whatif(**QUESTION, gamma=0, alpha=0.01)
    assert baseline.gamma_optimal == 0
    assert baseline.reason.startswith("no draft length is faster than the baseline here, so gamma is 0")
