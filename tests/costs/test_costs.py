"""Counting a pass: sharding, precisions, all parameters read once, attention pairs by loops, FLOPs by torch."""

import numpy as np
import pytest

from perfmodel.costs import core, forward
from perfmodel.errors import InputError
from perfmodel.specs.model import ModelSpec, load_model
from tests.costs.counting import FULL, MODELS, count, part, read, tiny

# Every parameter is read once.


def unread(m: ModelSpec) -> int:
    """Parameters that no counted matrix holds: norms, sinks, a shared expert's gate, small parts of states."""
    per_layer = m.attention_extra_params
    if m.mla:
        per_layer += m.mla.kv_lora_rank + (m.mla.q_lora_rank or 0)
    narrower = m.num_sliding_layers * 2 * (m.head_dim - m.heads(sliding=True).head_dim) if m.qk_norm else 0
    small = per_layer * m.num_attention_layers - narrower
    small += m.hidden_size * m.num_moe_layers if m.moe and m.moe.shared_gate else 0
    small += m.linear_attention.layers * m.linear_attention.small_params if m.linear_attention else 0
    small += m.indexer.layers * m.indexer.norm_params if m.indexer else 0
    return m.norm_params + small


@pytest.mark.parametrize("name", MODELS)
def test_a_wide_pass_reads_every_parameter_but_the_input_embedding(name):
    model = load_model(name)
    p = part(name)
    # an untied input embedding is looked up, not read; a tied one is read as the LM head
    expected = 2 * (model.total_params - (0 if model.tie_word_embeddings else model.embedding_params) - unread(model))
    assert read(count(p, batch=1e9)) == pytest.approx(expected, rel=1e-12)
    assert unread(model) < 1e-3 * model.total_params


@pytest.mark.parametrize("name", MODELS)
def test_stored_weights_are_the_parameters(name):
    model = load_model(name)
    left_out = unread(model) - model.norm_params
    assert part(name).stored_weight_bytes == pytest.approx(2 * (model.total_params - left_out), rel=1e-12)


@pytest.mark.parametrize("name", MODELS)
def test_linear_flops_are_two_per_active_parameter(name):
    model = load_model(name)
    flops = sum(float(op.cost.flops) for op in count(part(name)).values() if op.kind == "linear")
    assert flops == pytest.approx(2 * model.active_params, rel=3e-3)


def test_tied_head_is_still_read():
    tied, untied = tiny(tie_word_embeddings=True), tiny()
    assert count(part(tied))["lm_head"].cost.weight_bytes == 2 * 100 * 48
    assert read(count(part(tied))) == read(count(part(untied)))
    assert part(untied).stored_weight_bytes - part(tied).stored_weight_bytes == 2 * 100 * 48


def test_head_of_a_prefill_sees_one_token():
    ops = count(part(tiny()), batch=3.0, query=50.0, context=0.0, head_query=1.0)
    assert ops["lm_head"].cost.flops == 3 * 2 * 100 * 48
    assert ops["down"].cost.flops == 3 * 50 * 2 * 80 * 48 * 3
    two = count(part(tiny()), batch=3.0, query=50.0, context=0.0, head_query=2.0)["lm_head"]
    assert (two.cost.flops, two.rows) == (3 * 2 * 2 * 100 * 48, 6)


def test_biases():
    plain, biased = count(part(tiny())), count(part(tiny(qkv_bias=True, output_bias=True, mlp_bias=True)))
    width = 4 * 16 + 2 * 2 * 16
    added = {"qkv": width, "o": 48, "gate_up": 2 * 80, "down": 48}
    for name, values in added.items():
        extra = biased[name].cost.weight_bytes - plain[name].cost.weight_bytes
        assert extra == 3 * 2 * values, name
        assert biased[name].cost.flops == plain[name].cost.flops
    # biases stay in bf16 where weights are int4
    plain4, biased4 = part(tiny(), weights="int4"), part(tiny(qkv_bias=True), weights="int4")
    assert read(count(biased4)) - read(count(plain4)) == 3 * 2 * width


# Tensor parallelism.


@pytest.mark.parametrize(("tp", "kv_heads"), [(1, 8), (2, 4), (8, 1), (16, 1), (32, 1)])
def test_kv_heads_divide_and_then_replicate(tp, kv_heads):
    p = part("llama-3.1-8b", tp)
    ops = count(p, batch=5.0, query=2.0, context=1000.0)
    assert ops["attention (full)"].cost.kv_bytes == 5 * 32 * 1000 * (2 * kv_heads * 128 * 2)
    assert p.kv_bytes_per_token == 32 * 2 * kv_heads * 128 * 2
    # queries always divide: FLOPs are a share
    assert ops["attention (full)"].cost.flops == 5 * 32 * 4 * (32 // tp) * 128 * (2 * 1000 + 3)
    # replicated heads are projected, and held, on every device
    assert ops["qkv"].cost.weight_bytes == 32 * 2 * 4096 * (32 // tp + 2 * kv_heads) * 128
    assert ops["kv append"].cost.activation_bytes == 5 * 2 * 32 * 2 * kv_heads * 128 * 2


def test_kv_heads_that_do_not_divide_leave_the_fullest_device_to_time():
    """10 KV heads on 4 devices: some hold 2, others 3, and a pass waits for those with 3."""
    p = part(tiny(num_attention_heads=40, num_key_value_heads=10), 4)
    ops = count(p, batch=5.0, query=2.0, context=1000.0)
    assert ops["attention (full)"].cost.kv_bytes == 5 * 3 * 1000 * (3 * (16 + 16) * 2)
    assert ops["attention (full)"].work_items == ops["attention (full)"].rows == 5 * 3
    assert ops["attention (full)"].cost.flops == 5 * 3 * 4 * 10 * 16 * (2 * 1000 + 3)  # query heads divide: 10 each
    assert ops["qkv"].cost.weight_bytes == 3 * 48 * (10 * 16 + 3 * 2 * 16) * 2
    assert ops["qkv"].columns == 3 * (10 * 16 + 3 * 2 * 16)
    assert ops["o"].cost.weight_bytes == 3 * 10 * 16 * 48 * 2
    assert ops["kv append"].cost.activation_bytes == 5 * 2 * 3 * 3 * (16 + 16) * 2
    assert p.kv_bytes_per_token == 3 * 3 * (16 + 16) * 2


def test_dense_model_divides_evenly_up_to_the_kv_heads():
    for name, op in count(part("llama-3.1-8b"), batch=3.0).items():
        other = count(part("llama-3.1-8b", 4), batch=3.0)[name]
        assert other.cost.flops == pytest.approx(op.cost.flops / 4), name
        assert other.cost.weight_bytes == pytest.approx(op.cost.weight_bytes / 4), name


def test_latent_is_replicated():
    one, eight = count(part("deepseek-v3"), context=1e4), count(part("deepseek-v3", 8), context=1e4)
    assert eight["attention (full)"].cost.kv_bytes == one["attention (full)"].cost.kv_bytes
    assert eight["qkv_down"].cost.weight_bytes == one["qkv_down"].cost.weight_bytes
    assert eight["absorb_k"].cost.weight_bytes == one["absorb_k"].cost.weight_bytes / 8


def test_head_may_stay_whole():
    whole = part("llama-3.1-8b", 8, shards_lm_head=False)
    assert count(whole)["lm_head"].cost.weight_bytes == 2 * 128256 * 4096
    assert count(part("llama-3.1-8b", 8))["lm_head"].cost.weight_bytes == 2 * 128256 * 4096 / 8


def test_two_all_reduces_a_layer():
    assert "all-reduce" not in count(part("llama-3.1-8b"))
    op = count(part("llama-3.1-8b", 4), batch=6.0, query=3.0)["all-reduce"]
    assert (op.kernels, op.message_bytes) == (64, 6 * 3 * 4096 * 2)


@pytest.mark.parametrize("tp", [3, 5, 64, 0, -2])
def test_a_degree_that_does_not_divide_the_heads_is_refused(tp):
    with pytest.raises(InputError, match=r"must divide the 32 query heads of llama-3\.1-8b"):
        part("llama-3.1-8b", tp)


# Mixture of experts.


def test_moe_with_shared_experts_and_dense_layers():
    # DeepSeek-V3: 3 dense layers of 18432, 58 of 256 experts, 8 chosen, and a shared one, each of 2048
    ops = count(part("deepseek-v3"), batch=1.0)
    one = 3 * 7168 * 2048
    assert ops["gate_up"].cost.weight_bytes + ops["down"].cost.weight_bytes == 3 * 2 * 3 * 7168 * 18432
    assert ops["shared_gate_up"].cost.weight_bytes + ops["shared_down"].cost.weight_bytes == 58 * 2 * one
    assert ops["experts"].cost.weight_bytes == pytest.approx(58 * 2 * 8 * one)
    assert ops["experts"].cost.flops == 58 * 2 * 8 * one
    assert ops["router"].cost.weight_bytes == 58 * 2 * (7168 * 256 + 256)


def test_experts_of_every_kind_are_sharded():
    one, eight = count(part("deepseek-v3"), batch=4.0), count(part("deepseek-v3", 8), batch=4.0)
    for name in ("gate_up", "down", "shared_gate_up", "shared_down", "experts"):
        assert eight[name].cost.weight_bytes == pytest.approx(one[name].cost.weight_bytes / 8), name
        assert eight[name].cost.flops == pytest.approx(one[name].cost.flops / 8), name
    # every device routes for itself
    assert eight["router"].cost == one["router"].cost


def test_experts_saturate_and_route_together():
    p = part("qwen3-30b-a3b")
    all_read = 48 * 128 * 2 * 3 * 2048 * 768
    tokens = np.array([1.0, 2.0, 10.0, 100.0, 1e6])
    bytes_read = count(p, batch=tokens)["experts"].cost.weight_bytes
    assert np.all(np.diff(bytes_read) > 0)
    assert bytes_read[0] == pytest.approx(all_read * 8 / 128)
    assert bytes_read[-1] == pytest.approx(all_read)
    # four tokens of a sequence that route alike read what one does, and compute four times as much
    alike = count(p, batch=4.0, query=4.0, independent_query=1.0)["experts"].cost
    single = count(p, batch=4.0)["experts"].cost
    assert alike.weight_bytes == pytest.approx(single.weight_bytes)
    assert alike.flops == 4 * single.flops


def test_where_every_expert_takes_every_token_all_are_read():
    """k = E: the share that one token leaves out is 0, and its logarithm would be none."""
    moe = {"num_experts": 4, "experts_per_token": 4, "intermediate_size": 24}
    p = part(tiny(model_type="qwen3_moe", moe=moe))
    assert p.experts is not None
    assert p.experts.touched(1.0) == p.experts.touched(0.25) == p.experts.touched(np.array([1.0, 9.0])) == 4.0
    routed = count(p, batch=2.0)["experts"]
    assert routed.cost.weight_bytes == 3 * 4 * 3 * 48 * 24 * 2
    assert routed.cost.flops == 2 * 3 * 4 * 2 * 3 * 48 * 24


def test_experts_have_the_columns_of_those_that_are_read():
    """Qwen3-30B-A3B: gate, up and down of an expert have 2 x 768 + 2048 = 3584 columns, in each of 48 layers."""
    p = part("qwen3-30b-a3b")
    assert count(p)["experts"].columns == pytest.approx(8 * 48 * 3584)  # one token: its 8 experts
    two = 128 * (1 - (1 - 8 / 128) ** 2)  # 15.5 of 128, where two tokens choose independently
    assert two == 15.5
    assert count(p, batch=2.0)["experts"].columns == pytest.approx(15.5 * 48 * 3584)
    assert count(p, batch=1.0, query=2.0, independent_query=1.0)["experts"].columns == pytest.approx(8 * 48 * 3584)
    halved = count(part("qwen3-30b-a3b", 2))["experts"]  # the inner width divides, the outer one does not
    assert halved.columns == pytest.approx(8 * 48 * (768 + 2048))


# Precisions.


@pytest.mark.parametrize(
    ("weights", "each", "compute"),
    [("bf16", 2, "bf16"), ("fp8", 1, "fp8"), ("int8", 1, "int8"), ("fp8-wo", 1, "bf16"), ("int4", 0.5, "bf16")],
)
def test_weight_formats(weights, each, compute):
    ops = count(part("llama-3.1-8b", weights=weights))
    # 6,979,321,856 weights in the layers; 525,336,576 in the LM head stay at two bytes
    assert read(ops) == each * 6_979_321_856 + 2 * 525_336_576
    assert {op.compute for op in ops.values() if op.kind == "linear" and op.name != "lm_head"} == {compute}
    assert ops["attention (full)"].compute == "bf16"
    assert ops["attention (full)"].cost == count(part("llama-3.1-8b"))["attention (full)"].cost


@pytest.mark.parametrize(("kv", "each"), [("bf16", 2), ("fp8", 1), ("int8", 1), ("int4", 0.5)])
def test_kv_formats(kv, each):
    ops, plain = count(part("llama-3.1-8b", kv=kv)), count(part("llama-3.1-8b"))
    assert ops["attention (full)"].cost.kv_bytes == 100 * 65536 * each
    assert read(ops) == read(plain)
    assert ops["attention (full)"].cost.flops == plain["attention (full)"].cost.flops


def test_fp32_takes_activations_along():
    ops, plain = count(part(tiny(), weights="fp32")), count(part(tiny()))
    assert read(ops) == 2 * read(plain)
    assert ops["norms"].cost.activation_bytes == 2 * plain["norms"].cost.activation_bytes
    assert ops["attention (full)"].compute == "fp32"


# Shapes and sums.


def test_counts_broadcast():
    batch, context = np.array([1.0, 8.0, 64.0])[:, None, None], np.array([100.0, 5000.0])[:, None]
    query = np.array([1.0, 2.0, 3.0, 4.0])
    p = part("gpt-oss-20b", 2)
    grid = forward(p, batch, query, context, FULL)
    for i, j, k in np.ndindex(3, 2, 4):
        single = forward(p, batch[i, 0, 0], query[k], context[j, 0], FULL)
        for whole, one in zip(grid, single, strict=True):
            for field in ("flops", "weight_bytes", "kv_bytes", "activation_bytes"):
                values = np.broadcast_to(getattr(whole.cost, field), (3, 2, 4))
                assert values[i, j, k] == pytest.approx(getattr(one.cost, field), rel=1e-13), (whole.name, field)


def test_core_keeps_matrices_and_cache_only():
    kept = core(forward(part("deepseek-v3", 8), 2.0, 1.0, 100.0, FULL))
    assert {op.kind for op in kept} == {"linear", "attention"}
    assert all(op.cost.activation_bytes == 0 for op in kept)
    assert len(kept) == sum(op.kind in ("linear", "attention") for op in count(part("deepseek-v3", 8)).values())
