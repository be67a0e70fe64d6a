"""Percentiles of two pools against requests that are served one by one."""

from dataclasses import astuple

import numpy as np
import pytest

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
    row = pools.at(rate)
    times = served(rate, cv)
    assert row.ttft_s == pytest.approx(times.mean(), rel=0.05)
    for predicted, share in ((row.ttft_p90_s, 0.9), (row.ttft_p99_s, 0.99)):
        assert predicted == pytest.approx(np.quantile(times, share), rel=0.12)


def test_a_state_between_two_states() -> None:
    low = PoolState(1.0, 2.0, 0.01, 0.02, 0.3, 0.0, 0.5)
    high = PoolState(5.0, 6.0, 0.05, 0.06, 0.7, 0.4, 0.9)
    expected = PoolState(2.0, 3.0, 0.02, 0.03, 0.4, 0.1, 0.6)
    assert astuple(low.between(high, 0.25)) == pytest.approx(astuple(expected))
