"""How long the prompts in a pass take beside its decoding."""

from dataclasses import replace

import numpy as np
import pytest

from perfmodel.queueing.prefill_time import PrefillTime
from perfmodel.specs.engines.served_requests import PassOrder
from tests.queueing.replay.servers import PREFILL


@pytest.mark.parametrize(
    ("prefill", "seconds"),
    [
        (PREFILL, [0.05, 0.5 + 0.1]),
        (replace(PREFILL, order=PassOrder.ALTERNATING), [1.05, 1.1]),
    ],
)
def test_a_prompt_beside_decoding_takes_only_what_the_loaded_weights_do_not_hide(prefill, seconds):
    """Beside 50 tokens a prompt of 50 hides, but for its own attention; two take 50 tokens too many.

    In a pass of their own nothing hides: both load the weights in 1 s.
    """
    prompts = np.array([50.0, 100.0])
    np.testing.assert_allclose(prefill(50.0, prompts), seconds)
    alone = prefill.for_numbers()
    np.testing.assert_allclose([alone(50.0, 50.0, 50.0), alone(50.0, 100.0, 100.0)], seconds)


def test_a_pass_with_a_prompt_is_never_faster_than_one_without() -> None:
    """A kernel of 200 tokens may run faster than one of 100."""
    prefill = PrefillTime(np.array([1.0, 100.0, 200.0]), np.array([0.0, 0.02, 0.01]), 0.0)
    assert float(prefill(np.array(100.0), np.array(100.0))) == 0.0
    assert prefill.for_numbers()(100.0, 100.0, 100.0) == 0.0


def test_a_pass_waits_for_the_fullest_group_but_experts_have_the_tokens_of_all() -> None:
    """100 tokens, of which one of two groups has all: it takes 1 ms and 0.5 ms of each as if both had as many
    (experts 1 ms of those that there are).
    """
    knots = np.array([0.0, 1000.0])
    prefill = PrefillTime(knots, 2 * knots / 1000, 0.0005, groups=2, expert_seconds=knots / 1000)
    assert prefill.for_numbers()(0.0, 100.0, 200.0) == pytest.approx(0.2 + 0.1 + 0.1)
