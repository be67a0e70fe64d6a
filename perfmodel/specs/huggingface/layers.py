"""What the layers of single families have, such as other heads of sliding layers, as fields of ModelSpec."""

from perfmodel.specs.huggingface.keys import Fields, Keys
from perfmodel.specs.huggingface.windows import (
    KINDS,
    layer_types,
    named_windows,
    sliding_layers,
    window_of,
)
from perfmodel.specs.models.components import MAX_LAYERS, MAX_TOKENS


def gemma4(keys: Keys, layers: int) -> Fields:
    """Global layers have their own heads, and may use one projection for keys and values."""
    window = keys.integer("sliding_window", high=MAX_TOKENS)
    sliding = sliding_layers(keys, layers, [(i + 1) % 6 != 0 and i + 1 < layers for i in range(layers)])
    heads, kv, dim = (
        keys.integer(name) for name in ("num_attention_heads", "num_key_value_heads", "head_dim")
    )
    extra = inputs_of_layers(keys, layers)
    return {
        **window_of(window, sliding),
        **extra,
        "norms_per_layer": 5 if extra.get("projections") else 4,
        **_global_heads(keys, layers - sliding, kv, dim),
        "one_kv_projection": keys.flag("attention_k_eq_v", False),
        "sliding_heads": {"num_attention_heads": heads, "num_key_value_heads": kv, "head_dim": dim},
    }


def _global_heads(keys: Keys, layers: int, kv: int, dim: int) -> Fields:
    """Sizes of the global layers: separate keys, or in the form of transformers 5 one mapping for each
    layer.
    """
    if keys.mapping("per_layer_config") is None:
        far = {"num_key_value_heads": "num_global_key_value_heads", "head_dim": "global_head_dim"}
        return {
            name: keys.integer(key, default)
            for (name, key), default in zip(far.items(), (kv, dim), strict=True)
        }
    sizes = [
        {"num_key_value_heads": p.integer("num_key_value_heads", kv), "head_dim": p.integer("head_dim", dim)}
        for p in keys.parts("per_layer_config").values()
    ]
    if len(sizes) != layers or any(size != sizes[0] for size in sizes):
        raise keys.bad(
            "per_layer_config", "the same head_dim and num_key_value_heads for every full_attention layer"
        )
    return sizes[0]


def without_cross_attention(keys: Keys, layers: int) -> Fields:
    """Llama-3.2-Vision: layers that attend to an image do nothing without one and are left out."""
    return {"num_hidden_layers": layers - len(keys.integers("cross_attention_layers"))}


def blocks_of_any_width(keys: Keys, layers: int) -> Fields:
    """Nemotron-NAS: some layers have no attention, and MLP widths differ; the width here is the mean over the
    layers.
    """
    given = keys.data.get("block_configs")
    if (
        not isinstance(given, list)
        or len(given) != layers
        or not all(isinstance(block, dict) for block in given)
    ):
        raise keys.bad("block_configs", f"a list of {layers} mappings of attention and ffn")
    groups = set[int]()
    widths = list[int]()
    hidden = keys.integer("hidden_size")
    attentions = 0
    for block in given:
        attention, mlp = (
            Keys(block, keys.where, "block_configs.").mapping(part) for part in ("attention", "ffn")
        )
        if attention is None or mlp is None or attention.flag("replace_with_linear", False):
            raise keys.bad(
                "block_configs", "mappings of attention and ffn, none of them replaced with a linear one"
            )
        if not attention.flag("no_op", False):
            attentions += 1
            groups.add(attention.integer("n_heads_in_group"))
        if not mlp.flag("no_op", False):
            widths.append(-(-int(2 * mlp.number("ffn_mult") * hidden / 3) // 256) * 256)
    if len(groups) != 1:
        raise keys.bad("block_configs", "with as many query heads per KV head in every attention layer")
    return {
        "num_key_value_heads": keys.integer("num_attention_heads") // groups.pop(),
        "attention_layers": attentions,
        "mlp_layers": len(widths),
        "intermediate_size": round(sum(widths) / len(widths)),
    }


def hunyuan(keys: Keys, layers: int) -> Fields:
    """Hunyuan: sharing of caches between layers (`use_cla`) is not modelled."""
    if keys.flag("use_cla", False):
        raise keys.bad("use_cla", "false")
    keys.ignore("attention_head_dim", "cla_share_factor")
    return {}


def step(keys: Keys, layers: int) -> Fields:
    """Step-3.5 and 3.7: sliding layers may have more heads. A gate for each head of the output is not
    counted.
    """
    other = keys.mapping("attention_other_setting")
    heads = keys.integer("num_attention_heads")
    dim = keys.integer("head_dim")
    kv = keys.integer("num_key_value_heads", keys.integer("num_attention_groups", heads))
    keys.ignore("per_layer_config", "num_key_value_heads", "num_attention_groups", "mtp_layer_types")
    own = (
        other.integer("num_attention_heads", heads)
        if other
        else keys.integer("num_sliding_attention_heads", heads)
    )
    types = keys.strings("layer_types")[:layers]  # the later ones are multi-token prediction layers
    fields = window_of(keys.count("sliding_window", high=MAX_TOKENS), types.count("sliding_attention"))
    if own != heads and fields["num_sliding_layers"]:
        fields["sliding_heads"] = {"num_attention_heads": own, "num_key_value_heads": kv, "head_dim": dim}
    return fields | {"num_key_value_heads": kv}


def block_head(keys: Keys, layers: int) -> Fields:
    """DFlash: layers slide where `layer_types` says so; a width of value heads may be given."""
    keys.ignore("max_window_layers", "sliding_window", "add_swa_attention_sink_bias")
    dims = {"value_head_dim": keys.integer("v_head_dim")} if keys.data.get("v_head_dim") else {}
    slides = keys.flag("use_sliding_window", True) and keys.data.get("sliding_window") is not None
    window = keys.integer("sliding_window", high=MAX_TOKENS) if slides else None
    return window_of(window, sliding_layers(keys, layers, [False] * layers)) | dims


def qwen(keys: Keys, layers: int) -> Fields:
    keys.ignore("sliding_window", "max_window_layers")
    if not keys.flag("use_sliding_window", False):
        layer_types(keys, layers, KINDS, ())
        return {}
    if not (window := keys.present_or_null("sliding_window", MAX_TOKENS)):
        return {}
    full = layers if "layer_types" in keys.data else keys.integer("max_window_layers", low=0, high=MAX_LAYERS)
    return window_of(window, sliding_layers(keys, layers, [i >= full for i in range(layers)]))


def qwen3_moe(keys: Keys, layers: int) -> Fields:
    if keys.flag("use_sliding_window", False):
        raise keys.bad(
            "use_sliding_window", "false (transformers' versions disagree on which qwen3_moe layers slide)"
        )
    return qwen(keys, layers)


def chunked(keys: Keys, layers: int) -> Fields:
    """Llama 4: all but every fourth layer see only their chunk, at most `attention_chunk_size` tokens
    back.
    """
    chunk = keys.present_or_null("attention_chunk_size", MAX_TOKENS)
    step = keys.integer("no_rope_layer_interval", 4, high=MAX_LAYERS)
    rule = ["full_attention" if (i + 1) % step == 0 else "chunked_attention" for i in range(layers)]
    if ropes := keys.integers("no_rope_layers"):
        rule = ["chunked_attention" if rope else "full_attention" for rope in ropes]
    return window_of(
        chunk,
        layer_types(keys, layers, ("full_attention", "chunked_attention"), rule).count("chunked_attention"),
    )


def mimo_v2(keys: Keys, layers: int) -> Fields:
    """Sliding layers by `hybrid_layer_pattern`. They have their own heads and are the only ones with
    sinks.
    """
    pattern = keys.integers("hybrid_layer_pattern")
    if len(pattern) != layers or not {*pattern} <= {0, 1}:
        raise keys.bad("hybrid_layer_pattern", f"a list of {layers} zeros (full) and ones (sliding)")
    heads = {
        "num_attention_heads": keys.integer("swa_num_attention_heads"),
        "num_key_value_heads": keys.integer("swa_num_key_value_heads"),
        "head_dim": keys.integer("swa_head_dim"),
        "value_head_dim": keys.integer("swa_v_head_dim"),
    }
    window = "sliding_window" if keys.data.get("sliding_window") else "sliding_window_size"
    keys.ignore(
        "sliding_window_size", "attention_chunk_size", "swa_rope_theta", "add_swa_attention_sink_bias"
    )
    return window_of(keys.integer(window, high=MAX_TOKENS), sum(pattern)) | {
        "value_head_dim": keys.integer("v_head_dim"),
        "sliding_heads": heads,
    }


def all_full(keys: Keys, layers: int) -> Fields:
    """Every layer attends to everything; the file must not state otherwise."""
    layer_types(keys, layers, ("full_attention",), ())
    if {*keys.integers("attn_type_list")} - {1}:
        raise keys.bad("attn_type_list", "a list of ones (full attention)")
    return {}


def learned_positions(keys: Keys, layers: int, extra: int = 0) -> Fields:
    """A learned embedding of each position, and of `extra` more."""
    positions = keys.integer("max_position_embeddings", high=MAX_TOKENS) + extra
    hidden = keys.integer("hidden_size")
    width = keys.integer("word_embed_proj_dim", hidden)
    if width != hidden:
        raise keys.bad("word_embed_proj_dim", f"hidden_size, given {width}")
    keys.ignore("n_ctx", "num_key_value_heads")
    fields: Fields = {"table_params": positions * hidden}
    if keys.flag("multi_query", False):
        fields["num_key_value_heads"] = 1
    return fields


def learned_positions_and_two(keys: Keys, layers: int) -> Fields:
    """OPT: two more positions than a sequence has."""
    return learned_positions(keys, layers, extra=2)


def gpt_neo(keys: Keys, layers: int) -> Fields:
    """GPT-Neo: layers by `attention_layers`, or by pairs of a pattern and its number of repeats."""
    kinds = keys.data.get("attention_layers")
    if not isinstance(kinds, list):
        kinds = []
        for pattern, repeats in keys.data.get("attention_types") or ():
            kinds += pattern * repeats
    keys.ignore("attention_types")
    return learned_positions(keys, layers) | window_of(keys.integer("window_size"), kinds.count("local"))


def falcon(keys: Keys, layers: int) -> Fields:
    """Falcon: one KV head, one per head, or groups; fewer norms where attention and MLP run in parallel."""
    grouped = keys.flag("new_decoder_architecture", False)
    heads = keys.integer("num_attention_heads")
    kv = heads
    if grouped:
        kv = keys.integer("num_key_value_heads", heads)
    elif keys.flag("multi_query", True):
        kv = 1
    norms = 2
    if keys.flag("parallel_attn", True):
        norms = keys.integer("num_ln_in_parallel_attn", 2) if grouped else 1
    keys.ignore("num_key_value_heads", "num_kv_heads")
    biases = dict.fromkeys(("qkv_bias", "output_bias", "mlp_bias"), keys.flag("bias", False))
    return {"num_key_value_heads": kv, "norms_per_layer": norms, **biases}


def mpt(keys: Keys, layers: int) -> Fields:
    """MPT: linear biases (ALiBi) or learned positions."""
    attention = keys.mapping("attn_config")
    hidden = keys.integer("hidden_size")
    heads = keys.integer("num_attention_heads")
    fields: Fields = {"intermediate_size": int(keys.number("expansion_ratio", 4) * hidden)}
    fields["num_key_value_heads"] = attention.integer("kv_n_heads", heads) if attention else heads
    alibi = attention is not None and attention.flag("alibi", False)
    if keys.flag("learned_pos_emb", True) and not alibi:
        fields["table_params"] = hidden * keys.integer("max_position_embeddings", high=MAX_TOKENS)
    keys.ignore("num_key_value_heads")
    return fields


def half_width(keys: Keys, layers: int) -> Fields:
    """Qwen of 2023: `intermediate_size` is the width of gate and up together."""
    return {"intermediate_size": keys.integer("intermediate_size") // 2}


def head_gate(keys: Keys, layers: int, heads: int = 0) -> Fields:
    """One gate per head, by a projection in this many layers. heads: 0 takes the file's number."""
    return {
        "name": "gate",
        "layers": layers,
        "inputs": keys.integer("hidden_size"),
        "outputs": heads or keys.integer("num_attention_heads"),
    }


def looped(keys: Keys, layers: int) -> Fields:
    """Layers that a pass runs several times. Each time has a cache of its own."""
    loops = keys.integer("num_loops", 1, high=MAX_LAYERS)
    return {"loops": loops, "num_hidden_layers": layers * loops}


def head_gates(keys: Keys, layers: int) -> Fields:
    """Laguna: one gate for each head; sliding layers may have more heads than full ones."""
    heads = keys.integer("num_attention_heads")
    fields = named_windows(keys, layers)
    listed = keys.integers("num_attention_heads_per_layer") or [heads] * layers
    types = layer_types(keys, layers, KINDS, [KINDS[0]] * layers)
    full, sliding = (
        {n for n, kind in zip(listed, types, strict=False) if kind == wanted} for wanted in KINDS
    )
    if len(listed) != layers or full - {heads} or len(sliding) > 1:
        raise keys.bad("num_attention_heads_per_layer", f"{heads} in full layers, one number in sliding ones")
    own = next(iter(sliding), heads)
    slide = types.count(KINDS[1])
    if own != heads:
        fields["sliding_heads"] = {
            "num_attention_heads": own,
            "num_key_value_heads": keys.integer("num_key_value_heads"),
            "head_dim": keys.integer("head_dim"),
        }
    kinds = ((layers - slide, heads), (slide, own)) if keys.data.get("gating", True) else ()
    return fields | {"projections": [head_gate(keys, n, each) for n, each in kinds if n]}


def inputs_of_layers(keys: Keys, layers: int) -> Fields:
    """Gemma-3n and Gemma-4 E: each layer has its own embedding, and the last layers read the caches of
    others.
    """
    width = keys.count("hidden_size_per_layer_input")
    hidden = keys.integer("hidden_size")
    late = keys.count("num_kv_shared_layers", high=layers)
    wide = keys.flag("use_double_wide_mlp", False)
    rule = [KINDS[1] if (i + 1) % 6 != 0 and i + 1 < layers else KINDS[0] for i in range(layers)]
    shared = layer_types(keys, layers, KINDS, rule)[layers - late :]
    fields = {"shared_kv_layers": shared.count(KINDS[0]), "shared_kv_sliding": shared.count(KINDS[1])}
    given = keys.data.get("intermediate_size")
    sizes = (
        [w for w in given if isinstance(w, int)]
        if isinstance(given, list)
        else [keys.integer("intermediate_size")]
    )
    fields["intermediate_size"] = sum(sizes) // max(len(sizes), 1)
    if wide:
        fields["intermediate_size"] += fields["intermediate_size"] * late // layers
    if not width:
        keys.ignore("vocab_size_per_layer_input")
        return fields
    table = keys.integer("vocab_size_per_layer_input", keys.integer("vocab_size"))
    return fields | {
        "table_params": table * layers * width,
        "projections": [
            {"name": "layer_input", "layers": layers, "inputs": hidden, "outputs": width},
            {"name": "layer_output", "layers": layers, "inputs": width, "outputs": hidden},
            {"name": "layer_inputs", "layers": 1, "inputs": hidden, "outputs": layers * width},
        ],
    }


def gemma3n(keys: Keys, layers: int) -> Fields:
    """Gemma-3n: four hidden states, of which a layer runs one, and a low-rank branch next to attention."""
    fields = inputs_of_layers(keys, layers)
    hidden = keys.integer("hidden_size")
    count = keys.integer("altup_num_inputs")
    rank = keys.integer("laurel_rank")
    return fields | {
        "residual_streams": count,
        "projections": [
            *fields.get("projections", ()),
            {"name": "laurel_in", "layers": layers, "inputs": hidden, "outputs": rank},
            {"name": "laurel_out", "layers": layers, "inputs": rank, "outputs": hidden},
            {"name": "streams", "layers": layers, "inputs": hidden, "outputs": count},
            {"name": "streams ends", "layers": 2 * (count - 1), "inputs": hidden, "outputs": hidden},
        ],
    }
