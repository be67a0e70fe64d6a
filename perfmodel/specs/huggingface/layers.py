"""Which layers have what: windows, heads of sliding layers, indexers, recurrent layers, as fields of ModelSpec."""

from collections.abc import Sequence
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


def alternate(keys: Keys, layers: int) -> Fields:
    window = keys.present_or_null("sliding_window", MAX_TOKENS)
    return _windowed(window, _sliding(keys, layers, [i % 2 == 0 for i in range(layers)]) if window else 0)


def gemma3(keys: Keys, layers: int) -> Fields:
    window = keys.present_or_null("sliding_window", MAX_TOKENS)
    old = "_sliding_window_pattern" if "_sliding_window_pattern" in keys.data else "sliding_window_pattern"
    pattern = keys.integer(old, 6, high=MAX_LAYERS)
    return _windowed(window, _sliding(keys, layers, [(i + 1) % pattern != 0 for i in range(layers)]) if window else 0)


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
