"""The terms that serving engines need, by hand: graph padding, popular experts, curves, and backends that
cut the cache for one query token alone.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from perfmodel.costs.graphs import graph_sizes
from perfmodel.costs.kinds.attention import AttentionOp
from perfmodel.costs.kinds.experts import ExpertsOp
from perfmodel.costs.kinds.gemm import GemmOp, curve_of
from perfmodel.costs.kinds.host import HostLaunchesOp
from perfmodel.costs.kinds.small import SmallOp
from perfmodel.costs.roofline import Machine
from perfmodel.operations import Cost, Head
from perfmodel.specs import WEIGHT_FORMATS, Constant, attention_of, load_gpu
from perfmodel.specs.calibrations.engine_constants import ExpertKernel, ExpertKernels
from perfmodel.specs.engines.backends import backend_name
from tests.costs.machines import BW, F, count, device_shard, machine


def test_graphs_hold_one_two_four_and_multiples_of_eight() -> None:
    graphs = device_shard("llama-3.1-8b", graph_sizes=graph_sizes(8, 512))
    tokens = np.array([1, 2, 3, 4, 5, 8, 9, 17, 512, 513.0])
    assert graphs.rows(tokens).tolist() == [1, 2, 4, 4, 8, 8, 16, 24, 512, 513]
    assert device_shard("llama-3.1-8b").rows(9.0) == 9.0
    wide = device_shard("llama-3.1-8b", graph_sizes=graph_sizes(16, 500))
    assert wide.rows(np.array([4, 5, 496, 497.0])).tolist() == [4, 16, 496, 497]
    # 3 sequences fill up to 4, so that attention is cut for 4 of 8 KV heads, however many tokens each
    # verifies
    attention = count(graphs, batch=3.0, query=3.0)["attention (full)"]
    assert attention.work_items == 3 * 8
    assert attention.padded_items == 4 * 8


EXPERTS = ExpertKernels(
    kernels={"bf16": ExpertKernel(fixed_s=5e-5, bandwidth_fraction=0.5, flops_fraction=0.25)},
    source="by hand",
)


def test_small_kernels_take_their_launches_and_move_values_at_a_part_of_the_bandwidth() -> None:
    norms = SmallOp("norms", 3, Cost(activation_bytes=1e6))
    slow = machine(small_kernel_s=2e-6, small_bandwidth_fraction=0.25)
    assert slow.op_predicted_s(norms) == pytest.approx(3 * 2e-6 + 4 * 1e6 / BW)


def test_launches_of_routing_are_part_of_the_kernels_of_experts_where_these_are_known() -> None:
    routing = SmallOp("routing", 3, Cost(), of_experts=True)
    assert machine(small_kernel_s=2e-6).op_predicted_s(routing) == pytest.approx(3 * 2e-6)
    assert machine(small_kernel_s=2e-6, expert_kernels=EXPERTS).op_predicted_s(routing) == 0.0
    norms = routing.replace(of_experts=False)
    assert machine(small_kernel_s=2e-6, expert_kernels=EXPERTS).op_predicted_s(norms) > 0.0


def test_expert_kernels_add_loading_to_computing() -> None:
    kernels = EXPERTS
    op = ExpertsOp("experts", 4, Cost(flops=1e10, weight_bytes=1e8), layers=2)
    by_hand = 2 * 5e-5 + 1e8 / BW / 0.5 + 1e10 / F / 0.25
    assert machine(expert_kernels=kernels).op_predicted_s(op) == pytest.approx(by_hand)
    assert machine(expert_kernels=kernels, expert_factor=0.8).op_predicted_s(op) == pytest.approx(
        0.8 * by_hand
    )
    prompts = kernels.replace(prompts={"bf16": kernels.kernels["bf16"].replace(routed_passes=4.0)})
    of_prompt = op.replace(of_prompt=True, routed_bytes=3e8)
    assert machine(expert_kernels=prompts).op_predicted_s(op) == pytest.approx(by_hand)
    assert machine(expert_kernels=prompts).op_predicted_s(of_prompt) == pytest.approx(by_hand + 4 * 3e8 / BW)
    assert machine(expert_kernels=kernels).op_predicted_s(of_prompt) == pytest.approx(by_hand)
    at_peak = 2 * 5e-6 + 1e8 / BW + 1e10 / F  # ten times as fast reaches the peaks, and no more
    assert machine(expert_kernels=kernels, expert_factor=0.1).op_predicted_s(op) == pytest.approx(at_peak)


def test_a_format_without_a_kernel_takes_the_usual_one_of_its_peak() -> None:
    curves = {"bf16": 1, "fp8": 2, "nvfp4": 3}
    named = {"fp8-block": 2, "int4-g128": 1, "nvfp4": 3, "mxfp4-a8": 2}
    for form, curve in named.items():
        op = GemmOp("x", 1, Cost(), compute=WEIGHT_FORMATS[form.partition("-g")[0]].compute, form=form)
        assert curves[curve_of(curves, op)] == curve, form
    assert curve_of(["bf16"], GemmOp("x", 1, Cost(), compute="fp8", form="fp8")) == "bf16"


def test_a_latent_cache_is_read_again_by_a_share_of_its_own() -> None:
    two_shares = machine(kv_reread_per_query=0.1, latent_reread_per_query=0.5)
    # three tokens a sequence: the first read, and of the two others their share
    assert (two_shares.attention.reread(3.0), two_shares.attention.reread(3.0, "latent")) == pytest.approx(
        (1.2, 2.0)
    )
    assert machine(kv_reread_per_query=0.1).attention.reread(3.0, "latent") == pytest.approx(1.2)


# Attention backends.


def vllm(backend: str | None = None, kv_reread: float | None = None, rate: float = 1.1) -> Machine:
    """An ideal A100 with vLLM's backends."""
    plain = machine(block_bandwidth=rate)
    calibration = plain.calibration.replace(stack="vllm")
    return replace(plain, calibration=calibration, attention_backend=backend, kv_reread=kv_reread)


def layer(query: float, heads: float = 4.0, tokens: float = 16384.0) -> AttentionOp:
    """One layer of attention over heads of 1,024 bytes a token."""
    cost = Cost(kv_bytes=heads * tokens * 1024)
    return AttentionOp("attention", 1, cost, query=query, work_items=heads, padded_items=heads)


def test_one_block_reads_the_whole_cache_of_a_head() -> None:
    """16.8 MB at 1.1 of a 108th of 2,039 GB/s: 0.81 ms; four heads read at once take as long as one."""
    by_hand = 16384 * 1024 / (1.1 * BW / 108)
    queries = np.array([1.0, 2.0, 9.0])
    uncut = vllm("triton")
    assert by_hand == pytest.approx(0.81e-3, rel=0.01)
    assert uncut.op_predicted_s(layer(4.0)) == pytest.approx(by_hand)
    assert uncut.op_predicted_s(layer(4.0, heads=1.0)) == pytest.approx(by_hand)
    assert uncut.op_predicted_s(layer(queries)) == pytest.approx([by_hand / 16, by_hand, by_hand])


def test_a_program_of_64_rows_computes_for_a_whole_head() -> None:
    """FlashAttention 2: 16.8 MB times 64 FLOPs per byte at a 108th of 0.73 of 312 TFLOP/s take 0.51 ms, for 2
    tokens as for 9, and twice as long for a sequence of twice the length. Where four query heads share each
    of many KV heads, all compute 64 rows for four tokens.
    """
    peak = 0.73 * F
    by_hand = 16384 * 1024 * 64 / (peak / 108)
    by_all_blocks = 4 * 16384 * 1024 / BW
    queries = np.array([1.0, 2.0, 9.0])
    flash = vllm("flash-attn2")
    assert by_hand == pytest.approx(0.509e-3, rel=0.01)
    assert flash.op_predicted_s(layer(queries)) == pytest.approx([by_all_blocks, by_hand, by_hand])
    uneven = layer(4.0).replace(longer_bytes=16384 * 1024)
    assert flash.op_predicted_s(uneven) == pytest.approx(2 * by_hand)
    all_bytes = 4096 * 16384 * 1024
    cost = Cost(kv_bytes=all_bytes, flops=16.0 * all_bytes)
    many = AttentionOp("attention", 1, cost, query=4.0, work_items=4096.0, padded_items=4096.0)
    assert flash.op_predicted_s(many) == pytest.approx(16 * cost.flops / peak)
    full = many.replace(query=128.0, cost=Cost(kv_bytes=all_bytes, flops=512.0 * all_bytes))
    assert flash.op_predicted_s(full) == pytest.approx(512 * all_bytes / peak)  # no row is empty


def test_only_the_multiprocessors_of_a_ga100_outrun_flash_attention_2() -> None:
    flash = attention_of("vllm").backends["flash-attn2"]
    boards = ("a100", "a800", "3090", "rtx-pro-6000")
    shares = [flash.padded_peak_share(load_gpu(name).architecture) for name in boards]
    assert shares == [0.73, 0.73, 1.0, 1.0]


def test_a_kernel_for_prompts_verifies_at_a_rate_of_its_own() -> None:
    """One token, and several in pieces, are read at the usual rate of a block."""
    usual = vllm("triton")
    slow = replace(
        usual, calibration=usual.calibration.replace(uncut_bandwidth=Constant(value=0.11, source="test"))
    )
    assert slow.op_predicted_s(layer(1.0)) == usual.op_predicted_s(layer(1.0))
    assert slow.op_predicted_s(layer(4.0)) == pytest.approx(10 * usual.op_predicted_s(layer(4.0)))
    full = layer(4.0, heads=432.0)  # four heads on each of 108 multiprocessors
    assert slow.op_predicted_s(full) == pytest.approx(4 * slow.op_predicted_s(layer(4.0)))


def test_a_longer_sequence_and_the_padding_of_a_graph_lengthen_a_piece() -> None:
    """The longest cache has twice the mean bytes. One token is read in 16 pieces, with padding to 27 heads in
    four.
    """
    uncut = vllm("triton")
    uneven = layer(4.0).replace(longer_bytes=16384 * 1024)
    assert uncut.op_predicted_s(uneven) == pytest.approx(2 * uncut.op_predicted_s(layer(4.0)))
    padded = layer(1.0).replace(padded_items=27.0)
    assert uncut.op_predicted_s(padded) == pytest.approx(4 * uncut.op_predicted_s(layer(1.0)))


def test_the_effect_ends_where_heads_fill_the_device() -> None:
    for heads in (108.0, 200.0, 432.0):
        uncut = vllm("triton", rate=1.0)
        cut = vllm("flash-attn3", rate=1.0)
        op = layer(4.0, heads)
        assert uncut.op_predicted_s(op) == pytest.approx(cut.op_predicted_s(op))
    half = layer(4.0, 54.0)
    cut_s = float(vllm("flash-attn3").op_predicted_s(half))
    assert vllm("triton").op_predicted_s(half) == pytest.approx(108 / 54 / 1.1 * cut_s)


def test_a_reread_that_is_asked_for_stands_for_the_backend() -> None:
    expected = 2 * 4 * 16384 * 1024 / BW
    assert vllm("flash-attn2", 2.0).op_predicted_s(layer(4.0)) == pytest.approx(expected)
    trtllm = vllm("trtllm")
    c = trtllm.calibration
    slope = c.latent_reread_per_query.replace(value=1.0)
    again = replace(trtllm, calibration=c.replace(latent_reread_per_query=slope))
    assert float(again.attention.reread(4.0, "latent")) == 4
    assert float(replace(again, attention_backend="flashmla").attention.reread(4.0, "latent")) == 1


@pytest.mark.parametrize(
    ("engine", "version", "gpu", "head", "narrow", "name"),
    [
        ("vllm", "0.33", "rtx-3090", "usual", False, "flash-attn2"),
        ("vllm", "0.33", "rtx-pro-6000", "usual", False, "flash-attn2"),
        ("vllm", "0.33", "h100", "usual", False, "flash-attn3"),
        ("vllm", "0.33", "b200", "latent", False, "trtllm"),
        ("vllm", "0.14", "b200", "latent", False, "cutlass-mla"),
        # FlashAttention 2 reads no 8-bit cache
        ("vllm", "0.11.2", "rtx-pro-6000", "usual", True, "triton"),
        ("vllm", "0.17.0", "rtx-pro-6000", "usual", True, "flashinfer"),
        ("vllm", "0.28.0", "rtx-pro-6000", "usual", True, "xqa"),
        ("vllm", "", "rtx-3090", "usual", True, "flashinfer"),
        # nor has it sinks, nor heads of 512 values
        ("vllm", "0.17.0", "rtx-3090", "sinks", False, "triton"),
        ("vllm", "0.17.0", "rtx-4090", "wide", False, "triton"),
        ("sglang", "0.5.9", "a100-sxm-80gb", "usual", False, "flashinfer"),
        ("sglang", "0.5.9", "rtx-pro-6000", "latent", False, "triton"),
        ("sglang", "0.5.9", "rtx-pro-6000", "sinks", False, "triton"),
        ("sglang", "0.5.6", "b200", "usual", False, "flashinfer"),
        ("sglang", "0.5.9", "b200", "usual", False, "trtllm"),
        ("sglang", "", "mi300x", "latent", False, "aiter-mla"),
        # Gemma 4
        ("sglang", "0.5.13", "h200", "wide", False, "triton"),
        ("sglang", "0.5.13", "mi300x", "wide", False, "triton"),
        ("sglang", "0.5.12", "b200", "wide", False, "triton"),
        ("sglang", "0.5.13", "b200", "wide", False, "trtllm"),
        ("trtllm", "", "h200", "usual", False, "trtllm"),
        ("magicdec", "", "a100-sxm-80gb", "usual", False, None),
    ],
)
def test_engines_choose_by_version_device_heads_and_cache(
    engine: str, version: str, gpu: str, head: Head, narrow: bool, name: str | None
) -> None:
    architecture = load_gpu(gpu).architecture
    assert backend_name(engine, architecture, head, narrow=narrow, version=version) == name


# The host.


def hosted(version: str, drafts: bool = False, backend: str | None = None, **constants: float) -> Machine:
    """An ideal A100 whose calibration is of a version of vLLM."""
    plain = machine(**constants)
    calibration = plain.calibration.replace(stack="vllm", version=version)
    return replace(plain, calibration=calibration, drafts=drafts, attention_backend=backend)


def launches(query: float = 1.0, layers: int = 61, **more: Any) -> HostLaunchesOp:
    """The host's launches in a pass."""
    return HostLaunchesOp("host launches", layers, Cost(), query=query, **more)


def test_a_pass_takes_as_long_as_the_host_that_launches_it() -> None:
    """DeepSeek-R1, 61 layers of MLA: 2.2 ms + 61 x 0.22 ms = 15.6 ms (16.1 measured on eight H100)."""
    host = {"host_pass_s": 2.2e-3, "host_layer_s": 1e-4, "host_latent_layer_s": 2.2e-4}
    old_vllm = hosted("0.10.1", **host)
    load = GemmOp("x", 1, Cost(weight_bytes=BW * 5e-3))
    assert old_vllm.predicted_s([load, launches(head="latent")], 1.0) == pytest.approx(15.62e-3)
    assert old_vllm.predicted_s([load, launches(layers=24)], 1.0) == pytest.approx(5e-3)  # 4.6 ms beside
    time = old_vllm.time([load, launches(head="latent")], 1.0)
    assert time.terms_s["host"] == pytest.approx(10.62e-3)
    assert sum(time.terms_s.values()) == pytest.approx(time.predicted_s)
    assert time.at().limiter == "host"
    assert hosted("0.11.0", **host).predicted_s([load, launches()], 1.0) == pytest.approx(5e-3)
    assert hosted("0.7.3", **host).predicted_s([load, launches()], 1.0) == pytest.approx(5e-3)


def test_the_host_launches_drafts_and_verifications_without_a_graph() -> None:
    """A draft of 28 layers: 28 x 0.28 = 7.84 ms; 60 layers verified through FlashInfer: 16.8 ms."""
    host = {"host_piecewise_layer_s": 2.8e-4}
    assert launches(layers=28).host_s(hosted("0.20", drafts=True, **host)) == pytest.approx(7.84e-3)
    verified = launches(query=3.0, layers=60)
    flashinfer = hosted("0.17.0", backend="flashinfer", **host)
    flash_attn2 = hosted("0.17.0", backend="flash-attn2", **host)
    assert verified.host_s(flashinfer) == pytest.approx(16.8e-3)
    assert launches().host_s(flashinfer) == 0
    assert verified.host_s(flash_attn2) == 0
    varying = launches(query=3.0, layers=60, varying=True)
    assert varying.host_s(flash_attn2) == pytest.approx(16.8e-3)
