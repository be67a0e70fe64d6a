"""Seats, clients and arrivals within a pass, worked out by hand."""

import pytest

from tests.queueing.replay.servers import PLAIN, server
from tests.queueing.replay.worked_out import WorkedOut, assert_replayed

CASES = {
    # two prompts in 10 + 100 ms | both 12 | the third's prompt beside the first's last token
    "a request takes the seat that another has left": WorkedOut(
        PLAIN,
        arrive_ms=[0, 0, 0],
        outputs=[3, 2, 1],
        first_ms=[110, 110, 182],
        last_ms=[182, 122, 182],
        decoding_ms=2 * 12 + 60,
        seats=2,
    ),
    # the third's prompt in 12 + 60 beside two | the fourth's in 14 + 70 beside three | four take no
    # longer | one
    "passes of more requests than were timed take no longer": WorkedOut(
        server([10, 12, 14], [50, 60, 70]),
        arrive_ms=[0, 0, 0.5, 111],
        outputs=[4, 4, 4, 2],
        first_ms=[110, 110, 181.5, 155],
        last_ms=[280, 280, 289.5, 169],
        decoding_ms=2 * 72 + 3 * 84 + 4 * 14 + 10,
    ),
    # sent as the first are answered: at 124 while a pass that begins without it runs, and at 134
    # when none does
    "a client sends its next request when the one before is answered": WorkedOut(
        server([10, 12], own_s=0.002),
        arrive_ms=[0, 0, 0, 0],
        outputs=[3, 2, 2, 2],
        first_ms=[112, 112, 70, 120],
        last_ms=[134, 124, 130, 130],
        decoding_ms=2 * 12 + 10 + 60 + 10,
        clients=2,
    ),
    "more clients than requests change nothing": WorkedOut(
        PLAIN,
        arrive_ms=[0, 100],
        outputs=[2, 2],
        first_ms=[60, 60],
        last_ms=[70, 70],
        decoding_ms=20,
        clients=5,
    ),
    # arrives within the fourth of 19 passes: its prompt is in the next one
    "a request that comes within a pass is read in the next one": WorkedOut(
        PLAIN,
        arrive_ms=[0, 95],
        outputs=[20, 2],
        first_ms=[60, 65],
        last_ms=[302, 77],
        decoding_ms=40 + 60 + 2 * 12 + 130,
    ),
    # 1 ms on the way in; when the second comes, at 56, a pass is handed out already
    "a request waits for the pass that is handed out already": WorkedOut(
        server([10, 12], own_s=0.001, passes_ahead=1.0),
        arrive_ms=[0, 55],
        outputs=[4, 2],
        first_ms=[61, 76],
        last_ms=[143, 88],
        decoding_ms=94,
    ),
}


@pytest.mark.parametrize("by_hand", CASES.values(), ids=CASES)
def test_a_request_is_read_when_a_seat_a_client_and_a_pass_are_free(by_hand: WorkedOut) -> None:
    assert_replayed(by_hand)
