"""`pm.predictor`: the same figures as `whatif`, `traffic` and the passes, for numbers and for arrays."""

import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st

import perfmodel as pm
from perfmodel.answers.point.predictor import Predictor, predictor
from perfmodel.answers.point.whatif import whatif
from perfmodel.errors import InputError
from perfmodel.operations import Array
from perfmodel.queueing.load import Lengths, Limits
from perfmodel.queueing.pricing import prefill_times, step_times
from perfmodel.queueing.prompts import engine_requests
from perfmodel.specs import files
from perfmodel.speculation import Workload, predict

MODELS = files.bundled_names("models")
DEVICES = files.bundled_names("gpus")
DRAWN = {
    "model": MODELS,
    "hardware": DEVICES,
    "tp": [1, 2, 4, 8],
    "draft": ("self", "eagle", "eagle3", "mtp", "ngram", "dflash", "dspark", "medusa", "qwen3-0.6b"),
    "engine": [None, "vllm", "sglang", "tensorrt-llm", "llamacpp"],
    "context_std": [0, 500],
    "kv_page": [1, 16],
    "draft_kv": (None, "streamingllm:512", "snapkv:2049", "quest:1024,page=16", "h2o:1024", "topk:1024"),
    "calibration": [None, None, "ideal"],
}
EXACT = 1e-9


@st.composite
def predictors(draw: st.DrawFn) -> Predictor:
    """A predictor of any bundled model, device and draft that go together."""
    question = {name: draw(st.sampled_from(values)) for name, values in DRAWN.items()}
    try:
        return predictor(**question, alpha=0.7, context=4096)
    except InputError:
        assume(False)
        raise


def five_of(data: st.DataObject, numbers: st.SearchStrategy[int]) -> Array:
    return np.array(data.draw(st.lists(numbers, min_size=5, max_size=5)))


@settings(max_examples=60, deadline=None)
@given(predictors(), st.data())
def test_every_pass_is_the_one_of_the_scenario(p: Predictor, data: st.DataObject) -> None:
    batch = five_of(data, st.integers(1, 600))
    context = five_of(data, st.integers(900, 200_000))
    gamma = five_of(data, st.integers(0, p.max_gamma))
    scenario = p.scenario.with_context_std(float(p.question.context_std))
    expected = predict(scenario, Workload.of(batch, context, gamma), p.max_gamma)
    np.testing.assert_allclose(p.step_s(batch, context), expected.target_s, rtol=EXACT)
    np.testing.assert_allclose(p.verify_s(batch, context, gamma), expected.verify_s, rtol=EXACT)
    np.testing.assert_allclose(p.iteration_s(batch, context, gamma), expected.iteration_s, rtol=EXACT)
    drafted = np.maximum(gamma, 1)
    with_draft = predict(scenario, Workload.of(batch, context, drafted), p.max_gamma)
    np.testing.assert_allclose(p.draft_s(batch, context, drafted), with_draft.draft_s, rtol=EXACT)
    calls = zip(batch.tolist(), context.tolist(), gamma.tolist(), strict=True)
    singly_s = [p.iteration_s(*call) for call in calls]
    np.testing.assert_allclose(singly_s, expected.iteration_s, rtol=EXACT)


@pytest.mark.parametrize(
    ("model", "hardware", "tp", "draft"),
    [
        ("qwen3-32b", "h100-sxm-80gb", 2, "eagle3"),
        ("deepseek-v3.2", "h200", 8, "mtp"),
        ("llama-3.1-8b", "a100-sxm-80gb", 1, "self"),
        ("gpt-oss-120b", "h200", 1, "ngram"),
    ],
)
def test_the_figures_of_whatif(model: str, hardware: str, tp: int, draft: str) -> None:
    p = pm.predictor(model, hardware, tp=tp, draft=draft, alpha=0.8, gamma=3)
    answer = whatif(model, hardware, 16, 8192, tp=tp, draft=draft, alpha=0.8, gamma=3)
    assert p.step_s(16, 8192) == pytest.approx(answer.target_step.predicted_s, rel=EXACT)
    assert p.verify_s(16, 8192) == pytest.approx(answer.verify_step.predicted_s, rel=EXACT)
    assert p.iteration_s(16, 8192) == pytest.approx(answer.iteration_s, rel=EXACT)
    assert p.tokens_per_iteration() == pytest.approx(answer.acceptance.tokens_per_iteration, rel=EXACT)
    assert p.tpot_s(16, 8192) == pytest.approx(answer.tpot_s, rel=EXACT)
    assert p.interval_s(16, 8192) == pytest.approx(answer.iteration_interval, rel=EXACT)


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
@pytest.mark.parametrize("gamma", [0, 3])
def test_the_passes_of_traffic(engine: str, gamma: int) -> None:
    p = predictor("qwen3-32b", "h100", tp=2, draft="eagle3", alpha=0.7, engine=engine, gamma=gamma)
    lengths = Lengths(2000.0, 400.0)
    limits = Limits()
    (times,) = step_times(p.scenario, lengths, limits, [gamma])
    deviation = lengths.context_std * np.array([1.0, -1.0] * 8)
    within = lengths.context + deviation  # as traffic has it
    decoding = p.forward_s(np.ones(16), within, gamma)
    assert decoding == pytest.approx(times.decode_s[15], rel=EXACT)
    prefills = prefill_times(p.scenario, lengths, limits, gamma > 0, engine_requests(p.scenario))
    prefill = prefills.where(gamma > 0)
    nearest = np.argmin(np.abs(prefill.tokens - 2000.0))
    read = prefill.tokens[nearest]  # a knot, between which it interpolates
    mixed = p.forward_s(np.append(np.ones(16), read), np.append(within, 0.0), gamma)
    verified = np.array(16.0 * (gamma + 1))
    added = float(prefill(verified, np.array(read)))
    assert mixed - decoding == pytest.approx(added, rel=0.02)


def test_a_server_that_drafts_may_launch_its_prompts_one_by_one() -> None:
    """SGLang 0.5.10 has graphs of prompts without a draft only; 0.5.9 has none, 0.5.12 has both."""

    def prompt_s(version: str, gamma: int) -> float:
        question = {"draft": "eagle3", "alpha": 0.7, "engine": f"sglang@{version}"}
        return predictor("qwen3-8b", "h100", **question).forward_s([100], [0], gamma)

    before = prompt_s("0.5.9", 3)
    assert prompt_s("0.5.10", 3) == before
    assert prompt_s("0.5.12", 3) < before
    assert prompt_s("0.5.10", 0) < prompt_s("0.5.9", 0)


def test_prompts_cost_more_together_and_less_where_cached() -> None:
    p = predictor("llama-3.1-8b", "h100", alpha=0.7)
    assert p.prefill_s(4000) > p.prefill_s(2000) > p.prefill_s(100)
    assert p.prefill_s(2000, 0) < p.prefill_s(2000, 60_000)
    in_two_s = p.prefill_s(100, 0) + p.prefill_s(100, 100)  # reads the weights twice
    assert p.prefill_s(200, 0) < in_two_s
    cached = np.array([[0], [4000]])
    several = p.prefill_s(np.array([100, 2000]), cached)
    assert np.shape(several) == (2, 2)
    assert several[1, 1] == p.prefill_s(2000, 4000)
    both = p.forward_s([100, 100], [0, 0])
    assert p.prefill_s(100) < both < 2 * p.prefill_s(100)


def test_arrays_broadcast_and_numbers_stay_numbers() -> None:
    p = predictor("qwen3-8b", "h100", draft="eagle3", alpha=0.7)
    batches = np.arange(1, 9)[:, None]
    surface = p.iteration_s(batches, np.array([1000, 2000, 3000]), 3)
    assert np.shape(surface) == (8, 3)
    assert surface[4, 1] == pytest.approx(p.iteration_s(5, 2000, 3), rel=EXACT)
    assert type(p.step_s(4, 1000)) is float
    assert type(p.iteration_s(4, 1000, 3)) is float
    assert type(p.draft_s(4, 1000, 3)) is float
    assert type(p.tokens_per_iteration(3)) is float
    assert "qwen3-8b" in repr(p)


def test_kv_tokens_are_those_of_whatif() -> None:
    p = predictor("qwen3-32b", "h100", tp=2, draft="eagle3", alpha=0.7, gamma=3)
    answer = whatif("qwen3-32b", "h100", 16, 8192, tp=2, draft="eagle3", alpha=0.7, gamma=3)
    assert p.kv_tokens == answer.kv_cache.kv_tokens > 0


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda p: p.step_s(0, 10), "batch"),
        (lambda p: p.step_s(1, float("nan")), "context"),
        (lambda p: p.step_s(np.array([1, -1]), 10), "batch"),
        (lambda p: p.iteration_s(1, 10, 17), "gamma: must be at most 16"),
        (lambda p: p.iteration_s(1, 10, -1), "gamma"),
        (lambda p: p.iteration_s(1, 10, 1.5), "gamma"),
        (lambda p: p.forward_s([], []), "one entry per request"),
        (lambda p: p.forward_s([1, 1], [5]), "one entry per request"),
        (lambda p: p.forward_s([0], [5]), "new tokens from 1"),
        (lambda p: p.forward_s(["a"], [5]), "sequences of numbers"),
        (lambda p: p.forward_s([1], [float("inf")]), "up to"),
    ],
)
def test_numbers_out_of_range_are_refused(call, words: str) -> None:
    p = predictor("qwen3-8b", "h100", draft="eagle3", alpha=0.7)
    with pytest.raises(InputError, match=words):
        call(p)


def test_a_question_without_an_answer_is_refused_once() -> None:
    with pytest.raises(InputError, match="no model named"):
        predictor("no-model", "h100")
    with pytest.raises(InputError, match="no argument named"):
        predictor("qwen3-8b", "h100", batch=3)
    unknown = predictor("qwen3-0.6b", "h100", draft="eagle3")
    assert unknown.iteration_s(1, 1000, 3) > unknown.step_s(1, 1000)
    with pytest.raises(InputError, match="alpha: must be given"):
        unknown.tokens_per_iteration(3)


def test_true_is_a_draft_length_of_one() -> None:
    p = predictor("llama-3.1-8b", "h100", alpha=0.7)
    assert p.iteration_s(4, 1000, True) == p.iteration_s(4, 1000, 1)
