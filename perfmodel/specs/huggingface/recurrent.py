"""Layers that keep a state instead of a cache, as fields of ModelSpec."""

from typing import Any

from perfmodel.specs.huggingface import sparse
from perfmodel.specs.huggingface.keys import NEEDED, Fields, Keys
from perfmodel.specs.huggingface.layers import head_gate
from perfmodel.specs.huggingface.windows import layer_types
from perfmodel.specs.models.components import MAX_LAYERS, MAX_TOKENS

_DELTA = ("linear_attention", "full_attention")
"""Words for the layers of Qwen3-Next: with a state, and with attention."""


def _state(
    kind: str, layers: int, key: tuple[int, int], value: tuple[int, int], kernel: int, **more: Any
) -> Fields:
    """The `linear_attention` mapping. key, value: number of heads and their width."""
    return {
        "kind": kind,
        "layers": layers,
        "num_key_heads": key[0],
        "key_head_dim": key[1],
        "num_value_heads": value[0],
        "value_head_dim": value[1],
        "conv_kernel": kernel,
        **more,
    }


def _convolution(keys: Keys, layers: int) -> Fields:
    """A gated convolution of the hidden width."""
    hidden = keys.integer("hidden_size")
    heads = keys.integer("num_attention_heads")
    return _state(
        "conv", layers, (1, 1), (heads, hidden // heads), keys.integer("conv_L_cache"), state_dtype="bf16"
    )


def short_convolutions(keys: Keys, layers: int) -> Fields:
    """LFM2: most layers are a gated convolution of the hidden width. MLP widths are two thirds, rounded
    up.
    """
    kinds = ("conv", "full_attention")
    full = set(keys.integers("full_attn_idxs"))
    types = layer_types(keys, layers, kinds, [kinds[i in full] for i in range(layers)])
    keys.ignore("full_attn_idxs", "conv_dim", "conv_dim_out", "num_heads", "block_dim", "conv_bias")
    fields: Fields = {}
    if "moe_intermediate_size" not in keys.data:
        width = keys.integer("intermediate_size" if keys.data.get("intermediate_size") else "block_ff_dim")
        if keys.flag("block_auto_adjust_ff_dim", True):
            unit = keys.integer("block_multiple_of", 256)
            width = -(-int(keys.number("block_ffn_dim_multiplier", 1.0) * int(2 * width / 3)) // unit) * unit
        fields["intermediate_size"] = width
    return fields | {"linear_attention": _convolution(keys, types.count("conv"))}


def kimi_delta(keys: Keys, layers: int) -> Fields:
    """Kimi-Linear and Kimi-K3: latent attention in some layers, a delta rule in the others."""
    own = keys.mapping("linear_attn_config")
    types = keys.data.get("layer_types")
    if own is None and not isinstance(types, list):
        raise keys.bad("linear_attn_config", "a mapping with kda_layers, num_heads and head_dim")
    if own:
        count = len(own.integers("kda_layers"))
        heads, dim, kernel = (
            own.integer(name) for name in ("num_heads", "head_dim", "short_conv_kernel_size")
        )
    else:
        count = sum(kind not in ("full_attention", "indexed_attention") for kind in types or ())
        heads, dim, kernel = (
            keys.integer(f"linear_{name}") for name in ("num_heads", "head_dim", "conv_kernel_dim")
        )
    keys.ignore("linear_attn_config", "num_key_value_heads")
    return sparse.latent(keys, layers, ranked=own is not None) | {
        "attention_gate": keys.flag("mla_use_output_gate", False),
        "linear_attention": _state(
            "kimi_delta",
            count,
            (heads, dim),
            (heads, dim),
            kernel,
            full_rank_gate=own.flag("use_full_rank_gate", False) if own else False,
        ),
    }


def mamba_in_parallel(keys: Keys, layers: int) -> Fields:
    """Falcon-H1: every layer has attention and Mamba-2 in parallel."""
    return {
        "attention_layers": layers,
        "linear_attention": _mamba2(keys, layers) | {"gated_norm": keys.flag("mamba_rms_norm", False)},
    }


def granite_hybrid(keys: Keys, layers: int) -> Fields:
    """Granite-4.0-H: Mamba-2 or attention, each before an MLP or experts."""
    types = layer_types(
        keys, layers, ("mamba", "attention", "linear_attention", "full_attention"), ["attention"] * layers
    )
    states = sum(kind in ("mamba", "linear_attention") for kind in types)
    return {"linear_attention": _mamba2(keys, states)} if states else {}


def _mamba2(keys: Keys, layers: int) -> Fields:
    names = ("n_groups", "d_state", "n_heads", "d_head", "d_conv")
    groups, state, heads, width, kernel = (keys.integer(f"mamba_{name}") for name in names)
    return _state("mamba2", layers, (groups, state), (heads, width), kernel)


def gated_delta(keys: Keys, layers: int, kinds: tuple[str, ...] = _DELTA) -> Fields:
    """Qwen3-Next and Qwen3.5: every fourth layer has attention with a gated output, the others a state.

    kinds: words for layers, that of a state first.
    """
    step = keys.integer("full_attention_interval", 4, high=MAX_LAYERS)
    types = layer_types(keys, layers, kinds, [kinds[(i + 1) % step == 0] for i in range(layers)])
    key, value = (
        (keys.integer(f"linear_num_{kind}_heads"), keys.integer(f"linear_{kind}_head_dim"))
        for kind in ("key", "value")
    )
    kernel = keys.integer("linear_conv_kernel_dim")
    dtype = _state_dtype(keys, "mamba_ssm_dtype")
    part = _state("gated_delta", types.count("linear_attention"), key, value, kernel, state_dtype=dtype)
    return {"attention_gate": keys.flag("attn_output_gate", True), "linear_attention": part}


def ungated_delta(keys: Keys, layers: int) -> Fields:
    """Olmo-Hybrid: the output of its attention has no gate."""
    return gated_delta(keys, layers) | {"attention_gate": False}


def qwen4(keys: Keys, layers: int) -> Fields:
    """Qwen4-Exp: as Qwen3.5, with an indexer over means of keys in the attention layers, and streams.

    Its n-gram tables are read by row and stay in host memory, so they are not counted; the layers that have
    one project a row onto all streams.
    """
    fields = gated_delta(keys, layers, kinds=(*_DELTA, "indexed_attention"))
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


_BLOCKS = {"M": "mamba", "*": "attention", "-": "mlp", "E": "moe"}
_BLOCK_NAMES = {name: name for name in _BLOCKS.values()} | {
    "linear_attention": "mamba",
    "full_attention": "attention",
}
"""Names of blocks in Nvidia's files and in transformers 5."""


def blocks(keys: Keys) -> list[str]:
    """Nemotron-H: the kind of each layer, from a list or from a pattern of letters."""
    if (named := keys.data.get("layers_block_type")) is None:
        pattern = keys.data.get("hybrid_override_pattern")
        if not isinstance(pattern, str) or not pattern or {*pattern} - {*_BLOCKS}:
            raise keys.bad(
                "hybrid_override_pattern", "a pattern of M (mamba), * (attention), - (MLP) and E (experts)"
            )
        return [_BLOCKS[letter] for letter in pattern]
    if not isinstance(named, list) or not named or any(str(block) not in _BLOCK_NAMES for block in named):
        raise keys.bad("layers_block_type", f"a list out of {', '.join(_BLOCK_NAMES)}")
    return [_BLOCK_NAMES[block] for block in named]


def nemotron_h(keys: Keys, layers: int) -> Fields:
    """Each layer is one block: Mamba-2, attention, an MLP or experts."""
    kinds = blocks(keys)
    if len(kinds) != depth(keys):
        raise keys.bad("num_hidden_layers", f"{len(kinds)}, as many as there are blocks")
    keys.ignore(
        "expand", "chunk_size", "mtp_hybrid_override_pattern", "mtp_layers_block_type", "time_step_rank"
    )
    key, value = (
        (keys.integer(heads), keys.integer(width))
        for heads, width in (("n_groups", "ssm_state_size"), ("mamba_num_heads", "mamba_head_dim"))
    )
    dtype = _state_dtype(keys, "mamba_ssm_cache_dtype")
    return {
        "head_dim": keys.integer("head_dim" if "head_dim" in keys.data else "attention_head_dim"),
        "attention_layers": kinds.count("attention"),
        "mlp_layers": kinds.count("mlp") + kinds.count("moe"),
        "gated_mlp": False,
        "linear_attention": _state(
            "mamba2", kinds.count("mamba"), key, value, keys.integer("conv_kernel"), state_dtype=dtype
        ),
    }


def _state_dtype(keys: Keys, key: str) -> str:
    """Format of the recurrent state; by default fp32, as in the published files of both families."""
    known = {"float32": "fp32", "bfloat16": "bf16", "float16": "bf16"}
    value = keys.data.get(key, "float32")
    if value not in known:
        raise keys.bad(key, f"one of {', '.join(known)}")
    return known[value]


def depth(keys: Keys) -> int:
    """`num_hidden_layers`, or the length of a list of blocks."""
    if keys.data.get("num_hidden_layers") is None and "layers_block_type" in keys.data:
        return len(blocks(keys))
    return keys.integer("num_hidden_layers", NEEDED, high=MAX_LAYERS)


def jamba(keys: Keys, layers: int) -> Fields:
    """Jamba: attention in one layer of a period, Mamba-1 in the others.

    A projection (`state_steps`) makes the steps and the keys of the state, and a second one (`state_rise`)
    widens the steps.
    """
    period = keys.integer("attn_layer_period")
    offset = keys.count("attn_layer_offset")
    mambas = layers - len(range(offset, layers, period))
    inner = keys.integer("mamba_expand") * keys.integer("hidden_size")
    state = keys.integer("mamba_d_state")
    rank = keys.integer("mamba_dt_rank")
    steps = {
        "name": "state_steps",
        "layers": mambas,
        "inputs": inner,
        "outputs": rank + 2 * state,
        "split": "inputs",
    }
    rise = {"name": "state_rise", "layers": mambas, "inputs": rank, "outputs": inner, "split": "outputs"}
    heads = keys.integer("num_attention_heads")
    part = _state("mamba1", mambas, (1, state), (heads, inner // heads), keys.integer("mamba_d_conv"))
    return {"linear_attention": part, "projections": [steps, rise]}


def bamba(keys: Keys, layers: int) -> Fields:
    """Bamba: Mamba-2, with attention in the layers that a list names."""
    attention = keys.integers("attn_layer_indices")
    kinds = keys.data.get("layers_block_type")
    keys.ignore("layers_block_type")
    if not isinstance(kinds, list):
        kinds = ["attention" if i in attention else "mamba" for i in range(layers)]
    mambas = sum(kind in ("mamba", "linear_attention") for kind in kinds)
    return {"linear_attention": _mamba2(keys, mambas)}


def lightning(keys: Keys, layers: int) -> Fields:
    """MiniMax-Text-01: lightning attention with a state of key by value, where `attn_type_list` has a 0."""
    listed = keys.integers("attn_type_list")
    kinds = ("linear_attention", "full_attention")
    if not set(listed) <= {0, 1}:
        raise keys.bad("attn_type_list", "a list of 0 (lightning attention) and 1 (full attention)")
    types = layer_types(keys, layers, kinds, [kinds[kind] for kind in listed])
    heads = keys.integer("num_attention_heads")
    dim = keys.integer("head_dim", keys.integer("hidden_size") // heads)
    keys.ignore("shared_intermediate_size", "shared_moe_coefficient")
    return {"linear_attention": _state("lightning", types.count(kinds[0]), (heads, dim), (heads, dim), 1)}


def bailing(keys: Keys, layers: int) -> Fields:
    """Ling of 2026: latent attention in every `layer_group_size`-th layer.

    The other layers of Ling 2.5 and 2.6 are lightning attention. Those of 3.0 are Kimi's delta attention with
    a decay of full rank, and the heads of its latent attention have gates.
    """
    kinds = ("linear_attention", "full_attention")
    step = keys.integer("layer_group_size", 1, high=MAX_LAYERS)
    types = layer_types(keys, layers, kinds, [kinds[(i + 1) % step == 0] for i in range(layers)])
    kernel = next((n for n in ("linear_conv_kernel_dim", "short_conv_kernel_size") if keys.data.get(n)), None)
    heads = keys.integer("linear_num_heads", keys.integer("num_attention_heads"))
    dim = keys.integer("linear_head_dim" if keys.data.get("linear_head_dim") else "head_dim")
    shape = ((heads, dim), (heads, dim))
    linear = types.count(kinds[0])
    keys.ignore("linear_lower_bound", "kda_safe_gate", "kda_lower_bound", "short_conv_kernel_size")
    fields = sparse.latent(keys, layers, ranked=False)
    if not kernel:
        return fields | {"linear_attention": _state("lightning", linear, *shape, 1)}
    decay = {"inputs": keys.integer("hidden_size"), "outputs": heads * dim, "split": "outputs"}
    return fields | {
        "linear_attention": _state("kimi_delta", linear, *shape, keys.integer(kernel)),
        "projections": [
            {"name": "state_decay", "layers": linear, **decay},
            head_gate(keys, layers - linear),
        ],
    }


def glm5_next(keys: Keys, layers: int) -> Fields:
    """GLM-5-Next: Kimi's delta attention, or a latent whose indexer has one key per `index_kpool` tokens."""
    fields = kimi_delta(keys, layers) | sparse.streams(keys, layers)
    sizes = {"num_heads": keys.integer("index_n_heads"), "head_dim": keys.integer("index_head_dim")}
    sizes |= {"topk": keys.integer("index_topk", high=MAX_TOKENS), "stride": keys.integer("index_kpool", 1)}
    keys.ignore("indexer_types", "index_kpool_always_select_tail", "linear_lower_bound")
    full = layers - fields["linear_attention"]["layers"]
    return fields | {"indexer": {**sizes, "layers": full, "key_projections": 2}}


def lfm3(keys: Keys, layers: int) -> Fields:
    """LFM3: short convolutions, full attention and sliding attention, with a gate for each head."""
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
