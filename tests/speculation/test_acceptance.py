"""Tokens per iteration: golden numbers, exact conversions, mixtures, and the type that the engine holds."""

import math
import pickle
from functools import partial

import numpy as np
import pytest
from hypothesis import example, given, strategies as st

from perfmodel.specs import AcceptanceRow
from perfmodel.speculation import Acceptance, acceptance as acc
from tests.refusals import refused

rates = st.floats(0, 1)
NAN = math.nan
positions = st.lists(rates, min_size=1, max_size=12)


# Omega.


@given(st.integers(0, 64), rates)
@example(0, 0.0)
@example(5, 1.0)
@example(4, 1 - 1e-16)
def test_omega_is_the_sum_of_powers(gamma, alpha):
    powers = [alpha**j for j in range(gamma + 1)]
    assert acc.tokens_per_iteration(gamma, alpha) == pytest.approx(math.fsum(powers), rel=2e-14)


# Alpha, positions, survival.


@given(st.integers(1, 16), st.floats(0.01, 1))
def test_alpha_comes_back_from_omega(gamma, alpha):
    omega = acc.tokens_per_iteration(gamma, alpha)
    back = acc.alpha_from_tokens_per_iteration(omega, gamma)
    assert back == pytest.approx(alpha, rel=1e-10)


def test_alpha_from_omega_broadcasts_and_hits_the_ends():
    gained = np.array([[1.0], [2.0], [2.952]])
    lengths = np.array([2.0, 3.0, 64.0])
    alpha = acc.alpha_from_tokens_per_iteration(gained, lengths)
    assert alpha.shape == (3, 3)
    assert alpha[0] == pytest.approx(0, abs=1e-12)
    assert alpha[2, 1] == pytest.approx(0.8, rel=1e-12)
    assert acc.alpha_from_tokens_per_iteration(4.0, 3) == 1.0
    assert np.ndim(acc.alpha_from_tokens_per_iteration(2.0, 3)) == 0
    assert acc.alpha_from_tokens_per_iteration(1.25, 4096) == pytest.approx(0.2, rel=1e-12)


@given(positions)
@example([0.9, 0.8])
def test_conditional_and_survival_convert_both_ways(a):
    survival = Acceptance.from_positions(a).survival(len(a))
    products = [math.prod(a[:n]) for n in range(len(a) + 1)]
    np.testing.assert_allclose(survival, products)
    conditional = acc.conditional_from_survival(survival)
    again = Acceptance.from_positions(conditional).survival(len(a))
    np.testing.assert_allclose(again, survival, rtol=1e-10, atol=1e-300)


def test_ngram_by_hand():
    # hit half the time, runs of 4 on average: 1 + .5 * (1 + .75 + .5625) = 2.15625 at gamma 3
    ngram = Acceptance.from_ngram(0.5, 4)
    assert ngram.tokens_per_iteration(3) == pytest.approx(2.15625)
    assert ngram.tokens_per_iteration(2000) == pytest.approx(3)  # 1 + hit x run length
    assert ngram.max_gamma is None
    assert ngram.alpha is None
    assert Acceptance.from_ngram(0.3, 1).tokens_per_iteration(8) == pytest.approx(1.3)


def test_how_far_an_acceptance_is_carried():
    # a constant is measured at one token unless it is said where: from 4 tokens an iteration to 2 and to 8
    alpha = Acceptance.from_alpha(0.5)
    known = Acceptance.from_tokens_per_iteration(2.0, 3)
    by_positions = Acceptance.from_positions([0.5, 0.4])
    doubling = math.log(2)
    np.testing.assert_allclose(alpha.log_distance([0, 1, 3]), [0, 0, doubling])
    np.testing.assert_allclose(known.log_distance([0, 1, 3, 7]), [0, doubling, 0, doubling])
    assert by_positions.log_distance([1, 2]).tolist() == [0, 0]
    assert known.effective_alpha(9) == known.alpha
    equal = Acceptance.from_positions([0.8, 0.8])
    assert equal.effective_alpha(2) == pytest.approx(0.8)


# Measured curves.


def test_printed_lengths_are_met_and_acceptance_is_constant_between_them():
    """Gains of 0.8, then 1.0 of two tokens (a + a^2 = 1.25), then 0.2 of one; nothing is known beyond."""
    one = Acceptance.from_lengths([1, 3, 4], [1.8, 2.8, 3.0], "printed")
    gained = one.tokens_per_iteration([0, 1, 3, 4])
    assert gained == pytest.approx([1, 1.8, 2.8, 3.0])
    a = (6**0.5 - 1) / 2
    last = 0.2 / (0.8 * a * a)
    assert one.prefix == pytest.approx((0.8, a, a, last))
    assert one.max_gamma == 4
    assert one.measured_at == (1, 3, 4)
    assert one.spread == 0.0
    between = math.log(4 / 3)
    assert one.log_distance([0, 1, 2, 3]) == pytest.approx([0, 0, between, 0])


@pytest.mark.parametrize(
    ("drafted", "omega", "known", "gained"),
    [
        ([1, 2, 4], [1.2, 1.8, 2.0], [2, 4], [1.8, 2.0]),  # 0.2 and then 0.6 a token: 0.4 each
        ([1, 2, 3], [1.6, 1.5, 1.9], [1, 3], [1.6, 2.0]),  # a fall is a gain of nothing; 0 and 0.4: 0.2 each
        ([2, 3, 5], [1.8, 2.3, 4.2], [5], [4.2]),  # all three pooled, one after the other
        ([1, 2, 3], [1.5, 2.0, 2.5], [1, 2, 3], [1.5, 2.0, 2.5]),  # as much each time is no growth
        ([1, 3], [2.0, 4.0], [1, 3], [2.0, 4.0]),  # all accepted
        ([1, 3], [1.0, 1.0], [1, 3], [1.0, 1.0]),  # none
    ],
)
def test_a_printed_curve_never_gains_more_with_length(drafted, omega, known, gained):
    one = Acceptance.from_lengths(drafted, omega, "printed")
    assert one.measured_at == tuple(known)
    assert one.tokens_per_iteration(np.array(known)) == pytest.approx(gained)


@pytest.mark.parametrize(
    ("drafted", "omega", "more", "prefix"),
    [
        ([3], [2.4], {"survival": (0.8, 0.4, 0.6)}, (0.8, 0.5, 1.0)),
        ([3], [2.952], {"survival": (0.8, 0.4)}, (0.8, 0.8, 0.8)),  # too few positions
        ([1, 3], [1.0, 1.0], {}, (0, 0, 0)),
        ([1], [1.8], {}, (0.8, 0.8, 0.8)),
        ([1], [1.8], {"decay": 0.9}, (0.8, 0.72, 0.648)),
    ],
)
def test_printed_positions_stand_in_for_lengths_and_a_short_curve_is_carried_to_three(
    drafted, omega, more, prefix
):
    one = Acceptance.from_lengths(drafted, omega, "printed", **more)
    assert one.prefix == pytest.approx(prefix), (drafted, omega, more)


def test_what_differs_between_texts_is_the_accepted_tokens():
    """0.2 of 2.8 tokens is 0.31 of the 1.8 accepted ones; of 0.8 of 1.8 it is 0.14."""
    one = Acceptance.from_lengths([1, 3], [1.8, 2.8], "printed", spread=0.2)
    shorter = 0.2 * (2.8 / 1.8) * (0.8 / 1.8)
    assert one.log_spread([0, 1, 3]) == pytest.approx([0.0, shorter, 0.2])
    alike = Acceptance.from_alpha(0.5)
    assert alike.log_spread([0, 3]).tolist() == [0, 0]


# The type the engine holds.


@pytest.mark.parametrize(
    "one",
    [
        *map(Acceptance.from_alpha, (0.8, 0.0, 1.0)),
        Acceptance.from_tokens_per_iteration(2.5, 3),
        Acceptance.from_positions([0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2]),
        Acceptance.from_ngram(0.4, 3),
    ],
    ids=lambda one: one.source,
)
def test_survival_sums_to_tokens_per_iteration(one):
    survival = one.survival(8)
    assert survival.shape == (9,)
    assert survival[0] == pytest.approx(1)
    gained = one.tokens_per_iteration(np.arange(9))
    np.testing.assert_allclose(np.cumsum(survival), gained, rtol=1e-12)
    np.testing.assert_allclose(one.survival(4), survival[:5])
    assert one.tokens_per_iteration(0) == pytest.approx(1)
    of_alpha = acc.tokens_per_iteration(8, one.effective_alpha(8))
    assert of_alpha == pytest.approx(gained[8])
    assert one.source
    copied = pickle.loads(pickle.dumps(one))
    np.testing.assert_array_equal(copied.survival(8), survival)


def test_positions_end_where_they_were_measured():
    one = Acceptance.from_positions([0.9, 0.8, 0.5], "my run")
    assert one.max_gamma == 3
    assert one.tokens_per_iteration(3) == pytest.approx(2.98)
    says = r"gamma: must be at most 3, the positions that were measured \(my run\)"
    refused(says, one.survival, 4)
    refused(says, one.tokens_per_iteration, np.array([1, 4]))


@pytest.mark.parametrize(
    "build",
    [
        *(
            partial(acc.tokens_per_iteration, *a)
            for a in ((3, -0.1), (3, 1.1), (3, NAN), (-1, 0.5), (NAN, 0.5))
        ),
        *(partial(acc.alpha_from_tokens_per_iteration, omega, 3) for omega in (0.99, 4.01, NAN, math.inf)),
        *(partial(acc.alpha_from_tokens_per_iteration, *a) for a in ((1, 0), (2, 2.5), (2, 10_000))),
        lambda: acc.conditional_from_survival([[1, 0.5], [0.9, 0.5]]),
        lambda: acc.conditional_from_survival([[1, 0.5, 0.4], [1, 0.5, 0.6]]),
        lambda: Acceptance.from_lengths([1], [2.01], "printed"),
        lambda: Acceptance.from_lengths([1], [0.99], "printed"),
        lambda: Acceptance.from_lengths([0], [1.0], "printed"),
        lambda: Acceptance.from_lengths([1, 3], [1.5, NAN], "printed"),
        lambda: Acceptance.from_alpha(1.01),
        lambda: Acceptance.from_alpha(NAN),
        lambda: Acceptance.from_tokens_per_iteration(5, 3),
        lambda: Acceptance.from_positions([]),
        lambda: Acceptance.from_positions([0.5, 1.5]),
        lambda: Acceptance.from_ngram(1.2, 3),
        lambda: Acceptance.from_ngram(0.5, 0.5),
        lambda: Acceptance.from_ngram(0.5, math.inf),
        lambda: Acceptance.from_alpha(0.5).survival(-1),
        lambda: Acceptance.from_alpha(0.5).survival(10**9),
    ],
)
def test_what_cannot_be_is_refused(build):
    refused(".", build)


def test_a_row_of_positions_is_read_by_position() -> None:
    row = AcceptanceRow("s", "t", "d", "full", None, 1000.0, None, (0.8, 0.6))
    gained = Acceptance.from_row(row).tokens_per_iteration(2)
    assert gained == pytest.approx(1 + 0.8 + 0.8 * 0.6)
    without = AcceptanceRow("s", "t", "d", "full", None, 1000.0, None)
    refused("s: must have alpha or positions", Acceptance.from_row, without)


def test_a_decaying_acceptance_reaches_two_positions_beyond_its_length() -> None:
    """1.75 tokens at two drafted ones are an acceptance of 0.5. It falls to 0.25 and 0.125 beyond them."""
    measured = Acceptance.from_tokens_per_iteration(1.75, 2.0, decay=0.5)
    assert measured.max_gamma == 4
    assert measured.survival(4) == pytest.approx([1, 0.5, 0.25, 0.25**2, 0.25**2 / 8])
    refused("at most 4, the positions that were measured and 2 more", measured.survival, 5)
    refused("--gamma: must be from 0 to 4096, given 4097", Acceptance.from_alpha(0.5).survival, 4097)
