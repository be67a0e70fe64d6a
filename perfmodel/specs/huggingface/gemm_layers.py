"""The layers in which each GEMM of a model occurs, for weight formats that a file states layer by layer."""

from perfmodel.specs.huggingface import mamba
from perfmodel.specs.huggingface.keys import Fields, Keys

STATE_TYPES = ("linear_attention", "mamba", "conv")
"""Types of layers, in `layer_types`, that keep a recurrent state."""


def gemm_layers(keys: Keys, shape: Fields) -> dict[str, list[int]]:
    """The numbers (from 0) of the layers that have each GEMM. GEMMs are named as in `weights.PARTS`.

    ``mtp`` means the multi-token prediction layers, which follow the layers of the model.

    - shape: the fields of ModelSpec.
    """
    layers = _layers_of_blocks(keys, shape)
    moe = shape.get("moe") or {}
    shared = ("shared_gate_up", "shared_down") if moe.get("shared_intermediate_size") else ()
    latent = ("latent_in", "latent_out") if moe.get("latent_size") else ()
    indexer = ("index_q",) if shape.get("indexer") else ()
    gemms_of_blocks = {
        "attention": (*_attention_gemms(shape), *indexer),
        "mamba": ("state_in", "state_out"),
        "mlp": ("gate_up", "down"),
        "moe": ("experts", *shared, *latent),
    }
    layers_of = {gemm: layers[block] for block, gemms in gemms_of_blocks.items() for gemm in gemms}
    depth = shape["num_hidden_layers"]
    predicting = shape["num_nextn_predict_layers"] or 0
    return layers_of | {"mtp": list(range(depth, depth + predicting))}


def _attention_gemms(shape: Fields) -> tuple[str, ...]:
    """The projections of one attention layer."""
    if shape.get("low_rank"):
        return ("qkv", "q_up", "o_down", "o")
    if shape.get("mla"):
        return ("qkv_down", "q_up", "o")
    return ("qkv", "o")


def _layers_of_blocks(keys: Keys, shape: Fields) -> dict[str, list[int]]:
    """The layers that have a block of each kind. A layer of Nemotron-H is one block. A layer of any other
    model has two blocks. The first is attention or a recurrent state, and the second an MLP or experts.
    """
    every = range(shape["num_hidden_layers"])
    if "layers_block_type" in keys.data or "hybrid_override_pattern" in keys.data:
        kinds = mamba.blocks(keys)
        blocks = ("mamba", "attention", "mlp", "moe")
        return {block: [layer for layer in every if kinds[layer] == block] for block in blocks}
    types = keys.data.get("layer_types") if shape.get("linear_attention") else None
    states = [layer for layer in every if types and types[layer] in STATE_TYPES]
    moe = shape.get("moe")
    dense_layers = moe.get("first_dense_layers", 0) if moe else len(every)
    return {
        "mamba": states,
        "attention": [layer for layer in every if layer not in states],
        "mlp": [*every[:dense_layers]],
        "moe": [*every[dense_layers:]],
    }
