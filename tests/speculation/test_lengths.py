"""The three lengths: the property that names each holds on one side and fails on the other; edges and
"none".
"""

from functools import partial

import numpy as np
import pytest

from perfmodel.speculation import (
    ContextLengths,
    Scenario,
    context_lengths,
    inflection_context,
    memory_bound_context,
    speedups,
)
from perfmodel.speculation.lengths import (
    SEARCH_TO,
    batches_between,
    falls,
    first_where,
    last_where,
    without_waves,
)
from tests.speculation import scenarios

scenario = partial(scenarios.scenario, draft_kv="streamingllm:512")

QUESTIONS = [
    scenario(calibration="ideal"),
    scenario(tp=8),
    scenario(tp=8, hardware="h100-sxm-80gb", draft_kv="snapkv:1024"),
    scenario(model="qwen3-30b-a3b", tp=4, hardware="h200-sxm-141gb"),
    scenario(model="gemma-3-27b", calibration="ideal"),
    scenario(draft="llama-160m", calibration="ideal"),
]


def speedup(s: Scenario, batch, context, gamma: int = 3):
    return speedups(s, batch, context, np.array([gamma]))[..., 0]


@pytest.mark.parametrize("s", QUESTIONS)
@pytest.mark.parametrize("batch", [1.0, 32.0, 256.0])
def test_break_even_is_where_speedup_reaches_one(s, batch):
    length = context_lengths(s, batch, 3).break_even_context
    if length is None:
        contexts = np.geomspace(1, SEARCH_TO, 400)
        assert np.all(speedup(s, batch, contexts) < 1)
        return
    assert speedup(s, batch, length) >= 1
    if length > 1:
        shorter = np.geomspace(1, length * 0.9999, 400)
        assert np.all(speedup(s, batch, shorter) < 1)


@pytest.mark.parametrize("s", QUESTIONS)
@pytest.mark.parametrize("gamma", [2, 4])
def test_inflection_is_where_speedup_stops_falling_with_batch(s, gamma):
    batches = batches_between(32.0, 256.0)[:, None]
    length = inflection_context(s, gamma)
    smooth = without_waves(s)

    def slower(contexts):
        rises = np.diff(speedup(smooth, batches, contexts, gamma), axis=0)
        return np.any(rises < -1e-9, axis=0)

    if length is None:
        assert slower(np.array([SEARCH_TO]))[0]
        return
    assert not np.any(slower(np.geomspace(length * 1.0001, SEARCH_TO, 400)))
    if length > 1:
        just_below = np.array([length * 0.9999])
        assert slower(just_below)[0]


def test_none_where_there_is_none():
    # an absorbed MLA latent: 242 FLOPs a byte against H20's ridge of 37, so that long contexts compute longer
    assert (
        memory_bound_context(
            scenario(model="deepseek-v3", hardware="h20", draft_kv="full", calibration="ideal"), 512.0
        )
        is None
    )
    # a full-cache self-draft costs what it gains: gamma T + T against at most gamma + 1 tokens
    for s in (scenario(draft_kv="full", alpha=0.9, calibration="ideal"), scenario(alpha=0.0)):
        assert context_lengths(s, 8.0, 3).break_even_context is None
    # gamma 1 ideally: verification takes back what a growing batch gains
    assert inflection_context(scenario(core=True, calibration="ideal"), 1, (32, 512)) is None


def test_without_a_draft_nothing_is_gained_and_nothing_lost():
    s = scenario(calibration="ideal")
    assert context_lengths(s, 256.0, 0) == ContextLengths(memory_bound_context(s, 256.0), 1.0, 1.0)
    assert inflection_context(s, 0) == 1.0
    assert without_waves(s) is s


def test_a_range_below_the_ridge_has_no_fall_to_wait_for():
    """8 to 32 sequences of 4 tokens stay memory-bound on A100: speedup rises with the batch above K, is flat
    below.
    """
    s = scenario(core=True, calibration="ideal")
    assert inflection_context(s, 3, (8.0, 32.0)) == 1.0
    few = speedup(s, 8.0, np.array([400.0, 600.0]))
    many = speedup(s, 32.0, np.array([400.0, 600.0]))
    assert many[0] == pytest.approx(few[0], rel=1e-12)
    assert many[1] > few[1]
    assert inflection_context(s, 3, (8.0, 64.0)) > 512


@pytest.mark.parametrize("turn", [1.7, 4000.0, 0.9 * SEARCH_TO])
def test_the_context_after_the_last_one_with_a_property(turn: float) -> None:
    """Also of two stretches with it."""
    assert turn <= last_where(lambda c: c < turn) == pytest.approx(turn, rel=1e-7)

    def in_two_stretches(c):
        return (c < turn / 8) | ((c > turn / 4) & (c < turn))

    assert last_where(in_two_stretches) == pytest.approx(turn, rel=1e-7)


def test_a_property_that_never_turns() -> None:
    assert last_where(lambda c: c < 0) == 1.0
    assert last_where(lambda c: c >= SEARCH_TO) is None
    assert last_where(lambda c: c < SEARCH_TO) == pytest.approx(SEARCH_TO)


def test_batches_are_quarter_octaves_and_a_fall_is_one_between_two_of_them() -> None:
    octaves = np.arange(13) / 4
    np.testing.assert_allclose(batches_between(32.0, 256.0), 32 * 2**octaves)
    assert {32.0, 64.0, 128.0, 256.0} <= set(batches_between(32.0, 256.0).tolist())  # whole batches exactly
    np.testing.assert_allclose(batches_between(32.0, 33.0), [32, 33])
    np.testing.assert_allclose(batches_between(32.0, 32.0), [32, 32])
    surface = np.array([[1.0, 1.0, 1.0, 1.0], [1.0, 2.0, 0.98, 2.0], [1.0, 3.0, 3.0, 1.9]])
    assert falls(surface).tolist() == [False, False, True, True]
    assert falls(surface, 0.03).tolist() == [False, False, False, True]


def test_a_context_is_searched_up_to_16m_tokens() -> None:
    assert first_where(lambda context: context >= 2.0**23.5) == pytest.approx(2.0**23.5, abs=1.0)
    assert first_where(lambda context: context > 2.0**24) is None
