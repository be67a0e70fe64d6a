"""Named cases worked by hand. The arithmetic stands in the comments and owes nothing to the engine's helpers.

Llama-3.1-8B: 32 layers, hidden 4096, 32 query and 8 KV heads of 128, MLP 14336, vocabulary 128256.
A100 SXM 80 GB: 312 TFLOP/s bf16, 2039 GB/s, 80 GB.
"""

from collections.abc import Iterable
from functools import partial
from typing import Any

import numpy as np
import pytest

from perfmodel.costs import PassShape, forward
from perfmodel.costs.kinds.attention import AttentionOp
from perfmodel.costs.kinds.gemm import GemmOp
from perfmodel.costs.kinds.messages import AllReduceOp
from perfmodel.costs.operation import Op
from perfmodel.kv.full import Full
from perfmodel.operations import Cost
from perfmodel.specs import load_gpu
from perfmodel.speculation import Scenario, Workload, capacity, lengths, predict, tokens_per_iteration
from tests.costs.machines import machine
from tests.speculation import scenarios

# One layer: q and o 2 x 4096 x 4096, k and v 2 x 4096 x 1024, gate, up and down 3 x 4096 x 14336
#   = 33 554 432 + 8 388 608 + 176 160 768 = 218 103 808; 32 of them 6 979 321 856.
# LM head 4096 x 128 256 = 525 336 576. One token uses 7 504 658 432 parameters; in bf16 15 009 316 864 bytes.
P8 = 7_504_658_432
W8 = 15_009_316_864
KAPPA8 = 131_072
F = 312e12
BW = 2.039e12


# the ideal roofline; linear and attention ops alone unless `core` is false
scenario = partial(
    scenarios.scenario, core=True, context=4000, draft_kv="streamingllm:512", calibration="ideal"
)


def weight_bytes(s: Scenario) -> float:
    return sum(float(op.cost.weight_bytes) for op in s.target_ops(1.0, 1.0))


def kv_bytes(s: Scenario, batch: float, context: float) -> float:
    return sum(float(op.cost.kv_bytes) for op in s.target_ops(batch, context))


def the(kind: type[Op], ops: Iterable[Op]) -> Any:
    """The one operation of a kind."""
    (op,) = (op for op in ops if isinstance(op, kind))
    return op


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("llama-2-7b", 524_288),  # 32 layers x 2 x 32 heads x 128 x 2 bytes
        ("llama-3.1-8b", 131_072),  # 32 x 2 x 8 x 128 x 2
        ("llama-3.1-70b", 327_680),  # 80 x 2 x 8 x 128 x 2
        ("deepseek-v3", 70_272),  # 61 x (512 latent + 64 rope) x 2
        ("qwen3-30b-a3b", 98_304),  # 48 x 2 x 4 x 128 x 2
    ],
)
def test_kv_bytes_per_token(model, expected):
    s = scenario(model=model)
    assert s.target_shard.stored_kv_bytes(1.0) == expected
    # and the pass reads them: 7 sequences, 1000 tokens each
    assert kv_bytes(s, 7.0, 1000.0) == 7 * 1000 * expected


def test_weights_of_a_pass_per_device():
    assert weight_bytes(scenario()) == W8
    # TP 8: 8 KV heads, one per device; everything divides: 15 009 316 864 / 8
    assert weight_bytes(scenario(tp=8)) == 1_876_164_608
    # TP 16 keeps one whole KV head per device. Per layer: qkv 4096 x (2 + 1 + 1) x 128 = 2 097 152, o 2 x 128
    # x 4096 = 1 048 576, MLP 176 160 768 / 16 = 11 010 048: 14 155 776 x 32 = 452 984 832; head 525 336 576 /
    # 16 = 32 833 536.
    assert weight_bytes(scenario(tp=16)) == 2 * (452_984_832 + 32_833_536)


def test_ideal_decoding_step():
    # B=32, S=32000, everything memory-bound (32 FLOPs a weight byte, 4 a KV byte, ridge 153):
    # 15 009 316 864 + 32 x 32000 x 131 072 = 149 227 044 864 bytes; / 2.039e12 = 73.186 ms
    step_s = scenario().target_pass_s(32.0, 32000.0)
    assert step_s == pytest.approx(149_227_044_864 / BW, rel=1e-12)
    assert step_s == pytest.approx(73.186e-3, rel=1e-5)


def test_self_draft_cost_ratio():
    # c = (W + B K kappa) / (W + B S kappa), B=64, K=512, S=32000:
    # (15 009 316 864 + 4 294 967 296) / (15 009 316 864 + 268 435 456 000) = 19.304e9 / 283.445e9 = 0.068106
    p = predict(scenario(), Workload.of(64, 32000, 3))
    assert p.draft_to_target == pytest.approx(19_304_284_160 / 283_444_772_864, rel=1e-12)
    assert p.draft_to_target == pytest.approx(0.068106, rel=1e-5)


def test_compute_bound_verification():
    # 256 sequences x 4 tokens: linears 1024 x 2 x 7 504 658 432 FLOPs / 312e12 = 49.261 ms;
    # attention 4 x 4 = 16 FLOPs a byte, still memory-bound: 256 x 32000 x 131 072 / 2.039e12 = 526.602 ms
    linears = 1024 * 2 * P8 / F
    attention = 256 * 32000 * KAPPA8 / BW
    verify_s = scenario().target_pass_s(256.0, 32000.0, 4.0)
    assert verify_s == pytest.approx(linears + attention, rel=1e-12)
    assert linears + attention == pytest.approx(49.261e-3 + 526.602e-3, rel=1e-5)


@pytest.mark.parametrize("query", [1.0, 4.0])
def test_mla_intensity(query):
    # DeepSeek-V3, absorbed: 128 heads x (576 scores + 512 values) x 2 FLOPs = 278 528 per cached token and
    # query, over 576 x 2 = 1152 bytes: 241.8 n
    attention = the(AttentionOp, scenario(model="deepseek-v3").target_ops(3.0, 1e6, query))
    intensity = attention.cost.flops / attention.cost.kv_bytes
    assert intensity == pytest.approx(278_528 / 1152 * query, rel=1e-5)
    assert intensity == pytest.approx(242 * query, rel=2e-3)


def test_a_prompt_of_mla_has_heads_of_its_own():
    # DeepSeek-V3, 1,000 tokens: 500,500 pairs x 61 layers x 128 heads x (192 + 128) x 2 FLOPs, not 576 + 512
    device_shard = scenario(model="deepseek-v3").target_shard
    attention = the(AttentionOp, forward(device_shard, PassShape(1.0, 1000.0, 0.0), Full()))
    expected = 500_500 * 61 * 128 * 320 * 2
    assert attention.cost.flops == pytest.approx(expected, rel=1e-6)


def test_gqa_intensity():
    # g = 4 query heads per KV head, bf16: 2 n g / 2 bytes = 4 n FLOPs a byte
    attention = the(AttentionOp, scenario().target_ops(3.0, 1e6, 2.0))
    intensity = attention.cost.flops / attention.cost.kv_bytes
    assert intensity == pytest.approx(8.0, rel=1e-5)


def test_experts_touched():
    # Qwen3-30B-A3B, 8 of 128, 32 tokens: 128 x (1 - (15/16)^32) = 128 x (1 - 0.126788) = 111.771 experts,
    # each 3 x 2048 x 768 x 2 bytes x 48 layers = 452 984 832 bytes
    ops = scenario(model="qwen3-30b-a3b").target_ops(8.0, 1.0, 4.0)
    (routed,) = (op for op in ops if op.name == "experts")
    assert routed.cost.weight_bytes == pytest.approx(111.7711 * 452_984_832, rel=1e-6)
    # all 32 tokens compute with 8 experts: 32 x 8 x 2 FLOPs x 3 x 2048 x 768 x 48
    expected = 32 * 8 * 2 * 4_718_592 * 48
    assert routed.cost.flops == pytest.approx(expected, rel=1e-12)


def test_all_reduce_messages():
    # Llama-3.1-70B, TP 8, 64 sequences verifying 3 tokens: 64 x 3 x 8192 x 2 bytes = 3 MiB, twice in 80
    # layers
    s = scenario(core=False, model="llama-3.1-70b", tp=8)
    reduce = the(AllReduceOp, s.target_ops(64.0, 1000.0, 3.0))
    assert reduce.message_bytes == 3 * 2**20
    assert reduce.kernels == 160
    # ideal: each message crosses the 300 GB/s link once, 160 x 3 145 728 / 3e11 = 1.6777 ms
    sent_s = 160 * 3_145_728 / 3e11
    assert reduce.lower_s(s.machine) == pytest.approx(sent_s, rel=1e-12)


def test_gemm_blend():
    # p = 2: loading 3 ms and computing 4 ms take sqrt(9 + 16) = 5 ms, and 7 launches of 10 us 0.07 ms more
    cost = Cost(flops=4e-3 * F, weight_bytes=3e-3 * BW)
    op = GemmOp("gemm", 7, cost)
    blended = machine(gemm_blend_power=2.0, gemm_fixed_s=10e-6)
    assert blended.op_predicted_s(op) == pytest.approx(5.07e-3, rel=1e-12)


def test_sliding_window_cache():
    # Gemma-3-27B: 2 x 16 heads x 128 x 2 bytes = 8192 a token and layer; 10 global layers keep 32000 tokens,
    # 52 keep 1024: 373 248 x 8192 = 3 057 647 616 bytes
    s = scenario(model="gemma-3-27b")
    assert s.target_shard.stored_kv_bytes(32000.0) == 3_057_647_616
    assert kv_bytes(s, 1.0, 32000.0) == 3_057_647_616


def test_largest_batch():
    # Stored: 32 layers, embedding and head, 65 norms: 6 979 321 856 + 2 x 525 336 576 + 65 x 4096 = 8 030 261
    # 248 parameters, 16 060 522 496 bytes. An A100 reports 79.2 x 2^30 = 85 040 352 461; 0.9 of it, without
    # an engine, leaves 60 475 794 719. Plain: 8001 x 131 072 = 1 048 707 072 a sequence: 57.67. Drafting 3
    # with a ring buffer of 512: (8000 + 3 + 1 + 512) x 131 072 = 1 116 209 152: 54.18.
    room = capacity.memory_of(scenario(), batch=1.0, context=8000.0, gamma=3, fraction=0.9)
    assert room.weight_bytes == 16_060_522_496
    assert room.ar_max_batch == 57
    assert room.max_batch == 54


def test_tokens_per_iteration():
    # 1 + 0.8 + 0.64 + 0.512
    assert tokens_per_iteration(3, 0.8) == pytest.approx(2.952, rel=1e-14)


def test_speedup():
    # B=64, S=32000, K=512, gamma=3, alpha=0.8
    # T_T = 283 444 772 864 / 2.039e12 = 139.0117 ms
    # T_D = 19 304 284 160 / 2.039e12 = 9.4675 ms
    # T_V, 256 tokens, compute-bound: 256 x 2 x 7 504 658 432 / 312e12 = 12.3153 ms
    # and its cache: 64 x 32000 x 131 072 bytes / 2.039e12 = 131.6505 ms, together 143.9659 ms
    # speedup = 2.952 x 139.0117 / (3 x 9.4675 + 143.9659) = 410.3626 / 172.3685 = 2.3807
    p = predict(scenario(), Workload.of(64, 32000, 3))
    assert p.target_s == pytest.approx(139.0117e-3, rel=1e-6)
    assert p.draft_s == pytest.approx(9.4675e-3, rel=1e-5)
    assert p.verify_s == pytest.approx(143.9659e-3, rel=1e-6)
    assert p.speedup == pytest.approx(2.3807, rel=3e-5)
    # and per token: 172.3685 / 2.952 = 58.390 ms, 64 / 58.390 ms = 1096.1 tokens/s
    assert p.tpot_s == pytest.approx(58.390e-3, rel=1e-4)
    assert p.throughput_tokens_per_s == pytest.approx(1096.1, rel=1e-4)


@pytest.mark.parametrize(
    ("batch", "golden", "within"), [(1e9, 2339, 5e-4), (32, 2708, 5e-4), (1, 62_000, 1e-2)]
)
def test_break_even_context(batch, golden, within):
    # p = 2 x 7 504 658 432 x 2.039e12 / 312e12 = 98 089 734 bytes (docs/model.md)
    # B -> infinity: [(7 - 2.952) x 98 089 734 + 3 x 131 072 x 512] / (131 072 x 1.952) = 598.39e6 / 255 853
    #   = 2338.8
    # B = 32, decoding, drafting and verifying 128 tokens all load W:
    #   3 (W + 32 K k) + W + 32 S k = 2.952 (W + 32 S k), so S = (1.048 W + 96 K k) / (32 x 1.952 k)
    #   = (1.048 x 15 009 316 864 + 96 x 67 108 864) / 8 187 281 = 2708
    break_even = lengths.context_lengths(scenario(), batch, 3).break_even_context
    assert break_even == pytest.approx(golden, rel=within)


@pytest.mark.parametrize(("gamma", "golden"), [(3, 2265), (2, 3269)])
def test_inflection_context(gamma, golden):
    # gamma 3: (3 x 131 072 x 512 + 4 x 98 089 734) / (2 x 131 072) = 2264.7
    # gamma 2: (2 x 131 072 x 512 + 3 x 98 089 734) / 131 072 = 3269.1
    assert lengths.inflection_context(scenario(), gamma) == pytest.approx(golden, rel=2e-4)


@pytest.mark.parametrize(("model", "golden"), [("llama-2-7b-32k", 403.6), ("llama-3.1-8b", 1950.9)])
def test_memory_bound_context(model, golden):
    # 8B, 256 sequences x 3 tokens: compute equals loads where
    #   768 x 2 x P8 + 256 x 3 S x 4 x 4096 x 32 FLOPs take as long as W + 256 S x 131 072 bytes:
    #   36.947 ms + 256 x S x 5.04 ns = 7.361 ms + 256 x S x 64.28 ns, so S is about 1951
    bound = lengths.memory_bound_context(scenario(model=model), 256, 3.0)
    assert bound == pytest.approx(golden, abs=0.1)


@pytest.mark.parametrize("hardware", ["a100-sxm-80gb", "h100-sxm-80gb"])
@pytest.mark.parametrize(("gamma", "alpha", "budget"), [(2, 0.7, 256), (3, 0.8, 512), (5, 0.9, 1024)])
def test_closed_forms_equal_the_root_finder(hardware, gamma, alpha, budget):
    # p as in test_break_even_context: bytes that could be loaded while a token's parameters are computed
    s = scenario(hardware=hardware, alpha=alpha, draft_kv=f"streamingllm:{budget}")
    gpu = load_gpu(hardware)
    ridge = gpu.peak_flops("bf16") / gpu.memory_bandwidth_bytes_per_s
    p = 2 * P8 / ridge
    omega = sum(alpha**j for j in range(gamma + 1))
    drafted_bytes = gamma * KAPPA8 * budget
    even = ((2 * gamma + 1 - omega) * p + drafted_bytes) / (KAPPA8 * (omega - 1))
    break_even = lengths.context_lengths(s, 1e9, gamma).break_even_context
    assert break_even == pytest.approx(even, rel=1e-3)
    turn = (drafted_bytes + (gamma + 1) * p) / (KAPPA8 * (gamma - 1))
    batches = (np.floor(ridge / (gamma + 2)), ridge)
    inflection = lengths.inflection_context(s, gamma, batches)
    assert inflection == pytest.approx(turn, rel=1e-3)
    assert lengths.inflection_context(s, 1, (32.0, 1024.0)) is None
