"""The terms that serving engines need, by hand: graph padding, popular experts, the longest request, curves."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfmodel.answers.query import Query, resolve
from perfmodel.costs import forward, shard
from perfmodel.costs.gemms import Experts
from perfmodel.costs.graphs import graph_sizes
from perfmodel.costs.roofline import Machine, curve_of, kernel_of
from perfmodel.kv.full import Full
from perfmodel.operations import Cost, Op
from perfmodel.specs.calibration import load_bundled, load_calibration
from perfmodel.specs.constants import Constant
from perfmodel.specs.engine_constants import Curves, ExpertKernel, ExpertKernels
from perfmodel.specs.formats import KV_FORMATS, WEIGHT_FORMATS, Precision, weight_format
from perfmodel.specs.gpu import load_gpu
from perfmodel.specs.model import load_model

IDEAL, H100 = load_calibration("ideal"), load_gpu("h100-sxm-80gb")
BW, F = 3.35e12, 989.4e12
PLAIN = Precision(weight_format("bf16"), KV_FORMATS["bf16"])


def number(value: float) -> Constant:
    return Constant(value=value, source="by hand")


def seconds(op: Op, **constants) -> float:
    return float(Machine(H100, IDEAL.model_copy(update=constants)).op_predicted_s(op))


def test_graphs_hold_one_two_four_and_multiples_of_eight() -> None:
    part = shard(load_model("llama-3.1-8b"), 1, PLAIN, graph_sizes=graph_sizes(8, 512))
    tokens = np.array([1, 2, 3, 4, 5, 8, 9, 17, 512, 513.0])
    assert part.rows(tokens).tolist() == [1, 2, 4, 4, 8, 8, 16, 24, 512, 513]
    assert shard(load_model("llama-3.1-8b"), 1, PLAIN).rows(9.0) == 9.0
    wide = shard(load_model("llama-3.1-8b"), 1, PLAIN, graph_sizes=graph_sizes(16, 500))
    assert wide.rows(np.array([4, 5, 496, 497.0])).tolist() == [4, 16, 496, 497]
    # 3 sequences fill up to 4, so that attention is cut for 4 of 8 KV heads, however many tokens each verifies
    (attention,) = (op for op in forward(part, 3.0, 3.0, 100.0, Full()) if op.kind == "attention")
    assert (attention.work_items, attention.rows) == (3 * 8, 4 * 8)


@given(batch=st.integers(1, 600))
def test_padding_never_saves_time(batch: int) -> None:
    scenario = resolve(Query("llama-3.1-8b", "h100-sxm-80gb", 1, 1000, 1, alpha=0.5, calibration="h100-sxm-80gb.vllm"))
    bare = replace(
        scenario, machine=replace(scenario.machine, calibration=scenario.machine.calibration.model_copy(
            update={"graph_tokens": None}))
    )  # fmt: skip
    assert float(scenario.target_pass_s(float(batch), 1000.0)) >= float(bare.target_pass_s(float(batch), 1000.0)) * 0.97


def experts(popularity: float) -> Experts:
    return Experts(WEIGHT_FORMATS["bf16"], 1, 2, 128, 4, 0.0, 0.0, 0.0, 0.0, popularity)


@given(tokens=st.floats(1, 4096), popularity=st.floats(0.05, 50))
def test_popular_experts_are_touched_less(tokens: float, popularity: float) -> None:
    uneven, even = experts(popularity).touched(tokens), experts(0.0).touched(tokens)
    assert experts(popularity).touched(1.0) == pytest.approx(4.0)
    assert 4.0 - 1e-9 <= uneven <= even + 1e-9
    assert experts(1e7).touched(tokens) == pytest.approx(even, rel=1e-4)


def test_touched_experts_by_sampling() -> None:
    """Shares x ~ Gamma(a): drawn, then the chance that an expert stays idle in t tokens, on average."""
    a, tokens = 1.2, 24.0
    b = np.expm1(-np.log1p(-4 / 128) / a)
    x = np.random.default_rng(1).gamma(a, b, 200_000)
    assert experts(a).touched(tokens) == pytest.approx(128 * np.mean(-np.expm1(-x * tokens)), rel=5e-3)


def test_a_curve_stands_in_for_both_shares() -> None:
    """5 million weights: 16 tokens load 10 MB, 4096 tokens compute 41 GFLOP, each at the curve's share there."""
    curve = Curves(knots={"bf16": ((1.0, 0.9), (16.0, 0.5), (4096.0, 0.45))}, source="by hand")
    for rows, ideal_s, share in ((16.0, 10e6 / BW, 0.5), (4096.0, 41e9 / F, 0.45)):
        op = Op("qkv", "linear", 1, Cost(flops=1e7 * rows, weight_bytes=10e6), rows=rows)
        assert seconds(op, gemm_efficiency=curve) == pytest.approx(ideal_s / share, rel=2e-3)


def test_expert_kernels_add_loading_to_computing() -> None:
    kernels = ExpertKernels(
        kernels={"bf16": ExpertKernel(fixed_s=5e-5, bandwidth_fraction=0.5, flops_fraction=0.25)}, source="by hand"
    )
    op = Op("experts", "linear", 4, Cost(flops=1e10, weight_bytes=1e8), expert_layers=2)
    by_hand = 2 * 5e-5 + 1e8 / BW / 0.5 + 1e10 / F / 0.25
    assert seconds(op, expert_kernels=kernels) == pytest.approx(by_hand)
    assert seconds(op, expert_kernels=kernels, expert_factor=number(0.8)) == pytest.approx(0.8 * by_hand)


def test_a_format_without_a_kernel_takes_the_usual_one_of_its_peak() -> None:
    curves = {"bf16": 1, "fp8": 2, "nvfp4": 3}
    named = {"fp8-block": 2, "int4-g128": 1, "nvfp4": 3, "mxfp4-a8": 2}
    for form, curve in named.items():
        op = Op("x", "linear", 1, Cost(), compute=WEIGHT_FORMATS[form.partition("-g")[0]].compute, form=form)
        assert curves[curve_of(curves, op)] == curve, form
    only = {"bf16": ExpertKernel(fixed_s=0, bandwidth_fraction=1, flops_fraction=1)}
    assert kernel_of(only, Op("x", "linear", 1, Cost(), compute="fp8", form="fp8")) is only["bf16"]


def test_the_longest_sequence_bounds_attention() -> None:
    """4 sequences of one KV head on 132 multiprocessors: 33 pieces each, so one reads 1/33 of twice the mean."""
    op = Op("attention", "attention", 1, Cost(kv_bytes=4e6), work_items=4.0, rows=4.0, longer_bytes=1e6)
    share = 1.5
    longest = 1e6 * 2.0 / 33 * 132 / (share * BW)
    assert longest > 4e6 / BW
    assert seconds(op, multiprocessor_bandwidth=number(share)) == pytest.approx(longest)
    assert seconds(op) == pytest.approx(4e6 / BW)


def test_raggedness_makes_a_batch_longer_and_one_sequence_never() -> None:
    scenario = resolve(Query("llama-3.1-8b", "h100-sxm-80gb", 1, 8000, 1, alpha=0.5, calibration="h100-sxm-80gb.vllm"))
    ragged = replace(scenario, context_std=4000.0)
    assert ragged.longer_tokens(1.0) == 0.0
    assert float(ragged.longer_tokens(1e9)) == pytest.approx(4000 * 3**0.5)
    assert float(ragged.target_pass_s(6.0, 8000.0)) > float(scenario.target_pass_s(6.0, 8000.0))


def test_one_more_sequence_costs_no_wave_in_an_engine() -> None:
    """33 -> 34 sequences on H100: 30 % by the research stack's waves, a few percent by a graph's padding here."""
    scenario = resolve(Query("llama-3.1-8b", "h100-sxm-80gb", 1, 32000, 1, alpha=0.5, calibration="h100-sxm-80gb.vllm"))
    before, after = (float(scenario.target_pass_s(b, 32000.0)) for b in (33.0, 34.0))
    assert 1.0 < after / before < 1.05


def test_every_pass_of_a_draft_pays_and_no_target_s() -> None:
    scenario = resolve(Query("gpt-oss-120b", "h200-sxm-141gb", 8, 8000, 3, draft="eagle:features=3", alpha=0.6,
                             calibration="h200-sxm-141gb.vllm"))  # fmt: skip
    c = load_bundled("h200-sxm-141gb.vllm")
    free = c.model_copy(update={"drafted_token_s": number(0.0)})
    bare = replace(scenario, machine=replace(scenario.machine, calibration=free))
    extra = scenario.draft_token_s(8.0, 8000.0, np.array([3])) - bare.draft_token_s(8.0, 8000.0, np.array([3]))
    assert extra == pytest.approx(8 * c.drafted_token_s.value)
    assert float(scenario.target_pass_s(8.0, 8000.0)) == float(bare.target_pass_s(8.0, 8000.0))
