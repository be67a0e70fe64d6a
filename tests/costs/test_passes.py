"""Every op of a tiny model, number by number: two sequences of three tokens each against 100 cached ones."""

from typing import Any

import numpy as np
import pytest
from msgspec import structs

from perfmodel.costs import PassShape, forward, selection
from perfmodel.costs.kinds.experts import ExpertsOp
from perfmodel.costs.kinds.gemm import GemmOp
from perfmodel.costs.kinds.upkeep import PageTableOp, SparseCacheOp
from perfmodel.costs.operation import Op
from perfmodel.costs.shards import Shard
from perfmodel.kv import parse_kv
from perfmodel.operations import Cost
from perfmodel.specs import WEIGHT_FORMATS
from tests.costs import machines

MOE = {"num_experts": 4, "experts_per_token": 2, "intermediate_size": 24}


def device_shard(tp: int = 1, weights: str = "bf16", gathers_logits: bool = False, **shape) -> Shard:
    return machines.device_shard(machines.tiny(**shape), tp, weights, gathers_logits=gathers_logits)


def ops(p: Shard, **kwargs) -> dict[str, Any]:
    kv = kwargs.pop("kv", machines.FULL)
    return {op.name: op for op in forward(p, PassShape(2.0, 3.0, 100.0, **kwargs), kv)}


def costs(by_name: dict[str, Any]) -> dict[str, tuple[float, ...]]:
    """Kernels, FLOPs, bytes of weights, cache and activations."""
    return {name: (float(op.kernels), *structs.astuple(op.cost)) for name, op in by_name.items()}


def linear(inputs: int, outputs: int, layers: int = 3, weights: int | None = None) -> tuple[float, ...]:
    """The costs of a matrix product of 6 tokens in each of the layers, all values of 2 bytes."""
    stored = inputs * outputs if weights is None else weights
    rows = 6 * layers
    activation_bytes = rows * (inputs + outputs) * 2
    return layers, rows * 2 * stored, layers * stored * 2, 0, activation_bytes


def moved(kernels: int, values: int) -> tuple[float, ...]:
    """The costs of kernels that only read and write activations, all values of 2 bytes."""
    return kernels, 0, 0, 0, values * 2


@pytest.mark.parametrize("n", [1, 2])
def test_a_dense_pass(n: int) -> None:
    """6 tokens; a query sees 100 cached tokens and those before it: 3 x 100 + 1 + 2 + 3 = 306 pairs. On n
    devices.
    """
    layer = 3 * 6  # tokens x layers
    q = 64 // n
    kv = 64 // n
    inner = 80 // n
    words = 100 // n  # 4 heads of 16; keys and values of 2
    products = {
        "qkv": linear(48, q + kv),
        "o": linear(q, 48),
        "gate_up": linear(48, 2 * inner),
        "down": linear(inner, 48),
        "lm_head": linear(48, words, layers=1),
    }
    stream = {
        "embedding": moved(1, 6 * 2 * 48),  # a row read and written
        "norms": moved(7, 6 * 7 * 2 * 48),
        "residual": moved(6, 6 * 6 * 3 * 48),
    }
    around = {
        "rope": moved(3, layer * 2 * (q + kv)),
        "kv append": moved(3, layer * kv),
        "activation": moved(3, layer * 3 * inner),
        "cache upkeep": moved(1, 0),
        "host launches": moved(3, 0),
    }
    # score and value of each pair; cached keys and values; queries in, results out, new keys
    flops = 2 * 3 * 306 * 2 * 2 * q
    cached_bytes = 2 * 3 * 100 * kv * 2
    layer_bytes = layer * (2 * q * 2 + kv * 2)
    attention = {"attention (full)": (3, flops, 0, cached_bytes, layer_bytes)}
    sent = {"all-reduce": moved(6, 0)} if n > 1 else {}
    counted = costs(ops(device_shard(n)))
    assert counted == products | stream | around | attention | sent


@pytest.mark.parametrize("n", [1, 2])
def test_the_shapes_of_a_dense_pass(n: int) -> None:
    """On n devices; columns are those of all layers together."""
    pass_ops = ops(device_shard(n))
    products = {name: op for name, op in pass_ops.items() if op.kind == "linear"}
    assert {name: op.columns for name, op in products.items()} == {
        "qkv": 3 * 128 // n,
        "o": 3 * 48,
        "gate_up": 3 * 160 // n,
        "down": 3 * 48,
        "lm_head": 100 // n,
    }
    assert {op.rows for op in products.values()} == {6}
    attention = pass_ops["attention (full)"]
    heads = 2 * 2 // n
    assert attention.query == 3
    assert attention.work_items == heads
    assert attention.padded_items == heads
    assert attention.longer_bytes == 0
    if n > 1:
        assert pass_ops["all-reduce"].message_bytes == 6 * 48 * 2


@pytest.mark.parametrize(("more", "sent"), [({}, 6), ({"head_query": 1.0}, 2)])
def test_logits_of_all_words_are_gathered(more: dict[str, float], sent: int) -> None:
    """Of every token of the pass, or of the last one of each prompt; 100 words of 2 bytes."""
    gather = ops(device_shard(2, gathers_logits=True), **more)["logits"]
    assert (gather.kernels, gather.devices, gather.message_bytes) == (1, 2, sent * 100 * 2)


@pytest.mark.parametrize(
    "cut", [{"tp": 1}, {"tp": 2, "shards_lm_head": False}, {"tp": 4, "groups": 2}, {"gathers_logits": False}]
)
def test_no_logits_are_gathered(cut: dict[str, Any]) -> None:
    shard = machines.device_shard(machines.tiny(), **{"tp": 2, "gathers_logits": True} | cut)
    assert "logits" not in ops(shard)


def test_the_residual_is_as_wide_as_its_streams() -> None:
    residual = ops(device_shard(residual_streams=4))["residual"]
    assert residual.cost.activation_bytes == 6 * 6 * 3 * 4 * 48 * 2


@pytest.mark.parametrize("n", [1, 2])
def test_stored_weights(n: int) -> None:
    """An embedding is cut as the head is, norms are not."""
    attention = 48 * (64 + 64 + 64) // n
    mlp = 48 * 3 * 80 // n
    words = 2 * 100 * 48 // n
    norms = 7 * 48
    stored = 3 * (attention + mlp) + words + norms
    assert device_shard(n).stored_weight_bytes == 2 * stored
    assert device_shard(table_params=640).stored_weight_bytes - device_shard().stored_weight_bytes == 2 * 640


def test_devices_add_up_what_norms_of_all_heads_need() -> None:
    """One fp32 sum of the queries and one of the keys, for each of 6 tokens and in each layer."""
    sums = ops(device_shard(2, qk_norm=True, wide_qk_norm=True))["qk norm sums"]
    assert sums.kernels == 3
    assert sums.norms == 3
    assert sums.message_bytes == 6 * 2 * 4
    assert sums.devices == 2


EXPERTS = {
    "model_type": "qwen3_moe",
    "moe": MOE | {"shared_intermediate_size": 40, "first_dense_layers": 1},
}
"""2 of 4 experts a token and a shared one of 40, in two layers behind a dense one."""


def test_experts_beside_a_dense_layer() -> None:
    """Six tokens touch 4 (1 - 0.5^6) = 3.9375 experts."""
    tokens = 2 * 6
    matrices = 3 * 48 * 24
    touched = 3.9375
    activations = tokens * 2 * (24 + 3 * 48)
    expert_flops = tokens * 2 * 2 * matrices
    expert_bytes = touched * 2 * matrices * 2
    activated = 3 * 80 + 2 * 3 * (2 * 24 + 40)
    by_hand = {
        "gate_up": linear(48, 160, layers=1),
        "router": linear(48, 4, layers=2),
        "shared_gate_up": linear(48, 80, layers=2),
        "shared_down": linear(40, 48, layers=2),
        "experts": pytest.approx((4, expert_flops, expert_bytes, 0, activations * 2)),
        "routing": moved(4, tokens * 4),
        "activation": moved(3, 6 * activated),
    }
    pass_costs = costs(ops(device_shard(**EXPERTS)))
    assert {name: pass_costs[name] for name in by_hand} == by_hand


def test_the_shapes_of_experts() -> None:
    pass_ops = ops(device_shard(**EXPERTS))
    expected = 3.9375 * 2 * (2 * 24 + 48)
    assert pass_ops["experts"].columns == pytest.approx(expected)
    assert pass_ops["experts"].rows == 6
    assert pass_ops["experts"].layers == 2
    assert pass_ops["routing"].of_experts
    assert not pass_ops["norms"].of_experts
    assert not isinstance(pass_ops["router"], ExpertsOp)


def test_four_of_six_tokens_choose_experts_on_their_own() -> None:
    alike = ops(device_shard(**EXPERTS), independent_query=2.0)["experts"]
    touched = 4 * (1 - 0.5**4)
    expected = touched * 2 * 3 * 48 * 24 * 2
    assert alike.cost.weight_bytes == pytest.approx(expected)


def test_stored_weights_of_experts() -> None:
    attention = 48 * 128 + 64 * 48
    dense_mlp = 3 * 48 * 80
    shared = 3 * 48 * 40
    experts = 4 * 3 * 48 * 24
    router = 48 * 4
    words = 2 * 100 * 48
    norms = 7 * 48
    sparse = experts + router + shared
    stored = 3 * attention + dense_mlp + 2 * sparse + words + norms
    assert device_shard(**EXPERTS).stored_weight_bytes == 2 * stored


def test_packed_and_quantised_weights() -> None:
    """int4 weights are unpacked one by one, fp8 GEMMs quantise their inputs before each kernel."""
    packed = ops(device_shard(weights="int4"))["qkv"]
    plain = ops(device_shard(weights="bf16"))["qkv"]
    narrow = ops(device_shard(weights="fp8"))["qkv"]
    assert packed.packed_weights == 3 * 48 * 128
    assert packed.quantisations == 0
    assert packed.form == "int4"
    assert plain.packed_weights == 0
    assert plain.quantisations == 0
    assert plain.compute == "bf16"
    assert narrow.packed_weights == 0
    assert narrow.quantisations == 3
    assert narrow.compute == "fp8"
    assert narrow.cost.activation_bytes == 6 * 3 * (48 + 128 * 2)
    bare = GemmOp.of_format("x", 2, Cost(weight_bytes=8.0), WEIGHT_FORMATS["int4"])
    assert bare.columns == 0
    assert bare.rows == 1
    assert bare.packed_weights == 16
    biased = ops(device_shard(weights="int4", qkv_bias=True))["qkv"]
    assert biased.cost.weight_bytes == 3 * 128 * (48 / 2 + 2)


def test_layers_of_a_window_beside_full_ones() -> None:
    """A window of 10 in two layers: each query sees itself and 10 before it; pages of 16 are read whole."""
    p = machines.device_shard(machines.tiny(sliding_window=10, num_sliding_layers=2), kv_page=16)
    pass_ops = ops(p)
    near = pass_ops["attention (window 10)"]
    far = pass_ops["attention (full)"]
    assert near.kernels == 2
    assert near.cost.flops == 2 * 2 * 3 * 11 * 256
    assert near.cost.kv_bytes == 2 * 2 * 16 * 128
    assert far.kernels == 1
    assert far.cost.flops == 2 * 306 * 256
    assert far.cost.kv_bytes == 2 * 112 * 128
    assert p.stored_kv_bytes(100.0) == 112 * 128 + 2 * 16 * 128
    # what is longer is not looked at
    assert ops(p, longer_tokens=7.0)["attention (window 10)"].longer_bytes == 0.0
    assert ops(p, longer_tokens=7.0)["attention (full)"].longer_bytes == 7 * 128 / 2
    assert ops(p, longer_tokens=7.0, kv=parse_kv("streamingllm:64"))["attention (full)"].longer_bytes == 0.0


@pytest.mark.parametrize(("context", "pairs"), [(1500.0, 3 * 1500 + 6), (1999.0, 3 * 1999 + 1 + 2 + 2)])
def test_new_tokens_see_each_other_within_the_budget(context: float, pairs: int) -> None:
    """A budget of 2,000 tokens in three layers. From 1,999 tokens on, each new token replaces an old one."""
    by_name = {
        op.name: op for op in forward(device_shard(), PassShape(2.0, 3.0, context), parse_kv("h2o:2000"))
    }
    assert by_name["attention (full)"].cost.flops == 3 * 2 * pairs * 256


def test_the_context_that_a_cache_of_so_many_bytes_is_of() -> None:
    """One full layer and two of a window of 10 at 128 bytes a token: 384 up to 10 tokens, then 128."""
    p = device_shard(sliding_window=10, num_sliding_layers=2)
    assert p.context_of(384 * 4.0) == 4.0
    assert p.context_of(3840.0) == 10.0
    assert p.context_of(3840.0 + 128 * 7) == 17.0
    assert device_shard(sliding_window=10, num_sliding_layers=3).context_of(3840.0) == 10.0
    assert device_shard(sliding_window=10, num_sliding_layers=3).context_of(3841.0) is None
    assert device_shard().context_of(0.0) == 0.0


@pytest.mark.parametrize(
    ("kv", "expected"),
    [
        ("full", PageTableOp("cache upkeep", 1, Cost())),
        ("streamingllm:512", SparseCacheOp("cache upkeep", 0, Cost(), caches=2 * 3)),
    ],
)
def test_a_budget_has_a_small_cache_to_keep_from_the_first_token_on(kv: str, expected: Op) -> None:
    contexts = np.array([100.0, 5000.0])
    pass_ops = forward(device_shard(), PassShape(2.0, 1.0, contexts), parse_kv(kv))
    assert [op for op in pass_ops if op.name == "cache upkeep"] == [expected]


def test_what_is_chosen_once_an_iteration_or_at_the_start() -> None:
    """A rebuild of 512 tokens in each of 3 layers, once in 4 iterations; kernels of the full layers alone."""
    p = device_shard()
    kv = parse_kv("retrieval:512,every=4")
    (step,) = selection(p, 2.0, 4000.0, kv, "iteration")
    assert step.name == "kv iteration (full)"
    assert step.kernels == 3 * 3 / 4
    scored_bytes = 500 * 2 * 16 * 2
    copied_bytes = 2 * 512 * 128
    assert step.cost.kv_bytes == 2 * 3 * (scored_bytes + copied_bytes) / 4
    assert step.cost.flops == 6 * 500 * 2 * 4 * 16 / 4
    (first,) = selection(p, 2.0, 4000.0, kv, "setup")
    assert first.cost.kv_bytes == 2 * 3 * (4000 * 64 + 500 * 64 + copied_bytes)
    # nothing to choose among 400 tokens
    contexts = np.array([400.0, 4000.0])
    (some,) = selection(p, 2.0, contexts, kv, "iteration")
    assert list(some.kernels) == [0, 3 * 3 / 4]
    assert selection(p, 2.0, 4000.0, kv) == []
    assert selection(p, 2.0, 400.0, kv, "setup") == []


@pytest.mark.parametrize(("tp", "heads"), [(1, 4), (2, 2)])
def test_a_latent_cache(tp: int, heads: int) -> None:
    """A latent of 32 and 8 rotary values, one for all heads and on every device; queries through a rank of
    24.
    """
    mla = {
        "q_lora_rank": 24,
        "kv_lora_rank": 32,
        "qk_nope_head_dim": 16,
        "qk_rope_head_dim": 8,
        "v_head_dim": 12,
    }
    pass_ops = ops(device_shard(tp, model_type="deepseek_v3", mla=mla, num_key_value_heads=4))
    pairs = 2 * 3 * 306
    rows = 2 * 3 * 3
    width = 40 + 32
    activations = rows * (heads * width * 2 + 40 * 2)
    latent_bytes = 2 * 3 * 100 * 40 * 2
    absorbed = {
        "absorb_k": linear(heads * 16, heads * 32, weights=heads * 16 * 32),
        "absorb_v": linear(heads * 32, heads * 12, weights=heads * 12 * 32),
    }
    attended_flops = pairs * 2 * heads * width
    by_hand = absorbed | {
        "qkv_down": linear(48, 40 + 24),
        "q_up": linear(24, heads * 24),
        "o": linear(heads * 12, 48),
        "attention (full)": (3, attended_flops, 0, latent_bytes, activations),
    }
    counted = costs(pass_ops)
    assert {name: counted[name] for name in by_hand} == by_hand
    attention = pass_ops["attention (full)"]
    assert attention.work_items == 2
    assert attention.latent
