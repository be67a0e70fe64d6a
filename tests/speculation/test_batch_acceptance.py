"""Batches that advance in step, or end together: by hand and in closed form."""

import math

import numpy as np
import pytest
from scipy.stats import binom

from perfmodel.errors import InputError
from perfmodel.speculation import acceptance as acc


def test_static_batch_by_hand():
    # gamma 1, alpha 1/2, 2 tokens: 1 iteration with probability 1/2, else 2. E = 1.5; of two sequences E[max] = 1.75
    omega = acc.static_batch_tokens_per_iteration([1, 0.5], np.array([1, 2]), 2)
    np.testing.assert_allclose(omega, [2 / 1.5, 2 / 1.75])
    assert acc.static_batch_tokens_per_iteration([1, 0.5], 64, 1) == pytest.approx(1)
    assert acc.static_batch_tokens_per_iteration([1, 0], 64, 10) == pytest.approx(1)
    assert acc.static_batch_tokens_per_iteration([1, 1, 1], 64, 9) == pytest.approx(3)


def test_static_batch_drops_what_its_last_iteration_drafts_beyond_the_end():
    """gamma 2, alpha 1/2: 1, 2 or 3 tokens with probability 1/2, 1/4, 1/4.

    3 tokens: unfinished after one iteration 3/4, after two (1 and 1) 1/4, after three 0: E = 1 + 3/4 + 1/4 = 2; of two
    sequences 1 + (1 - 1/16) + (1 - 9/16). 4 tokens: 1, then 1/4 + 2/8, then 1/8: E = 2.625.
    """
    survival = [1, 0.5, 0.25]
    three = acc.static_batch_tokens_per_iteration(survival, np.array([1, 2]), 3)
    np.testing.assert_allclose(three, [3 / 2, 3 / (1 + 15 / 16 + 7 / 16)], rtol=1e-12)
    assert acc.static_batch_tokens_per_iteration(survival, 1, 4) == pytest.approx(4 / 2.625, rel=1e-12)


@pytest.mark.parametrize(("alpha", "tokens"), [(0.7, 30), (0.7, 20_000), (0.999, 3000), (0.02, 3000), (0.5, 100_000)])
def test_a_long_static_batch_is_a_binomial_at_gamma_1(alpha: float, tokens: int) -> None:
    """An iteration gains 1 token or, with alpha, 2: n iterations lack N tokens where Binomial(n, alpha) < N - n."""
    n = np.arange(tokens)
    unfinished = binom.cdf(tokens - n - 1, n, alpha)
    for batch in (1, 64, 10**6):
        expected = tokens / -np.expm1(batch * np.log1p(-np.minimum(unfinished, 1 - 2**-53))).sum()
        assert acc.static_batch_tokens_per_iteration([1, alpha], batch, tokens) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(("batch", "tokens"), [(0, 10), (4, 0), (math.nan, 10), (4, 10**9)])
def test_static_batch_refuses_what_cannot_be(batch, tokens):
    with pytest.raises(InputError):
        acc.static_batch_tokens_per_iteration([1, 0.5], batch, tokens)
