"""What the cache has room for, and who leaves where it has none, worked out by hand."""

import pytest

from tests.queueing.replay.servers import TWO, server
from tests.queueing.replay.worked_out import WorkedOut, assert_replayed

CASES = {
    # 200 tokens of cache are room for both prompts, 199 are not
    "two prompts enter together if the cache has room for both": WorkedOut(
        server([10, 12], room=200),
        arrive_ms=[0, 0],
        outputs=[1, 3],
        first_ms=[110, 110],
        last_ms=[110, 130],
        decoding_ms=20,
    ),
    "the second prompt waits where the cache lacks one token": WorkedOut(
        server([10, 12], room=199),
        arrive_ms=[0, 0],
        outputs=[1, 3],
        first_ms=[60, 120],
        last_ms=[60, 140],
        decoding_ms=20,
    ),
    # after 26 tokens each has 126 of 250: the second goes, and reads them when the first has left
    # after 59
    "the younger request is preempted where answers outgrow the cache": WorkedOut(
        server([10], room=250),
        arrive_ms=[0, 0],
        outputs=[60, 60],
        first_ms=[110, 110],
        last_ms=[700, 1103],
        decoding_ms=520 + 660,
        preempted=1,
    ),
    "no request is preempted while the cache has room": WorkedOut(
        server([10], room=318),
        arrive_ms=[0, 0],
        outputs=[60, 60],
        first_ms=[110, 110],
        last_ms=[700, 700],
        decoding_ms=2 * 590,
    ),
    # a short one came last and left after 9 passes
    "the youngest request that is left is preempted": WorkedOut(
        server([10], room=250),
        arrive_ms=[0, 0, 0],
        outputs=[60, 60, 10],
        first_ms=[115, 115, 115],
        last_ms=[705, 1108, 205],
        decoding_ms=3 * 90 + 2 * 170 + 330 + 330,
        preempted=1,
        prompts=[100, 100, 10],
    ),
    # the same two tokens a pass, after 13 passes
    "drafted tokens fill the cache sooner": WorkedOut(
        server([10], room=250, **TWO),
        arrive_ms=[0, 0],
        outputs=[60, 60],
        first_ms=[110, 110],
        last_ms=[410, 653],
        decoding_ms=600,
        preempted=1,
    ),
}


@pytest.mark.parametrize("by_hand", CASES.values(), ids=CASES)
def test_requests_wait_or_leave_where_the_cache_is_full(by_hand: WorkedOut) -> None:
    assert_replayed(by_hand)
