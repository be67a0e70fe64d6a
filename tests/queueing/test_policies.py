"""Rules of the engines that choose what is drafted and verified."""

from dataclasses import replace

import numpy as np
import pytest

import perfmodel as pm
from perfmodel.queueing.policies.confidence import expected
from perfmodel.queueing.steps import StepTimes

ASKED = {"model": "qwen3-8b", "hardware": "h100", "input_len": 1000, "output_len": 500, "draft": "eagle3"}


@pytest.mark.parametrize(("alpha", "steps"), [(0.15, 1), (0.3, 3), (0.85, 3), (0.95, 7)])
def test_adaptive_steps_settle_by_accepted_tokens(alpha, steps) -> None:
    """From 3: 0.18 accepted tokens are at most 1 - 0.75, 2.71 more than 3 - 0.5; 0.42, 1.95 neither."""
    found = pm.traffic(**ASKED, alpha=alpha, request_rate=1, gamma="adaptive")
    (limits,) = found.drafts
    assert {tokens for _, _, tokens in limits.table} == {steps}


def test_a_budget_takes_the_surest_tokens() -> None:
    """Half of the first tokens and a quarter of the second are accepted; a draft that is surer of some
    requests than of others gains more from part of its tokens, and from all of them as much.
    """
    steps = StepTimes(2, 1.75, np.ones(1), np.ones(1), 1, 0.1)
    verified = np.array([0.0, 0.5, 1.0, 1.5, 2.0])
    alike = expected(steps, verified, 0.0)
    np.testing.assert_allclose(alike, [1.0, 1.25, 1.5, 1.625, 1.75])
    surer = expected(steps, verified, 0.3)
    np.testing.assert_allclose(surer[[0, -1]], [1.0, 1.75])
    assert (surer[1:-1] > alike[1:-1] + 0.01).all()
    by_position = replace(steps, tokens_per_iteration=2.4, survival=np.array([1.0, 0.8, 0.6]))
    np.testing.assert_allclose(expected(by_position, verified, 0.0), [1.0, 1.4, 1.8, 2.1, 2.4])


def test_a_confidence_budget_gains_at_large_batches_where_confidence_differs() -> None:
    """Against one length that is verified in full; closed form and replay."""
    gains = []
    for std in (0.0, 0.3):
        found = pm.traffic(
            **ASKED, alpha=0.6, acceptance_std=std, request_rate=10, gamma="confidence", max_gamma=3,
            replay=True, num_prompts=4000,
        )  # fmt: skip
        told, met = ({row.gamma: row.tpot_s.mean for row in rows} for rows in (found.rows, found.replay))
        assert told["confidence"] == pytest.approx(met["confidence"], rel=0.04)
        gains.append(told[0] / told["confidence"])
        assert found.drafts[0].over_best_fixed[0] <= gains[-1] * (1 + 1e-9)
    assert gains[1] > gains[0] + 0.01
