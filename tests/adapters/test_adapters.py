"""The adapters against the written contract of the tools they serve."""

from types import SimpleNamespace

import numpy as np
import pytest

import perfmodel as pm
from perfmodel.adapters.sglang import IMPOSSIBLE, SGLangPredictor
from perfmodel.adapters.vllm import forward_time
from perfmodel.errors import InputError
from tests.adapters.simulator import Batch, Request, simulate, simulate_mixed

SCHEDULER = {"tp_size": 2, "ep_size": 1, "dp_size": 1, "pp_size": 1, "cp_size": 1, "data_type": "auto"}
DRAFTS = {"draft": "eagle3", "alpha": 0.7}
BUDGET = 8192
"""Tokens of a pass of both engines on such a device."""


def adapter(gamma: int, **scheduler: object) -> SGLangPredictor:
    options = {"name": "perfmodel", "gamma": gamma, **DRAFTS}
    return SGLangPredictor("qwen3-32b", "h100", SCHEDULER | scheduler, options)


def replayed(engine: str, gamma: int):
    """The row of `traffic --replay` of the trace that `drawn` draws."""
    served = pm.traffic(
        "qwen3-32b",
        "h100",
        1500,
        300,
        tp=2,
        engine=engine,
        max_concurrency=16,
        gamma=gamma,
        num_prompts=200,
        input_std=400,
        output_std=80,
        replay=True,
        acceptance_std=0,
        **DRAFTS,
    )
    (row,) = (row for row in served.replay or () if row.gamma == gamma)
    return row


def drawn() -> tuple[np.ndarray, np.ndarray]:
    """Prompts and answers of 200 requests."""
    draw = np.random.default_rng(5)
    prompts = draw.uniform(1500 - 400 * 3**0.5, 1500 + 400 * 3**0.5, 200).round()
    answers = draw.uniform(300 - 80 * 3**0.5, 300 + 80 * 3**0.5, 200).round()
    return prompts, answers


@pytest.mark.parametrize("gamma", [0, 3])
def test_a_trace_in_sglangs_simulator_agrees_with_the_replay(gamma: int) -> None:
    predictor = adapter(gamma)
    row = replayed("sglang", gamma)
    gained = predictor.get_metrics()["tokens_per_iteration"]
    tpot_s, tokens_per_s = simulate(predictor, *drawn(), 16, gained, BUDGET)
    assert tpot_s == pytest.approx(row.tpot_s.mean, rel=0.05)
    assert tokens_per_s == pytest.approx(row.output_tokens_per_s, rel=0.05)
    assert predictor.get_metrics()["passes"] > 200
    predictor.reset_metrics()
    assert predictor.get_metrics()["seconds"] == 0


@pytest.mark.parametrize("gamma", [0, 3])
def test_a_trace_in_vllm_without_forward_passes_agrees_with_the_replay(gamma: int) -> None:
    predictor = pm.predictor("qwen3-32b", "h100", tp=2, engine="vllm", gamma=gamma, **DRAFTS)
    row = replayed("vllm", gamma)
    gained = float(predictor.tokens_per_iteration())
    tpot_s, tokens_per_s = simulate_mixed(forward_time(predictor), *drawn(), 16, gained, gamma, BUDGET)
    assert tpot_s == pytest.approx(row.tpot_s.mean, rel=0.05)
    assert tokens_per_s == pytest.approx(row.output_tokens_per_s, rel=0.05)


def test_the_times_of_passes_add_up_until_the_reset() -> None:
    predictor = adapter(0)
    times_s = [predictor.predict_infer_time(Batch([Request(tokens, 0)])) for tokens in (100, 4000)]
    assert predictor.get_metrics()["passes"] == 2
    assert predictor.get_metrics()["seconds"] == pytest.approx(sum(times_s))
    predictor.reset_metrics()
    assert predictor.get_metrics()["passes"] == predictor.get_metrics()["seconds"] == 0


def test_a_batch_beyond_the_memory_cannot_be_run() -> None:
    predictor = adapter(0)
    most = predictor.get_metrics()["max_total_tokens"]
    assert predictor.predict_infer_time(Batch([Request(1, most)])) == IMPOSSIBLE
    assert predictor.predict_infer_time(Batch([Request(1, most - 1)])) > 0  # just fits


def test_the_configuration_is_read_from_objects_and_mappings(tmp_path) -> None:
    accelerator = SimpleNamespace(name="h100")
    model = SimpleNamespace(path="qwen3-32b")
    as_objects = SGLangPredictor(model, accelerator, SimpleNamespace(**SCHEDULER), {"gamma": 3} | DRAFTS)
    batch = Batch([Request(1, 3000)] * 8)
    assert as_objects.predict_infer_time(batch) == adapter(3).predict_infer_time(batch)
    named = {"data_type": "bfloat16", "kv_cache_data_type": "bfloat16"}  # SGLang's words
    assert adapter(3, **named).predict_infer_time(batch) == adapter(3).predict_infer_time(batch)
    assert adapter(0, data_type="fp8").predict_infer_time(batch) < adapter(0).predict_infer_time(batch)
    with pytest.raises(InputError, match="pp_size: must be 1"):
        adapter(0, pp_size=2)
    with pytest.raises(InputError, match="no argument named"):
        SGLangPredictor("qwen3-32b", "h100", SCHEDULER, {"gammas": 3})


def test_vllms_passes_are_those_of_the_predictor() -> None:
    predictor = pm.predictor("qwen3-32b", "h100", tp=2, **DRAFTS)
    seconds = forward_time(predictor)
    computed = {"a": 3000, "b": 5000, "c": 0}
    plain = seconds({"a": 1, "b": 1, "c": 2000}, computed, {})
    assert plain == predictor.forward_s([1, 1, 2000], [3000, 5000, 0], 0)
    verified = seconds({"a": 4, "b": 4}, computed, {"a": [7, 8, 9], "b": [7, 8, 9]})
    assert verified == predictor.forward_s([1, 1], [3000, 5000], 3)
    uneven = seconds({"a": 4, "b": 2}, computed, {"a": [7, 8, 9], "b": [7]})
    assert uneven == verified  # a pass drafts as many tokens as its longest draft


def test_degrees_and_the_format_of_the_cache_are_those_of_the_scheduler() -> None:
    """A model with experts, whose attention runs in two groups over an FP8 cache."""
    scheduler = SCHEDULER | {"tp_size": 4, "ep_size": 4, "dp_size": 2, "kv_cache_data_type": "fp8"}
    batch = Batch([Request(1, 4000), Request(1, 8000)])
    asked = {"engine": "sglang", "tp": 4, "ep": 4, "dp": 2, "kv_dtype": "fp8"}
    wanted = pm.predictor("qwen3-30b-a3b", "h100", **asked).forward_s([1, 1], [4000, 8000])
    assert SGLangPredictor("qwen3-30b-a3b", "h100", scheduler, {}).predict_infer_time(batch) == wanted
    with pytest.raises(InputError, match="cp_size: must be 1"):
        adapter(0, cp_size=2)
