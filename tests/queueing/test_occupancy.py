"""The birth-death chain and the saturation rate, against worked numbers and a queue with a closed form."""

from dataclasses import replace

import numpy as np
import pytest

from perfmodel.queueing.load import Lengths, Limits
from perfmodel.queueing.occupancy import occupancy
from perfmodel.queueing.policies.table import by_batch, walk
from perfmodel.queueing.saturation import capacity
from perfmodel.queueing.steps import StepTimes
from perfmodel.queueing.switching import SELDOM, leaving, shares_and_values

LENGTHS = Lengths(input_mean=1000.0, output_mean=101.0)


def server(decode_s, prompt_s=0.0, gained=1.0, gamma=0, **more) -> StepTimes:
    """A server whose passes take these seconds by running batch."""
    decode = np.asarray(decode_s, float)
    prompts_s = np.full(decode.size, prompt_s)
    return StepTimes(gamma, gained, decode, prompts_s, decode.size, 0.01, **more)


@pytest.mark.parametrize(
    ("steps", "lengths", "limits", "expected"),
    [
        # 10 at once, 100 tokens in passes of 20 ms: 2 s of passes for 10 requests, and 0.05 s for each one's
        # prompt
        (server([0.02] * 10, 0.05), LENGTHS, Limits(), (1 / (100 * 0.02 / 10 + 0.05), 10)),
        (replace(server([0.02], 0.05), seats=0), LENGTHS, Limits(), (0, 0)),
        # speculation divides the passes only: with 2 tokens a pass of 30 ms, 100 x 0.03 / (10 x 2), of which
        # the last wastes half a token on average, and the same prompt
        (
            server([0.03] * 10, 0.05, gained=2.0, gamma=1),
            LENGTHS,
            Limits(),
            (1 / (100.5 * 0.03 / 20 + 0.05), 10),
        ),
        # 2 tokens are decoded after each prompt of 1,000, of which a pass of 500 takes a half: two passes for
        # a prompt
        (
            server([0.02] * 10, 0.05),
            Lengths(1000.0, 2.0),
            Limits(max_num_batched_tokens=500),
            (1 / (0.02 / ((500 - 1) / 1000) + 0.05), 1),
        ),
    ],
)
def test_saturation_by_hand(steps, lengths, limits, expected):
    assert capacity(steps, lengths, limits) == pytest.approx(expected)


def test_without_prompts_equal_passes_are_a_queue_of_many_servers():
    """A pass that takes as long at any batch serves all alike: Poisson numbers in the system
    (M/G/infinity).
    """
    steps = server([0.01] * 60)
    most, _ = capacity(steps, LENGTHS, Limits())
    o = occupancy(steps, LENGTHS, np.array([8.0]), most, 1.0)
    load = 8.0 * 100 * 0.01
    factorials = np.cumprod([1, *range(1, 8)])
    powers = load ** np.arange(8)
    poisson = np.exp(-load) * powers / factorials
    np.testing.assert_allclose(o.share[0, :8], poisson, rtol=1e-9)
    assert o.running[0] == pytest.approx(load)


def test_clockwork_arrivals_keep_a_tenth_of_the_dispersion_of_poisson_arrivals():
    """80 requests run on average. A dispersion of 0.1 needs 80 / 0.9 trials: 89 with a weight of one ninth,
    and otherwise 90.
    """
    steps = server([0.01] * 200)
    most, _ = capacity(steps, LENGTHS, Limits())
    o = occupancy(steps, LENGTHS, np.array([80.0]), most, burstiness=1e9)
    assert o.running[0] == pytest.approx(80.0, rel=1e-3)
    assert o.dispersion.item() == pytest.approx((1 - 80 / 89) / 9 + (1 - 80 / 90) * 8 / 9, rel=1e-3)


def test_passes_in_proportion_to_the_batch_are_one_server():
    """T(n) = n T(1) shares one server: geometric numbers, mean load / (1 - load) (processor sharing, one seat
    each).
    """
    steps = server(0.001 * np.arange(1.0, 400.0))
    most, _ = capacity(steps, LENGTHS, Limits())
    o = occupancy(steps, LENGTHS, np.array([5.0]), most, 1.0)
    assert o.running[0] == pytest.approx(0.5 / 0.5, rel=1e-6)


def test_beyond_saturation_all_seats_are_taken():
    steps = server([0.02] * 10, 0.05)
    most, _ = capacity(steps, LENGTHS, Limits())
    rates = np.array([most * 0.99, most, most * 2])
    o = occupancy(steps, LENGTHS, rates, most, 1.0)
    assert o.saturated.tolist() == [False, True, True]
    assert o.running[0] < 10
    assert o.running[1] == 10


def test_a_table_is_never_slower_than_any_length():
    one = server([0.010, 0.020, 0.030], gained=1.0)
    three = server([0.015, 0.030, 0.070], gained=2.0, gamma=3)
    table, lengths = by_batch([one, three], LENGTHS, 0.5)
    assert lengths.tolist() == [3, 3, 0]
    token_s = table.decode_s / table.tokens_per_iteration
    np.testing.assert_allclose(token_s, [0.0075, 0.015, 0.030])


def test_a_length_is_changed_only_where_that_earns_a_pass_at_every_crossing():
    """From the second request on three tokens save 1.45 % of the time: less than a pass at every change.

    Where they save 1.6 % or more the table has both; where passes of drafts grow faster, up to 3 requests.
    """
    one = server(0.010 * np.arange(1.0, 9.0), gained=1.0)
    for saved, expected in ((0.002, {0}), (0.0145, {0}), (0.016, {0, 3}), (0.5, {0, 3})):
        slower = 2 * (1 - saved)
        larger_s = slower * 0.010 * np.arange(2.0, 9.0)
        three = server(np.concatenate([[0.025], larger_s]), gained=2.0, gamma=3)
        _, lengths = by_batch([one, three], LENGTHS, 0.5)
        assert set(lengths.tolist()) == expected
    batch = np.arange(1.0, 13.0)
    plain = server(0.010 + 0.0005 * batch, 0.02)
    drafting = server(0.015 + 0.002 * batch, 0.02, gained=2.0, gamma=3)
    _, lengths = by_batch((plain, drafting), LENGTHS, 5.0)
    assert lengths.tolist() == [3] * 3 + [0] * 9


@pytest.mark.parametrize(("rate", "left"), [(10.0, 0.5), (19.0, 0.05), (19.8, 0.02), (30.0, 0.02)])
def test_prompts_leave_at_least_a_fiftieth_of_the_time_to_decoding(rate: float, left: float) -> None:
    """A prompt takes 50 ms, and an answer 100 passes of 20 ms."""
    leave = leaving([server([0.02], 0.05)], LENGTHS, rate, 1)
    assert leave == pytest.approx(left / (100 * 0.02))


def test_what_one_request_more_costs_balances_at_the_empty_end():
    """Shares of 1, 4/5, 4/5 4/8 and 4/5 4/8 4/10; where nobody is, an arrival at 4 costs what the mean of all
    is.
    """
    share, worth = shares_and_values(np.array([5.0, 8.0, 10.0]), 4.0)
    weights = np.array([1.0, 0.8, 0.4, 0.16])
    mean = weights @ np.arange(4.0) / weights.sum()
    np.testing.assert_allclose(share, weights[1:] / weights.sum())
    assert worth[0] == pytest.approx(mean / 4)
    assert worth[-1] == pytest.approx((3 - mean) / 10)


def test_a_walk_pays_its_tolls():
    """Staying costs 3 + 3, changing once 1 + 1 and the toll; a change that saves nothing is not made."""
    cost = np.array([[1.0, 3.0], [3.0, 1.0]])
    assert walk(cost, 1.9).tolist() == [0, 1]
    assert walk(cost, 2.1).tolist() == [0, 0]
    flat = np.array([[1.0, 1.0], [2.0, 1.0]])
    assert walk(flat, 0.0).tolist() == [1, 1]


def test_a_batch_that_hardly_ever_runs_counts_as_a_thousandth_of_the_most_frequent_one() -> None:
    """A hundred requests leave per second for each that arrives: each further one is rare."""
    share = shares_and_values(np.full(50, 100.0), rate=1.0).share
    assert SELDOM == 1e-3
    assert share[2:] == pytest.approx(SELDOM * share[0])
    assert share[1] == pytest.approx(0.01 * share[0])
