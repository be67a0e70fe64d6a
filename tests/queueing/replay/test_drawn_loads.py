"""What is drawn at random: arrivals, lengths and the iterations that a request takes."""

import numpy as np
import pytest

from perfmodel.queueing import iterations as drawing
from perfmodel.queueing.acceptance_spread import possible_spread
from perfmodel.queueing.arrivals import arrivals
from perfmodel.queueing.load import Lengths
from tests.queueing.replay.servers import DRAFTS, server


@pytest.mark.parametrize(("alpha", "spread", "possible"), [(0.5, 0.1, 0.1), (0.99, 0.2, 0.0179)])
def test_acceptance_differs_between_requests_as_stated_or_as_much_as_it_can(alpha, spread, possible) -> None:
    assert possible_spread(alpha, spread) == pytest.approx(possible, rel=0.01)


@pytest.mark.parametrize(
    ("gamma", "gained", "spread", "deviation"),
    [(3, 2.2, 0.0, 7.4), (3, 2.2, 0.15, 42.0), (16, 15.706, 0.0179, 26.7), (16, 15.706, 0.2, 26.7)],
)
def test_requests_take_the_iterations_that_the_stated_gain_needs(gamma, gained, spread, deviation):
    """2.2 at alpha 0.61: a variance of 1.44 in each of 182; 0.15 of alpha is 0.5 tokens, or 41 iterations
    more. Around 0.99 they cannot differ by 0.2, but by 0.0179, the deviation of Beta(29.7, 0.3).
    """
    tokens = np.full(4000, round(182 * gained))
    drafting = server([10], gamma=gamma, gained=gained)
    passes = drawing.iterations(drafting, tokens, spread, seed=2)
    assert tokens.sum() / passes.sum() == pytest.approx(gained, rel=0.004)
    assert passes.std() == pytest.approx(deviation, rel=0.05)


@pytest.mark.parametrize("longest", [402, 700_000, 2_000_000])
def test_acceptance_by_position_is_drawn_by_position(longest: int) -> None:
    """The first token always, no other: 2 tokens in every iteration. The longer the longest answer is, the
    fewer requests are drawn together: all, two, and one.
    """
    tokens = np.array([1, 2, 3, 4, 401, longest])
    passes = drawing.iterations(DRAFTS, tokens, 0.0, seed=1)
    assert passes.tolist() == [1, 1, 2, 2, 201, longest // 2]


def test_a_server_without_drafts_takes_a_pass_per_token_and_a_perfect_draft_all_at_once() -> None:
    tokens = np.array([1, 2, 7])
    plain = drawing.iterations(server([10]), tokens, 0.1, seed=1)
    assert plain.tolist() == [1, 2, 7]
    perfect = server([10], gamma=3, gained=4.0)
    certain = drawing.iterations(perfect, tokens, 0.1, seed=1)
    assert certain.tolist() == [1, 1, 2]


def test_arrivals_and_lengths_have_the_stated_rate_mean_and_spread():
    """Uniform lengths, whole and at least 1; gamma gaps of shape 1/4, whose deviation is twice the mean; one
    rate.
    """
    lengths = Lengths(500.5, 2.0, 100.0, 9.0)
    drawn = arrivals(lengths, 50_000, 8.0, 0.25, seed=1, start=3.0)
    gaps = np.diff(drawn.at_s, prepend=3.0)
    end_s = 3.0 + 50_000 / 8.0
    assert drawn.at_s[-1] == pytest.approx(end_s)
    assert gaps.std() / gaps.mean() == pytest.approx(2.0, rel=0.03)
    assert drawn.input_tokens.mean() == pytest.approx(500.5, rel=2e-3)
    assert drawn.input_tokens.std() == pytest.approx(100.0, rel=5e-3)
    assert drawn.input_tokens.min() == 327
    assert drawn.input_tokens.max() == 674
    # no wider than from 1 to twice the mean less 1
    assert set(drawn.output_tokens.tolist()) == {1, 2, 3}
    assert drawn.output_tokens.mean() == pytest.approx(2.0, rel=5e-3)
    together = arrivals(Lengths(5.0, 2.0), 3, None, 1.0, seed=1)
    assert together.at_s.tolist() == [0, 0, 0]
    assert together.input_tokens.tolist() == [5, 5, 5]
    later = arrivals(Lengths(5.0, 2.0), 3, None, 1.0, seed=1, start=7.0)
    assert later.at_s.tolist() == [7, 7, 7]
