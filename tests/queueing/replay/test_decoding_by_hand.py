"""Passes that decode, with drafts and without, worked out by hand."""

from dataclasses import replace

import numpy as np
import pytest

from perfmodel.queueing.arrivals import Arrivals
from perfmodel.queueing.load import Limits
from perfmodel.queueing.replay import replay
from tests.queueing.replay.servers import BY_BATCH, DRAFTS, LENGTHS, server
from tests.queueing.replay.worked_out import WorkedOut, assert_replayed

CASES = {
    # 100 prompt tokens | 96 beside the 4 that the first verifies | 4 | both 24 | the second's last
    # two
    "a drafted pass verifies four tokens and gains two": WorkedOut(
        DRAFTS,
        arrive_ms=[0, 0],
        outputs=[7, 5],
        first_ms=[70, 160],
        last_ms=[184, 204],
        decoding_ms=68 + 22 + 2 * 24 + 20,
        budget=100,
    ),
    # together a token in 12 ms: two for the second's; then alone the first's six of eight in 3 x 15
    "a draft length by batch drafts only alone": WorkedOut(
        BY_BATCH,
        arrive_ms=[0, 0],
        outputs=[9, 3],
        first_ms=[115, 115],
        last_ms=[184, 139],
        decoding_ms=2 * 24 + 45,
    ),
    # a billion tokens, one every 10 ms, are one step of the model
    "an answer of a billion tokens is decoded to its end": WorkedOut(
        server([10], room=2e9),
        arrive_ms=[0],
        outputs=[10**9 + 1],
        first_ms=[60],
        last_ms=[60 + 10**10],
        decoding_ms=10**10,
    ),
}


@pytest.mark.parametrize("by_hand", CASES.values(), ids=CASES)
def test_decoding_takes_the_passes_that_its_tokens_need(by_hand: WorkedOut) -> None:
    assert_replayed(by_hand)


@pytest.mark.parametrize(("around", "passes"), [(None, 4), (1, 4), (2, 3), (9, 3)])
def test_iterations_are_drawn_at_the_length_of_the_batch_around_which_requests_run(
    around: int | None, passes: int
) -> None:
    """Two requests of three tokens beside their first decode without a draft, which they would have alone.

    At the length of one request they need two iterations of two tokens each, the last of which gains one too
    many: four passes together. At the length of both they need three.
    """
    requests = Arrivals(np.zeros(2), np.array([100, 100]), np.array([4, 4]))
    met = replay(BY_BATCH, LENGTHS, Limits(), requests, around=around)
    np.testing.assert_allclose(met.ttft_s * 1000, 115)
    np.testing.assert_allclose(met.e2e_s * 1000, 115 + passes * 12)


def test_a_request_that_gains_twice_as_much_takes_half_the_iterations() -> None:
    """Eight tokens beside the first: four iterations of two tokens, or two of four."""
    requests = Arrivals(np.zeros(1), np.array([100]), np.array([9]))
    usual = replay(DRAFTS, LENGTHS, Limits(), requests)
    lucky = replay(DRAFTS, LENGTHS, Limits(), replace(requests, gain=np.array([2.0])))
    np.testing.assert_allclose((usual.e2e_s - usual.ttft_s) * 1000, 4 * 20)
    np.testing.assert_allclose((lucky.e2e_s - lucky.ttft_s) * 1000, 2 * 20)


def test_a_short_answer_takes_an_iteration_however_much_its_drafts_gain() -> None:
    """Two requests of two tokens beside their first need one iteration of two tokens each. Together they run
    without a draft, which is two passes of a token each.
    """
    requests = Arrivals(np.zeros(2), np.array([100, 100]), np.array([3, 3]), gain=np.array([4.0, 4.0]))
    met = replay(BY_BATCH, LENGTHS, Limits(), requests)
    np.testing.assert_allclose((met.e2e_s - met.ttft_s) * 1000, 2 * 12)
