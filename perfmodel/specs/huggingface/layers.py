"""Reads special layers of single families into fields of ModelSpec."""

import math

from perfmodel.specs.huggingface.keys import Fields, Keys
from perfmodel.specs.models.components import MAX_LAYERS, MAX_TOKENS

WIDTH_UNIT = 256
"""Nemotron-NAS rounds widths of MLPs up to a multiple of this number."""


def without_cross_attention(keys: Keys, layers: int) -> Fields:
    """Reads Llama-3.2-Vision. Layers that attend to an image do nothing without an image, so they are left
    out.
    """
    return {"num_hidden_layers": layers - len(keys.integers("cross_attention_layers"))}


def blocks_of_any_width(keys: Keys, layers: int) -> Fields:
    """Reads Nemotron-NAS. Some layers have no attention, and the widths of MLPs differ. The returned width is
    the mean over the layers.
    """
    configs = keys.data.get("block_configs")
    is_list = isinstance(configs, list) and len(configs) == layers
    if not is_list or not all(isinstance(block, dict) for block in configs):
        raise keys.bad("block_configs", f"a list of {layers} mappings of attention and ffn")
    groups = set[int]()
    widths = list[int]()
    hidden = keys.integer("hidden_size")
    attentions = 0
    for block in configs:
        block_keys = Keys(block, keys.where, "block_configs.")
        attention = block_keys.mapping("attention")
        mlp = block_keys.mapping("ffn")
        if attention is None or mlp is None or attention.flag("replace_with_linear", False):
            raise keys.bad(
                "block_configs", "mappings of attention and ffn, none of them replaced with a linear one"
            )
        if not attention.flag("no_op", False):
            attentions += 1
            groups.add(attention.integer("n_heads_in_group"))
        if not mlp.flag("no_op", False):
            width = int(2 * mlp.number("ffn_mult") * hidden / 3)
            widths.append(math.ceil(width / WIDTH_UNIT) * WIDTH_UNIT)
    if len(groups) != 1:
        raise keys.bad("block_configs", "with as many query heads per KV head in every attention layer")
    return {
        "num_key_value_heads": keys.integer("num_attention_heads") // groups.pop(),
        "attention_layers": attentions,
        "mlp_layers": len(widths),
        "intermediate_size": round(sum(widths) / len(widths)),
    }


def hunyuan(keys: Keys, layers: int) -> Fields:
    """Reads Hunyuan. A file whose layers share caches (`use_cla`) is refused, because this is not
    modelled.
    """
    if keys.flag("use_cla", False):
        raise keys.bad("use_cla", "false")
    keys.ignore("attention_head_dim", "cla_share_factor")
    return {}


def falcon(keys: Keys, layers: int) -> Fields:
    """Reads Falcon. The model has one KV head, one KV head per query head, or groups of query heads that
    share a KV head. The model has fewer norms if attention and MLP run in parallel.
    """
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
    """Reads MPT. The model has linear biases (ALiBi) or learned position embeddings."""
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
    """Reads the Qwen models of 2023. The `intermediate_size` of these models is the width of the gate and up
    projections together.
    """
    return {"intermediate_size": keys.integer("intermediate_size") // 2}


def looped(keys: Keys, layers: int) -> Fields:
    """Reads models whose layers run several times in a pass. Each run of a layer has its own cache."""
    loops = keys.integer("num_loops", 1, high=MAX_LAYERS)
    return {"loops": loops, "num_hidden_layers": layers * loops}


def head_gate(keys: Keys, layers: int, heads: int = 0) -> Fields:
    """A projection to one gate per head, in the given number of layers.

    - heads: number of heads. 0 means the number in the file.
    """
    return {
        "name": "gate",
        "layers": layers,
        "inputs": keys.integer("hidden_size"),
        "outputs": heads or keys.integer("num_attention_heads"),
    }
