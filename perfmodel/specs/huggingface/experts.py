"""Reads the routed experts of each family: the mapping `moe` of ModelSpec, and the width of dense layers."""

from typing import Any

from perfmodel.specs.boundary.frozen import Frozen
from perfmodel.specs.huggingface.keys import NEEDED, Fields, Keys
from perfmodel.specs.huggingface.mamba import blocks
from perfmodel.specs.models.components import MAX_LAYERS

MLP_KINDS = ("dense", "sparse")
"""The words of `mlp_layer_types` for a layer without and with routed experts."""


class RoutedKeys(Frozen):
    """The names of the keys that state the sizes of experts in a file. If a key has a list with one number
    per layer, all numbers must be equal.

    - experts: key of the number of experts.
    - per_token: key of the number of experts that one token uses.
    - width: key of the width of one expert.
    - shared: key of the number of shared experts, each as wide as a routed expert.
    - shared_width: key of the total width of shared experts, if the file states this instead.
    - dense_layers: key of the number of layers without experts, or of the kind of each layer.
    - latent: key of the width that experts read and write, if the file states it.
    - dense_width: key of the width of a dense layer.
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
    """Reads experts whose sizes are stated under the keys in `names`.

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
    """The kind of each layer's MLP, which is ``dense`` or ``sparse`` (with experts). The result is None if
    the file does not state the kinds.

    Raises InputError for unknown kinds, or if their number is not the number of layers.
    """
    kinds = keys.data.get("mlp_layer_types")
    if kinds is None:
        return None
    named = kinds if isinstance(kinds, list) else []
    if len(named) != layers or any(kind not in MLP_KINDS for kind in named):
        raise keys.bad("mlp_layer_types", f"a list of {layers} words, each of {' or '.join(MLP_KINDS)}")
    return named


def _dense(keys: Keys, layers: int, first: str) -> int:
    """The number of dense layers. The file states it as a number, as a list of zeros (dense) and ones
    (experts), or as the kinds of layers.
    """
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
    """A whole number under a key. In a list, all layers must have the same number."""
    value = keys.data.get(key)
    if isinstance(value, list):
        if len(set(map(str, value))) != 1:
            raise keys.bad(key, "a whole number, or a list of the same one for every layer")
        return Keys({key: value[0]}, keys.where).integer(key)
    return keys.integer(key, default, low=0 if default == 0 else 1)


def _first_dense(keys: Keys, key: str, dense: list[int]) -> int:
    """The number of dense layers. Raises InputError, which names the key, unless they are the first layers.

    - dense: the numbers of these layers.
    """
    if dense != list(range(len(dense))):
        raise keys.bad(key, "such that the dense layers come first and all later ones are MoE layers")
    return len(dense)


def qwen(keys: Keys, layers: int, normalized: bool = True) -> Fields:
    """Reads the experts of Qwen's MoE models.

    - normalized: whether the weights of a token's experts sum to 1, if the file does not say it.
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
    """Reads Qwen2-MoE and Qwen3-MoE. The weights of a token's experts need not sum to 1."""
    return qwen(keys, layers, normalized=False)


def qwen_without_dense(keys: Keys, layers: int) -> Fields:
    """Reads Qwen3.5. No layer is dense, so the file need not state the width of a dense layer."""
    fields = qwen(keys, layers)
    expert_width = fields["moe"]["intermediate_size"]
    return fields | {"intermediate_size": keys.integer("intermediate_size", expert_width)}


def deepseek(keys: Keys, layers: int, bias: bool = True) -> Fields:
    """Reads DeepSeek-V3. The dense layers come first.

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
    """Reads Mistral-4, and DeepSeek models before V3. The router of these models has no bias."""
    return deepseek(keys, layers, bias=False)


def minimax(keys: Keys, layers: int) -> Fields:
    """Reads MiniMax-Text-01 and MiniMax-M2. The router may have a bias, and there may be a shared expert."""
    shared = keys.count("shared_intermediate_size")
    bias = keys.flag("use_routing_bias", True)
    names = RoutedKeys(experts="num_local_experts", width="intermediate_size", bias=bias)
    return routed(keys, layers, names, shared_intermediate_size=shared)


def llama4(keys: Keys, layers: int) -> Fields:
    """Reads Llama-4. Every `interleave_moe_layer_step`-th layer has routed experts and a shared expert. All
    other layers have a wider MLP.
    """
    step = keys.integer("interleave_moe_layer_step", 1, high=MAX_LAYERS)
    width = keys.integer("intermediate_size")
    dense = layers - (len(keys.integers("moe_layers")) or len(range(step - 1, layers, step)))
    names = RoutedKeys(experts="num_local_experts", width="intermediate_size")
    fields = routed(keys, layers, names, shared_intermediate_size=width, first_dense_layers=dense)
    return fields | {"intermediate_size": keys.integer("intermediate_size_mlp")}


def gemma4(keys: Keys, layers: int) -> Fields:
    """Reads Gemma-4. Every layer has experts next to its dense MLP, and three additional norms. The dense MLP
    counts as a shared expert.
    """
    if not keys.flag("enable_moe_block", False):
        keys.ignore("num_experts", "top_k_experts", "moe_intermediate_size", "expert_intermediate_size")
        return {}
    names = RoutedKeys(per_token="top_k_experts", shared_width="intermediate_size")
    return routed(keys, layers, names) | {"norms_per_layer": 7}


def nemotron_h(keys: Keys, layers: int) -> Fields:
    """Reads Nemotron-H. Only layers of kind ``moe`` have experts, which may read and write a latent."""
    kinds = blocks(keys)
    if "moe" not in kinds:
        keys.ignore(*(key for key in keys.data if "expert" in key or key.startswith("moe_")))
        return {}
    names = RoutedKeys(experts="n_routed_experts", latent="moe_latent_size", bias=True)
    shared = keys.count("n_shared_experts") * keys.count("moe_shared_expert_intermediate_size")
    dense = kinds.count("mlp")
    return routed(keys, layers, names, shared_intermediate_size=shared, first_dense_layers=dense)


def ernie(keys: Keys, layers: int) -> Fields:
    """Reads ERNIE-4.5. A range of its layers has experts."""
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
    """Reads Hunyuan-Large and Hunyuan-A13B. These models have one shared expert, unless the file states
    another number.
    """
    width = (
        "moe_intermediate_size" if keys.data.get("moe_intermediate_size") is not None else "intermediate_size"
    )
    shared = _shared_number(keys, "num_shared_expert", 1) * _shared_number(keys, width)
    names = RoutedKeys(width=width, per_token="moe_topk")
    return routed(keys, layers, names, shared_intermediate_size=shared)


def step(keys: Keys, layers: int) -> Fields:
    """Reads Step-3.5 and Step-3.7. `moe_layers_enum` lists the layers with experts. Without this key, dense
    layers come first.
    """
    listed = keys.data.get("moe_layers_enum")
    named = listed.split(",") if isinstance(listed, str) else keys.integers("moe_layers_enum")
    keys.ignore("n_shared_experts", "share_expert_dims", "mtp_mlp_layer_types")
    names = RoutedKeys(shared_width="share_expert_dim", bias=True)
    if named:
        return routed(keys, layers, names, first_dense_layers=layers - len(named))
    return routed(keys, layers, names.replace(dense_layers="first_k_dense_replace"))


def granite(keys: Keys, layers: int) -> Fields:
    """Reads Granite-4.0. Each layer has experts and a shared MLP, or only a shared MLP."""
    shared = keys.count("shared_intermediate_size")
    if not keys.data.get("num_local_experts"):
        keys.ignore("num_experts_per_tok")
        return {"intermediate_size": shared} if shared else {}
    names = RoutedKeys(experts="num_local_experts", width="intermediate_size")
    return routed(keys, layers, names, shared_intermediate_size=shared)


def jamba(keys: Keys, layers: int) -> Fields:
    """Reads Jamba. One layer of each period has experts. Each expert is as wide as the MLP of the other
    layers.
    """
    period = keys.integer("expert_layer_period", 1)
    offset = keys.count("expert_layer_offset")
    if keys.integer("num_experts") == 1:
        keys.ignore("num_experts_per_tok")
        return {}
    dense = layers - len(range(offset, layers, period))
    return routed(keys, layers, RoutedKeys(width="intermediate_size"), first_dense_layers=dense)


def longcat(keys: Keys, layers: int) -> Fields:
    """Reads LongCat-Flash. A layer has two blocks of latent attention and MLP. Some experts are the identity
    and do no work.

    The two MLPs count as a shared expert. The number of experts per token is the mean number of a token's
    experts that are not the identity.
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
    """Reads Muse. The experts read and write a vector that is narrower than the hidden state."""
    latent = keys.integer("moe_hidden_size")
    return routed(keys, layers, RoutedKeys(dense_layers="mlp_layer_types"), latent_size=latent)
