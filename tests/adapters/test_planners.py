"""Profiles and linear steps for planners."""

import itertools

import pytest

import perfmodel as pm
from perfmodel.adapters.planners import linear_step, profile


@pytest.fixture(scope="module")
def predictor():
    return pm.predictor("qwen3-8b", "h100", draft="eagle3", alpha=0.7, gamma=3)


def test_a_profile_has_the_predictors_times(predictor) -> None:
    rows = list(profile(predictor, (1, 64, 4096), (1024, 8192)))
    assert [(row.concurrency, row.context_tokens) for row in rows[:4]] == [
        (1, 1024),
        (64, 1024),
        (4096, 1024),
        (1, 8192),
    ]
    row = rows[4]
    assert row.ttft_s == predictor.prefill_s(8192)
    assert row.itl_s == pytest.approx(predictor.iteration_s(64, 8192) / predictor.tokens_per_iteration())
    assert row.output_tokens_per_s == pytest.approx(64 / row.itl_s)
    assert [row.fits for row in rows] == [True, True, False, True, predictor.kv_tokens >= 64 * 8192, False]


def test_requests_fit_up_to_the_last_token_of_the_cache(predictor) -> None:
    most = predictor.kv_tokens
    assert [row.fits for row in profile(predictor, (1,), (most, most + 1))] == [True, False]


def test_a_line_is_fitted_to_steps_and_prompts(predictor) -> None:
    line = linear_step(predictor)
    for batch, context in ((1, 1024), (16, 8192), (64, 4096)):
        assert line.seconds(batch, batch * context) == pytest.approx(
            predictor.step_s(batch, context), rel=0.3
        )
    assert min(line.fixed_s, line.token_s, line.cached_token_s) > 0
    one_context = linear_step(predictor, (1, 4), (2048,), ())
    assert one_context.seconds(4, 8192) == pytest.approx(predictor.step_s(4, 2048), rel=1e-6)


def test_the_error_of_a_line_is_that_of_its_worst_pass(predictor) -> None:
    """Of six decoding passes and one prompt."""
    batches, contexts, prompt = (1, 16, 64), (1024, 8192), 2048
    line = linear_step(predictor, batches, contexts, (prompt,))
    errors = [line.seconds(prompt, 0) / predictor.prefill_s(prompt) - 1]
    for batch, context in itertools.product(batches, contexts):
        errors.append(line.seconds(batch, batch * context) / predictor.step_s(batch, context) - 1)
    assert line.worst == pytest.approx(max(map(abs, errors)))
    assert line.worst > 0.05


def test_a_line_is_fitted_to_small_and_large_batches_and_prompts(predictor) -> None:
    batches = [2**power for power in range(9)]
    contexts = [2**power for power in range(10, 16)]
    prompts = [2**power for power in range(7, 14)]
    assert linear_step(predictor) == linear_step(predictor, batches, contexts, prompts)


def test_no_coefficient_is_negative(predictor) -> None:
    """Long prompts cost more than a line through the origin, so a line would start below zero."""
    line = linear_step(predictor, (1,), (1024,), (4096, 32768))
    assert line.fixed_s == 0
    assert min(line.token_s, line.cached_token_s) > 0
