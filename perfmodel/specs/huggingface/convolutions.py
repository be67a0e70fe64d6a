"""Reads layers with a short convolution (LFM2 and LFM3) into fields of ModelSpec."""

import math

from perfmodel.specs.huggingface.keys import Fields, Keys
from perfmodel.specs.huggingface.layers import head_gate
from perfmodel.specs.huggingface.states import state_of
from perfmodel.specs.huggingface.windows import layer_types
from perfmodel.specs.models.components import MAX_TOKENS


def _convolution(keys: Keys, layers: int) -> Fields:
    """The fields for gated convolutions of the hidden width."""
    hidden = keys.integer("hidden_size")
    heads = keys.integer("num_attention_heads")
    kernel = keys.integer("conv_L_cache")
    return state_of("conv", layers, (1, 1), (heads, hidden // heads), kernel, state_dtype="bf16")


def short_convolutions(keys: Keys, layers: int) -> Fields:
    """Reads LFM2. Most layers are gated convolutions of the hidden width."""
    kinds = ("conv", "full_attention")
    full = set(keys.integers("full_attn_idxs"))
    types = layer_types(keys, layers, kinds, [kinds[i in full] for i in range(layers)])
    keys.ignore("full_attn_idxs", "conv_dim", "conv_dim_out", "num_heads", "block_dim", "conv_bias")
    fields: Fields = {}
    if "moe_intermediate_size" not in keys.data:
        fields["intermediate_size"] = _mlp_width(keys)
    return fields | {"linear_attention": _convolution(keys, types.count("conv"))}


def _mlp_width(keys: Keys) -> int:
    """The width of an MLP. It is the stated width, or two thirds of it times a factor, rounded up to a whole
    number of blocks.
    """
    stated = keys.integer("intermediate_size" if keys.data.get("intermediate_size") else "block_ff_dim")
    if not keys.flag("block_auto_adjust_ff_dim", True):
        return stated
    block = keys.integer("block_multiple_of", 256)
    factor = keys.number("block_ffn_dim_multiplier", 1.0)
    width = int(factor * int(2 * stated / 3))
    return math.ceil(width / block) * block


def lfm3(keys: Keys, layers: int) -> Fields:
    """Reads LFM3. The model has short convolutions, full attention and sliding-window attention, with a gate
    for each head.
    """
    types = layer_types(keys, layers, ("conv", "full_attention", "sliding_attention"), ())
    keys.ignore("use_sandwich_norm", "layer_types")
    convolutions = types.count("conv")
    gated = keys.flag("use_attention_gate", True)
    return {
        "linear_attention": _convolution(keys, convolutions),
        "sliding_window": keys.integer("sliding_window", high=MAX_TOKENS),
        "num_sliding_layers": types.count("sliding_attention"),
        "norms_per_layer": 4 if keys.flag("use_sandwich_norm", True) else 2,
        "projections": [head_gate(keys, layers - convolutions)] if gated else [],
    }
