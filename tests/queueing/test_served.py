"""What the closed form's answers must add up to; their numbers are those of tests/pinned/traffic.txt."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st

from perfmodel.queueing.closed_form import BLOCK, serve
from perfmodel.queueing.first_token import as_passes_end
from perfmodel.queueing.load import Lengths, Limits, Load
from perfmodel.queueing.prefill_time import PrefillTime, prompt_s_of
from perfmodel.queueing.saturation import capacity
from perfmodel.queueing.steps import StepTimes

LENGTHS = Lengths(1000.0, 101.0, 300.0, 40.0)
DECODE = 0.02 + 0.001 * np.arange(1.0, 13.0)
PLAIN = StepTimes(0, 1.0, DECODE, np.linspace(0.05, 0.06, 12), 12, 0.07, 0.004, 0.5)
"""Passes of 21 to 32 ms, prompts of 50 to 60; half a pass is handed out ahead. At most 3.06 requests a
second.
"""
DRAFTS = StepTimes(3, 2.2, 1.4 * DECODE, np.linspace(0.05, 0.06, 12), 12, 0.07, 0.04)
"""A draft of three tokens, of requests that spend longer on the way in than a pass takes."""


@pytest.mark.parametrize("at", [0, BLOCK - 1, BLOCK, BLOCK + 1])
def test_more_loads_than_a_block_are_answered_one_by_one(at: int) -> None:
    rates = np.linspace(0.1, 4.0, BLOCK + 2)
    whole = serve(PLAIN, Load(LENGTHS, rate=rates), Limits())
    one = serve(PLAIN, Load(LENGTHS, rate=rates[[at]]), Limits())
    np.testing.assert_allclose(whole.ttft.third[at], one.ttft.third[0])
    of_many = whole.e2e.quantiles(0.9)[0][at]
    np.testing.assert_allclose(of_many, one.e2e.quantiles(0.9)[0][0])
    np.testing.assert_allclose(whole.share[at], one.share[0])
    np.testing.assert_allclose(whole.saturated[at], one.saturated[0])
    assert whole.saturation_rate == one.saturation_rate


def test_lengths_and_times_by_hand() -> None:
    """A longer output stays longer: 100 -+ 20 are met half read, at (100^2 + 20^2) / 200 tokens."""
    lengths = Lengths(1000.0, 100.0, 300.0, 20.0)
    assert lengths.decoded == 99
    assert lengths.context == 1052
    assert lengths.input_cv == 0.3
    expected = (300**2 + 100**2 / 12) ** 0.5
    assert lengths.context_std == pytest.approx(expected)
    no_wider = 15 / 3**0.5  # than from 0 on
    assert Lengths(10.0, 10.0, 100.0).context_std == pytest.approx(no_wider)
    iterations = 100.917 / 2.2
    assert DRAFTS.alone_s(LENGTHS) == pytest.approx(iterations * 1.4 * 0.021, rel=1e-5)
    twice = PLAIN.slowed(2.0)
    assert twice.decode_at(2.5) == pytest.approx(0.045)
    assert twice.prompt_at(6.5) == pytest.approx(0.11)
    assert twice.own_s == pytest.approx(0.004)


def test_a_slower_server_takes_longer_in_every_pass_and_for_every_prompt() -> None:
    """Also in those of each draft length, and where prompts share a pass or find a part in the cache."""
    prefill = PrefillTime(np.array([1.0, 100.0]), np.array([0.01, 0.02]), 1e-4, 0.005, cached_s=1e-9)
    steps = replace(PLAIN, prefill=prefill, table=(PLAIN, PLAIN))
    twice = steps.slowed(2.0)
    assert twice.prefill is not None
    decoding = np.array(10.0)
    read = np.array(50.0)
    np.testing.assert_allclose(twice.prefill(decoding, read), 2 * prefill(decoding, read))
    assert twice.prefill.cached_s == 2e-9
    for at_batch in twice.table:
        np.testing.assert_allclose(at_batch.decode_s, 2 * PLAIN.decode_s)


def test_a_server_that_seldom_fills_is_as_fast_as_one_that_never_does() -> None:
    """With all 32 seats taken fewer would leave than arrive; they are taken for 4e-5 of the time."""
    passes = np.append(np.ones(8), np.linspace(1.4, 12.0, 24)) * 6e-3
    steps = StepTimes(0, 1.0, passes, np.full(32, 1e-5), 32, 0.02)
    lengths = Lengths(100.0, 11.0)
    most, _ = capacity(steps, lengths, Limits())
    predicted = serve(steps, Load(lengths, rate=np.array([0.34, 0.5]) * most), Limits())
    assert predicted.metastable.all()
    assert predicted.tpot.mean == pytest.approx([0.0061, 0.0240], rel=0.02)


SERVERS = st.builds(
    lambda fixed_s, sequence_s, prompt_s, seats: StepTimes(
        0, 1.0, fixed_s + sequence_s * np.arange(1.0, seats + 1), np.full(seats, prompt_s), seats, 1.0 / seats
    ),
    st.floats(1e-3, 0.05),
    st.floats(1e-5, 1e-3),
    st.floats(1e-4, 1.0),
    st.integers(4, 300),
)
SIZES = st.builds(Lengths, st.floats(20, 20_000), st.floats(10, 2000))


def falls(values: np.ndarray, slack: float) -> bool:
    """Whether one value is below the one before by more than this share of it."""
    return bool((np.diff(values) < -slack * values[:-1]).any())


@settings(max_examples=60, deadline=None)
@given(SERVERS, SIZES, st.sampled_from([256, 2048, 16384]))
def test_more_clients_are_never_served_better(steps, lengths, tokens) -> None:
    """No less throughput, none above capacity, no lower TPOT."""
    limits = Limits(steps.seats, tokens)
    most = capacity(steps, lengths, limits).requests_per_s
    clients = np.unique(np.round(np.geomspace(1, 1000, 20)))
    predicted = serve(steps, Load(lengths, clients=clients), limits)
    assert (np.diff(predicted.requests_per_s) >= -1e-9 * most).all()
    assert (predicted.requests_per_s <= most * (1 + 1e-9)).all()
    assert not falls(predicted.tpot.mean, 1e-9)
    stay_s = predicted.ttft.mean + predicted.tpot.mean * lengths.decoded
    np.testing.assert_allclose(stay_s * predicted.requests_per_s, clients)


@pytest.mark.parametrize("think_s", [0.5, 5.0, 20.0])
@pytest.mark.parametrize("clients", [2.0, 9.0, 40.0])
def test_clients_that_think_obey_littles_law(clients: float, think_s: float) -> None:
    """All clients are either at the server or thinking."""
    served = serve(PLAIN, Load(LENGTHS, clients=np.array([clients]), think_s=think_s), Limits())
    cycle_s = served.ttft.mean + served.tpot.mean * LENGTHS.decoded + think_s
    assert served.requests_per_s * cycle_s == pytest.approx([clients], rel=1e-3)


@settings(max_examples=60, deadline=None)
@given(SERVERS, SIZES, st.sampled_from([256, 2048, 16384]), st.sampled_from([0.5, 1.0, 3.0]))
@example(
    StepTimes(0, 1.0, 1e-3 * np.arange(2.0, 6.0), np.full(4, 1e-3), 4, 0.25), Lengths(20.0, 77.0), 256, 3.0
)
def test_a_higher_rate_is_never_served_better(steps, lengths, tokens, burstiness) -> None:
    """No lower TPOT, no seat twice."""
    limits = Limits(steps.seats, tokens)
    most = capacity(steps, lengths, limits).requests_per_s
    rates = np.linspace(0.05, 1.2, 20) * most
    predicted = serve(steps, Load(lengths, rate=rates, burstiness=burstiness), limits)
    assert not falls(predicted.tpot.mean, 2e-3)
    assert (predicted.running <= steps.seats * (1 + 1e-9)).all()


def test_a_server_that_may_fill_up_is_as_slow_as_when_it_has() -> None:
    """Eight that decode leave at 63/s, five at 83: at rates between these bursts fill all eight seats."""
    passes = np.array([1.0, 1.0, 1.0, 1.0, 1.0, 1.4, 1.8, 2.1]) * 6e-3
    steps = StepTimes(0, 1.0, passes, np.full(8, 1e-5), 8, 0.1)
    lengths = Lengths(100.0, 11.0)
    most, _ = capacity(steps, lengths, Limits())
    rates = np.linspace(0.6, 1.0, 20) * most
    predicted = serve(steps, Load(lengths, rate=rates), Limits())
    assert predicted.metastable.any()
    assert (np.diff(predicted.tpot.mean) >= -1e-12).all()


def test_prompts_of_one_pass_share_its_fixed_time() -> None:
    """Of a Poisson number that ends in a pass; one with prompts takes 0.1 s more, whatever it reads."""
    prefill = PrefillTime(np.array([0.0, 1e6]), np.zeros(2), 0.0, pass_s=0.1)
    ending = np.array([1e-9, 0.7, 5.0])
    left = np.full(3, 400.0)
    decoding = np.ones(3)
    passes = np.ones(3)
    predicted = prompt_s_of(prefill, left, decoding, ending, passes, 100.0)
    in_a_pass = 0.7 / (1 - np.exp(-0.7))  # of the prompts of a pass that has any
    np.testing.assert_allclose(predicted, [0.1, 0.1 / in_a_pass, 0.025])  # at most four fit
    long = prompt_s_of(prefill, left, decoding, ending, 3.0 * passes, 1000.0)
    busy = 1 - np.exp(-3.0 * 0.7)  # three passes where one prompt is alone; 2.5 where the next one follows
    waits = max(busy / 0.7, 2.5)
    np.testing.assert_allclose(long, [0.3, 0.1 * waits, 0.25])


def test_a_pass_that_jumps_with_the_batch_leaves_a_first_token_its_time() -> None:
    """Passes of 10 ms up to 8 requests and of 20 from 9 on, as captured graphs are padded: 9 clients are
    served no faster than 8, in a cycle that is 9/8 as long, its parts too.
    """
    batch = np.arange(1.0, 33.0)
    decode_s = np.where(batch > 8, 0.02, 0.01)
    steps = StepTimes(0, 1.0, decode_s, np.full(32, 0.05), 32, 0.01)
    clients = np.array([8.0, 9.0, 10.0])
    predicted = serve(steps, Load(Lengths(1000.0, 801.0), clients=clients), Limits())
    ttft = predicted.ttft.mean
    assert (np.diff(predicted.requests_per_s) >= 0).all()
    assert (np.diff(ttft) > -0.5 * ttft[0]).all()
    assert (ttft > 0.025).all(), "half of its own prompt"


def test_a_prompt_that_just_fills_a_pass_makes_another_wait_for_one_more() -> None:
    """Half of 0.2 others are before it, 10 ms each, and half beside, a pass of 10 ms: 2 ms over 1 - 0.2."""
    pass_s = np.full(2, 0.010)
    steps = StepTimes(0, 1.0, pass_s, pass_s, 2, 0.01)

    def others_s(per_pass: float) -> float:
        met = as_passes_end(steps, np.ones(1), np.full(1, 0.2), np.full(1, per_pass), np.full(1, 9.0))
        return met.others.mean.item()

    assert others_s(1.0) == pytest.approx(0.0025)
    assert others_s(2.0) == pytest.approx(0.002 / (1 - 0.01))  # two fit: all are in the same pass
