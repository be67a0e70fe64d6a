"""The closed form's answers, pinned number by number over what branches it has, and what they must add up to."""

import numpy as np
import pytest

from perfmodel.queueing.closed import BLOCK, ServedLoad, mean_tpot_s, serve
from perfmodel.queueing.load import Lengths, Limits, Load
from perfmodel.queueing.steps import StepTimes

LENGTHS = Lengths(1000.0, 101.0, 300.0, 40.0)
EQUAL = Lengths(1000.0, 101.0)
DECODE = 0.02 + 0.001 * np.arange(1.0, 13.0)
PLAIN = StepTimes(0, 1.0, DECODE, np.linspace(0.05, 0.06, 12), 12, 0.07, 0.004, 0.5)
"""Passes of 21 to 32 ms, prompts of 50 to 60; half a pass is handed out ahead. At most 3.06 requests a second."""
DRAFTS = StepTimes(3, 2.2, 1.4 * DECODE, np.linspace(0.05, 0.06, 12), 12, 0.07, 0.04)
"""A draft of three tokens, of requests that spend longer on the way in than a pass takes."""
WIDE = StepTimes(0, 1.0, 0.02 + 0.0002 * np.arange(1.0, 101.0), np.full(100, 0.02), 100, 0.02)
TWO, ONE, PART = (Limits(max_num_batched_tokens=tokens) for tokens in (1900, 1300, 700))
"""Prompts that fit in a pass: more than one, about one, and part of one."""
CASES = {
    "rates": (PLAIN, Load(LENGTHS, rate=np.array([0.5, 2.5, 3.0, 4.0])), Limits(), 0.0, [
        (1.139216, 2.561019, 0.5, 0.09161447, 0.0004182039, 1.846846e-06, 0.02278432, 2.876298e-06, 1.621357e-09),
        (8.636978, 84.03699, 2.5, 0.6377919, 1.495355, 6.695267, 0.03454791, 2.4691e-05, -2.22415e-08),
        (11.62663, 136.5341, 3, 14.33815, 249.7591, 8022.49, 0.03875542, 1.355995e-05, -6.635826e-09),
        (12, 144, 3.061224, 0.1495655, 0.001302613, 0.0001046793, 0.0392, 6.41134e-06, 2.592e-09)]),
    "bursts": (PLAIN, Load(LENGTHS, rate=np.array([2.5]), burstiness=0.5), TWO, 0.0, [
        (8.803763, 90.47443, 2.5, 1.803822, 11.77713, 127.3264, 0.03521505, 2.990521e-05, -3.879254e-08)]),
    "drafts": (DRAFTS, Load(LENGTHS, rate=np.array([1.0, 2.8])), ONE, 0.1, [
        (1.520456, 4.11135, 1, 0.1425382, 0.0005540325, 2.306231e-05, 0.01520456, 9.28341e-06, 7.19268e-09),
        (5.708467, 41.31145, 2.8, 0.1967906, 0.03396827, 0.0588118, 0.02038738, 2.605447e-05, 1.717987e-08)]),
    "cut prompts": (PLAIN, Load(EQUAL, rate=np.array([2.0])), PART, 0.0, [
        (6.153722, 46.6013, 2, 0.2028281, 0.09680382, 0.2545422, 0.03076861, 2.111219e-05, 1.466201e-09)]),
    "clients": (PLAIN, Load(LENGTHS, clients=np.array([1.0, 2.0, 4.0, 30.0])), Limits(256, 2900), 0.0, [
        (0.9655172, 0.9655172, 0.4597701, 0.075, 0.000225, 0, 0.021, 0, 0),
        (1.912317, 3.73695, 0.8509558, 0.1030408, 0.0002919226, 7.655968e-07, 0.02247258, 6.486525e-08, 0),
        (3.830272, 14.8119, 1.503956, 0.1128546, 0.0003978353, 4.05639e-06, 0.02546797, 2.083174e-07, 0),
        (11.54167, 133.4584, 3.025953, 6.100005, 0.3549065, 2.189573e-05, 0.03814226, 9.833998e-07, 0)]),
    "clients of drafts": (DRAFTS, Load(LENGTHS, clients=np.array([3.0, 12.0])), ONE, 0.5, [
        (2.738829, 7.694144, 1.763592, 0.1480905, 0.0004443437, 5.295613e-06, 0.01552983, 8.503957e-05, 2.611009e-07),
        (11.2118, 125.8714, 4.274182, 0.1844093, 0.002057005, 5.617796e-05, 0.02623145, 0.000243205, 1.258274e-06)]),
}  # fmt: skip
"""Server, load, limits, spread of acceptance, and the figures by load."""


def figures(told: ServedLoad) -> np.ndarray:
    """Running, its square, requests per second; mean, variance and third moment of TTFT and of TPOT: by load."""
    crowd = told.share @ np.arange(told.share.shape[1]) ** 2.0
    times = [getattr(time, name) for time in (told.ttft, told.tpot) for name in ("mean", "variance", "third")]
    return np.array([told.running, crowd, told.requests_per_s, *times]).T


@pytest.mark.parametrize("name", CASES)
def test_an_answer_is_what_it_was_and_its_parts_add_up(name: str) -> None:
    steps, load, limits, spread, answer = CASES[name]
    told = serve(steps, load, limits, spread)
    np.testing.assert_allclose(figures(told), answer, rtol=2e-6)
    np.testing.assert_allclose(told.tpot.mean, mean_tpot_s(steps, load, limits))
    np.testing.assert_allclose(told.kv_share, np.minimum(told.running * steps.kv_share, 1.0))
    np.testing.assert_allclose(told.ttft.least, steps.own_s + steps.prompt_s[0] / 2)  # half a prompt, alone
    tokens, varies = load.lengths.output_mean - 1, load.lengths.output_std**2
    np.testing.assert_allclose(told.e2e.mean, told.ttft.mean + tokens * told.tpot.mean)
    square = told.tpot.variance + told.tpot.mean**2
    np.testing.assert_allclose(told.e2e.variance, told.ttft.variance + tokens**2 * told.tpot.variance + varies * square)
    np.testing.assert_allclose(told.e2e.third, told.ttft.third + tokens**3 * told.tpot.third)


def test_more_loads_than_a_block_are_answered_one_by_one() -> None:
    rates = np.linspace(0.1, 4.0, BLOCK + 2)
    whole = serve(PLAIN, Load(LENGTHS, rate=rates), Limits())
    for at in (0, BLOCK - 1, BLOCK, BLOCK + 1):
        one = serve(PLAIN, Load(LENGTHS, rate=rates[[at]]), Limits())
        np.testing.assert_allclose(figures(whole)[at], figures(one)[0])
        assert (whole.saturated[at], whole.saturation_rate) == (one.saturated[0], one.saturation_rate)


def test_what_is_left_out() -> None:
    assert Lengths(9.0, 5.0) == Lengths(9.0, 5.0, 0.0, 0.0)
    assert (Load(LENGTHS).burstiness, Limits()) == (1.0, Limits(256, 8192, 0.92))
    assert (WIDE.table, WIDE.reading, WIDE.own_s, WIDE.passes_ahead) == ((), None, 0.0, 0.0)
    for spread in ((), (0.0,)):
        np.testing.assert_allclose(
            serve(DRAFTS, Load(LENGTHS, rate=2.0), ONE, *spread).tpot.variance, 9.601734e-06, rtol=1e-6
        )


def test_lengths_and_times_by_hand() -> None:
    """A longer output stays longer: 100 -+ 20 are met half read, at (100^2 + 20^2) / 200 tokens."""
    lengths = Lengths(1000.0, 100.0, 300.0, 20.0)
    assert (lengths.decoded, lengths.context, lengths.input_cv) == (99, 1052, 0.3)
    assert lengths.context_std == pytest.approx((300**2 + 100**2 / 12) ** 0.5)
    assert Lengths(10.0, 10.0, 100.0).context_std == pytest.approx(15 / 3**0.5)  # no wider than from 0 on
    assert DRAFTS.alone_s(LENGTHS) == pytest.approx(100 / 2.2 * 1.4 * 0.021)
    twice = PLAIN.scaled(2.0)
    assert (twice.decode_at(2.5), twice.prompt_at(6.5), twice.own_s) == pytest.approx((0.045, 0.11, 0.004))
