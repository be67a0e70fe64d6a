"""Which tokens a pass has: the token budget, worked out by hand."""

import pytest

from tests.queueing.replay.servers import PLAIN, PREFILL, server
from tests.queueing.replay.worked_out import WorkedOut, assert_replayed

CASES = {
    # 60 prompt tokens in 40 ms | 40 + 20 | 59 beside the first's second token, in 39.5 | 21 in 20.5
    # | a token more
    "prompts are cut at the token budget": WorkedOut(
        PLAIN,
        arrive_ms=[0, 0],
        outputs=[2, 2],
        first_ms=[80, 140],
        last_ms=[119.5, 150],
        decoding_ms=39.5 + 10,
        budget=60,
    ),
    # 100 prompt tokens | 99 beside the first's second token, in 59.5 | 1 in 10.5 | a token more
    "a prompt lacks the one token of the budget that decoding takes": WorkedOut(
        PLAIN,
        arrive_ms=[0, 0],
        outputs=[2, 2],
        first_ms=[60, 130],
        last_ms=[119.5, 140],
        decoding_ms=59.5 + 10,
        budget=100,
    ),
    # a token of each | two more beside the first's, 0.5 ms each | both 12
    "the budget that decoding leaves is filled by a prompt": WorkedOut(
        PLAIN,
        arrive_ms=[0, 0],
        outputs=[4, 2],
        first_ms=[11, 32],
        last_ms=[44, 44],
        decoding_ms=21 + 24,
        budget=2,
        prompts=[1, 3],
    ),
    # 75 tokens hide; 99 beside the 2 that the first verifies are one too many: 1 + 0.01 + 0.099 s
    "drafted tokens to verify count in what hides a prompt": WorkedOut(
        server([1000, 1000], gamma=1, gained=2.0, prefill=PREFILL),
        arrive_ms=[0, 500],
        outputs=[4, 2],
        first_ms=[1075, 1684],
        last_ms=[3184, 2684],
        decoding_ms=1109 + 2 * 1000,
        prompts=[75, 99],
    ),
}


@pytest.mark.parametrize("by_hand", CASES.values(), ids=CASES)
def test_a_pass_has_the_tokens_that_its_budget_allows(by_hand: WorkedOut) -> None:
    assert_replayed(by_hand)
