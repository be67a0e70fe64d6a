"""The three lengths: the property that names each holds on one side and fails on the other; edges and "none"."""

from dataclasses import replace

import numpy as np
import pytest

from perfmodel.answers.inflection import InflectionQuery, inflection
from perfmodel.answers.query import Query, resolve
from perfmodel.speculation.chain import speedups
from perfmodel.speculation.lengths import (
    SEARCH_TO,
    break_even_context,
    context_lengths,
    first_where,
    inflection_context,
    last_where,
    memory_bound_context,
    without_waves,
)
from perfmodel.speculation.scenario import Scenario


def scenario(core: bool = False, **flags) -> Scenario:
    asked = {"model": "llama-3.1-8b", "hardware": "a100-sxm-80gb", "batch": 1, "context": 1, "alpha": 0.8}
    return replace(resolve(Query(**(asked | {"draft_kv": "streamingllm:512"} | flags))), core_ops=core)


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
    length = break_even_context(s, batch, 3)
    if length is None:
        assert np.all(speedup(s, batch, np.geomspace(1, SEARCH_TO, 400)) < 1)
        return
    assert speedup(s, batch, length) >= 1
    assert length == 1 or np.all(speedup(s, batch, np.geomspace(1, length * 0.9999, 400)) < 1)


@pytest.mark.parametrize("s", QUESTIONS)
@pytest.mark.parametrize("gamma", [2, 4])
def test_inflection_is_where_speedup_stops_falling_with_batch(s, gamma):
    batches = np.geomspace(32, 256, 13)[:, None]
    length = inflection_context(s, gamma)
    smooth = without_waves(s)

    def falls(contexts):
        return np.any(np.diff(speedup(smooth, batches, contexts, gamma), axis=0) < -1e-9, axis=0)

    if length is None:
        assert falls(np.array([SEARCH_TO]))[0]
        return
    assert not np.any(falls(np.geomspace(length * 1.0001, SEARCH_TO, 400)))
    assert length == 1 or falls(np.array([length * 0.9999]))[0]


@pytest.mark.parametrize("batch", [200.0, 256.0, 4096.0])
def test_memory_bound_context_is_where_loading_takes_over(batch):
    s = scenario(calibration="ideal")
    length = memory_bound_context(s, batch)

    def times(context):
        t = [op for op in s.target_ops(batch, context) if op.kind in ("linear", "attention")]
        load = sum(float(op.cost.weight_bytes + op.cost.kv_bytes) for op in t) / 2.039e12
        return load, sum(float(op.cost.flops) for op in t) / 312e12

    load, compute = times(length)
    assert load == pytest.approx(compute, rel=1e-6)
    assert times(length * 2)[0] > times(length * 2)[1]
    assert times(length / 2)[0] < times(length / 2)[1]


def test_none_where_there_is_none():
    # an absorbed MLA latent: 242 FLOPs a byte against H20's ridge of 37, so that long contexts compute longer
    assert (
        memory_bound_context(resolve(Query("deepseek-v3", "h20", 512, 1, alpha=0.8, calibration="ideal")), 512.0)
        is None
    )
    # a full-cache self-draft costs what it gains: gamma T + T against at most gamma + 1 tokens
    assert break_even_context(scenario(draft_kv="full", alpha=0.9, calibration="ideal"), 8.0, 3) is None
    assert break_even_context(scenario(alpha=0.0), 8.0, 3) is None
    # gamma 1 ideally: verification takes back what a growing batch gains
    assert inflection_context(scenario(core=True, calibration="ideal"), 1, (32, 512)) is None


def test_gamma_zero_is_even_everywhere():
    s = scenario()
    assert break_even_context(s, 8.0, 0) == 1.0
    assert break_even_context(s, 8.0, 0, speedup=1.5) is None
    assert inflection_context(s, 0) == 1.0


def test_a_range_below_the_ridge_has_no_fall_to_wait_for():
    """8 to 32 sequences of 4 tokens stay memory-bound on A100: speedup rises with the batch above K, is flat below."""
    s = scenario(core=True, calibration="ideal")
    assert inflection_context(s, 3, (8.0, 32.0)) == 1.0
    few, many = speedup(s, 8.0, np.array([400.0, 600.0])), speedup(s, 32.0, np.array([400.0, 600.0]))
    assert many[0] == pytest.approx(few[0], rel=1e-12)
    assert many[1] > few[1]
    assert inflection_context(s, 3, (8.0, 64.0)) > 512


def test_all_three_at_once():
    s = scenario(tp=8)
    found = context_lengths(s, 64.0, 3, (16.0, 128.0))
    assert found.memory_bound_context == memory_bound_context(s, 64.0)
    assert found.break_even_context == break_even_context(s, 64.0, 3)
    assert found.inflection_context == inflection_context(s, 3, (16.0, 128.0))


def test_root_finders_take_the_first_and_the_last_of_several():
    def between(context):
        return (context > 100) & (context < 10_000)

    assert first_where(between) == pytest.approx(100, rel=1e-6)
    assert last_where(between) == pytest.approx(10_000, rel=1e-6)
    assert first_where(lambda context: context < 0) is None
    assert last_where(lambda context: context > 0) is None
    assert first_where(lambda context: context > 0) == 1.0
    assert last_where(lambda context: context < 0) == 1.0


def test_the_draft_that_is_not_named_is_the_engines_on_the_ideal_roofline_too() -> None:
    """Qwen3-32B has a published EAGLE-3 head; `ideal` is no engine and would leave the model to draft for itself."""
    a = inflection(InflectionQuery("qwen3-32b", "h200", 8, 3, 8192, engine="vllm"))
    assert (a.draft, a.draft_kv, a.break_even_context, a.ideal.break_even_context) == ("eagle3", "full", 1, 1)
