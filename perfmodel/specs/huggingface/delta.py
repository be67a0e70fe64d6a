"""Reads layers with delta rules and lightning attention into fields of ModelSpec."""

from perfmodel.specs.huggingface import sparse
from perfmodel.specs.huggingface.keys import Fields, Keys
from perfmodel.specs.huggingface.layers import head_gate
from perfmodel.specs.huggingface.states import state_dtype, state_of
from perfmodel.specs.huggingface.windows import layer_types
from perfmodel.specs.models.components import MAX_LAYERS, MAX_TOKENS

_KINDS = ("linear_attention", "full_attention")
"""The words in `layer_types` for layers with a state, and for layers with attention."""


def gated_delta(keys: Keys, layers: int, kinds: tuple[str, ...] = _KINDS) -> Fields:
    """Reads Qwen3-Next and Qwen3.5. Every fourth layer has attention with a gated output. All other layers
    keep a recurrent state.

    - kinds: the words for kinds of layers. The first means a layer with a state, the second a layer with
      attention.
    """
    step = keys.integer("full_attention_interval", 4, high=MAX_LAYERS)
    types = layer_types(keys, layers, kinds, [kinds[(i + 1) % step == 0] for i in range(layers)])
    key = (keys.integer("linear_num_key_heads"), keys.integer("linear_key_head_dim"))
    value = (keys.integer("linear_num_value_heads"), keys.integer("linear_value_head_dim"))
    kernel = keys.integer("linear_conv_kernel_dim")
    dtype = state_dtype(keys, "mamba_ssm_dtype")
    state = state_of("gated_delta", types.count(kinds[0]), key, value, kernel, state_dtype=dtype)
    return {"attention_gate": keys.flag("attn_output_gate", True), "linear_attention": state}


def ungated_delta(keys: Keys, layers: int) -> Fields:
    """Reads Olmo-Hybrid. The model is like Qwen3.5, but the output of its attention has no gate."""
    return gated_delta(keys, layers) | {"attention_gate": False}


def qwen4(keys: Keys, layers: int) -> Fields:
    """Reads Qwen4-Exp. The model is like Qwen3.5, but has several residual streams. The attention layers have
    an indexer over means of keys.

    The n-gram tables of the model are not counted, because they stay in host memory and are read row by row.
    Layers with such a table project a row onto all streams.
    """
    fields = gated_delta(keys, layers, kinds=(*_KINDS, "indexed_attention"))
    fields |= sparse.gated_streams(keys, layers)
    tables = len(keys.integers("ple_layer_ids"))
    hidden = keys.integer("hidden_size")
    if tables:
        row = keys.integer("ple_embed_dim", hidden)
        outputs = hidden * (fields["residual_streams"] + 1)
        joined = {"name": "streams (n-gram)", "layers": tables, "inputs": row, "outputs": outputs}
        fields["projections"] = [*fields["projections"], joined]
        values = tables * row * keys.integer("ngram_vocab_size_base", 20_000_000, high=2**31)
        fields["notes"] = f"N-gram tables of {values / 1e9:.0f}B values stay in host memory: not counted."
    keys.ignore("ngram_vocab_size_base", "heads_per_ngram", "ple_conv_kernel_size", "ple_embed_dim")
    keys.ignore("number_of_conv_states")
    if keys.data.get("indexer_n_heads") is None:
        return fields
    attention = layers - fields["linear_attention"]["layers"]
    return fields | {"indexer": sparse.mean_indexer(keys, attention)}


def kimi_delta(keys: Keys, layers: int) -> Fields:
    """Reads Kimi-Linear and Kimi-K3. Some layers have latent attention (MLA), the others a delta rule."""
    own = keys.mapping("linear_attn_config")
    types = keys.data.get("layer_types")
    if own is None and not isinstance(types, list):
        raise keys.bad("linear_attn_config", "a mapping with kda_layers, num_heads and head_dim")
    if own:
        count = len(own.integers("kda_layers"))
        heads = (own.integer("num_heads"), own.integer("head_dim"))
        kernel = own.integer("short_conv_kernel_size")
        full_rank_gate = own.flag("use_full_rank_gate", False)
    else:
        count = sum(kind not in ("full_attention", "indexed_attention") for kind in types or ())
        heads = (keys.integer("linear_num_heads"), keys.integer("linear_head_dim"))
        kernel = keys.integer("linear_conv_kernel_dim")
        full_rank_gate = False
    keys.ignore("linear_attn_config", "num_key_value_heads")
    state = state_of("kimi_delta", count, heads, heads, kernel, full_rank_gate=full_rank_gate)
    return sparse.latent(keys, layers, ranked=own is not None) | {
        "attention_gate": keys.flag("mla_use_output_gate", False),
        "linear_attention": state,
    }


def glm5_next(keys: Keys, layers: int) -> Fields:
    """Reads GLM-5-Next. A layer has Kimi's delta attention, or latent attention (MLA) with an indexer. The
    indexer has one key per `index_kpool` tokens.
    """
    fields = kimi_delta(keys, layers) | sparse.streams(keys, layers)
    keys.ignore("indexer_types", "index_kpool_always_select_tail", "linear_lower_bound")
    indexer = {
        "num_heads": keys.integer("index_n_heads"),
        "head_dim": keys.integer("index_head_dim"),
        "topk": keys.integer("index_topk", high=MAX_TOKENS),
        "stride": keys.integer("index_kpool", 1),
        "layers": layers - fields["linear_attention"]["layers"],
        "key_projections": 2,
    }
    return fields | {"indexer": indexer}


def lightning(keys: Keys, layers: int) -> Fields:
    """Reads MiniMax-Text-01. Layers with a 0 in `attn_type_list` have lightning attention, whose state has
    key x value numbers.
    """
    listed = keys.integers("attn_type_list")
    if not set(listed) <= {0, 1}:
        raise keys.bad("attn_type_list", "a list of 0 (lightning attention) and 1 (full attention)")
    types = layer_types(keys, layers, _KINDS, [_KINDS[kind] for kind in listed])
    heads = keys.integer("num_attention_heads")
    dim = keys.integer("head_dim", keys.integer("hidden_size") // heads)
    keys.ignore("shared_intermediate_size", "shared_moe_coefficient")
    return {"linear_attention": state_of("lightning", types.count(_KINDS[0]), (heads, dim), (heads, dim), 1)}


def bailing(keys: Keys, layers: int) -> Fields:
    """Reads the Ling models of 2026. Every `layer_group_size`-th layer has latent attention (MLA).

    In Ling 2.5 and 2.6, all other layers have lightning attention. In Ling 3.0, they have Kimi's delta
    attention with a decay of full rank, and the heads of latent attention have gates.
    """
    step = keys.integer("layer_group_size", 1, high=MAX_LAYERS)
    types = layer_types(keys, layers, _KINDS, [_KINDS[(i + 1) % step == 0] for i in range(layers)])
    names_of_kernel = ("linear_conv_kernel_dim", "short_conv_kernel_size")
    kernel = next((name for name in names_of_kernel if keys.data.get(name)), None)
    count = keys.integer("linear_num_heads", keys.integer("num_attention_heads"))
    dim = keys.integer("linear_head_dim" if keys.data.get("linear_head_dim") else "head_dim")
    heads = (count, dim)
    linear = types.count(_KINDS[0])
    keys.ignore("linear_lower_bound", "kda_safe_gate", "kda_lower_bound", "short_conv_kernel_size")
    fields = sparse.latent(keys, layers, ranked=False)
    if not kernel:
        return fields | {"linear_attention": state_of("lightning", linear, heads, heads, 1)}
    decay = {
        "name": "state_decay",
        "layers": linear,
        "inputs": keys.integer("hidden_size"),
        "outputs": count * dim,
        "split": "outputs",
    }
    return fields | {
        "linear_attention": state_of("kimi_delta", linear, heads, heads, keys.integer(kernel)),
        "projections": [decay, head_gate(keys, layers - linear)],
    }
