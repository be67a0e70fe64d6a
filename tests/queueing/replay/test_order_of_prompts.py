"""When prompts are read: order, parts, polling, waiting for a fuller pass, and groups."""

from dataclasses import replace

import numpy as np
import pytest

from perfmodel.queueing.arrivals import Arrivals
from perfmodel.queueing.load import Limits
from perfmodel.queueing.prefill_time import PrefillTime
from perfmodel.queueing.replay import replay
from perfmodel.specs.engines.served_requests import PassOrder
from tests.queueing.replay.servers import LENGTHS, server


@pytest.mark.parametrize(
    ("order", "budget", "at", "first", "last"),
    [
        # one simulated pass stands for a prompt's, 100 ms, and a decoding one, 10 ms
        (PassOrder.ALTERNATING, 101, [0, 105], [110, 220], [232, 232]),
        # decoding waits for all prompts, and then takes a pass of 14 ms
        (PassOrder.PROMPTS_FIRST, 100, [0, 105, 105], [100, 210, 310], [324, 324, 324]),
    ],
)
def test_decoding_takes_turns_with_prompts_or_waits_for_all_of_them(order, budget, at, first, last) -> None:
    """A pass reads one prompt, in 100 ms."""
    seconds = np.array([0.0, 1.0])
    prefill = PrefillTime(np.array([0.0, 1000.0]), seconds, 0.0, order=order)
    steps = replace(server([10, 12, 14]), prefill=prefill)
    outputs = np.array([3, 2, 2][: len(at)])
    at_s = np.array(at) / 1000
    requests = Arrivals(at_s, np.full(len(at), 100), outputs)
    met = replay(steps, LENGTHS, Limits(256, budget), requests)
    np.testing.assert_allclose(met.ttft_s * 1000 + at, first)
    np.testing.assert_allclose(met.e2e_s * 1000 + at, last)


def test_a_prompt_read_in_parts_lets_a_shorter_one_end_first() -> None:
    """Of 100 tokens 40 in a pass: the second's 30 are read beside the first 40 of the other. A pass takes
    10 ms, and 0.5 ms per prompt token.
    """
    prompts = np.array([100, 30])
    requests = Arrivals(np.zeros(2), prompts, np.array([1, 1]))
    limits = Limits(256, 8192, max_prompt_part=40)
    met = replay(server([10, 12]), LENGTHS, limits, requests)
    both_ms = 10 + 0.5 * (40 + 30)
    alone_ms = (10 + 0.5 * 40) + (10 + 0.5 * 20)
    np.testing.assert_allclose(met.ttft_s * 1000, [both_ms + alone_ms, both_ms])


def test_a_server_that_looks_for_requests_every_few_passes_lets_them_wait() -> None:
    """Passes of 10 ms: it looks at 60 ms, after the first prompt, and at 90 ms."""
    at_s = np.array([0.0, 0.065])
    requests = Arrivals(at_s, np.full(2, 100), np.array([20, 1]))
    steps = server([10, 10])
    often = replay(steps, LENGTHS, Limits(256, 8192, poll_passes=1), requests)
    rarely = replay(steps, LENGTHS, Limits(256, 8192, poll_passes=3), requests)
    np.testing.assert_allclose(rarely.ttft_s[0], often.ttft_s[0])
    later_ms = (rarely.ttft_s[1] - often.ttft_s[1]) * 1000
    np.testing.assert_allclose(later_ms, 20)


@pytest.mark.parametrize(("share", "first_ms"), [(0.01, 65), (0.02, 65 + 30)])
def test_prompts_wait_for_a_fuller_pass_but_not_for_ever(share, first_ms) -> None:
    """The second's 100 tokens beside the first's one are more than 1 % of the budget, and less than 2 %:
    three passes of 10 ms go by. It comes 5 ms before a pass ends, and its own pass takes 60 ms. The third
    waits as long again.
    """
    requests = Arrivals(np.array([0.0, 0.065, 0.165]), np.full(3, 100), np.array([30, 1, 1]))
    limits = Limits(256, 8192, batch_wait_passes=3, batch_wait_share=share)
    met = replay(server([10, 10]), LENGTHS, limits, requests)
    np.testing.assert_allclose(met.ttft_s * 1000, [60, first_ms, first_ms])


def test_the_last_part_of_a_prompt_counts_towards_a_full_pass() -> None:
    """Of the second's 100 tokens 60 are read in a pass. The other 40 beside the first's one are 0.5 % of the
    budget, at which prompts no longer wait.
    """
    requests = Arrivals(np.array([0.0, 0.065]), np.full(2, 100), np.array([30, 1]))
    limits = Limits(256, 8192, max_prompt_part=60, batch_wait_passes=9, batch_wait_share=0.005)
    met = replay(server([10, 10]), LENGTHS, limits, requests)
    both_parts_ms = (10 + 30) + (10 + 20)
    np.testing.assert_allclose(met.ttft_s[0] * 1000, both_parts_ms)
    np.testing.assert_allclose(met.ttft_s[1] * 1000, 5 + both_parts_ms)
