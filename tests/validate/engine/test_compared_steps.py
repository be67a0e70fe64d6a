"""Steps next to their predictions: which requests wait, and when the draft is the reason of a slow step."""

from dataclasses import replace

import pytest

from perfmodel.answers.question import Query, resolve_costs
from perfmodel.validate.engine.compared import (
    ComparedStep,
    gained_by_drafts,
    predicted_prompt_s,
    reasons,
    waits,
)
from perfmodel.validate.engine.expectation import is_rejected
from perfmodel.validate.engine.pastes import PromptTiming
from perfmodel.validate.engine.timing import Timing

QUERY = Query("qwen3.6-27b", "rtx-3090", batch=4, context=1000, weights="q4_k_m")


@pytest.mark.parametrize(("ratio", "waiting"), [(1.9, False), (2.1, True)])
def test_requests_wait_if_the_first_token_takes_twice_the_time_of_all_prompts(
    ratio: float, waiting: bool
) -> None:
    alone_s = predicted_prompt_s(resolve_costs(QUERY), PromptTiming(1000, 0.0, 0.0), drafts=False)
    first_s = ratio * 4 * alone_s
    timing = Timing.checked(
        where="log", seconds=0.03, batch=4, context=1000, gamma=0, prompt=1000, ttft_s=first_s
    )
    lines = list(waits(QUERY, [timing]))
    assert [": the load is off: " in line for line in lines] == [True] * waiting


def compared(seconds: float, gamma: int) -> ComparedStep:
    """A step of this time that was predicted to take one second, or 1.2 at most."""
    timing = Timing.checked(where="log", seconds=seconds, batch=1, context=1000, gamma=gamma)
    return ComparedStep(timing, predicted_s=1.0, low_s=0.8, high_s=1.2, usual=None, stack="vllm 0.30.0")


@pytest.mark.parametrize(("drafting_s", "of_the_draft"), [(2.9, False), (3.1, True)])
def test_the_draft_is_the_reason_if_it_is_slower_by_half_than_the_slow_baseline(
    drafting_s: float, of_the_draft: bool
) -> None:
    words = reasons([compared(2.0, 0), compared(drafting_s, 3)], "")
    assert words.startswith("most time is lost with the draft") is of_the_draft


def test_no_reason_is_sought_for_steps_within_their_interval() -> None:
    assert reasons([compared(1.1, 0), compared(1.2, 3)], "enforce_eager=True") == ""


@pytest.mark.parametrize(("drafting_s", "pays"), [(0.9, True), (1.1, False)])
def test_a_draft_that_does_not_pay_as_predicted_has_the_predicted_reason(
    drafting_s: float, pays: bool
) -> None:
    drafting = replace(compared(drafting_s, 3), why="it adds 36 ms")
    (line,) = gained_by_drafts([compared(1.0, 0), drafting])
    assert line.endswith("predicted 1.00" if pays else "predicted 1.00: it adds 36 ms")


@pytest.mark.parametrize(
    ("usual", "gained", "rejected"),
    [
        ((3.0, 3.0), 2.71, False),
        ((3.0, 3.0), 2.69, True),
        ((2.5, 3.0), 2.51, False),
        ((2.5, 3.0), 2.49, True),
        (None, 1.0, False),
    ],
)
def test_fewer_tokens_than_expected_are_rejected_drafts(usual, gained: float, rejected: bool) -> None:
    """A single expected number ignores a shortfall of a tenth."""
    assert is_rejected(usual, gained) is rejected
