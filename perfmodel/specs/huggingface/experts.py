"""Routed experts of each family: ModelSpec's `moe` mapping, and the width of its dense layers."""

from typing import Any

from perfmodel.specs.boundary.frozen import Frozen
from perfmodel.specs.huggingface.keys import NEEDED, Fields, Keys
from perfmodel.specs.huggingface.mamba import blocks
from perfmodel.specs.models.components import MAX_LAYERS

MLP_KINDS = ("dense", "sparse")
"""Words of `mlp_layer_types`: a layer without and with routed experts."""


class RoutedKeys(Frozen):
    """The keys of a file that hold the sizes of its experts; a list with one number per layer must have equal
    numbers.

    - experts: number of experts.
    - per_token: number that one token uses.
    - width: width of one expert.
    - shared: number of shared experts, each of `width`; or shared_width: their width.
    - dense_layers: number of layers without experts, or the kind of each layer (`_dense`).
    - latent: width that experts read and write, if the file states it.
    - dense_width: width of a dense layer.
    - bias, expert_bias: whether the router and the experts have biases.
    """

    experts: str = "num_experts"
    width: str = "moe_intermediate_size"
    per_token: str = "num_experts_per_tok"
    shared: str | None = None
    shared_width: str | None = None
    dense_layers: str | None = None
    latent: str | None = None
    dense_width: str | None = None
    bias: bool = False
    expert_bias: bool = False


def routed(keys: Keys, layers: int, names: RoutedKeys, **sizes: Any) -> Fields:
    """Reads experts whose sizes are under the keys of `names`.

    - sizes: other fields of `MoE`.
    """
    count = _shared_number(keys, names.experts)
    width = _shared_number(keys, names.width)
    moe = {
        "num_experts": count,
        "experts_per_token": _shared_number(keys, names.per_token),
        "intermediate_size": width,
        "router_bias": names.bias,
        "expert_bias": names.expert_bias,
    }
    if names.shared_width:
        moe["shared_intermediate_size"] = _shared_number(keys, names.shared_width)
    elif names.shared:
        shared_count = _shared_number(keys, names.shared, 0)
        shared_width = keys.integer("moe_shared_expert_intermediate_size", width)
        moe["shared_intermediate_size"] = shared_count * shared_width
    if names.dense_layers:
        moe["first_dense_layers"] = _dense(keys, layers, names.dense_layers)
    if names.latent and keys.data.get(names.latent) is not None:
        moe["latent_size"] = keys.integer(names.latent)
    outside = {"intermediate_size": _shared_number(keys, names.dense_width)} if names.dense_width else {}
    return {"moe": moe | sizes, **outside}


def _named_kinds(keys: Keys, layers: int) -> list[str] | None:
    """Kind of each layer's MLP, ``dense`` or ``sparse`` (with experts), if the file names them.

    Raises InputError for other names, or another number of them.
    """
    kinds = keys.data.get("mlp_layer_types")
    if kinds is None:
        return None
    named = kinds if isinstance(kinds, list) else []
    if len(named) != layers or any(kind not in MLP_KINDS for kind in named):
        raise keys.bad("mlp_layer_types", f"a list of {layers} words, each of {' or '.join(MLP_KINDS)}")
    return named


def _dense(keys: Keys, layers: int, first: str) -> int:
    """Number of dense layers: a number, a list of zeros (dense) and ones (experts), or names of layers."""
    kinds = _named_kinds(keys, layers)
    if first == "mlp_layer_types" or (first not in keys.data and kinds is not None):
        return (kinds or []).count("dense")
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


def qwen(keys: Keys, layers: int, normalized: bool = True) -> Fields:
    """Qwen-MoE.

    - normalized: whether the weights of a token's experts sum to 1, if the file does not state it.
    """
    step = keys.integer("decoder_sparse_step", 1, high=MAX_LAYERS)
    without_experts = set(keys.integers("mlp_only_layers"))
    dense = [i for i in range(layers) if i in without_experts or (i + 1) % step]
    shared = keys.count("shared_expert_intermediate_size")
    count = "num_local_experts" if "num_local_experts" in keys.data else "num_experts"
    dense_key = "decoder_sparse_step" if step > 1 else "mlp_only_layers"
    return routed(
        keys,
        layers,
        RoutedKeys(experts=count),
        shared_intermediate_size=shared,
        shared_gate=bool(shared),
        normalized_weights=keys.flag("norm_topk_prob", normalized),
        first_dense_layers=_first_dense(keys, dense_key, dense),
    )


def qwen_unnormalized(keys: Keys, layers: int) -> Fields:
    """Qwen2-MoE and Qwen3-MoE: the weights of a token's experts need not sum to 1."""
    return qwen(keys, layers, normalized=False)


def qwen_without_dense(keys: Keys, layers: int) -> Fields:
    """Qwen3.5: no layer is dense, so the file need not state the width of a dense layer."""
    fields = qwen(keys, layers)
    expert_width = fields["moe"]["intermediate_size"]
    return fields | {"intermediate_size": keys.integer("intermediate_size", expert_width)}


def deepseek(keys: Keys, layers: int, bias: bool = True) -> Fields:
    """DeepSeek-V3: the dense layers come first.

    - bias: whether the router has a bias.
    """
    kinds = _named_kinds(keys, layers)
    named = NEEDED if kinds is None else kinds.count("dense")
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
        RoutedKeys(experts="n_routed_experts", bias=bias),
        shared_intermediate_size=keys.count("n_shared_experts") * width,
        first_dense_layers=_first_dense(keys, "moe_layer_freq", dense),
    )


def deepseek_without_bias(keys: Keys, layers: int) -> Fields:
    """DeepSeek before V3, and Mistral-4: the router has no bias."""
    return deepseek(keys, layers, bias=False)


def minimax(keys: Keys, layers: int) -> Fields:
    shared = keys.count("shared_intermediate_size")
    bias = keys.flag("use_routing_bias", True)
    names = RoutedKeys(experts="num_local_experts", width="intermediate_size", bias=bias)
    return routed(keys, layers, names, shared_intermediate_size=shared)


def llama4(keys: Keys, layers: int) -> Fields:
    """Experts in every `interleave_moe_layer_step`-th layer, each with a shared one. The other layers are
    wider.
    """
    step = keys.integer("interleave_moe_layer_step", 1, high=MAX_LAYERS)
    width = keys.integer("intermediate_size")
    dense = layers - (len(keys.integers("moe_layers")) or len(range(step - 1, layers, step)))
    names = RoutedKeys(experts="num_local_experts", width="intermediate_size")
    fields = routed(keys, layers, names, shared_intermediate_size=width, first_dense_layers=dense)
    return fields | {"intermediate_size": keys.integer("intermediate_size_mlp")}


def gemma4(keys: Keys, layers: int) -> Fields:
    """Experts next to the dense MLP of every layer, which counts as a shared expert, and three additional
    norms.
    """
    if not keys.flag("enable_moe_block", False):
        keys.ignore("num_experts", "top_k_experts", "moe_intermediate_size", "expert_intermediate_size")
        return {}
    names = RoutedKeys(per_token="top_k_experts", shared_width="intermediate_size")
    return routed(keys, layers, names) | {"norms_per_layer": 7}


def nemotron_h(keys: Keys, layers: int) -> Fields:
    kinds = blocks(keys)
    if "moe" not in kinds:
        keys.ignore(*(key for key in keys.data if "expert" in key or key.startswith("moe_")))
        return {}
    names = RoutedKeys(experts="n_routed_experts", latent="moe_latent_size", bias=True)
    shared = keys.count("n_shared_experts") * keys.count("moe_shared_expert_intermediate_size")
    dense = kinds.count("mlp")
    return routed(keys, layers, names, shared_intermediate_size=shared, first_dense_layers=dense)


def ernie(keys: Keys, layers: int) -> Fields:
    """ERNIE-4.5: experts in a range of layers."""
    kinds = _named_kinds(keys, layers)
    first = NEEDED if kinds is None else kinds.count("dense")
    start = keys.integer("moe_layer_start_index", first, low=0)
    end = keys.integer("moe_layer_end_index", -1, low=-1)
    if keys.integer("moe_layer_interval", 1) != 1:
        raise keys.bad("moe_layer_interval", "1")
    dense = start + (0 if end < 0 else layers - 1 - end)
    names = RoutedKeys(
        experts="moe_num_experts", per_token="moe_k", shared="moe_num_shared_experts", bias=True
    )
    return routed(keys, layers, names, first_dense_layers=dense)


def hunyuan(keys: Keys, layers: int) -> Fields:
    """Hunyuan-Large and A13B: one shared expert unless the file says otherwise."""
    width = (
        "moe_intermediate_size" if keys.data.get("moe_intermediate_size") is not None else "intermediate_size"
    )
    shared = _shared_number(keys, "num_shared_expert", 1) * _shared_number(keys, width)
    names = RoutedKeys(width=width, per_token="moe_topk")
    return routed(keys, layers, names, shared_intermediate_size=shared)


def step(keys: Keys, layers: int) -> Fields:
    """Step-3.5 and 3.7: `moe_layers_enum` names the layers with experts; without it dense layers come
    first.
    """
    listed = keys.data.get("moe_layers_enum")
    named = listed.split(",") if isinstance(listed, str) else keys.integers("moe_layers_enum")
    keys.ignore("n_shared_experts", "share_expert_dims", "mtp_mlp_layer_types")
    names = RoutedKeys(shared_width="share_expert_dim", bias=True)
    if named:
        return routed(keys, layers, names, first_dense_layers=layers - len(named))
    return routed(keys, layers, names.replace(dense_layers="first_k_dense_replace"))


def granite(keys: Keys, layers: int) -> Fields:
    """Granite-4.0: each layer has experts and a shared MLP, or only a shared MLP."""
    shared = keys.count("shared_intermediate_size")
    if not keys.data.get("num_local_experts"):
        keys.ignore("num_experts_per_tok")
        return {"intermediate_size": shared} if shared else {}
    names = RoutedKeys(experts="num_local_experts", width="intermediate_size")
    return routed(keys, layers, names, shared_intermediate_size=shared)


def jamba(keys: Keys, layers: int) -> Fields:
    """Jamba: one layer of each period has experts, each as wide as the MLP of another layer."""
    period = keys.integer("expert_layer_period", 1)
    offset = keys.count("expert_layer_offset")
    if keys.integer("num_experts") == 1:
        keys.ignore("num_experts_per_tok")
        return {}
    dense = layers - len(range(offset, layers, period))
    return routed(keys, layers, RoutedKeys(width="intermediate_size"), first_dense_layers=dense)


def longcat(keys: Keys, layers: int) -> Fields:
    """LongCat-Flash: a layer has two blocks of latent attention and MLP, and some of its experts do
    nothing (identity).

    The two MLPs count as a shared expert. A token counts as many experts as it has, on average, that are
    not the identity.
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


def behind_latent(keys: Keys, layers: int) -> Fields:
    """Muse: experts read and write a vector that is narrower than the hidden state."""
    latent = keys.integer("moe_hidden_size")
    return routed(keys, layers, RoutedKeys(dense_layers="mlp_layer_types"), latent_size=latent)
