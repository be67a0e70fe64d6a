"""Servers whose attention runs in groups: prompts wait for those of the other groups."""

from dataclasses import replace

import numpy as np
import pytest

from perfmodel.queueing.arrivals import Arrivals
from perfmodel.queueing.load import Limits
from perfmodel.queueing.prefill_time import PrefillTime
from perfmodel.queueing.replay import replay
from tests.queueing.replay.servers import LENGTHS, OF_TWO_GROUPS, server


def test_a_request_alone_waits_for_no_group() -> None:
    """Four requests, each long after the one before: 10 ms of a pass, and 200 tokens of 0.1 ms."""
    requests = Arrivals(10.0 * np.arange(4), np.full(4, 100), np.full(4, 5))
    met = replay(OF_TWO_GROUPS, LENGTHS, Limits(256, 8192, balance_passes=3), requests)
    np.testing.assert_allclose(met.ttft_s * 1000, 30)


def test_a_short_prompt_of_another_group_does_not_overtake_one_without_room() -> None:
    """The second needs 145 of 250 tokens. The third would fit, and waits until the first has left."""
    at_s = np.array([0.0, 0.1, 0.11])
    requests = Arrivals(at_s, np.array([100, 145, 10]), np.array([60, 1, 1]))
    steps = replace(OF_TWO_GROUPS, kv_share=130 / 250)
    met = replay(steps, LENGTHS, Limits(256, 8192, balance_passes=1), requests)
    _, second, third = met.ttft_s + at_s
    assert second == third
    assert second > met.e2e_s[0]


@pytest.mark.parametrize(("at_s", "ttft_ms"), [((0.415,), [325]), ((0.415, 0.415), [415, 415])])
def test_prompts_wait_for_those_of_all_groups_but_not_for_ever(at_s, ttft_ms) -> None:
    """Of two groups; a token takes 1 ms in experts, and another one if both groups have as many as the
    fuller.

    The first two are read at once, to 410 ms. The third comes within the second pass, and waits for the next
    third pass: 5 ms, a pass, and 10 + 2 * 100 + 100 ms. With a fourth of the other group both are read before
    that.
    """
    knots = np.array([0.0, 1000.0])
    prefill = PrefillTime(knots, 2 * knots / 1000, 0.0, groups=2, expert_seconds=knots / 1000)
    count = len(at_s)
    outputs = np.array([30, 30, *([1] * count)])
    requests = Arrivals(np.array([0.0, 0.0, *at_s]), np.full(2 + count, 100), outputs)
    limits = Limits(256, 8192, balance_passes=3)
    met = replay(server([10, 10, 10, 10], prefill=prefill), LENGTHS, limits, requests)
    np.testing.assert_allclose(met.ttft_s * 1000, [410, 410, *ttft_ms])


def test_a_pass_ends_when_the_group_with_the_most_prompt_tokens_is_done() -> None:
    """Of two groups; a token takes 1 ms in experts, and another one if both groups have as many as the
    fuller. Two prompts at once share a pass: 10 + 200 + 200 ms. One alone takes 10 + 100 + 200 ms.
    """
    knots = np.array([0.0, 1000.0])
    prefill = PrefillTime(knots, 2 * knots / 1000, 0.0, groups=2, expert_seconds=knots / 1000)
    requests = Arrivals(np.array([0.0, 0.0, 5.0]), np.full(3, 100), np.full(3, 2))
    met = replay(server([10, 10], prefill=prefill), LENGTHS, Limits(256, 8192), requests)
    np.testing.assert_allclose(met.ttft_s * 1000, [410, 410, 310])


def test_the_fullest_group_sets_the_time_of_all_but_the_experts_in_arrays_and_numbers() -> None:
    """Two groups read 100 tokens, of which the fuller one has 75: experts take 100 ms for all, and the rest
    takes 150 + 300 ms as if both groups had 75.
    """
    knots = np.array([0.0, 1000.0])
    prefill = PrefillTime(knots, 2 * knots / 1000, 2e-3, groups=2, expert_seconds=knots / 1000)
    of_arrays = prefill(np.array(10.0), np.array(100.0), np.array(150.0))
    assert float(of_arrays) == pytest.approx(0.55)
    assert prefill.for_numbers()(10.0, 100.0, 150.0) == pytest.approx(0.55)


@pytest.mark.parametrize(
    ("prompts", "passes", "fullest"),
    [(1.0, 1.0, 400.0), (0.25, 4.0, 100.0), (2.5, 1.0, 400.0), (4.0, 1.0, 550.0), (40.0, 1.0, 4150.0)],
)
def test_tokens_of_the_fullest_of_four_groups(prompts, passes, fullest) -> None:
    """Prompts of 100 tokens, in one pass or in four. One prompt at once fills one group; four that come by
    chance fill the fullest with 1.375 on average.
    """
    prefill = PrefillTime(np.array([0.0, 1000.0]), np.zeros(2), 0.0, groups=4)
    found = prefill.fullest_tokens(np.array(prompts), 100.0, np.array(passes), np.array(1e6))
    assert float(found) == pytest.approx(fullest)


def test_the_room_of_a_pass_limits_the_fullest_group() -> None:
    prefill = PrefillTime(np.array([0.0, 1000.0]), np.zeros(2), 0.0, groups=4)
    found = prefill.fullest_tokens(np.array(4.0), 100.0, np.array(1.0), np.array(500.0))
    assert float(found) == 500.0
