"""Which requests enter: room for tokens still to come, which ends and preemptions give back."""

import numpy as np
import pytest

from perfmodel.queueing.arrivals import Arrivals
from perfmodel.queueing.load import Limits
from perfmodel.queueing.replay import replay
from tests.queueing.replay.servers import BY_BATCH_AND_GAIN, LENGTHS, OF_TWO_GROUPS, server


@pytest.mark.parametrize(("share", "room", "first_ms"), [(0.0, 319, 110), (1.0, 319, 110), (1.0, 318, 710)])
def test_a_request_enters_with_room_for_tokens_still_to_come(share, room, first_ms) -> None:
    """A running one has 59 tokens still to come, and the new one has 100 of its prompt and 60 of its answer.
    Else it enters when the other has left, 590 ms after its first token at 60 ms.
    """
    requests = Arrivals(np.zeros(2), np.full(2, 100), np.full(2, 60))
    limits = Limits(256, 8192, reserved_output=share)
    met = replay(server([10], room=room), LENGTHS, limits, requests)
    np.testing.assert_allclose(met.ttft_s[1] * 1000, first_ms)
    assert not met.preemptions


@pytest.mark.parametrize(
    ("steps", "share", "preempts"),
    [
        (server([10, 12, 14], room=500.5), 0.1, True),
        (BY_BATCH_AND_GAIN, 1.0, False),
        (OF_TWO_GROUPS, 0.1, True),
    ],
)
def test_a_server_that_has_emptied_serves_as_a_new_one(steps, share, preempts) -> None:
    """The same 200 requests twice, long after each other: the room that was left for tokens to come is
    free again, whether requests ended within a pass or were preempted, and so are the groups.
    """
    at_s = 0.0007 + 0.0513 * np.arange(200.0)
    outputs = 20 + 7 * np.arange(200) % 41
    twice = Arrivals(np.append(at_s, at_s + 1000.0), np.full(400, 100), np.append(outputs, outputs))
    limits = Limits(256, 8192, reserved_output=share, balance_passes=4)
    met = replay(steps, LENGTHS, limits, twice)
    first, second = np.split(met.ttft_s, 2)
    assert bool(met.preemptions) == preempts
    np.testing.assert_allclose(first, second, atol=1e-9)
