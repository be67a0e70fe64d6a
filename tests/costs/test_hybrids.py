"""Sparse attention, recurrent layers, heads that differ between layers: bytes and FLOPs by hand."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from perfmodel.costs import Degrees, shard
from perfmodel.costs.kinds.state import StateOp
from perfmodel.errors import InputError
from perfmodel.kv import parse_kv
from perfmodel.operations import Cost
from perfmodel.specs import load_model
from perfmodel.specs.huggingface import from_config
from perfmodel.speculation import memory_of
from tests.costs.machines import BF16, count, device_shard, tiny
from tests.specs.configs import sizes
from tests.speculation import scenarios


def read(ops: dict[str, Any]) -> dict[str, float]:
    """Bytes of the cache by operation, of those that read any."""
    return {name: op.cost.kv_bytes for name, op in ops.items() if op.cost.kv_bytes}


def weight_bytes(ops: dict[str, Any]) -> dict[str, float]:
    """Bytes of weights by operation."""
    return {name: op.cost.weight_bytes for name, op in ops.items()}


def test_the_indexer_reads_every_key_and_attention_its_choice() -> None:
    """DeepSeek-V3.2: 61 layers, keys of 128 in fp8 with an fp32 scale, a latent of 576 values, 2048 tokens
    chosen.
    """
    ops = count(device_shard("deepseek-v3.2"), batch=3.0, context=50_000.0)
    scored = ops["indexer"]
    layers = 3 * 61
    assert scored.cost.kv_bytes == layers * 50_000 * (128 + 4)
    assert scored.kernels == 2 * 61
    assert scored.compute == "fp8"
    # and keys of 132 bytes, queries of as many a head
    queries = 64 * (132 + 4)
    scores = 2 * 4 * 50_000
    assert scored.cost.flops == layers * 50_001 * 2 * 64 * 128
    assert scored.cost.activation_bytes == layers * (queries + 132 + scores)
    attention = ops["attention (full)"]
    assert attention.cost.kv_bytes == layers * 2048 * 576 * 2
    assert attention.cost.flops == layers * 2049 * 2 * 128 * (576 + 512)  # and the new token itself
    # wq_b of 1536 x 64 x 128, key and head weights of 7168 x (128 + 64)
    weights = weight_bytes(ops)
    assert weights["index_q"] == 61 * 2 * 1536 * 64 * 128
    assert weights["index_k"] == 61 * 2 * 7168 * (128 + 64)


@pytest.mark.parametrize(("reuse", "tokens"), [(0.0, 4 * 2048), (0.75, 1.75 * 2048), (1.0, 2048)])
def test_verification_reads_the_union_of_what_its_queries_choose(reuse: float, tokens: float) -> None:
    ops = count(device_shard("deepseek-v3.2"), query=4.0, context=50_000.0, topk_reuse=reuse)
    assert ops["attention (full)"].cost.kv_bytes == 61 * tokens * 576 * 2
    # the union says what is read again: no kernel's factor on top
    assert ops["attention (full)"].query == 1.0
    assert ops["indexer"].cost.kv_bytes == 61 * 50_000 * 132  # once, for all queries
    plain = count(device_shard("deepseek-v3.2"), query=4.0, context=50_000.0)["attention (full)"]
    # nothing is reused unless asked
    assert plain.cost.kv_bytes == 61 * 4 * 2048 * 576 * 2
    assert plain.longer_bytes == 0.0
    few = count(device_shard("deepseek-v3.2"), query=4.0, context=3000.0, topk_reuse=0.0)["attention (full)"]
    assert few.cost.kv_bytes == 61 * 3000 * 576 * 2  # the union is never more than the context


def test_what_a_sparse_model_keeps() -> None:
    p = device_shard("deepseek-v3.2")
    layer_bytes = 576 * 2 + 132
    assert p.stored_kv_bytes(1000.0) == 1000 * 61 * layer_bytes
    assert p.stored_kv_bytes(1.0) == 61 * layer_bytes
    # fp8 as engines lay it out: 512 values and 4 scales, 64 rotary values in bf16
    assert device_shard("deepseek-v3.2", kv="fp8").stored_kv_bytes(1.0) == 61 * (656 + 132)
    assert device_shard("deepseek-v3", kv="fp8").stored_kv_bytes(1.0) == 61 * 576
    # whole on every device
    assert device_shard("deepseek-v3.2", 8).stored_kv_bytes(1.0) == p.stored_kv_bytes(1.0)
    eight = count(device_shard("deepseek-v3.2", 8), context=9000.0)
    one = count(p, context=9000.0)
    assert eight["indexer"].cost == one["indexer"].cost
    assert eight["index_q"].cost.weight_bytes == one["index_q"].cost.weight_bytes


def test_a_context_by_what_it_reads() -> None:
    p = device_shard("deepseek-v3.2")
    for context in (100.0, 2048.0, 90_000.0):
        layer_bytes = min(context, 2048) * 1152 + context * 132
        assert p.context_of(61 * layer_bytes) == pytest.approx(context)


def test_a_sparse_draft_of_a_sparse_model_needs_no_indexer() -> None:
    ops = count(device_shard("deepseek-v3.2"), context=50_000.0, kv=parse_kv("streamingllm:512"))
    assert "indexer" not in ops
    assert ops["attention (full)"].cost.kv_bytes == 61 * 512 * 1152


STATE = 30 * (32 * 128 * 128 * 4 + 8192 * 3 * 2)
"""Qwen3.5-35B-A3B: 30 layers of 32 heads, 128 x 128 in fp32, and 3 inputs of a convolution over 8192
channels.
"""


def test_layers_that_keep_a_state_beside_some_that_attend() -> None:
    ops = count(device_shard("qwen3.5-35b-a3b"), query=4.0, kept_states=4.0)
    state = ops["state (gated_delta)"].cost
    tokens = 4 * 30
    assert state.kv_bytes == (1 + 4) * STATE
    assert state.flops == tokens * 32 * 128 * 128 * 6
    # what is convolved (8192), and values and gate (4096 each) of every token
    assert state.activation_bytes == tokens * (8192 + 2 * 4096) * 2
    assert ops["convolution"].cost.activation_bytes == tokens * 2 * 8192 * 2
    assert ops["state norm"].cost.activation_bytes == tokens * 3 * 4096 * 2
    weights = weight_bytes(ops)
    assert weights["state_in"] == 30 * 2048 * (8192 + 4096 + 2 * 32) * 2
    assert weights["state_out"] == 30 * 4096 * 2048 * 2
    gated_queries = 2 * 16 * 256
    columns = gated_queries + 2 * 2 * 256
    assert weights["qkv"] == 10 * 2 * 2048 * columns


def test_a_recurrent_layer_has_eight_times_the_kernels_in_a_prompt() -> None:
    """The gated delta rule reads a prompt in chunks, with eight kernels instead of one."""
    state = StateOp("state (gated_delta)", 48, Cost())
    assert state.prompt_kernels == 8 * 48


def test_verification_keeps_every_state_or_replays() -> None:
    p = device_shard("qwen3.5-35b-a3b")
    assert count(p, query=4.0, kept_states=1.0)["state (gated_delta)"].cost.kv_bytes == 2 * STATE
    scenario = partial(scenarios.scenario, model="qwen3.5-35b-a3b", hardware="h200-sxm-141gb", draft="mtp")
    keep = scenario()
    replay = scenario(state_rollback="replay")
    keeping_s = float(keep.target_pass_s(64.0, 8e3, 4.0))
    replaying_s = float(replay.target_pass_s(64.0, 8e3, 4.0))
    assert keeping_s > replaying_s
    assert float(keep.target_pass_s(64.0, 8e3)) == float(replay.target_pass_s(64.0, 8e3))
    kept = memory_of(keep, 1.0, 8000.0, 3.0, 0.9)
    replayed = memory_of(replay, 1.0, 8000.0, 3.0, 0.9)
    # vLLM keeps 1 + num_speculative_tokens pages of state (v1/kv_cache_interface.py)
    assert kept.kv_bytes - replayed.kv_bytes == 3 * STATE
    assert memory_of(keep, 1.0, 8000.0, 0.0, 0.9).kv_bytes == p.stored_kv_bytes(8001.0)
    with pytest.raises(InputError, match="known: keep, replay"):
        scenario(state_rollback="guess")


def test_a_layer_with_one_block() -> None:
    """Nemotron-3 Nano: 23 Mamba-2, 6 attention and 23 expert blocks; up and down projections, no gate."""
    p = device_shard("nemotron-3-nano-30b-a3b", 2)
    ops = count(p, batch=3.0, context=7000.0)
    assert ops["all-reduce"].kernels == 52
    blocks = 3 * 23
    assert ops["attention (full)"].cost.kv_bytes == 3 * 7000 * 6 * 2 * 128 * 2
    assert ops["experts"].cost.flops == blocks * 6 * 2 * 2 * 2688 * 1856 / 2
    assert ops["shared_gate_up"].cost.weight_bytes == 23 * 2 * 2688 * 3712 / 2
    assert "gate_up" not in ops
    # 64 heads of 64 x 128 in fp32, 4096 + 2 x 8 groups x 128 channels of convolution, halved
    values = 64 * 64 * 128
    convolved_bytes = (4096 + 2 * 1024) * 3 * 2
    assert p.states
    assert p.states.bytes_per_sequence == 23 * (values * 4 + convolved_bytes) / 2
    mamba = p.model.linear_attention.replace(state_dtype="bf16")
    short = device_shard(p.model.replace(linear_attention=mamba), 2).states
    assert short.bytes_per_sequence == 23 * (values * 2 + convolved_bytes) / 2
    assert ops["state (mamba2)"].cost.flops == blocks * values * 4 / 2


def test_experts_in_a_latent() -> None:
    """Nemotron-3 Super: experts read and write 1024 of 4096, behind two projections held whole on every
    device.
    """
    ops = count(device_shard("nemotron-3-super-120b-a12b", 4))
    one = count(device_shard("nemotron-3-super-120b-a12b", 1))
    into_bytes = 40 * 2 * 4096 * 1024
    assert ops["latent_in"].cost.weight_bytes == into_bytes
    assert one["latent_in"].cost.weight_bytes == into_bytes
    multiplied = 2 * 1024 * 2688  # up and down
    assert one["experts"].cost.flops == 40 * 22 * 2 * multiplied
    assert ops["experts"].cost.flops == one["experts"].cost.flops / 4


def test_global_layers_with_heads_of_their_own() -> None:
    """Gemma-4-26B: 25 layers with 8 KV heads of 256 and a window of 1024; 5 with 2 of 512 that share a
    projection.
    """
    p = device_shard("gemma-4-26b-a4b")
    ops = count(p, batch=2.0, context=9000.0)
    wide_bytes = 2 * 512 * 2  # a KV head's key and value of a token
    narrow_bytes = 2 * 256 * 2
    cached = read(ops)
    assert cached.keys() == {"attention (full)", "attention (window 1024)"}
    assert cached["attention (full)"] == 2 * 5 * 9000 * 2 * wide_bytes
    assert cached["attention (window 1024)"] == 2 * 25 * 1024 * 8 * narrow_bytes
    weights = weight_bytes(ops)
    layer_flops = 9001 * 4 * 16 * 512
    assert ops["attention (full)"].cost.flops == 2 * 5 * layer_flops
    assert weights["qkv"] == 5 * 2 * 2816 * (16 * 512 + 2 * 512)
    columns = (16 + 2 * 8) * 256
    assert weights["qkv (sliding)"] == 25 * 2 * 2816 * columns
    assert p.stored_kv_bytes(1.0) == 5 * 2 * wide_bytes + 25 * 8 * narrow_bytes
    # four devices: two global KV heads are replicated, eight local ones divide
    quarter = device_shard("gemma-4-26b-a4b", 4)
    assert quarter.stored_kv_bytes(1.0) == 5 * 1 * wide_bytes + 25 * 2 * narrow_bytes


def test_values_narrower_than_keys() -> None:
    """MiMo-V2-Flash: keys of 192, values of 128; 9 full layers with 4 KV heads, 39 with 8 and a window of
    128.
    """
    ops = count(device_shard("mimo-v2-flash"), context=5000.0)
    head_bytes = (192 + 128) * 2
    cached = read(ops)
    assert cached.keys() == {"attention (full)", "attention (window 128)"}
    assert cached["attention (full)"] == 9 * 5000 * 4 * head_bytes
    assert cached["attention (window 128)"] == 39 * 128 * 8 * head_bytes
    assert ops["o"].cost.weight_bytes == 9 * 2 * 64 * 128 * 4096
    layer_flops = 5001 * 2 * 64 * (192 + 128)
    assert ops["attention (full)"].cost.flops == 9 * layer_flops


MINIMAX_LAYERS = [0] * 3 + [1] * 57
MINIMAX_M3 = {
    "model_type": "minimax_m3",
    "head_dim": 128,
    "vocab_size": 200064,
    "max_position_embeddings": 1048576,
    "num_hidden_layers": 60,
    "hidden_size": 6144,
    "num_attention_heads": 64,
    "num_key_value_heads": 4,
    "intermediate_size": 3072,
    "dense_intermediate_size": 12288,
    "shared_intermediate_size": 3072,
    "num_local_experts": 128,
    "num_experts_per_tok": 4,
    "moe_layer_freq": MINIMAX_LAYERS,
    "sparse_attention_config": {
        "sparse_attention_freq": MINIMAX_LAYERS,
        "sparse_topk_blocks": 16,
        "sparse_block_size": 128,
        "sparse_num_index_heads": 4,
        "sparse_index_dim": 128,
    },
}


def test_blocks_that_an_indexer_chooses_beside_layers_that_read_everything() -> None:
    """MiniMax-M3: of 60 layers 57 read 16 blocks of 128 tokens and score all keys, 3 read the whole cache."""
    model = from_config(MINIMAX_M3, "c.json")
    assert model.total_params / 1e9 == pytest.approx(426.2, abs=0.1)
    p = device_shard(model)
    ops = count(p, context=100_000.0)
    token = 2 * 4 * 128 * 2
    assert p.stored_kv_bytes(1.0) == 60 * token + 57 * 132
    cached = read(ops)
    assert cached.keys() == {"attention (full)", "attention (chosen)", "indexer"}
    assert cached["attention (full)"] == 3 * 100_000 * token
    assert cached["attention (chosen)"] == 57 * 2048 * token
    assert cached["indexer"] == 57 * 100_000 * 132  # 128 values of a byte, and a scale
    weight_bytes = ops["index_q"].cost.weight_bytes + ops["index_k"].cost.weight_bytes
    assert weight_bytes == 57 * 2 * 6144 * (4 * 128 + 128)


def test_compressed_caches_by_hand() -> None:
    """DeepSeek-V4-Flash: 43 windows of 128; 21 layers choose 512 of S/4 entries, 20 read S/128; 512 values an
    entry.
    """
    p = device_shard("deepseek-v4-flash")
    ops = count(p, batch=2.0, context=64_000.0)
    entry = 512 * 2  # bytes
    cached = read(ops)
    assert len(cached) == 4
    assert cached["attention (every 4)"] == 2 * 21 * 512 * entry
    assert cached["attention (every 128)"] == 2 * 20 * 500 * entry
    assert cached["attention (window 128)"] == 2 * 43 * 128 * entry
    assert cached["indexer"] == 2 * 21 * 16_000 * 132
    grows = 21 * (entry + 132) / 4 + 20 * entry / 128
    assert p.stored_kv_bytes(64_000.0) == 64_000 * grows + 43 * 128 * entry
    attending = [op.kernels for name, op in ops.items() if name.startswith("attention")]
    assert sum(attending) == 43
    # outputs: 64 heads of 512 in 8 groups, each to 1024, and these to 4096
    weights = weight_bytes(ops)
    assert weights["o_down"] == 43 * 2 * 64 * 512 * 1024
    assert ops["o_down"].columns == 43 * 8 * 1024
    assert weights["o"] == 43 * 2 * 8 * 1024 * 4096


def test_layers_that_read_the_cache_of_another_by_hand() -> None:
    """12 layers, of which the last 6 (one full) have neither keys nor values of their own, and a table for
    each.
    """
    file = Path(__file__).parents[1] / "specs" / "tiny_configs.json"
    rows = json.loads(file.read_text(encoding="utf-8"))
    published = [row["keys"] for row in rows if row["keys"].get("num_kv_shared_layers") == 6]
    dense = sizes(12, 64, 8, 4, 96, 101, 512)
    config = dense | published[0] | {"model_type": "gemma4_text"}
    spec = from_config(config, "c.json")
    sliding_bytes = 4 * 2 * 16 * 2
    full_bytes = 4 * 2 * 32 * 2
    assert spec.shared_kv_layers == 1
    assert spec.shared_kv_sliding == 5
    assert spec.kv_bytes_per_token() == 5 * sliding_bytes + 1 * full_bytes
    assert device_shard(spec).stored_kv_bytes(1.0) == spec.kv_bytes_per_token()
    ops = count(device_shard(spec), context=20.0)  # below the window of 32: all layers read
    assert ops["attention (window 32)"].cost.kv_bytes == 10 * 20 * sliding_bytes
    weights = weight_bytes(ops)
    assert weights["qkv (sliding)"] == 5 * 64 * (8 + 2 * 4) * 16 * 2
    assert weights["qkv (shared) (sliding)"] == 5 * 64 * 8 * 16 * 2
    assert spec.intermediate_size == 96 * 18 // 12  # the last 6 are twice as wide
    assert spec.table_params == 12 * 101 * 8


def test_devices_share_the_side_of_a_further_projection_that_its_family_splits() -> None:
    """Jamba's projections of the state: one has its inputs on both devices, the other its outputs."""
    sides = ("inputs", "outputs", "none")
    size = {"inputs": 96, "outputs": 40, "layers": 2}
    projections = [{"name": f"state_{side}", "split": side} | size for side in sides]
    model = tiny(projections=projections)
    linears = shard(model, Degrees(2), BF16).linears
    columns = {one.name: one.columns for one in linears}
    weights = {one.name: one.weight_bytes for one in linears}
    assert [columns[f"state_{side}"] for side in sides] == [80, 40, 80]
    half = 2 * 2 * 96 * 40 / 2
    assert [weights[f"state_{side}"] for side in sides] == [half, half, 2 * half]


def test_layers_of_a_latent_without_rotation_read_the_latent_alone() -> None:
    """DeepSeek-V3 with 15 of its 61 layers without the 64 rotated values beside the latent of 512."""
    model = load_model("deepseek-v3")
    assert model.mla
    mixed = model.replace(mla=model.mla.replace(unrotated_layers=15))
    rotated, unrotated = shard(mixed, Degrees(1), BF16).attentions
    assert [rotated.layers, rotated.layout.values_per_token] == [46, 576]
    assert [unrotated.layers, unrotated.layout.values_per_token] == [15, 512]
