"""Keys that may change the cost and that nobody read: a model that has one is refused, not counted wrong."""

import re

from perfmodel.specs.huggingface.keys import Keys

_SUSPECT = re.compile(
    r"attention_k_eq|block_config|chunk|compress|conv_|double_wide|expert|draft_|_freq|output_gate$|heads|head_dim|hc_|hybrid|index"
    r"|interleave_moe|kda|kv_|latent|layer_types|layers|linear_attn|lora|mamba|mla_|moe_|nextn|pattern"
    r"|per_layer_input|shared|sliding|sparse|ssm|swa_|window"
)
"""Words of what makes a layer cost other than its family's: widths and counts of heads, experts, states,
caches.
"""
_HARMLESS = re.compile(
    r"aux_loss|z_loss|_dtype$|dtype_|initial|_overlap$|interleave$|scaling_factor|renormalize|router|chunk_size_feed"
    r"|pruned_heads|tie_|_norm_eps|_token_|grouped|_input_scale|conv_bias|mamba_kernels|_act$|_proj_bias|mtp_use"
    r"|output_hidden|use_mamba|num_hidden_layers|moe_implementation|no_rope|norm_layers|^rope_|for_llm_compressor"
    r"|shared_moe_mode|_token$|_limits?$|kv_cache_dtype|vision|layer_norm|multipliers?$|_init$|_nope$|norm_min$"
    r"|expert_bias$|_factor$|_selection_fn$|kv_channels|^prefix_dense|expert_groups?$|allocate_kv|^add_qkv_bias|_layernorms$|^mla_scale|_strategy$|cla_share_factor|per_token_|use_mlp$|^mtp_|combine$"
)
"""Of these the ones that move no byte and no FLOP."""


def refuse_unread(keys: Keys) -> None:
    """Raise InputError naming the first key that may change the cost, says something, and was not read."""
    for key, value in keys.data.items():
        silent = value in (None, False, 0, "", [], {}) or key in keys.read
        if not silent and _SUSPECT.search(key) and not _HARMLESS.search(key):
            raise keys.bad(
                key, f"absent for model_type {keys.data['model_type']}: what it changes is not modelled"
            )
