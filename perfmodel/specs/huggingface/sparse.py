"""Reads latent caches (MLA), indexers and compressed caches into fields of ModelSpec."""

from perfmodel.specs.huggingface.keys import Fields, Keys
from perfmodel.specs.huggingface.windows import layer_types
from perfmodel.specs.models.components import MAX_TOKENS


def latent(keys: Keys, layers: int, ranked: bool = True) -> Fields:
    """Reads latent attention: the mapping `mla`, and the width of a query head.

    - ranked: whether the file must state the rank of the queries. Null in the file means no low rank.
    """
    sizes = {name: keys.integer(name) for name in ("kv_lora_rank", "qk_nope_head_dim", "v_head_dim")}
    sizes["qk_rope_head_dim"] = keys.integer("qk_rope_head_dim", low=0)
    keys.ignore("qk_head_dim", "head_dim", "num_key_value_heads")
    rank = keys.present_or_null("q_lora_rank") if ranked or keys.data.get("q_lora_rank") else None
    return {
        "mla": {"q_lora_rank": rank, **sizes},
        "num_key_value_heads": keys.integer("num_attention_heads"),
        "head_dim": sizes["qk_nope_head_dim"] + sizes["qk_rope_head_dim"],
    }


def indexer(keys: Keys, layers: int) -> Fields:
    """Reads the mapping `indexer` of DeepSeek's sparse attention (DeepSeek-V3.2, GLM-5).

    Layers of type "full" run the indexer. Layers of type "shared" use the choice of the previous layer. In
    GLM-5.2 and later, the types are listed in `indexer_types`, or follow from the period `index_topk_freq`.
    Raises InputError for a wrong key.
    """
    layer_types(keys, layers, ("deepseek_sparse_attention", "indexed_attention"), ())
    types = keys.data.get("indexer_types")
    if types is None and keys.data.get("index_topk_pattern"):
        raise keys.bad("index_topk_pattern", "null, or given together with indexer_types")
    frequency = keys.integer("index_topk_freq", 1)
    offset = keys.integer("index_skip_topk_offset", 2, low=0)
    if types is None:
        types = ["shared" if max(i - offset + 1, 0) % frequency else "full" for i in range(layers)]
    if not isinstance(types, list) or len(types) != layers or any(t not in ("full", "shared") for t in types):
        raise keys.bad("indexer_types", f"a list of {layers} entries out of full, shared")
    keys.ignore("index_share_for_mtp_iteration", "index_topk_pattern", "indexer_rope_interleave")
    return {
        "indexer": {
            "num_heads": keys.integer("index_n_heads"),
            "head_dim": keys.integer("index_head_dim"),
            "topk": keys.integer("index_topk", high=MAX_TOKENS),
            "layers": types.count("full"),
        }
    }


def block_indexer(keys: Keys, layers: int) -> Fields:
    """Reads MiniMax-M3. In most layers, a query attends to the blocks of keys that a small indexer scores
    highest.
    """
    own = keys.mapping("sparse_attention_config")
    kinds = keys.data.get("layer_types")
    keys.ignore("index_local_blocks", "layer_types", "attention_output_gate", "rotary_dim")
    if own:
        sparse = sum(own.integers("sparse_attention_freq"))
        names = ("num_index_heads", "index_dim", "block_size")
        heads, dim, block = (own.integer(f"sparse_{name}") for name in names)
        blocks = own.integer("sparse_topk_blocks")
    else:
        sparse = sum(kind != "full_attention" for kind in kinds) if isinstance(kinds, list) else layers
        heads, dim, block = (keys.integer(f"index_{name}") for name in ("n_heads", "head_dim", "block_size"))
        blocks = keys.integer("index_topk_blocks")
    sizes = {"num_heads": heads, "head_dim": dim, "topk": blocks * block, "head_weights": False}
    if sparse:
        return {"indexer": sizes | {"layers": sparse, "dense_layers": layers - sparse}}
    return {}


def latent_without_query_rank(keys: Keys, layers: int) -> Fields:
    """Reads Mistral-Large-4. One projection computes the queries from the hidden state, without a low rank.
    Some layers have no rotary part, and some read the cache of another layer.
    """
    fields = latent(keys, layers, ranked=False)
    sources = keys.integers("kv_source_layers")
    fields["mla"]["unrotated_layers"] = keys.integers("no_rope_layers").count(0)
    return fields | {"shared_kv_layers": sum(source != i for i, source in enumerate(sources))}


def streams(keys: Keys, layers: int, exchanged: bool = True) -> Fields:
    """Reads hyper-connections: several hidden states that are mixed before and after each block. DeepSeek-V4
    has 4 hidden states and 24 mixing weights per block.

    - exchanged: whether each hidden state also gets a share of every other one.
    """
    count = keys.integer("hc_mult", 1)
    hidden = keys.integer("hidden_size")
    weights_of_each = 2 + count if exchanged else 2
    mix = {
        "name": "streams",
        "layers": 2 * layers,
        "inputs": count * hidden,
        "outputs": weights_of_each * count,
    }
    return {"residual_streams": count, "projections": [mix]} if count > 1 else {}


def gated_streams(keys: Keys, layers: int) -> Fields:
    """Reads the residual streams of Qwen4-Exp. Each block reads a mean of the streams, which is weighted by
    low-rank gates. A block adds its output to each stream with a weight.

    One norm over all streams replaces the norm of the block. Another mean is computed after the last layer.
    """
    count = keys.integer("hc_count", 4)
    rank = keys.integer("hc_lowrank", 320)
    wide = count * keys.integer("hidden_size")
    blocks = 2 * layers
    return {
        "residual_streams": count,
        "norms_per_layer": 2 * count,
        "projections": [
            {"name": "streams", "layers": blocks, "inputs": wide, "outputs": rank + count},
            {"name": "streams (end)", "layers": 1, "inputs": wide, "outputs": rank},
            {"name": "streams (gates)", "layers": blocks + 1, "inputs": rank, "outputs": wide},
        ],
    }


def mean_indexer(keys: Keys, layers: int) -> Fields:
    """Reads the mapping `indexer` of Qwen4-Exp, for the given number of layers. One key of the indexer is the
    mean of the keys of `indexer_compress_ratio` tokens.
    """
    if keys.integer("indexer_kv_heads", 1) != 1:
        raise keys.bad("indexer_kv_heads", "1")
    return {
        "num_heads": keys.integer("indexer_n_heads"),
        "head_dim": keys.integer("indexer_head_dim"),
        "topk": keys.integer("indexer_budget", high=MAX_TOKENS),
        "stride": keys.integer("indexer_compress_ratio", high=MAX_TOKENS),
        "head_weights": False,
        "layers": layers,
    }


def gated_latent(keys: Keys, layers: int) -> Fields:
    """Reads Hy-v4. The model is like DeepSeek-V3.2, with an output gate, attention sinks and
    hyper-connections.
    """
    fields = latent(keys, layers) | indexer(keys, layers) | streams(keys, layers, exchanged=False)
    width = keys.integer("num_attention_heads") * keys.integer("v_head_dim")
    gate = {
        "name": "gate",
        "layers": layers,
        "inputs": keys.integer("hidden_size"),
        "outputs": width,
        "split": "outputs",
    }
    return fields | {"projections": [*fields.get("projections", ()), gate]}


_STRIDES = {"heavily_compressed_attention": 128, "compressed_sparse_attention": 4, "sliding_attention": 0}
"""The number of tokens per cached entry in each kind of layer of DeepSeek-V4. It is 0 without such
entries.
"""


_PROJECTIONS = {"compressed_sparse_attention": 4, "heavily_compressed_attention": 2}
"""The number of projections, each as wide as a head, that a layer of each kind needs for its cached
entries.
"""


def compressed(keys: Keys, layers: int) -> Fields:
    """Reads DeepSeek-V4. Every layer has a sliding window. Some layers also cache one entry per 4 tokens, and
    an indexer chooses among these entries. Other layers cache one entry per 128 tokens, and read all these
    entries.

    An entry for 4 tokens needs two projections, and the keys of the indexer need two more.
    """
    rates = keys.mapping("compress_rates")
    stride = _STRIDES | ({kind: rates.integer(kind) for kind in rates.data} if rates else {})
    types = _compressed_types(keys, layers, stride)
    keys.ignore(
        "compress_ratios", "compress_rope_theta", "num_hash_layers", "qk_rope_head_dim", "mlp_layer_types"
    )
    hidden = keys.integer("hidden_size")
    dim = keys.integer("head_dim")
    fields = streams(keys, layers)
    projections = list(fields.get("projections", ()))
    caches = []
    for kind, count_of_each in _PROJECTIONS.items():
        if count := types.count(kind):
            is_chosen = kind == "compressed_sparse_attention"
            caches.append({"layers": count, "stride": stride[kind], "chosen": is_chosen})
            name = f"compress ({stride[kind]})"
            projections.append(
                {"name": name, "layers": count, "inputs": hidden, "outputs": count_of_each * dim}
            )
    low = {"query_rank": "q_lora_rank", "output_rank": "o_lora_rank", "output_groups": "o_groups"}
    return fields | {
        "sliding_window": keys.integer("sliding_window", high=MAX_TOKENS),
        "num_sliding_layers": layers,
        "low_rank": {field: keys.integer(key) for field, key in low.items()},
        "compressed": caches,
        "projections": projections,
        "indexer": _compressed_indexer(keys, types, stride),
    }


def _compressed_types(keys: Keys, layers: int, stride: dict[str, int]) -> list[str]:
    """The kind of each layer of DeepSeek-V4, from the numbers in `compress_ratios` or from `layer_types`.

    - stride: number of tokens per cached entry, by kind of layer.
    """
    kinds = {every: kind for kind, every in stride.items()}
    ratios = keys.data.get("compress_ratios")
    if isinstance(ratios, list) and all(ratio in kinds for ratio in ratios) and len(ratios) >= layers:
        return [kinds[ratio] for ratio in ratios[:layers]]
    is_head = "index_topk" not in keys.data  # the layers of a draft head have only a window
    types = layer_types(keys, layers, tuple(stride), ["sliding_attention"] * layers if is_head else ())
    if not types:
        raise keys.bad("compress_ratios", f"a list of {layers} numbers out of {', '.join(map(str, kinds))}")
    return types


def _compressed_indexer(keys: Keys, types: list[str], stride: dict[str, int]) -> Fields | None:
    """The indexer of DeepSeek-V4. The result is None if no layer has entries that it could choose."""
    layers = types.count("compressed_sparse_attention")
    if not layers:
        return None
    sizes = {"num_heads": "index_n_heads", "head_dim": "index_head_dim", "topk": "index_topk"}
    read = {field: keys.integer(key, high=MAX_TOKENS) for field, key in sizes.items()}
    return read | {"layers": layers, "stride": stride["compressed_sparse_attention"], "key_projections": 4}
