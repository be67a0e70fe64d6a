"""Percentiles of two pools against requests that are served one by one."""

from dataclasses import astuple, replace

import numpy as np
import pytest

from perfmodel.answers.load.pool_loads import row_at_rate, row_with_clients
from perfmodel.answers.load.pool_question import Instances
from perfmodel.answers.load.pool_state import PoolState, Prompts
from perfmodel.answers.load.two_pools import TwoPools
from perfmodel.queueing.load import Lengths
from perfmodel.queueing.steps import StepTimes

STEP_S = 0.05
TRANSFER_S = 0.02
SEATS = 1000
STEPS = StepTimes(
    gamma=0,
    tokens_per_iteration=1.0,
    decode_s=np.full(SEATS, STEP_S),
    prompt_s=np.zeros(SEATS),
    seats=SEATS,
    kv_share=1.0 / SEATS,
)


def served(rate: float, cv: float, count: int = 100_000) -> np.ndarray:
    """TTFT of requests of one prefill instance, whose mean prompt takes a second (Lindley's recursion)."""
    draw = np.random.default_rng(7)
    gaps = draw.exponential(1.0 / rate, count).tolist()
    width = np.sqrt(3.0) * cv
    prompts = draw.uniform(1.0 - width, 1.0 + width, count)
    waits = []
    wait = 0.0
    for gap, prompt in zip(gaps, prompts.tolist(), strict=True):
        waits.append(wait)
        wait = max(wait + prompt - gap, 0.0)
    first = draw.uniform(STEP_S / 2.0, 1.5 * STEP_S, count)
    return np.array(waits) + prompts + TRANSFER_S + first


@pytest.mark.parametrize("rate", [0.2, 0.5, 0.85])
@pytest.mark.parametrize("cv", [0.0, 0.3])
def test_percentiles_of_ttft_are_those_of_served_requests(rate: float, cv: float) -> None:
    lengths = Lengths(1000.0, 100.0, cv * 1000.0)
    one = Instances(1, 8)
    pools = TwoPools(one, one, lengths, STEPS, Prompts(1.0, 1.0, cv), TRANSFER_S)
    row = row_at_rate(pools, rate, {})
    times = served(rate, cv)
    assert row.ttft_s == pytest.approx(times.mean(), rel=0.05)
    for predicted, share in ((row.ttft_p90_s, 0.9), (row.ttft_p99_s, 0.99)):
        assert predicted == pytest.approx(np.quantile(times, share), rel=0.12)


def test_arrivals_in_bursts_are_spread_over_the_instances() -> None:
    """Three times the variance of Poisson arrivals is twice that variance at each of two instances."""
    one, two = Instances(1, 8), Instances(2, 8)
    alone, both = (
        TwoPools(prefill, one, Lengths(1000.0, 100.0), STEPS, Prompts(1.0, 1.0), TRANSFER_S, arrivals=bursts)
        for prefill, bursts in ((one, 2.0), (two, 3.0))
    )
    assert both.state(1.0).queue_s == pytest.approx(alone.state(0.5).queue_s)


def test_the_distribution_of_ttft_has_the_mean_of_the_state() -> None:
    pools = pools_with(np.full(64, 0.05), prefill_s=1.0)
    state = pools.state(0.5)
    assert pools.times(state).ttft.mean == pytest.approx(state.ttft_s)


def test_pools_on_which_no_request_fits_serve_none() -> None:
    pools = pools_with(np.full(1, 0.05))
    pools = replace(pools, steps=replace(pools.steps, seats=0))
    assert (pools.decode_rate, pools.max_rate) == (0.0, 0.0)
    assert np.isnan(pools.ratio)


def test_a_state_between_two_states() -> None:
    low = PoolState(1.0, 2.0, 0.01, 0.02, 0.3, 0.0, 0.5)
    high = PoolState(5.0, 6.0, 0.05, 0.06, 0.7, 0.4, 0.9)
    expected = PoolState(2.0, 3.0, 0.02, 0.03, 0.4, 0.1, 0.6)
    assert astuple(low.between(high, 0.25)) == pytest.approx(astuple(expected))


def pools_with(decode_s: np.ndarray, prefill_s: float = 0.01, output: float = 101.0) -> TwoPools:
    """Two pools of one instance each, whose decode instance has a seat for each given iteration time."""
    seats = len(decode_s)
    steps = StepTimes(
        gamma=0,
        tokens_per_iteration=1.0,
        decode_s=decode_s,
        prompt_s=np.zeros(seats),
        seats=seats,
        kv_share=1.0 / seats,
    )
    one = Instances(1, 8)
    return TwoPools(one, one, Lengths(1000.0, output), steps, Prompts(prefill_s, prefill_s), TRANSFER_S)


@pytest.mark.parametrize("think_s", [0.0, 20.0])
def test_clients_send_a_request_after_each_answer(think_s: float) -> None:
    """Little's law: clients = rate x (TTFT + TPOT of all later tokens + think time)."""
    row = row_with_clients(pools_with(np.full(64, 0.05)), 8.0, think_s, {})
    between_s = row.ttft_s + 100.0 * row.tpot_s + think_s
    assert row.request_rate * between_s == pytest.approx(8.0)
    assert row.clients == 8.0


def test_clients_beyond_the_seats_wait_for_them() -> None:
    """Four seats of five seconds each serve 0.8 requests per second. The wait is part of TTFT."""
    row = row_with_clients(pools_with(np.full(4, 0.05)), 40.0, 0.0, {})
    assert row.request_rate == pytest.approx(0.8, rel=2e-3)
    assert row.ttft_s + 100.0 * row.tpot_s == pytest.approx(40.0 / row.request_rate)
    assert row.queue_s > 40.0 / 0.8 - 6.0
    assert not row.saturated


def test_two_numbers_of_clients_send_at_the_rate_of_batches_that_are_not_faster() -> None:
    """From two requests on, the iteration time is proportional to the batch, so the rate stays."""
    decode_s = 0.05 * np.maximum(np.arange(1, 17) / 2.0, 1.0)
    rows = [row_with_clients(pools_with(decode_s), clients, 0.0, {}) for clients in (4.0, 8.0)]
    assert rows[0].request_rate == pytest.approx(rows[1].request_rate, rel=2e-3)
    for row, clients in zip(rows, (4.0, 8.0), strict=True):
        assert row.request_rate * (row.ttft_s + 100.0 * row.tpot_s) == pytest.approx(clients, rel=1e-3)


def test_more_requests_than_the_capacity_saturate_the_pools() -> None:
    """A decode pool of 0.8 requests per second, and a prefill pool of 100."""
    pools = pools_with(np.full(4, 0.05))
    limits_s = {"ttft": 60.0}
    below = row_at_rate(pools, 0.5, limits_s)
    above = row_at_rate(pools, 2.0, limits_s)
    assert (below.saturated, above.saturated) == (False, True)
    assert below.slo_share == pytest.approx(1.0, abs=0.01)
    assert above.slo_share == 0.0
    assert row_at_rate(pools, 2.0, {}).slo_share is None
    assert (pools.share_within(limits_s, 0.5), pools.share_within(limits_s, 2.0)) == (below.slo_share, 0.0)
    assert above.request_rate == pytest.approx(0.8, rel=2e-3)
    assert above.decode_used == pytest.approx(1.0, rel=2e-3)
    assert above.limits == "decode"
    assert above.output_tokens_per_s_per_gpu == pytest.approx(above.request_rate * 101.0 / 16)


def test_the_best_split_of_the_devices_serves_the_highest_rate() -> None:
    """A prefill instance serves 1 request per second and a decode instance 0.8: 4 and 5 of 9 devices."""
    one = Instances(1, 1)
    pools = replace(pools_with(np.full(4, 0.05), prefill_s=1.0), prefill=one, decode=Instances(8, 1))
    assert pools.best_split == (4, 5)
    assert pools.ratio == pytest.approx(0.8)


def test_of_equal_splits_the_one_with_fewer_prefill_instances_is_best() -> None:
    """Four devices have room for one decode instance of two devices, beside one or two for prefill."""
    pools = pools_with(np.full(4, 0.05), prefill_s=1.0)
    assert replace(pools, prefill=Instances(2, 1), decode=Instances(1, 2)).best_split == (1, 1)
