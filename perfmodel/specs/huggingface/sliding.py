"""Reads sliding-window layers and their heads into fields of ModelSpec, for families with special keys."""

from perfmodel.specs.huggingface.keys import Fields, Keys
from perfmodel.specs.huggingface.layers import head_gate
from perfmodel.specs.huggingface.windows import (
    KINDS,
    layer_types,
    named_windows,
    sliding_layers,
    window_of,
)
from perfmodel.specs.models.components import MAX_LAYERS, MAX_TOKENS


def all_full(keys: Keys, layers: int) -> Fields:
    """Reads families in which every layer attends to all tokens. A file that states otherwise is refused."""
    layer_types(keys, layers, ("full_attention",), ())
    if {*keys.integers("attn_type_list")} - {1}:
        raise keys.bad("attn_type_list", "a list of ones (full attention)")
    return {}


def qwen(keys: Keys, layers: int) -> Fields:
    """Reads Qwen2 and Qwen3. If `use_sliding_window` is true, layers from number `max_window_layers` on have
    a sliding window.
    """
    keys.ignore("sliding_window", "max_window_layers")
    if not keys.flag("use_sliding_window", False):
        layer_types(keys, layers, KINDS, ())
        return {}
    window = keys.present_or_null("sliding_window", MAX_TOKENS)
    if not window:
        return {}
    full = layers if "layer_types" in keys.data else keys.integer("max_window_layers", low=0, high=MAX_LAYERS)
    return window_of(window, sliding_layers(keys, layers, [i >= full for i in range(layers)]))


def qwen3_moe(keys: Keys, layers: int) -> Fields:
    """Reads Qwen3 with experts. The reader is like `qwen`, but it refuses a file with sliding windows."""
    if keys.flag("use_sliding_window", False):
        raise keys.bad(
            "use_sliding_window", "false (transformers' versions disagree on which qwen3_moe layers slide)"
        )
    return qwen(keys, layers)


def block_head(keys: Keys, layers: int) -> Fields:
    """Reads DFlash. `layer_types` states which layers have a sliding window. The file may also state the
    width of value heads.
    """
    keys.ignore("max_window_layers", "sliding_window", "add_swa_attention_sink_bias")
    dims = {"value_head_dim": keys.integer("v_head_dim")} if keys.data.get("v_head_dim") else {}
    slides = keys.flag("use_sliding_window", True) and keys.data.get("sliding_window") is not None
    window = keys.integer("sliding_window", high=MAX_TOKENS) if slides else None
    return window_of(window, sliding_layers(keys, layers, [False] * layers)) | dims


def step(keys: Keys, layers: int) -> Fields:
    """Reads Step-3.5 and Step-3.7. Sliding-window layers may have more heads than others. The gate of each
    output head is not counted.
    """
    other = keys.mapping("attention_other_setting")
    heads = keys.integer("num_attention_heads")
    dim = keys.integer("head_dim")
    kv = keys.integer("num_key_value_heads", keys.integer("num_attention_groups", heads))
    keys.ignore("per_layer_config", "num_key_value_heads", "num_attention_groups", "mtp_layer_types")
    if other:
        sliding_heads = other.integer("num_attention_heads", heads)
    else:
        sliding_heads = keys.integer("num_sliding_attention_heads", heads)
    types = keys.strings("layer_types")[:layers]  # later entries describe multi-token prediction layers
    fields = window_of(keys.count("sliding_window", high=MAX_TOKENS), types.count("sliding_attention"))
    if sliding_heads != heads and fields["num_sliding_layers"]:
        fields["sliding_heads"] = {
            "num_attention_heads": sliding_heads,
            "num_key_value_heads": kv,
            "head_dim": dim,
        }
    return fields | {"num_key_value_heads": kv}


def head_gates(keys: Keys, layers: int) -> Fields:
    """Reads Laguna. Each head has one gate. Sliding-window layers may have more heads than full-attention
    layers.
    """
    heads = keys.integer("num_attention_heads")
    fields = named_windows(keys, layers)
    listed = keys.integers("num_attention_heads_per_layer") or [heads] * layers
    types = layer_types(keys, layers, KINDS, [KINDS[0]] * layers)
    full_kind, sliding_kind = KINDS
    full = {count for count, kind in zip(listed, types, strict=False) if kind == full_kind}
    sliding = {count for count, kind in zip(listed, types, strict=False) if kind == sliding_kind}
    if len(listed) != layers or full - {heads} or len(sliding) > 1:
        raise keys.bad("num_attention_heads_per_layer", f"{heads} in full layers, one number in sliding ones")
    sliding_heads = next(iter(sliding), heads)
    num_sliding = types.count(sliding_kind)
    if sliding_heads != heads:
        fields["sliding_heads"] = {
            "num_attention_heads": sliding_heads,
            "num_key_value_heads": keys.integer("num_key_value_heads"),
            "head_dim": keys.integer("head_dim"),
        }
    if not keys.data.get("gating", True):
        return fields | {"projections": []}
    gates = [head_gate(keys, layers - num_sliding, heads), head_gate(keys, num_sliding, sliding_heads)]
    return fields | {"projections": [gate for gate in gates if gate["layers"]]}


def chunked(keys: Keys, layers: int) -> Fields:
    """Reads Llama 4. All layers except every fourth attend only to their chunk, which has at most
    `attention_chunk_size` tokens.
    """
    chunk = keys.present_or_null("attention_chunk_size", MAX_TOKENS)
    step = keys.integer("no_rope_layer_interval", 4, high=MAX_LAYERS)
    rule = ["full_attention" if (i + 1) % step == 0 else "chunked_attention" for i in range(layers)]
    ropes = keys.integers("no_rope_layers")
    if ropes:
        rule = ["chunked_attention" if rope else "full_attention" for rope in ropes]
    types = layer_types(keys, layers, ("full_attention", "chunked_attention"), rule)
    return window_of(chunk, types.count("chunked_attention"))


def mimo_v2(keys: Keys, layers: int) -> Fields:
    """Reads MiMo-V2. `hybrid_layer_pattern` states which layers have a sliding window. Only these layers have
    attention sinks, and their heads have other sizes.
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
