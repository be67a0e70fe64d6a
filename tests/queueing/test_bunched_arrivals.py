"""Arrivals that are bunched by prompts or by their gaps, or more even than Poisson's; and who waits."""

import math
from dataclasses import replace

import numpy as np
import pytest

from perfmodel.queueing.load import Lengths, Limits
from perfmodel.queueing.occupancy import Occupancy, occupancy
from perfmodel.queueing.saturation import capacity, prompts_per_pass
from perfmodel.queueing.steps import StepTimes

LENGTHS = Lengths(input_mean=1000.0, output_mean=101.0)
"""100 tokens are decoded."""


def server(decode_s: list[float], prompt_s: float = 0.0) -> StepTimes:
    """A server without a draft whose passes take these seconds by running batch."""
    decode = np.array(decode_s)
    return StepTimes(0, 1.0, decode, np.full(decode.size, prompt_s), decode.size, 0.01)


def at_rate(steps: StepTimes, rate: float, burstiness: float = 1.0) -> Occupancy:
    most, _ = capacity(steps, LENGTHS, Limits())
    return occupancy(steps, LENGTHS, np.array([rate]), most, burstiness)


SHARED = server([0.001 * n for n in range(1, 200)])
"""Passes in proportion to the batch: 10 requests leave per second, whatever their number."""
EQUAL = server([0.01] * 60)
"""A pass takes as long at any batch: a request stays for 1 s."""


def test_irregular_gaps_bunch_the_arrivals_of_a_stay() -> None:
    """5 requests per second that stay 0.1 s: 0.5 arrivals, in which 0.5 / 0.9 of an excess of 1 is seen."""
    assert at_rate(SHARED, 5.0).dispersion.item() == pytest.approx(1)
    assert at_rate(SHARED, 5.0, burstiness=0.5).dispersion.item() == pytest.approx(1 + 0.5 / 0.9)


def test_prompts_bunch_the_arrivals_of_a_stay() -> None:
    """Prompts take a quarter of the time, so that the variance tends to 1 / 0.75^2 of the mean. A stay has
    two prompts' time of decoding, in which a part of that is seen.
    """
    steps = replace(SHARED, prompt_s=np.full(SHARED.seats, 0.05))
    seen = 1 - (1 - math.exp(-2)) / 2
    assert at_rate(steps, 5.0).dispersion.item() == pytest.approx(1 + (1 / 0.75**2 - 1) * seen)


def test_prompts_take_what_they_take_at_the_batch_that_leaves_as_fast_as_requests_come() -> None:
    """With 8 requests per second and 0.08 s of prompts in each, 9 requests leave as fast. In smaller batches
    a prompt takes twice as long.
    """
    prompt_s = np.where(np.arange(60) < 7, 0.02, 0.01)
    o = at_rate(replace(EQUAL, prompt_s=prompt_s), 8.0)
    assert o.pass_s[0, [0, 8]] == pytest.approx([0.01 / 0.84, 0.01 / 0.92])
    assert o.dispersion.item() == pytest.approx(1 + (1 / 0.92**2 - 1) * 0.99)


def test_even_arrivals_are_a_binomial_number_of_requests() -> None:
    """A mean of 8 with a variance of 2/7 of it is of 11.2 requests: four fifths of 12 and a fifth of 13."""
    o = at_rate(EQUAL, 8.0, burstiness=4.0)

    def binomial(of: int, n: int) -> float:
        p = 8 / of
        return math.comb(of, n) * p**n * (1 - p) ** (of - n)

    expected = [0.8 * binomial(12, n) + 0.2 * binomial(13, n) for n in range(14)]
    np.testing.assert_allclose(o.share[0, :14], expected, rtol=1e-9, atol=1e-12)
    assert o.running.item() == pytest.approx(8)
    assert o.dispersion.item() == pytest.approx(0.8 * (1 - 8 / 12) + 0.2 * (1 - 8 / 13))


def test_of_two_loads_at_one_rate_the_lower_is_reported() -> None:
    """Passes grow with the square of the batch: from three on, fewer requests leave than come. There the
    shares would rise, and stay instead: weights 1, 0.4, and 0.32 four times.
    """
    steps = server([0.001 * n**2 for n in range(1, 6)])
    o = at_rate(steps, 4.0)
    weights = np.array([1, 0.4, 0.32, 0.32, 0.32, 0.32])
    np.testing.assert_allclose(o.share[0], weights / weights.sum())
    assert (o.metastable.item(), o.saturated.item()) == (True, False)
    beyond = at_rate(steps, 20.0)
    assert (beyond.metastable.item(), beyond.saturated.item()) == (False, True)


def of_three_seats(last_share: float = 0.05, saturated: bool = False) -> Occupancy:
    """Half as many requests come as leave; their variance is three times their mean."""
    share = np.array([[0.9, 0.03, 0.02, last_share]])
    return Occupancy(
        share,
        running=np.array([0.2]),
        pass_s=np.full((1, 3), 0.01),
        saturated=np.array([saturated]),
        metastable=np.array([False]),
        load=np.full((1, 3), 0.5),
        dispersion=np.array([[3.0]]),
    )


def test_who_waits_comes_in_half_of_its_bunch() -> None:
    """Bunches of two: weights 1, 1/4, 3/16, 9/64, and from there on three quarters of each other, 27/64
    together: of 2 in all, 9/32 find no room, and 27/32 wait.
    """
    full, waiting = of_three_seats().queue()
    assert (full.item(), waiting.item()) == pytest.approx((9 / 32, 27 / 32))


def test_shares_may_rise_up_to_the_last_seat_where_requests_leave_faster_than_they_come() -> None:
    """The second pass is slow, so that bunches gather there: weights 1, 0.15 and 0.15 times 1.95, and 0.95 of
    each other beyond, 5.5575 together.
    """
    slow_end = replace(of_three_seats(), load=np.array([[0.3, 0.9]]))
    full, waiting = slow_end.queue()
    assert (full.item(), waiting.item()) == pytest.approx((5.85 / 7, 5.5575 / 7 / 0.05))


def test_nobody_is_counted_as_waiting_without_end_or_where_there_is_room() -> None:
    full, waiting = of_three_seats(saturated=True).queue()
    assert (full.item(), waiting.item()) == pytest.approx((9 / 32, 0))
    full, waiting = of_three_seats(last_share=0.0).queue()
    assert (full.item(), waiting.item()) == (0, 0)


def test_a_queue_for_one_server_has_geometric_numbers() -> None:
    """Five seats, half of the time busy: no room for (1/2)^5, and (1/2)^6 / (1/2) requests wait."""
    full, waiting = at_rate(server([0.001 * n for n in range(1, 6)]), 5.0).queue()
    assert (full.item(), waiting.item()) == pytest.approx((1 / 32, 1 / 32))


def test_a_pass_that_decoding_fills_still_reads_a_token_of_a_prompt() -> None:
    limits = Limits(max_num_batched_tokens=500)
    fit = prompts_per_pass(EQUAL, LENGTHS, limits, np.array([100.0, 500.0, 600.0]))
    assert fit == pytest.approx([0.4, 0.001, 0.001])


def test_prompts_never_take_more_than_all_the_time() -> None:
    o = occupancy(server([0.01] * 3, prompt_s=0.5), LENGTHS, np.array([5.0]), 100.0, 1.0)
    assert (o.pass_s > 0).all()
