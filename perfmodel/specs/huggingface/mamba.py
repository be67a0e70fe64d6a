"""Reads layers with Mamba-1 and Mamba-2 into fields of ModelSpec."""

from perfmodel.specs.huggingface.keys import NEEDED, Fields, Keys
from perfmodel.specs.huggingface.states import state_dtype, state_of
from perfmodel.specs.huggingface.windows import layer_types
from perfmodel.specs.models.components import MAX_LAYERS

_BLOCKS = {"M": "mamba", "*": "attention", "-": "mlp", "E": "moe"}
"""The kind of block for each letter of a pattern."""
_BLOCK_NAMES = {name: name for name in _BLOCKS.values()} | {
    "linear_attention": "mamba",
    "full_attention": "attention",
}
"""The kind of block for each name in Nvidia's files and in transformers 5."""


def _mamba2(keys: Keys, layers: int) -> Fields:
    """The state of this number of Mamba-2 layers, from the usual keys."""
    key = (keys.integer("mamba_n_groups"), keys.integer("mamba_d_state"))
    value = (keys.integer("mamba_n_heads"), keys.integer("mamba_d_head"))
    return state_of("mamba2", layers, key, value, keys.integer("mamba_d_conv"))


def mamba_in_parallel(keys: Keys, layers: int) -> Fields:
    """Reads Falcon-H1. Every layer has attention and Mamba-2 in parallel."""
    return {
        "attention_layers": layers,
        "linear_attention": _mamba2(keys, layers) | {"gated_norm": keys.flag("mamba_rms_norm", False)},
    }


def granite_hybrid(keys: Keys, layers: int) -> Fields:
    """Reads Granite-4.0-H. Each layer has Mamba-2 or attention, followed by an MLP or experts."""
    types = layer_types(
        keys, layers, ("mamba", "attention", "linear_attention", "full_attention"), ["attention"] * layers
    )
    states = sum(kind in ("mamba", "linear_attention") for kind in types)
    return {"linear_attention": _mamba2(keys, states)} if states else {}


def bamba(keys: Keys, layers: int) -> Fields:
    """Reads Bamba. All layers have Mamba-2, except for listed layers with attention."""
    attention = keys.integers("attn_layer_indices")
    kinds = keys.data.get("layers_block_type")
    keys.ignore("layers_block_type")
    if not isinstance(kinds, list):
        kinds = ["attention" if i in attention else "mamba" for i in range(layers)]
    mambas = sum(kind in ("mamba", "linear_attention") for kind in kinds)
    return {"linear_attention": _mamba2(keys, mambas)}


def jamba(keys: Keys, layers: int) -> Fields:
    """Reads Jamba. One layer of each period has attention, the others have Mamba-1.

    One projection (`state_steps`) computes the steps and the keys of the state. A second projection
    (`state_rise`) widens the steps.
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
    kernel = keys.integer("mamba_d_conv")
    linear = state_of("mamba1", mambas, (1, state), (heads, inner // heads), kernel)
    return {"linear_attention": linear, "projections": [steps, rise]}


def blocks(keys: Keys) -> list[str]:
    """The kind of each layer of Nemotron-H, from a list or from a pattern of letters."""
    named = keys.data.get("layers_block_type")
    if named is None:
        pattern = keys.data.get("hybrid_override_pattern")
        if not isinstance(pattern, str) or not pattern or {*pattern} - {*_BLOCKS}:
            raise keys.bad(
                "hybrid_override_pattern", "a pattern of M (mamba), * (attention), - (MLP) and E (experts)"
            )
        return [_BLOCKS[letter] for letter in pattern]
    if not isinstance(named, list) or not named or any(str(block) not in _BLOCK_NAMES for block in named):
        raise keys.bad("layers_block_type", f"a list out of {', '.join(_BLOCK_NAMES)}")
    return [_BLOCK_NAMES[block] for block in named]


def depth(keys: Keys) -> int:
    """The number of layers: `num_hidden_layers`, or the length of the list of blocks."""
    if keys.data.get("num_hidden_layers") is None and "layers_block_type" in keys.data:
        return len(blocks(keys))
    return keys.integer("num_hidden_layers", NEEDED, high=MAX_LAYERS)


def nemotron_h(keys: Keys, layers: int) -> Fields:
    """Reads Nemotron-H. Each layer is one block: Mamba-2, attention, an MLP or experts."""
    kinds = blocks(keys)
    if len(kinds) != depth(keys):
        raise keys.bad("num_hidden_layers", f"{len(kinds)}, as many as there are blocks")
    keys.ignore(
        "expand", "chunk_size", "mtp_hybrid_override_pattern", "mtp_layers_block_type", "time_step_rank"
    )
    key = (keys.integer("n_groups"), keys.integer("ssm_state_size"))
    value = (keys.integer("mamba_num_heads"), keys.integer("mamba_head_dim"))
    kernel = keys.integer("conv_kernel")
    dtype = state_dtype(keys, "mamba_ssm_cache_dtype")
    return {
        "head_dim": keys.integer("head_dim" if "head_dim" in keys.data else "attention_head_dim"),
        "attention_layers": kinds.count("attention"),
        "mlp_layers": kinds.count("mlp") + kinds.count("moe"),
        "gated_mlp": False,
        "linear_attention": state_of("mamba2", kinds.count("mamba"), key, value, kernel, state_dtype=dtype),
    }
