"""Routed experts of each family: ModelSpec's `moe` mapping, and the width of its dense layers."""

from typing import Any

from perfmodel.specs.huggingface.keys import NEEDED, Keys
from perfmodel.specs.huggingface.layers import Fields
from perfmodel.specs.huggingface.recurrent import blocks
from perfmodel.specs.models.components import MAX_LAYERS


def routed(
    keys: Keys,
    layers: int,
    experts: str = "num_experts",
    width: str = "moe_intermediate_size",
    per_token: str = "num_experts_per_tok",
    *,
    shared: str | None = None,
    shared_width: str | None = None,
    first: str | None = None,
    latent: str | None = None,
    dense_width: str | None = None,
    ignored: str = "",
    bias: bool = False,
    **more: Any,
) -> Fields:
    """Reads experts whose sizes are under these keys. A list with one number per layer must have equal
    numbers.

    shared: number of shared experts, each of `width`; or shared_width: their width. first: dense layers (see
    `_dense`). latent: width that experts read and write, if the file states it. dense_width: width of a dense
    layer. ignored: keys, joined by ``+``, that have no effect here. bias: whether the router has one. more:
    other fields of `MoE`.
    """
    count = _shared_number(keys, experts)
    routed = _shared_number(keys, width)
    sizes = {
        "num_experts": count,
        "experts_per_token": _shared_number(keys, per_token),
        "intermediate_size": routed,
    }
    if shared_width:
        sizes["shared_intermediate_size"] = _shared_number(keys, shared_width)
    elif shared:
        sizes["shared_intermediate_size"] = _shared_number(keys, shared, 0) * keys.integer(
            "moe_shared_expert_intermediate_size", routed
        )
    if first:
        sizes["first_dense_layers"] = _dense(keys, layers, first)
    if latent and keys.data.get(latent) is not None:
        sizes["latent_size"] = keys.integer(latent)
    keys.ignore(*ignored.split("+"))
    outside = {"intermediate_size": _shared_number(keys, dense_width)} if dense_width else {}
    return {"moe": {**sizes, "router_bias": bias, **more}, **outside}


def _dense(keys: Keys, layers: int, first: str) -> int:
    """Number of dense layers: a number, a list of zeros (dense) and ones (experts), or names of layers."""
    kinds = keys.data.get("mlp_layer_types")
    if first == "mlp_layer_types" or (first not in keys.data and isinstance(kinds, list)):
        return sum(kind == "dense" for kind in kinds or ())
    if first != "moe_layer_freq":
        return keys.integer(first, 0, low=0, high=layers)
    listed = keys.integers(first)
    if len(listed) != layers or not {*listed} <= {0, 1}:
        raise keys.bad(first, f"a list of {layers} zeros (dense) and ones (experts)")
    return listed.count(0)


def _shared_number(keys: Keys, key: str, default: Any = NEEDED) -> int:
    """A whole number; for a list, the number that all layers share."""
    value = keys.data.get(key)
    if isinstance(value, list):
        if len(set(map(str, value))) != 1:
            raise keys.bad(key, "a whole number, or a list of the same one for every layer")
        return Keys({key: value[0]}, keys.where).integer(key)
    return keys.integer(key, default, low=0 if default == 0 else 1)


def _first_dense(keys: Keys, key: str, dense: list[int]) -> int:
    if dense != list(range(len(dense))):
        raise keys.bad(key, "such that the dense layers come first and all later ones are MoE layers")
    return len(dense)


def qwen(keys: Keys, layers: int) -> Fields:
    step = keys.integer("decoder_sparse_step", 1, high=MAX_LAYERS)
    without_experts = set(keys.integers("mlp_only_layers"))
    dense = [i for i in range(layers) if i in without_experts or (i + 1) % step]
    shared = keys.count("shared_expert_intermediate_size")
    return routed(
        keys,
        layers,
        "num_local_experts" if "num_local_experts" in keys.data else "num_experts",
        shared_intermediate_size=shared,
        shared_gate=bool(shared),
        normalized_weights=keys.flag(
            "norm_topk_prob", keys.data["model_type"] not in ("qwen2_moe", "qwen3_moe")
        ),
        first_dense_layers=_first_dense(
            keys, "decoder_sparse_step" if step > 1 else "mlp_only_layers", dense
        ),
    )


def qwen_without_dense(keys: Keys, layers: int) -> Fields:
    """Qwen3.5: no layer is dense, so the file need not state the width of one."""
    found = qwen(keys, layers)
    return found | {"intermediate_size": keys.integer("intermediate_size", found["moe"]["intermediate_size"])}


def deepseek(keys: Keys, layers: int) -> Fields:
    kinds = keys.data.get("mlp_layer_types")
    named = (
        kinds.count("dense")
        if isinstance(kinds, list) and "first_k_dense_replace" not in keys.data
        else NEEDED
    )
    first = keys.integer("first_k_dense_replace", named, low=0, high=layers)
    step = keys.integer("moe_layer_freq", 1)
    dense = [i for i in range(layers) if i < first or i % step]
    if "n_shared_experts" not in keys.data:
        raise keys.bad("n_shared_experts", "a whole number, or null for none")
    width = keys.integer("moe_intermediate_size")
    keys.ignore("num_experts", "num_local_experts")
    if kinds is not None and kinds != ["dense" if i in dense else "sparse" for i in range(layers)]:
        raise keys.bad("mlp_layer_types", "dense for the first first_k_dense_replace layers, then sparse")
    return routed(
        keys,
        layers,
        "n_routed_experts",
        shared_intermediate_size=keys.count("n_shared_experts") * width,
        first_dense_layers=_first_dense(keys, "moe_layer_freq", dense),
        bias=keys.data.get("model_type") not in ("deepseek", "deepseek_v2", "mistral4"),
    )


def minimax(keys: Keys, layers: int) -> Fields:
    shared = keys.count("shared_intermediate_size")
    bias = keys.flag("use_routing_bias", True)
    return routed(
        keys,
        layers,
        "num_local_experts",
        "intermediate_size",
        bias=bias,
        shared_intermediate_size=shared,
    )


def llama4(keys: Keys, layers: int) -> Fields:
    """Experts in every `interleave_moe_layer_step`-th layer, each with a shared one. The other layers are
    wider.
    """
    step = keys.integer("interleave_moe_layer_step", 1, high=MAX_LAYERS)
    width = keys.integer("intermediate_size")
    dense = layers - (len(keys.integers("moe_layers")) or len(range(step - 1, layers, step)))
    found = routed(
        keys,
        layers,
        "num_local_experts",
        "intermediate_size",
        shared_intermediate_size=width,
        first_dense_layers=dense,
    )
    return found | {"intermediate_size": keys.integer("intermediate_size_mlp")}


def gemma4(keys: Keys, layers: int) -> Fields:
    """Experts next to the dense MLP of every layer, which counts as a shared expert, and three additional
    norms.
    """
    if not keys.flag("enable_moe_block", False):
        keys.ignore("num_experts", "top_k_experts", "moe_intermediate_size", "expert_intermediate_size")
        return {}
    found = routed(keys, layers, per_token="top_k_experts", shared_width="intermediate_size")
    return found | {"norms_per_layer": 7}


def nemotron_h(keys: Keys, layers: int) -> Fields:
    kinds = blocks(keys)
    if "moe" not in kinds:
        keys.ignore(*(key for key in keys.data if "expert" in key or key.startswith("moe_")))
        return {}
    return routed(
        keys,
        layers,
        "n_routed_experts",
        shared_intermediate_size=keys.count("n_shared_experts")
        * keys.count("moe_shared_expert_intermediate_size"),
        first_dense_layers=kinds.count("mlp"),
        bias=True,
        latent="moe_latent_size",
    )


def ernie(keys: Keys, layers: int) -> Fields:
    """ERNIE-4.5: experts in a range of layers."""
    kinds = keys.data.get("mlp_layer_types")
    first = kinds.count("dense") if isinstance(kinds, list) else NEEDED
    start = keys.integer("moe_layer_start_index", first, low=0)
    end = keys.integer("moe_layer_end_index", -1, low=-1)
    if keys.integer("moe_layer_interval", 1) != 1:
        raise keys.bad("moe_layer_interval", "1")
    dense = start + (0 if end < 0 else layers - 1 - end)
    return routed(
        keys,
        layers,
        experts="moe_num_experts",
        per_token="moe_k",
        shared="moe_num_shared_experts",
        bias=True,
        first_dense_layers=dense,
    )


def hunyuan(keys: Keys, layers: int) -> Fields:
    """Hunyuan-Large and A13B: one shared expert unless the file says otherwise."""
    width = (
        "moe_intermediate_size" if keys.data.get("moe_intermediate_size") is not None else "intermediate_size"
    )
    shared = _shared_number(keys, "num_shared_expert", 1) * _shared_number(keys, width)
    return routed(keys, layers, "num_experts", width, "moe_topk", shared_intermediate_size=shared)


def step(keys: Keys, layers: int) -> Fields:
    """Step-3.5 and 3.7: `moe_layers_enum` names the layers with experts; without it dense layers come
    first.
    """
    listed = keys.data.get("moe_layers_enum")
    named = listed.split(",") if isinstance(listed, str) else keys.integers("moe_layers_enum")
    keys.ignore("n_shared_experts", "share_expert_dims", "mtp_mlp_layer_types")
    more: dict[str, Any] = (
        {"first_dense_layers": layers - len(named)} if named else {"first": "first_k_dense_replace"}
    )
    return routed(keys, layers, shared_width="share_expert_dim", bias=True, **more)


def granite(keys: Keys, layers: int) -> Fields:
    """Granite-4.0: experts and a shared MLP, or only that MLP."""
    shared = keys.count("shared_intermediate_size")
    if not keys.data.get("num_local_experts"):
        keys.ignore("num_experts_per_tok")
        return {"intermediate_size": shared} if shared else {}
    return routed(keys, layers, "num_local_experts", "intermediate_size", shared_intermediate_size=shared)


def jamba(keys: Keys, layers: int) -> Fields:
    """Jamba: experts in one layer of a period, as wide as the MLPs of the others."""
    period = keys.integer("expert_layer_period", 1)
    offset = keys.count("expert_layer_offset")
    if keys.integer("num_experts") == 1:
        keys.ignore("num_experts_per_tok")
        return {}
    dense = layers - len(range(offset, layers, period))
    return routed(keys, layers, "num_experts", "intermediate_size", first_dense_layers=dense)


def longcat(keys: Keys, layers: int) -> Fields:
    """LongCat-Flash: a layer has two blocks of latent attention and MLP, and some of its experts do nothing.

    The two MLPs count as a shared expert. A token is counted with the share of its experts that do something.
    """
    idle = keys.count("zero_expert_num")
    own = keys.integer("num_experts")
    taken = round(keys.integer("num_experts_per_tok") * own / (own + idle))
    moe = {
        "num_experts": own,
        "experts_per_token": taken,
        "intermediate_size": keys.integer("expert_ffn_hidden_size"),
        "shared_intermediate_size": 2 * keys.integer("intermediate_size"),
        "router_bias": True,
    }
    return {"moe": moe, "num_hidden_layers": 2 * layers, "mlp_layers": layers}


def dbrx(keys: Keys, layers: int) -> Fields:
    """DBRX: sizes of attention and experts under keys of their own."""
    mlp = keys.mapping("ffn_config")
    attention = keys.mapping("attn_config")
    if mlp is None or attention is None:
        raise keys.bad("ffn_config", "a mapping, and attn_config another")
    names = {
        "num_experts": "moe_num_experts",
        "experts_per_token": "moe_top_k",
        "intermediate_size": "ffn_hidden_size",
    }
    moe = {field: mlp.integer(key) for field, key in names.items()}
    keys.ignore("num_key_value_heads")
    return {"moe": moe, "num_key_value_heads": attention.integer("kv_n_heads"), "intermediate_size": 1}


def behind_latent(keys: Keys, layers: int) -> Fields:
    """Muse: experts read and write a narrower state."""
    return routed(keys, layers, first="mlp_layer_types", latent_size=keys.integer("moe_hidden_size"))
