"""Counting a pass: sharding, all parameters read once, attention pairs by loops."""

import pytest

from perfmodel.costs import PassShape, core, forward
from perfmodel.errors import InputError
from perfmodel.specs import ModelSpec, load_model
from tests.costs.machines import FULL, MODELS, count, device_shard, tiny


def unread(m: ModelSpec) -> int:
    """Parameters that no counted matrix holds: norms, sinks, a shared expert's gate, small parts of
    states.
    """
    per_layer = m.extra_params(m.heads())
    if m.mla:
        per_layer += m.mla.kv_lora_rank + (m.mla.q_lora_rank or 0)
    if m.low_rank:
        per_layer += m.low_rank.query_rank + m.head_dim
    sliding_width = m.heads(sliding=True).head_dim
    narrower = m.num_sliding_layers * 2 * (m.head_dim - sliding_width) if m.qk_norm else 0
    shared = m.shared_kv_layers * m.head_dim + m.shared_kv_sliding * m.heads(sliding=True).head_dim
    small = per_layer * m.num_attention_layers - narrower - (shared if m.qk_norm else 0)
    small += m.hidden_size * m.num_moe_layers if m.moe and m.moe.shared_gate else 0
    small += m.linear_attention.layers * m.linear_attention.small_params if m.linear_attention else 0
    small += m.indexer.layers * m.indexer.norm_params if m.indexer else 0
    return m.norm_params + small


@pytest.mark.parametrize("name", MODELS)
def test_a_wide_pass_reads_every_parameter_but_the_input_embedding(name):
    model = load_model(name)
    p = device_shard(name)
    # tables and an untied input embedding are looked up, not read; a tied one is read as the LM head
    looked_up = model.table_params + (0 if model.tie_word_embeddings else model.embedding_params)
    weight_bytes = sum(op.cost.weight_bytes for op in forward(p, PassShape(1e9, 1.0, 100.0), FULL))
    expected = 2 * (model.total_params - looked_up - unread(model))
    assert weight_bytes == pytest.approx(expected, rel=1e-12)
    assert unread(model) < 1e-3 * model.total_params


@pytest.mark.parametrize("name", MODELS)
def test_stored_weights_are_the_parameters(name):
    model = load_model(name)
    left_out = unread(model) - model.norm_params
    assert device_shard(name).stored_weight_bytes == pytest.approx(
        2 * (model.total_params - left_out), rel=1e-12
    )


@pytest.mark.parametrize(
    ("kv_heads", "tp", "held"), [(8, 1, 8), (8, 2, 4), (8, 8, 1), (8, 40, 1), (10, 4, 3)]
)
def test_kv_heads_divide_as_far_as_they_go_and_then_replicate(kv_heads, tp, held):
    """Of 10 on 4 devices some hold 2, others 3, and a pass waits for those with 3. Query heads always
    divide.
    """
    p = device_shard(tiny(num_attention_heads=40, num_key_value_heads=kv_heads), tp)
    queries = 40 // tp
    token_bytes = held * (16 + 16) * 2
    projected = 3 * (queries + 2 * held) * 16
    ops = count(p, batch=5.0, query=2.0, context=1000.0)
    attention = ops["attention (full)"]
    assert attention.cost.kv_bytes == 5 * 3 * 1000 * token_bytes
    assert attention.work_items == attention.padded_items == 5 * held
    pairs = 2 * 1000 + 3
    assert attention.cost.flops == 5 * 3 * 4 * queries * 16 * pairs
    # replicated heads are projected, and held, on every device
    assert ops["qkv"].cost.weight_bytes == 48 * projected * 2
    assert ops["qkv"].columns == projected
    assert ops["o"].cost.weight_bytes == 3 * queries * 16 * 48 * 2
    assert ops["kv append"].cost.activation_bytes == 5 * 2 * 3 * token_bytes
    assert p.stored_kv_bytes(1.0) == 3 * token_bytes


def test_head_may_stay_whole():
    whole = device_shard("llama-3.1-8b", 8, shards_lm_head=False)
    cut = device_shard("llama-3.1-8b", 8)
    head_bytes = 2 * 128256 * 4096
    assert count(whole)["lm_head"].cost.weight_bytes == head_bytes
    assert count(cut)["lm_head"].cost.weight_bytes == head_bytes / 8


@pytest.mark.parametrize("tp", [3, 5, 64, 0, -2])
def test_a_degree_that_does_not_divide_the_heads_is_refused(tp):
    with pytest.raises(InputError, match=r"must divide the 32 .* \(one of 1, 2, 4, 8, 16, 32\), given"):
        device_shard("llama-3.1-8b", tp)


def pairs_by_loop(query: int, context: int, window: int | None) -> int:
    """Query i of the new tokens sees the cached tokens and new ones up to itself, at most `window` before
    it.
    """
    queries = range(context, context + query)
    seen = ((i, key) for i in queries for key in range(i + 1))
    return sum(window is None or i - key <= window for i, key in seen)


@pytest.mark.parametrize("window", [None, 1, 8, 33])
@pytest.mark.parametrize("context", [0, 5, 8, 100])
@pytest.mark.parametrize("query", [1, 2, 5, 9, 40])
def test_attention_pairs_against_loops(query, context, window):
    spec = tiny() if window is None else tiny(sliding_window=window, num_sliding_layers=3)
    ops = forward(device_shard(spec), PassShape(2.0, float(query), float(context)), FULL)
    (op,) = (op for op in ops if op.kind == "attention")
    counted = op.cost.flops / (2 * 3 * 4 * 4 * 16)  # 2 sequences, 3 layers, 4 FLOPs, 4 heads of 16
    assert counted == pairs_by_loop(query, context, window)


def test_core_keeps_matrices_and_cache_only():
    kept = core(forward(device_shard("deepseek-v3", 8), PassShape(2.0, 1.0, 100.0), FULL))
    assert {op.kind for op in kept} == {"linear", "attention"}
    assert all(op.cost.activation_bytes == 0 for op in kept)
    every = count(device_shard("deepseek-v3", 8)).values()
    assert len(kept) == sum(op.kind in ("linear", "attention") for op in every)
