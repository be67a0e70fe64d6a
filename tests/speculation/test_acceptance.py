"""Tokens per iteration: golden numbers, exact conversions, mixtures, and the type that the engine holds."""

import math
import pickle

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from perfmodel.errors import InputError
from perfmodel.speculation import acceptance as acc
from perfmodel.speculation.acceptance import Acceptance

rates = st.floats(0, 1)
gammas = st.integers(1, 64)
positions = st.lists(rates, min_size=1, max_size=12)


def summed(gamma: int, alpha: float) -> float:
    return math.fsum(alpha**j for j in range(gamma + 1))


# Omega.


@pytest.mark.parametrize(
    ("gamma", "alpha", "omega"),
    [
        (3, 0.8, 2.952),  # 1 + .8 + .64 + .512
        (2, 0.5, 1.75),
        (0, 0.8, 1.0),
        (0, 0.0, 1.0),
        (0, 1.0, 1.0),
        (5, 0.0, 1.0),
        (5, 1.0, 6.0),
        (4, 1 - 1e-16, 5.0),
    ],
)
def test_omega_by_hand(gamma, alpha, omega):
    assert acc.tokens_per_iteration(gamma, alpha) == pytest.approx(omega, rel=1e-14)


@given(st.integers(0, 64), rates)
def test_omega_is_the_sum_of_powers(gamma, alpha):
    assert acc.tokens_per_iteration(gamma, alpha) == pytest.approx(summed(gamma, alpha), rel=2e-14)


@given(st.integers(1, 64), st.floats(1e-18, 1e-3))
def test_omega_is_stable_near_one(gamma, refused):
    alpha = 1 - refused
    assert acc.tokens_per_iteration(gamma, alpha) == pytest.approx(summed(gamma, alpha), rel=2e-14)


def test_omega_broadcasts():
    omega = acc.tokens_per_iteration(np.arange(5.0), np.array([0.0, 0.8, 1.0])[:, None])
    assert omega.shape == (3, 5)
    np.testing.assert_allclose(omega[1], [1, 1.8, 2.44, 2.952, 3.3616])
    np.testing.assert_array_equal(omega[2], [1, 2, 3, 4, 5])


@pytest.mark.parametrize(("gamma", "alpha"), [(3, -0.1), (3, 1.1), (3, math.nan), (-1, 0.5), (math.nan, 0.5)])
def test_omega_refuses_what_cannot_be(gamma, alpha):
    with pytest.raises(InputError):
        acc.tokens_per_iteration(gamma, alpha)


# Six ways of reporting it.


@given(gammas, rates)
def test_alpha_from_omega_gives_omega_back(gamma, alpha):
    omega = acc.tokens_per_iteration(gamma, alpha)
    assert acc.tokens_per_iteration(gamma, acc.alpha_from_tokens_per_iteration(omega, gamma)) == pytest.approx(
        omega, rel=1e-12
    )


@given(st.integers(1, 16), st.floats(0.01, 1))
def test_alpha_comes_back_from_omega(gamma, alpha):
    back = acc.alpha_from_tokens_per_iteration(acc.tokens_per_iteration(gamma, alpha), gamma)
    assert back == pytest.approx(alpha, rel=1e-10)


def test_alpha_from_omega_broadcasts_and_hits_the_ends():
    alpha = acc.alpha_from_tokens_per_iteration(np.array([[1.0], [2.0], [2.952]]), np.array([1.0, 3.0, 64.0]).clip(2))
    assert alpha.shape == (3, 3)
    assert alpha[0] == pytest.approx(0, abs=1e-12)
    assert alpha[2, 1] == pytest.approx(0.8, rel=1e-12)
    assert acc.alpha_from_tokens_per_iteration(4.0, 3) == 1.0
    assert np.ndim(acc.alpha_from_tokens_per_iteration(2.0, 3)) == 0
    assert acc.alpha_from_tokens_per_iteration(1.25, 4096) == pytest.approx(0.2, rel=1e-12)


@pytest.mark.parametrize(
    ("omega", "gamma"), [(0.99, 3), (4.01, 3), (math.nan, 3), (math.inf, 3), (1, 0), (2, 2.5), (2, 10_000)]
)
def test_alpha_from_omega_refuses_what_cannot_be(omega, gamma):
    with pytest.raises(InputError) as refusal:
        acc.alpha_from_tokens_per_iteration(omega, gamma)
    assert "\n" not in str(refusal.value)


def test_positions_by_hand():
    # 1 + .9 + .9*.8 + .9*.8*.5 = 2.98
    assert acc.tokens_from_conditional([0.9, 0.8, 0.5]) == pytest.approx(2.98)
    np.testing.assert_allclose(acc.survival_from_conditional([[0.9, 0.8], [0.5, 0.0]]), [[1, 0.9, 0.72], [1, 0.5, 0]])


@given(positions)
def test_conditional_and_survival_convert_both_ways(a):
    survival = acc.survival_from_conditional(a)
    again = acc.survival_from_conditional(acc.conditional_from_survival(survival))
    np.testing.assert_allclose(again, survival, rtol=1e-10, atol=1e-300)


@given(positions)
def test_tokens_rates_and_sigma_convert_both_ways(a):
    gamma, omega = len(a), acc.tokens_from_conditional(a)
    omega = min(float(omega), gamma + 1.0)
    for back in (
        acc.tokens_from_accepted(acc.accepted_from_tokens(omega)),
        acc.tokens_from_accept_rate(acc.accept_rate_from_tokens(omega, gamma), gamma),
        acc.tokens_from_sigma(acc.sigma_from_tokens(omega, gamma), gamma),
    ):
        assert back == pytest.approx(omega, rel=1e-10)


def test_one_example_in_all_six_words():
    omega = acc.tokens_per_iteration(3, 0.8)
    assert acc.accepted_from_tokens(omega) == pytest.approx(1.952)
    assert acc.accept_rate_from_tokens(omega, 3) == pytest.approx(0.6506666666666666)
    assert acc.sigma_from_tokens(omega, 3) == pytest.approx(0.738)
    np.testing.assert_allclose(acc.conditional_from_survival([1, 0.8, 0.64, 0.512]), [0.8, 0.8, 0.8])
    assert acc.tokens_from_survival([1, 0.8, 0.64, 0.512]) == pytest.approx(omega)


def test_histogram_gives_survival_and_the_mean_length():
    counts = [10, 20, 30, 40]  # accepted 0, 1, 2, 3 of 3 drafts: mean 2.0
    survival = acc.survival_from_histogram(counts)
    np.testing.assert_allclose(survival, [1, 0.9, 0.7, 0.4])
    assert acc.tokens_from_survival(survival) == pytest.approx(3.0)


@pytest.mark.parametrize(
    ("convert", "values"),
    [
        (acc.accepted_from_tokens, (0.5,)),
        (acc.tokens_from_accepted, (-0.5,)),
        (acc.accept_rate_from_tokens, (1.0, 0)),
        (acc.accept_rate_from_tokens, (5.0, 3)),
        (acc.tokens_from_accept_rate, (1.5, 3)),
        (acc.tokens_from_accept_rate, (0.5, 0)),
        (acc.sigma_from_tokens, (4.5, 3)),
        (acc.tokens_from_sigma, (0.1, 3)),
        (acc.tokens_from_sigma, (1.1, 3)),
        (acc.survival_from_conditional, ([0.5, 1.2],)),
        (acc.conditional_from_survival, ([0.9, 0.5],)),
        (acc.conditional_from_survival, ([1, 0.5, 0.6],)),
        (acc.survival_from_histogram, ([0, 0],)),
        (acc.survival_from_histogram, ([1, -1],)),
    ],
)
def test_converters_refuse_what_cannot_be(convert, values):
    with pytest.raises(InputError):
        convert(*values)


@pytest.mark.parametrize(
    "call",
    [
        lambda: acc.tokens_per_iteration(3, np.array([0.5, 1.5])),
        lambda: acc.alpha_from_tokens_per_iteration(np.array([2.0, 4.5]), 3),
        lambda: acc.alpha_from_tokens_per_iteration(np.array([2.0, 0.5]), 3),
        lambda: acc.alpha_from_tokens_per_iteration(2.0, np.array([3, 2.5])),
        lambda: acc.conditional_from_survival([[1, 0.5], [0.9, 0.5]]),
        lambda: acc.conditional_from_survival([[1, 0.5, 0.4], [1, 0.5, 0.6]]),
        lambda: acc.survival_from_histogram([[1, 2], [0, 0]]),
        lambda: acc.accept_rate_from_tokens(np.array([2.0, 4.5]), 3),
        lambda: acc.sigma_from_tokens(np.array([1.0, 4.5]), 3),
        lambda: acc.tokens_from_sigma(np.array([0.5, 0.2]), 3),
        lambda: Acceptance.from_beta(2, 2).tokens_per_iteration([1, 1.5]),
    ],
)
def test_one_value_of_many_that_cannot_be_is_refused(call):
    with pytest.raises(InputError):
        call()


def test_values_at_the_very_ends_are_taken():
    assert acc.alpha_from_tokens_per_iteration(np.array([1.0, 4.0]), 3).tolist() == pytest.approx([0, 1], abs=1e-12)
    assert acc.alpha_from_tokens_per_iteration(1.5, 1) == pytest.approx(0.5)
    assert acc.accept_rate_from_tokens(4.0, 3) == 1
    assert acc.accept_rate_from_tokens(2.0, 1) == 1
    assert acc.sigma_from_tokens(1.0, 0) == 1
    assert acc.tokens_from_sigma(1 / 3, 2) == 1
    assert 1 / 49 * 49 < 1  # rounded to a hair under one token
    assert acc.tokens_from_sigma(1 / 49, 48) == 1.0
    with pytest.raises(InputError, match="sigma: must be in"):
        acc.tokens_from_sigma((1 - 1e-9) / 49, 48)
    with pytest.raises(InputError, match="new tokens"):
        acc.static_batch_tokens_per_iteration([1, 0.5], 1, 100_001)
    assert acc.conditional_from_survival([1, 0.5, 0, 0]).tolist() == [0.5, 0, 0]
    assert acc.tokens_from_accept_rate(1, 1) == 2
    assert acc.tokens_from_accepted(0) == acc.accepted_from_tokens(2) == 1
    assert acc.lockstep_tokens_per_iteration([1, 0.5], 1) == 1.5
    assert acc.static_batch_tokens_per_iteration([1, 0.5], 1, 1) == 1
    assert Acceptance.from_positions([1.0]).survival(1).tolist() == [1, 1]
    assert Acceptance.from_positions([0.5] * acc.MAX_GAMMA).max_gamma == acc.MAX_GAMMA
    with pytest.raises(InputError, match="1 to 4096 rates"):
        Acceptance.from_positions([0.5] * (acc.MAX_GAMMA + 1))
    for least in (1e-3, 1e6):
        assert Acceptance.from_beta(least, least).beta == (least, least, "iteration")
    assert Acceptance.from_ngram(0.5, 1).tail == 0
    assert Acceptance.from_alpha(0.5).survival(acc.MAX_GAMMA).size == acc.MAX_GAMMA + 1
    assert Acceptance.from_alpha(0.5).survival(0).tolist() == [1]


# Mixtures.


def test_beta_mixture_golden_numbers():
    assert acc.beta_survival(4, 1.5, 5).sum() == pytest.approx(3.41, abs=0.005)
    assert acc.beta_survival(4, 1.5, 5, "request").sum() == pytest.approx(2.98, abs=0.005)


@given(st.floats(0.05, 100), st.floats(0.05, 100), st.integers(1, 32))
def test_beta_mixture_is_a_ratio_of_beta_functions(a, b, gamma):
    def log_beta(x, y):
        return math.lgamma(x) + math.lgamma(y) - math.lgamma(x + y)

    omega = math.fsum(math.exp(log_beta(a + j, b) - log_beta(a, b)) for j in range(gamma + 1))
    assert acc.beta_survival(a, b, gamma).sum() == pytest.approx(omega, rel=1e-10)


@given(st.floats(0.05, 100), st.floats(0.05, 100), st.integers(0, 32))
def test_mean_per_request_is_never_above_mean_per_iteration(a, b, gamma):
    each, mixed = acc.beta_survival(a, b, gamma, "request"), acc.beta_survival(a, b, gamma)
    assert np.all(np.cumsum(each) <= np.cumsum(mixed) * (1 + 1e-9))
    assert each[0] == pytest.approx(1)


@given(st.floats(0.05, 100), st.floats(0.05, 100))
def test_quadrature_gives_every_moment_exactly(a, b):
    alpha, weight = acc.beta_nodes(a, b)
    np.testing.assert_allclose(
        weight @ alpha[:, None] ** np.arange(33.0), acc.beta_survival(a, b, 32), rtol=1e-9, atol=1e-13
    )


def test_mean_per_request_agrees_with_simulation():
    alpha = np.random.default_rng(0).beta(4, 1.5, 400_000)
    simulated = 1 / np.mean(1 / acc.tokens_per_iteration(5, alpha))
    assert acc.beta_survival(4, 1.5, 5, "request").sum() == pytest.approx(simulated, rel=2e-3)


def test_a_narrow_mixture_is_its_mean():
    for weighting in ("iteration", "request"):
        omega = Acceptance.from_beta(8e5, 2e5, weighting).tokens_per_iteration(5)
        assert omega == pytest.approx(acc.tokens_per_iteration(5, 0.8), rel=1e-5)


def test_ngram_by_hand():
    # hit half the time, runs of 4 on average: 1 + .5 * (1 + .75 + .5625) = 2.15625 at gamma 3
    ngram = Acceptance.from_ngram(0.5, 4)
    assert ngram.tokens_per_iteration(3) == pytest.approx(2.15625)
    assert ngram.tokens_per_iteration(2000) == pytest.approx(3)  # 1 + hit x run length
    assert ngram.max_gamma is None
    assert ngram.alpha is None
    assert Acceptance.from_ngram(0.3, 1).tokens_per_iteration(8) == pytest.approx(1.3)


def test_a_decay_by_hand():
    # .8, .4, .2, ...: 1 + .8 + .32 + .064 at gamma 3; past 64 positions the rate stays as it is there
    heads = Acceptance.from_decay(0.8, 0.5)
    assert heads.tokens_per_iteration(3) == pytest.approx(2.184)
    assert heads.tokens_per_iteration(0) == 1.0
    level = Acceptance.from_decay(1.0, 0.99)
    rates = acc.conditional_from_survival(level.survival(80))
    np.testing.assert_allclose(rates[:64], 0.99 ** np.arange(64), rtol=1e-9)
    np.testing.assert_allclose(rates[64:], 0.99**64, rtol=1e-9)
    assert "alpha 0.8, times 0.5 at each further position" in heads.source
    assert Acceptance.from_decay(0.8, 0.5, "mine").source == "mine"


def test_how_far_an_acceptance_is_carried():
    # a constant is measured at one token unless it is said where: from 4 tokens an iteration to 2 and to 8
    alpha, known = Acceptance.from_alpha(0.5), Acceptance.from_tokens_per_iteration(2.0, 3)
    np.testing.assert_allclose(alpha.carried([0, 1, 3]), [0, 0, math.log(2)])
    np.testing.assert_allclose(known.carried(np.array([0, 1, 3, 7])), [0, math.log(2), 0, math.log(2)])
    assert Acceptance.from_positions([0.5, 0.4]).carried([1, 2]).tolist() == [0, 0]
    assert known.effective_alpha(9) == known.alpha
    assert Acceptance.from_positions([0.8, 0.8]).effective_alpha(2) == pytest.approx(0.8)


# The marginal rule.


@given(
    st.integers(0, 10), st.floats(0.05, 0.99), st.floats(0.01, 1), st.floats(1, 3), st.floats(0, 0.5), st.floats(0, 0.5)
)
def test_one_more_pays_exactly_where_speedup_rises(gamma, alpha, c, v, rise, o):
    now = acc.tokens_per_iteration(gamma, alpha) / (gamma * c + v + o)
    more = acc.tokens_per_iteration(gamma + 1, alpha) / ((gamma + 1) * c + v + rise + o)
    assume(abs(more / now - 1) > 1e-9)
    assert bool(acc.one_more_pays(gamma, alpha, c, v, rise, o)) == (more > now)


# The type the engine holds.


@pytest.mark.parametrize(
    "one",
    [
        Acceptance.from_alpha(0.8),
        Acceptance.from_alpha(0.0),
        Acceptance.from_alpha(1.0),
        Acceptance.from_tokens_per_iteration(2.5, 3),
        Acceptance.from_positions([0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2]),
        Acceptance.from_beta(4, 1.5),
        Acceptance.from_beta(4, 1.5, "request"),
        Acceptance.from_ngram(0.4, 3),
    ],
    ids=lambda one: one.source,
)
def test_survival_sums_to_tokens_per_iteration(one):
    survival = one.survival(8)
    assert survival.shape == (9,)
    assert survival[0] == pytest.approx(1)
    np.testing.assert_allclose(np.cumsum(survival), one.tokens_per_iteration(np.arange(9)), rtol=1e-12)
    np.testing.assert_allclose(one.survival(4), survival[:5])
    assert one.tokens_per_iteration(0) == pytest.approx(1)
    assert acc.tokens_per_iteration(8, one.effective_alpha(8)) == pytest.approx(one.tokens_per_iteration(8))
    assert one.source
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(one)).survival(8), survival)


def test_alpha_may_differ_by_batch_and_context():
    one = Acceptance.from_alpha(np.array([[0.5, 0.8, 1.0]]))
    assert one.survival(4).shape == (1, 3, 5)
    assert one.tokens_per_iteration(np.array([[2], [3]])).shape == (2, 3)


def test_omega_given_is_met_at_its_gamma_and_turned_into_alpha_for_others():
    one = Acceptance.from_tokens_per_iteration(2.952, 3)
    assert one.alpha == pytest.approx(0.8)
    assert one.tokens_per_iteration(5) == pytest.approx(acc.tokens_per_iteration(5, 0.8))
    assert "2.952 tokens per iteration at gamma 3" in one.source


def test_positions_end_where_they_were_measured():
    one = Acceptance.from_positions([0.9, 0.8, 0.5], "my run")
    assert one.max_gamma == 3
    assert one.tokens_per_iteration(3) == pytest.approx(2.98)
    for asked in (lambda: one.survival(4), lambda: one.tokens_per_iteration(np.array([1, 4]))):
        with pytest.raises(InputError, match=r"gamma: must be at most 3, the positions that were measured \(my run\)"):
            asked()


@pytest.mark.parametrize(
    "build",
    [
        lambda: Acceptance.from_alpha(1.01),
        lambda: Acceptance.from_alpha(math.nan),
        lambda: Acceptance.from_alpha(np.array([0.5, -0.1])),
        lambda: Acceptance.from_tokens_per_iteration(5, 3),
        lambda: Acceptance.from_positions([]),
        lambda: Acceptance.from_positions([0.5, 1.5]),
        lambda: Acceptance.from_beta(0, 1),
        lambda: Acceptance.from_beta(1, math.nan),
        lambda: Acceptance.from_beta(1, 1, "token"),
        lambda: Acceptance.from_ngram(1.2, 3),
        lambda: Acceptance.from_ngram(0.5, 0.5),
        lambda: Acceptance.from_ngram(0.5, math.inf),
        lambda: Acceptance.from_alpha(0.5).survival(-1),
        lambda: Acceptance.from_alpha(0.5).survival(10**9),
        lambda: Acceptance.from_beta(2, 2).tokens_per_iteration(1.5),
    ],
)
def test_acceptance_refuses_what_cannot_be(build):
    with pytest.raises(InputError) as refusal:
        build()
    assert "\n" not in str(refusal.value)
