"""Routed experts of each family: the `moe` mapping of ModelSpec, and the width of its dense layers."""

from typing import Any

from perfmodel.specs.huggingface.keys import Keys
from perfmodel.specs.huggingface.layers import Fields, blocks
from perfmodel.specs.parts import MAX_LAYERS


def _routed(keys: Keys, experts: str, width: str = "moe_intermediate_size", **more: Any) -> Fields:
    sizes = {"num_experts": keys.integer(experts), "intermediate_size": keys.integer(width)}
    return {"moe": {**sizes, "experts_per_token": keys.integer("num_experts_per_tok"), **more}}


def _first_dense(keys: Keys, key: str, dense: list[int]) -> int:
    if dense != list(range(len(dense))):
        raise keys.bad(key, "such that the dense layers come first and all later ones are MoE layers")
    return len(dense)


def qwen(keys: Keys, layers: int) -> Fields:
    step, only = keys.integer("decoder_sparse_step", 1, high=MAX_LAYERS), set(keys.integers("mlp_only_layers"))
    dense = [i for i in range(layers) if i in only or (i + 1) % step]
    shared = 0
    if keys.data.get("shared_expert_intermediate_size") is not None:
        shared = keys.integer("shared_expert_intermediate_size", low=0)
    return _routed(
        keys,
        "num_local_experts" if "num_local_experts" in keys.data else "num_experts",
        shared_intermediate_size=shared,
        shared_gate=shared > 0,
        normalized_weights=keys.flag("norm_topk_prob", keys.data["model_type"] not in ("qwen2_moe", "qwen3_moe")),
        first_dense_layers=_first_dense(keys, "decoder_sparse_step" if step > 1 else "mlp_only_layers", dense),
    )


def qwen_without_dense(keys: Keys, layers: int) -> Fields:
    """Qwen3.5: no layer is dense, so the file need not say how wide one is."""
    found = qwen(keys, layers)
    return found | {"intermediate_size": keys.integer("intermediate_size", found["moe"]["intermediate_size"])}


def deepseek(keys: Keys, layers: int) -> Fields:
    first, step = keys.integer("first_k_dense_replace", low=0, high=layers), keys.integer("moe_layer_freq", 1)
    dense = [i for i in range(layers) if i < first or i % step]
    if "n_shared_experts" not in keys.data:
        raise keys.bad("n_shared_experts", "a whole number, or null for none")
    width, kinds = keys.integer("moe_intermediate_size"), keys.data.get("mlp_layer_types")
    keys.ignore("num_experts", "num_local_experts")
    if kinds is not None and kinds != ["dense" if i in dense else "sparse" for i in range(layers)]:
        raise keys.bad("mlp_layer_types", "dense for the first first_k_dense_replace layers, then sparse")
    return _routed(
        keys,
        "n_routed_experts",
        shared_intermediate_size=keys.integer("n_shared_experts", 0, low=0) * width,
        first_dense_layers=_first_dense(keys, "moe_layer_freq", dense),
        router_bias=keys.data.get("model_type") != "deepseek_v2",
    )


def mixtral(keys: Keys, layers: int) -> Fields:
    return _routed(keys, "num_local_experts", "intermediate_size")


def gpt_oss(keys: Keys, layers: int) -> Fields:
    keys.ignore("experts_per_token")
    return _routed(keys, "num_local_experts", "intermediate_size", router_bias=True, expert_bias=True)


def minimax(keys: Keys, layers: int) -> Fields:
    shared = keys.integer("shared_intermediate_size", 0, low=0)
    bias = keys.flag("use_routing_bias", True)
    keys.ignore("mtp_transformer_layers")
    return _routed(keys, "num_local_experts", "intermediate_size", router_bias=bias, shared_intermediate_size=shared)


def mimo_v2(keys: Keys, layers: int) -> Fields:
    """`moe_layer_freq` is a list: 0 dense, 1 experts."""
    routed = keys.integers("moe_layer_freq")
    if len(routed) != layers or not {*routed} <= {0, 1}:
        raise keys.bad("moe_layer_freq", f"a list of {layers} zeros (dense) and ones (experts)")
    shared = keys.integer("n_shared_experts", 0, low=0) * keys.integer("moe_intermediate_size")
    return _routed(
        keys,
        "n_routed_experts",
        shared_intermediate_size=shared,
        first_dense_layers=layers - sum(routed),
        router_bias=True,
    )


def llama4(keys: Keys, layers: int) -> Fields:
    """Experts in every `interleave_moe_layer_step`-th layer, each beside a shared one; the other layers are wider."""
    step, width = keys.integer("interleave_moe_layer_step", 1, high=MAX_LAYERS), keys.integer("intermediate_size")
    routed = len(keys.integers("moe_layers")) or len(range(step - 1, layers, step))
    found = _routed(
        keys,
        "num_local_experts",
        "intermediate_size",
        shared_intermediate_size=width,
        first_dense_layers=layers - routed,
    )
    return found | {"intermediate_size": keys.integer("intermediate_size_mlp")}


def gemma4(keys: Keys, layers: int) -> Fields:
    """Experts beside the dense MLP of every layer, which counts as a shared expert; three more norms."""
    if not keys.flag("enable_moe_block", False):
        keys.ignore("num_experts", "top_k_experts", "moe_intermediate_size", "expert_intermediate_size")
        return {}
    sizes = {"num_experts": keys.integer("num_experts"), "experts_per_token": keys.integer("top_k_experts")}
    width = {"intermediate_size": keys.integer("moe_intermediate_size")}
    shared = {"shared_intermediate_size": keys.integer("intermediate_size")}
    return {"moe": {**sizes, **width, **shared}, "norms_per_layer": 7}


def nemotron_h(keys: Keys, layers: int) -> Fields:
    kinds = blocks(keys)
    if "moe" not in kinds:
        return {}
    shared = keys.integer("n_shared_experts", 0, low=0) * keys.integer("moe_shared_expert_intermediate_size", 0, low=0)
    return _routed(
        keys,
        "n_routed_experts",
        shared_intermediate_size=shared,
        first_dense_layers=kinds.count("mlp"),
        router_bias=True,
        latent_size=keys.integer("moe_latent_size") if keys.data.get("moe_latent_size") is not None else None,
    )
