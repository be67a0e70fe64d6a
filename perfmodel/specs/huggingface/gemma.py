"""Reads Gemma-3n and Gemma-4 into fields of ModelSpec: heads of global layers, embeddings of layers, and
shared caches.
"""

from perfmodel.specs.huggingface.keys import Fields, Keys
from perfmodel.specs.huggingface.windows import KINDS, layer_types, sliding_layers, window_of
from perfmodel.specs.models.components import MAX_TOKENS


def _slides(layers: int) -> list[bool]:
    """Whether each layer has a sliding window, if the file does not state it. All layers have one except
    every sixth layer and the last layer.
    """
    return [(i + 1) % 6 != 0 and i + 1 < layers for i in range(layers)]


def gemma4(keys: Keys, layers: int) -> Fields:
    """Reads Gemma-4. Global layers have heads of another size, and may use one projection for keys and
    values.
    """
    window = keys.integer("sliding_window", high=MAX_TOKENS)
    sliding = sliding_layers(keys, layers, _slides(layers))
    heads = keys.integer("num_attention_heads")
    kv = keys.integer("num_key_value_heads")
    dim = keys.integer("head_dim")
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
    """The sizes of the heads of global layers. The file states them under separate keys or, in the form of
    transformers 5, in one mapping per layer.
    """
    if keys.mapping("per_layer_config") is None:
        return {
            "num_key_value_heads": keys.integer("num_global_key_value_heads", kv),
            "head_dim": keys.integer("global_head_dim", dim),
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


def inputs_of_layers(keys: Keys, layers: int) -> Fields:
    """Reads Gemma-3n and the E models of Gemma-4. Each layer has its own embedding. The last layers read the
    caches of earlier layers.
    """
    width = keys.count("hidden_size_per_layer_input")
    hidden = keys.integer("hidden_size")
    late = keys.count("num_kv_shared_layers", high=layers)
    wide = keys.flag("use_double_wide_mlp", False)
    rule = [KINDS[slides] for slides in _slides(layers)]
    shared = layer_types(keys, layers, KINDS, rule)[layers - late :]
    fields = {"shared_kv_layers": shared.count(KINDS[0]), "shared_kv_sliding": shared.count(KINDS[1])}
    stated = keys.data.get("intermediate_size")
    if isinstance(stated, list):
        widths = [width for width in stated if isinstance(width, int)]
    else:
        widths = [keys.integer("intermediate_size")]
    fields["intermediate_size"] = sum(widths) // max(len(widths), 1)
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
    """Reads Gemma-3n. The model has several hidden states, and each layer runs one of them. It also has a
    low-rank branch next to attention.
    """
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
