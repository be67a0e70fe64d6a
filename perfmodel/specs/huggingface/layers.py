"""Which layers have what: windows, heads of sliding layers, indexers, recurrent layers, as fields of ModelSpec."""

from collections.abc import Callable, Sequence
from typing import Any

from perfmodel.specs.huggingface.keys import NEEDED, Keys
from perfmodel.specs.parts import MAX_LAYERS, MAX_TOKENS

Fields = dict[str, Any]
_KINDS = ("full_attention", "sliding_attention")


def layer_types(keys: Keys, layers: int, kinds: Sequence[str], rule: Sequence[str]) -> list[str]:
    """The file's `layer_types`, or the family's rule where it has none."""
    types = keys.data.get("layer_types")
    if types is None:
        return list(rule)
    if not isinstance(types, list) or len(types) != layers or any(t not in kinds for t in types):
        raise keys.bad("layer_types", f"a list of {layers} entries out of {', '.join(kinds)}")
    return types


def _sliding(keys: Keys, layers: int, rule: Sequence[bool]) -> int:
    """Sliding layers by the file's `layer_types`, or by the family's rule where it has none."""
    return layer_types(keys, layers, _KINDS, [_KINDS[slides] for slides in rule]).count(_KINDS[1])


def _windowed(window: int | None, sliding: int) -> Fields:
    return {"sliding_window": window if window and sliding else None, "num_sliding_layers": sliding if window else 0}


def all_slide(keys: Keys, layers: int) -> Fields:
    return _windowed(keys.present_or_null("sliding_window", MAX_TOKENS), layers)


def all_slide_if_given(keys: Keys, layers: int) -> Fields:
    return all_slide(keys, layers) if keys.data.get("sliding_window") is not None else {}


def slides_but_every(step: int, needed: bool = False) -> Callable[[Keys, int], Fields]:
    """Reader of families in which all layers but every `step`-th slide, or those that `layer_types` names.

    needed: the file must say how wide the window is, null for none.
    """

    def reader(keys: Keys, layers: int) -> Fields:
        names = ("sliding_window_pattern", "_sliding_window_pattern")
        pattern = next((keys.data[name] for name in names if keys.data.get(name) is not None), step)
        period = len(pattern) if isinstance(pattern, str) else pattern
        if isinstance(period, bool) or not isinstance(period, int) or not 1 <= period <= MAX_LAYERS:
            raise keys.bad(names[0], f"a whole number from 1 to {MAX_LAYERS}")
        keys.ignore(*names, "sliding_window_size")
        stated = needed or keys.data.get("sliding_window") is not None
        window = keys.present_or_null("sliding_window", MAX_TOKENS) if stated else None
        slides = [(i + 1) % period != 0 for i in range(layers)]
        return _windowed(window, _sliding(keys, layers, slides) if window else 0)

    return reader


def gemma4(keys: Keys, layers: int) -> Fields:
    """Global layers have heads of their own and may project keys and values as one."""
    window = keys.integer("sliding_window", high=MAX_TOKENS)
    sliding = _sliding(keys, layers, [(i + 1) % 6 != 0 and i + 1 < layers for i in range(layers)])
    heads, kv, dim = (keys.integer(name) for name in ("num_attention_heads", "num_key_value_heads", "head_dim"))
    keys.ignore("vocab_size_per_layer_input")
    return _windowed(window, sliding) | {
        **_global_heads(keys, layers - sliding, kv, dim),
        "one_kv_projection": keys.flag("attention_k_eq_v", False),
        "sliding_heads": {"num_attention_heads": heads, "num_key_value_heads": kv, "head_dim": dim},
    }


def _global_heads(keys: Keys, layers: int, kv: int, dim: int) -> Fields:
    """Sizes of the global layers: keys of their own, or what transformers 5 writes, one mapping for each of them."""
    own = keys.mapping("per_layer_config")
    if own is None:
        far = {"num_key_value_heads": "num_global_key_value_heads", "head_dim": "global_head_dim"}
        return {name: keys.integer(key, default) for (name, key), default in zip(far.items(), (kv, dim), strict=True)}
    each = [part for layer in own.data if (part := own.mapping(layer))]
    sizes = [
        {"num_key_value_heads": p.integer("num_key_value_heads", kv), "head_dim": p.integer("head_dim", dim)}
        for p in each
    ]
    if len(sizes) != layers or any(size != sizes[0] for size in sizes):
        raise keys.bad("per_layer_config", "the same head_dim and num_key_value_heads for every full_attention layer")
    return sizes[0]


def without_cross_attention(keys: Keys, layers: int) -> Fields:
    """Llama-3.2-Vision: the layers that attend to an image do nothing where there is none, and are left out."""
    return {"num_hidden_layers": layers - len(keys.integers("cross_attention_layers"))}


def blocks_of_any_width(keys: Keys, layers: int) -> Fields:
    """Nemotron-NAS: some layers have no attention, and MLPs differ: their width here is the mean over the layers."""
    given = keys.data.get("block_configs")
    if not isinstance(given, list) or len(given) != layers or not all(isinstance(block, dict) for block in given):
        raise keys.bad("block_configs", f"a list of {layers} mappings of attention and ffn")
    groups, widths, hidden = set[int](), list[int](), keys.integer("hidden_size")
    attentions = 0
    for block in given:
        attention, mlp = (Keys(block, keys.where, "block_configs.").mapping(part) for part in ("attention", "ffn"))
        if attention is None or mlp is None or attention.flag("replace_with_linear", False):
            raise keys.bad("block_configs", "mappings of attention and ffn, none of them replaced with a linear one")
        if not attention.flag("no_op", False):
            attentions += 1
            groups.add(attention.integer("n_heads_in_group"))
        if not mlp.flag("no_op", False):
            widths.append(-(-int(2 * mlp.number("ffn_mult") * hidden / 3) // 256) * 256)
    if len(groups) != 1:
        raise keys.bad("block_configs", "such that all attention layers have as many heads in a group")
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
    """Step-3.5 and 3.7: sliding layers may have more heads; a gate for each head of the output, left aside here."""
    other = keys.mapping("attention_other_setting")
    heads, dim = keys.integer("num_attention_heads"), keys.integer("head_dim")
    kv = keys.integer("num_key_value_heads", keys.integer("num_attention_groups", heads))
    keys.ignore("per_layer_config", "num_key_value_heads", "num_attention_groups", "mtp_layer_types")
    own = other.integer("num_attention_heads", heads) if other else keys.integer("num_sliding_attention_heads", heads)
    types = keys.data.get("layer_types")
    count = len(types) if isinstance(types, list) else layers
    if isinstance(types, list) and count >= layers:  # the layers behind are those of multi-token prediction
        types = types[:layers]
    slides = sum(kind == "sliding_attention" for kind in types or ())
    fields = _windowed(keys.integer("sliding_window", 0, low=0, high=MAX_TOKENS) or None, slides)
    if own != heads and fields["num_sliding_layers"]:
        fields["sliding_heads"] = {"num_attention_heads": own, "num_key_value_heads": kv, "head_dim": dim}
    return fields | {"num_key_value_heads": kv}


def short_convolutions(keys: Keys, layers: int) -> Fields:
    """LFM2: most layers are a gated convolution of the hidden width; MLPs are cut to two thirds and rounded up."""
    kinds = ("conv", "full_attention")
    full = set(keys.integers("full_attn_idxs"))
    types = layer_types(keys, layers, kinds, [kinds[i in full] for i in range(layers)])
    hidden = keys.integer("hidden_size")
    keys.ignore("full_attn_idxs", "conv_dim", "conv_dim_out", "num_heads", "block_dim", "conv_bias")
    fields: Fields = {}
    if "moe_intermediate_size" not in keys.data:
        width = keys.integer("intermediate_size", keys.integer("block_ff_dim", 0, low=0))
        if keys.flag("block_auto_adjust_ff_dim", True):
            unit = keys.integer("block_multiple_of", 256)
            width = -(-int(keys.number("block_ffn_dim_multiplier", 1.0) * int(2 * width / 3)) // unit) * unit
        fields["intermediate_size"] = width
    return fields | {
        "linear_attention": {
            "kind": "conv",
            "layers": types.count("conv"),
            "num_key_heads": 1,
            "num_value_heads": keys.integer("num_attention_heads"),
            "key_head_dim": 1,
            "value_head_dim": hidden // keys.integer("num_attention_heads"),
            "conv_kernel": keys.integer("conv_L_cache"),
            "state_dtype": "bf16",
        }
    }


def kimi_delta(keys: Keys, layers: int) -> Fields:
    """Kimi-Linear and Kimi-K3: latent attention in some layers, a delta rule in the others."""
    own = keys.mapping("linear_attn_config")
    types = keys.data.get("layer_types")
    if own is None and not isinstance(types, list):
        raise keys.bad("linear_attn_config", "a mapping with kda_layers, num_heads and head_dim")
    count = len(own.integers("kda_layers")) if own else sum(kind != "full_attention" for kind in types or ())
    if own:
        heads, dim, kernel = (own.integer(name) for name in ("num_heads", "head_dim", "short_conv_kernel_size"))
    else:
        heads, dim, kernel = (keys.integer(f"linear_{name}") for name in ("num_heads", "head_dim", "conv_kernel_dim"))
    keys.ignore("linear_attn_config", "num_key_value_heads")
    return latent(keys, layers) | {
        "attention_gate": keys.flag("mla_use_output_gate", False),
        "linear_attention": {
            "kind": "kimi_delta",
            "layers": count,
            "num_key_heads": heads,
            "num_value_heads": heads,
            "key_head_dim": dim,
            "value_head_dim": dim,
            "conv_kernel": kernel,
            "full_rank_gate": own.flag("use_full_rank_gate", False) if own else False,
        },
    }


def mamba_beside(keys: Keys, layers: int) -> Fields:
    """Falcon-H1: every layer has attention and Mamba-2 side by side."""
    norm = {"gated_norm": keys.flag("mamba_rms_norm", False)}
    return {"attention_layers": layers, "linear_attention": _mamba2(keys, layers) | norm}


def granite_hybrid(keys: Keys, layers: int) -> Fields:
    """Granite-4.0-H: Mamba-2 or attention, each before an MLP or experts."""
    kinds = ("mamba", "attention", "linear_attention", "full_attention")
    types = layer_types(keys, layers, kinds, ["attention"] * layers)
    states = sum(kind in ("mamba", "linear_attention") for kind in types)
    return {"linear_attention": _mamba2(keys, states)} if states else {}


def _mamba2(keys: Keys, layers: int) -> Fields:
    keys.ignore("mamba_expand", "mamba_d_ssm", "mamba_chunk_size", "mamba_rms_norm", "mamba_norm_before_gate")
    names = {"num_value_heads": "n_heads", "value_head_dim": "d_head", "num_key_heads": "n_groups",
             "key_head_dim": "d_state", "conv_kernel": "d_conv"}  # fmt: skip
    return {"kind": "mamba2", "layers": layers} | {to: keys.integer(f"mamba_{name}") for to, name in names.items()}


def block_head(keys: Keys, layers: int) -> Fields:
    """DFlash: layers slide where `layer_types` says so; a width of value heads may be given."""
    keys.ignore("max_window_layers", "sliding_window", "add_swa_attention_sink_bias")
    dims = {"value_head_dim": keys.integer("v_head_dim")} if keys.data.get("v_head_dim") else {}
    slides = keys.flag("use_sliding_window", True) and keys.data.get("sliding_window") is not None
    window = keys.integer("sliding_window", high=MAX_TOKENS) if slides else None
    return _windowed(window, _sliding(keys, layers, [False] * layers)) | dims


def qwen(keys: Keys, layers: int) -> Fields:
    keys.ignore("sliding_window", "max_window_layers")
    if not keys.flag("use_sliding_window", False):
        layer_types(keys, layers, _KINDS, ())
        return {}
    window = keys.present_or_null("sliding_window", MAX_TOKENS)
    if not window:
        return {}
    full = layers if "layer_types" in keys.data else keys.integer("max_window_layers", low=0, high=MAX_LAYERS)
    return _windowed(window, _sliding(keys, layers, [i >= full for i in range(layers)]))


def qwen3_moe(keys: Keys, layers: int) -> Fields:
    if keys.flag("use_sliding_window", False):
        raise keys.bad("use_sliding_window", "false (transformers' versions disagree on which qwen3_moe layers slide)")
    return qwen(keys, layers)


def chunked(keys: Keys, layers: int) -> Fields:
    """Llama 4: all but every fourth layer see their chunk alone, at most `attention_chunk_size` tokens back."""
    chunk = keys.present_or_null("attention_chunk_size", MAX_TOKENS)
    step = keys.integer("no_rope_layer_interval", 4, high=MAX_LAYERS)
    rule = ["full_attention" if (i + 1) % step == 0 else "chunked_attention" for i in range(layers)]
    ropes = keys.integers("no_rope_layers")
    if ropes:
        rule = ["chunked_attention" if rope else "full_attention" for rope in ropes]
    types = layer_types(keys, layers, ("full_attention", "chunked_attention"), rule)
    return _windowed(chunk, types.count("chunked_attention"))


def mimo_v2(keys: Keys, layers: int) -> Fields:
    """Sliding layers by `hybrid_layer_pattern`, with heads of their own and sinks on them alone."""
    pattern = keys.integers("hybrid_layer_pattern")
    if len(pattern) != layers or not {*pattern} <= {0, 1}:
        raise keys.bad("hybrid_layer_pattern", f"a list of {layers} zeros (full) and ones (sliding)")
    heads = {
        "num_attention_heads": keys.integer("swa_num_attention_heads"),
        "num_key_value_heads": keys.integer("swa_num_key_value_heads"),
        "head_dim": keys.integer("swa_head_dim"),
        "value_head_dim": keys.integer("swa_v_head_dim"),
    }
    keys.ignore("sliding_window_size", "attention_chunk_size", "swa_rope_theta", "add_swa_attention_sink_bias")
    return _windowed(keys.integer("sliding_window", high=MAX_TOKENS), sum(pattern)) | {
        "value_head_dim": keys.integer("v_head_dim"),
        "sliding_heads": heads,
    }


def all_full(keys: Keys, layers: int) -> Fields:
    """Every layer attends to everything, and the file must not say otherwise."""
    layer_types(keys, layers, ("full_attention",), ())
    kinds = keys.integers("attn_type_list")
    if kinds != [1] * len(kinds):
        raise keys.bad("attn_type_list", "a list of ones (full attention)")
    return {}


def latent(keys: Keys, layers: int) -> Fields:
    """The `mla` mapping, and the width of a query head."""
    names = ("kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")
    sizes = {name: keys.integer(name) for name in names}
    keys.ignore("qk_head_dim", "head_dim", "num_key_value_heads")
    return {
        "mla": {"q_lora_rank": keys.present_or_null("q_lora_rank"), **sizes},
        "num_key_value_heads": keys.integer("num_attention_heads"),
        "head_dim": sizes["qk_nope_head_dim"] + sizes["qk_rope_head_dim"],
    }


def indexer(keys: Keys, layers: int) -> Fields:
    """Sparse attention; of GLM-5.2 on only some layers choose, by `indexer_types` or by `index_topk_freq`."""
    layer_types(keys, layers, ("deepseek_sparse_attention", "indexed_attention"), ())
    types = keys.data.get("indexer_types")
    if types is None and keys.data.get("index_topk_pattern"):
        raise keys.bad("index_topk_pattern", "null, or beside indexer_types")
    frequency, offset = keys.integer("index_topk_freq", 1), keys.integer("index_skip_topk_offset", 2, low=0)
    if types is None:
        types = ["shared" if max(i - offset + 1, 0) % frequency else "full" for i in range(layers)]
    if not isinstance(types, list) or len(types) != layers or any(t not in ("full", "shared") for t in types):
        raise keys.bad("indexer_types", f"a list of {layers} entries out of full, shared")
    keys.ignore("index_share_for_mtp_iteration", "index_topk_pattern", "indexer_rope_interleave")
    sizes = {"num_heads": keys.integer("index_n_heads"), "head_dim": keys.integer("index_head_dim")}
    topk = keys.integer("index_topk", high=MAX_TOKENS)
    return {"indexer": {**sizes, "topk": topk, "layers": types.count("full")}}


def block_indexer(keys: Keys, layers: int) -> Fields:
    """MiniMax-M3: a query attends to the blocks of keys that a small indexer scores highest, in all but some layers."""
    own, kinds = keys.mapping("sparse_attention_config"), keys.data.get("layer_types")
    keys.ignore("index_local_blocks", "layer_types", "attention_output_gate", "rotary_dim")
    if own:
        sparse, names = sum(own.integers("sparse_attention_freq")), ("num_index_heads", "index_dim", "block_size")
        heads, dim, block = (own.integer(f"sparse_{name}") for name in names)
        blocks = own.integer("sparse_topk_blocks")
    else:
        sparse = sum(kind != "full_attention" for kind in kinds) if isinstance(kinds, list) else layers
        heads, dim, block = (keys.integer(f"index_{name}") for name in ("n_heads", "head_dim", "block_size"))
        blocks = keys.integer("index_topk_blocks")
    sizes = {"num_heads": heads, "head_dim": dim, "topk": blocks * block, "head_weights": False}
    return {"indexer": sizes | {"layers": sparse, "dense_layers": layers - sparse}} if sparse else {}


def gated_delta(keys: Keys, layers: int) -> Fields:
    """Qwen3-Next and Qwen3.5: every fourth layer has attention, with a gated output; the others a state."""
    step = keys.integer("full_attention_interval", 4, high=MAX_LAYERS)
    kinds = ("linear_attention", "full_attention")
    types = layer_types(keys, layers, kinds, [kinds[(i + 1) % step == 0] for i in range(layers)])
    return {
        "attention_gate": keys.flag("attn_output_gate", True),
        "linear_attention": {
            "kind": "gated_delta",
            "layers": types.count("linear_attention"),
            "num_key_heads": keys.integer("linear_num_key_heads"),
            "num_value_heads": keys.integer("linear_num_value_heads"),
            "key_head_dim": keys.integer("linear_key_head_dim"),
            "value_head_dim": keys.integer("linear_value_head_dim"),
            "conv_kernel": keys.integer("linear_conv_kernel_dim"),
            "state_dtype": _state_dtype(keys, "mamba_ssm_dtype"),
        },
    }


_BLOCKS = {"M": "mamba", "*": "attention", "-": "mlp", "E": "moe"}
_BLOCK_NAMES = {name: name for name in _BLOCKS.values()} | {"linear_attention": "mamba", "full_attention": "attention"}
"""As Nvidia's files and as transformers 5 call them."""


def blocks(keys: Keys) -> list[str]:
    """Nemotron-H: what each layer is, from a list or from a pattern of letters."""
    named = keys.data.get("layers_block_type")
    if named is None:
        pattern = keys.data.get("hybrid_override_pattern")
        if not isinstance(pattern, str) or not pattern or {*pattern} - {*_BLOCKS}:
            raise keys.bad("hybrid_override_pattern", "a pattern of M (mamba), * (attention), - (MLP) and E (experts)")
        return [_BLOCKS[letter] for letter in pattern]
    if not isinstance(named, list) or not named or any(str(block) not in _BLOCK_NAMES for block in named):
        raise keys.bad("layers_block_type", f"a list out of {', '.join(_BLOCK_NAMES)}")
    return [_BLOCK_NAMES[block] for block in named]


def nemotron_h(keys: Keys, layers: int) -> Fields:
    """Each layer is one block: Mamba-2, attention, an MLP or experts."""
    kinds = blocks(keys)
    if len(kinds) != depth(keys):
        raise keys.bad("num_hidden_layers", f"{len(kinds)}, as many as there are blocks")
    dim = "head_dim" if "head_dim" in keys.data else "attention_head_dim"
    keys.ignore("expand", "chunk_size", "mtp_hybrid_override_pattern", "mtp_layers_block_type", "time_step_rank")
    return {
        "head_dim": keys.integer(dim),
        "attention_layers": kinds.count("attention"),
        "mlp_layers": kinds.count("mlp") + kinds.count("moe"),
        "gated_mlp": False,
        "linear_attention": {
            "kind": "mamba2",
            "layers": kinds.count("mamba"),
            "num_key_heads": keys.integer("n_groups"),
            "num_value_heads": keys.integer("mamba_num_heads"),
            "key_head_dim": keys.integer("ssm_state_size"),
            "value_head_dim": keys.integer("mamba_head_dim"),
            "conv_kernel": keys.integer("conv_kernel"),
            "state_dtype": _state_dtype(keys, "mamba_ssm_cache_dtype"),
        },
    }


def _state_dtype(keys: Keys, key: str) -> str:
    """Format of the recurrent state; fp32 where the file says nothing, as published files of both families say."""
    known = {"float32": "fp32", "bfloat16": "bf16", "float16": "bf16"}
    value = keys.data.get(key, "float32")
    if value not in known:
        raise keys.bad(key, f"one of {', '.join(known)}")
    return known[value]


def depth(keys: Keys) -> int:
    """`num_hidden_layers`, or of a list of blocks its length."""
    if keys.data.get("num_hidden_layers") is None and "layers_block_type" in keys.data:
        return len(blocks(keys))
    return keys.integer("num_hidden_layers", NEEDED, high=MAX_LAYERS)
