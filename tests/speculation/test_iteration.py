"""Chains: one formula for a scalar and a grid, gamma's edges, drafts, a brute-force best gamma, and what a
workload may be.
"""

from dataclasses import fields, replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from perfmodel.speculation import (
    Acceptance,
    Prediction,
    Workload,
    predict,
    prediction,
    speedups,
)
from tests.refusals import refused
from tests.speculation import scenarios

NUMBERS = (
    *(f.name for f in fields(Prediction)),
    "speedup",
    "tpot_s",
    "ar_tpot_s",
    "throughput_tokens_per_s",
    "ar_throughput_tokens_per_s",
    "draft_to_target",
    "verify_to_target",
)


# refits move no test here
scenario = partial(
    scenarios.scenario, tp=8, draft_kv="streamingllm:512", calibration="a100-sxm-80gb.literature"
)


SCENARIOS = {
    "self": scenario(),
    "quest": scenario(draft_kv="quest:1024"),
    "retrieval": scenario(draft_kv="retrieval:4096,every=16"),
    "separate": scenario(draft="llama-160m", draft_kv="streamingllm:512", draft_tp=2),
    "paged": scenario(kv_page=16),
    "sliding moe": scenario(model="gpt-oss-20b", draft_kv="snapkv:1024"),
    "reread": scenario(kv_reread=2.5),
    "correlated moe": scenarios.with_constants(
        scenario(model="qwen3-30b-a3b", tp=4), routing_independence=0.5
    ),
}


@settings(max_examples=60, deadline=None)
@given(data=st.data(), name=st.sampled_from(sorted(SCENARIOS)), chunk=st.integers(1, 300))
def test_grids_of_any_shape_equal_loops(data, name, chunk):
    sizes = data.draw(st.lists(st.integers(1, 3), max_size=3), label="shape")
    shape = tuple(sizes)

    def axis(values: st.SearchStrategy) -> np.ndarray:
        kept = data.draw(st.integers(0, len(shape)), label="leading axes dropped")
        sizes = [data.draw(st.sampled_from([1, size])) for size in shape[kept:]]
        size = int(np.prod(sizes))
        drawn = data.draw(st.lists(values, min_size=size, max_size=size))
        return np.array(drawn).reshape(sizes)

    batch = axis(st.integers(1, 2000))
    context = axis(st.integers(1, 10**6))
    gamma = axis(st.integers(0, 12))
    workload = Workload.of(batch, context, gamma)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prediction, "BLOCK_ELEMENTS", chunk)
        whole = predict(SCENARIOS[name], workload, 6)
    axes = np.broadcast_arrays(workload.batch, workload.context, workload.gamma)
    shapes = {np.shape(getattr(whole, number)) for number in NUMBERS}
    assert shapes == {axes[0].shape}
    for at in np.ndindex(axes[0].shape):
        one = Workload.of(*(axis[at] for axis in axes))
        single = predict(SCENARIOS[name], one, 6)
        for number in NUMBERS:
            expected = float(getattr(single, number))
            number_at = np.asarray(getattr(whole, number))[at]
            assert number_at == pytest.approx(expected, rel=1e-12, abs=0), (number, at)


def test_blocks_cut_the_longest_axis() -> None:
    def cut(shape: tuple[int, ...], limit: int) -> list[tuple[tuple[int, int], ...]]:
        blocks = prediction._blocks(shape, limit)
        return [tuple((axis.start, axis.stop) for axis in block) for block in blocks]

    all_of_two = (0, 2)
    assert cut((), 5) == [()]
    assert cut((2, 3), 6) == [(all_of_two, (0, 3))]
    assert cut((2, 3), 4) == [(all_of_two, (0, 2)), (all_of_two, (2, 3))]
    one_by_one = [((0, 1),), ((1, 2),)]
    assert cut((2,), 0) == one_by_one
    assert cut((2,), 1) == one_by_one
    pairs = [(0, 2), (2, 4), (4, 5)]
    assert cut((5, 2), 4) == [(pair, all_of_two) for pair in pairs]


def test_figures_of_a_prediction_by_hand():
    """Three tokens drafted at 2 s, verified in 12 s, 2 s beside: 20 s for 2.5 tokens where a plain step takes
    10 s.
    """
    target_s, draft_s, verify_s, overhead_s = map(np.array, (10.0, 2.0, 12.0, 2.0))
    batch, gamma, gained = map(np.array, (4.0, 3, 2.5))
    times = (target_s, draft_s, verify_s, overhead_s)
    p = Prediction(batch, gamma, *times, gained, gamma, np.array(1.0))
    assert p.iteration_s == 20
    assert p.speedup == 1.25
    assert p.tpot_s == 8
    assert p.ar_tpot_s == 10
    assert p.throughput_tokens_per_s == 0.5
    assert p.ar_throughput_tokens_per_s == 0.4
    assert p.draft_to_target == 0.2
    assert p.verify_to_target == 1.2


@pytest.mark.parametrize("name", SCENARIOS)
def test_gamma_zero_is_plain_decoding(name):
    p = predict(SCENARIOS[name], Workload.of([1.0, 64.0], 32_000.0, 0))
    assert np.all(p.speedup == 1.0)
    assert np.all(p.tpot_s == p.ar_tpot_s)
    assert np.all(p.overhead_s == 0.0)
    assert np.all(p.tokens_per_iteration == 1.0)
    assert np.all(p.verify_s == p.target_s)
    none = np.array([0])
    assert np.all(speedups(SCENARIOS[name], 8.0, 4000.0, none) == 1.0)


@pytest.mark.parametrize("name", SCENARIOS)
def test_best_gamma_equals_brute_force(name):
    batch = np.array([[1.0], [32.0], [512.0]])
    context = np.array([300.0, 4000.0, 32_000.0, 2e5])
    p = predict(SCENARIOS[name], Workload.of(batch, context, 2), max_gamma=12)
    workloads = [Workload.of(batch, context, gamma) for gamma in range(13)]
    tried = [predict(SCENARIOS[name], workload).speedup for workload in workloads]
    np.testing.assert_array_equal(p.gamma_optimal, np.argmax(tried, axis=0))
    np.testing.assert_allclose(p.speedup_at_gamma_optimal, np.max(tried, axis=0), rtol=1e-12)
    of_four = speedups(SCENARIOS[name], batch, context, np.array([4, 0]))[..., 0]
    np.testing.assert_allclose(of_four, tried[4])
    assert len(np.unique(p.gamma_optimal)) > 1


def test_best_gamma_keeps_to_the_scan_and_to_the_acceptance_data():
    certain = replace(scenario(), acceptance=Acceptance.from_alpha(1.0))
    far = Workload.of(1.0, 1e6, 20)
    assert predict(certain, far, max_gamma=7).gamma_optimal == 7
    assert predict(certain, far, max_gamma=0).gamma_optimal == 0
    measured = replace(scenario(), acceptance=Acceptance.from_positions((0.9, 0.9, 0.9)))
    assert predict(measured, Workload.of(1.0, 1e6, 2)).gamma_optimal == 3
    refused("at most 3, the positions that were measured", predict, measured, Workload.of(1.0, 1e6, 4))


def test_a_window_is_gathered_or_attends_in_a_prefill_of_its_own():
    """With own_prefill, a prompt of 32000 costs far fewer pairs than 32000^2 / 2, but all linears once
    more.
    """

    def setup_s(kv: str) -> float:
        ideal = scenario(tp=1, calibration="ideal", draft_kv=kv)
        return float(ideal.setup_s(1.0, 32_000.0))

    assert setup_s("full") == 0
    # 512 tokens in 32 layers, read and written once
    assert setup_s("streamingllm:512") == pytest.approx(2 * 512 * 131_072 / 2.039e12)
    linears = 32_000 * 2 * 6_979_321_856 / 312e12
    # at most 513 pairs a token, 4 x 4096 FLOPs in 32 layers; element-wise traffic is on top
    pairs = 32_000 * 513 * 4 * 4096 * 32 / 312e12
    prefill_s = setup_s("streamingllm:512,own_prefill=true")
    assert linears < prefill_s < 1.2 * (linears + pairs)


# What a workload may be: both ends of each axis, and one step beyond them.

LARGEST = 2.0**40


def test_numbers_at_the_ends_of_what_is_allowed() -> None:
    one = Workload.of(1, 1, 0)
    most = Workload.of(LARGEST, [LARGEST], 1024)
    assert one.batch == 1.0
    assert one.context == 1.0
    assert one.gamma == 0
    assert most.batch == LARGEST
    assert most.context.tolist() == [LARGEST]
    assert most.gamma == 1024
    assert most.gamma.dtype == np.int64
    assert Workload.of(3, 4).gamma == 0


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ((0.999, 1, 0), "--batch: must be numbers from 1 to 1099511627776, given 0.999"),
        ((0, 1, 0), "--batch: .* given 0$"),
        ((LARGEST * 1.001, 1, 0), "--batch: must be numbers from 1"),
        ((1, 0.5, 0), "--context: must be numbers from 1 to 1099511627776, given 0.5"),
        ((1, [5, 2 * LARGEST, 0], 0), "--context: .* given 2199023255552$"),
        ((1, 1, -1), "--gamma: must be whole numbers from 0 to 1024, given -1$"),
        ((1, 1, 1025), "--gamma: .* given 1025$"),
        ((1, 1, [3, 2.5]), "--gamma: .* given 2.5$"),
        ((1, float("nan"), 0), "--context: must be finite numbers"),
        (([], 1, 0), "--batch: must be finite numbers"),
        (("many", 1, 0), "--batch: must be a number, given 'many'"),
        (({}, 1, 0), "--batch: must be a number, given 'dict'"),
        (([1, 2], [1, 2, 3], 0), "of shapes that broadcast together"),
    ],
)
def test_one_step_beyond_is_refused(given: tuple, words: str) -> None:
    refused(words, Workload.of, *given)
