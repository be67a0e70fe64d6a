"""Reads models with a learned embedding of each position into fields of ModelSpec."""

from perfmodel.specs.huggingface.keys import Fields, Keys
from perfmodel.specs.huggingface.windows import window_of
from perfmodel.specs.models.components import MAX_TOKENS


def learned_positions(keys: Keys, layers: int, extra: int = 0) -> Fields:
    """Reads models with a learned embedding of each position, and of `extra` additional positions."""
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
    """Reads OPT. The table of the model has two positions more than the longest sequence."""
    return learned_positions(keys, layers, extra=2)


def gpt_neo(keys: Keys, layers: int) -> Fields:
    """Reads GPT-Neo. `attention_layers` lists the kind of each layer. Instead, `attention_types` may list
    patterns of kinds, each with its number of repeats.
    """
    kinds = keys.data.get("attention_layers")
    if not isinstance(kinds, list):
        kinds = []
        for pattern, repeats in keys.data.get("attention_types") or ():
            kinds += pattern * repeats
    keys.ignore("attention_types")
    return learned_positions(keys, layers) | window_of(keys.integer("window_size"), kinds.count("local"))
