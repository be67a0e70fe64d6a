"""The keys of a draft head's ``config.json``, grouped by the code that reads them.

The groups follow these files of vLLM: models/llama_eagle3.py, qwen3_dflash.py, qwen3_dspark.py and
configs/speculators/algos.py.
"""

from collections.abc import Mapping
from typing import Any

from perfmodel.immutable import Immutable

EAGLES = ("eagle", "peagle")
"""Kinds of heads that draft token by token, or all tokens in one pass over masks."""


class KeySet(Immutable):
    """A set of keys, which are given by their names or by the beginnings of their names."""

    names: frozenset[str]
    prefixes: tuple[str, ...]

    def holds(self, key: str) -> bool:
        """Whether the set contains a key."""
        return key in self.names or key.startswith(self.prefixes)


_OF_HEAD = frozenset(
    {
        "aux_hidden_state_layer_ids",
        "block_size",
        "confidence_head_with_markov",
        "dflash_config",
        "draft_vocab_size",
        "eagle_aux_hidden_state_layer_ids",
        "eagle_config",
        "enable_confidence_head",
        "markov_head_type",
        "markov_rank",
        "num_aux_hidden_states",
        "num_target_layers",
        "quantization_config",
        "target_hidden_size",
        "target_layer_ids",
        "target_num_hidden_layers",
        "vocab_size",
    }
)
"""Keys of a head that are hidden from the reader of its layers."""
_LEFT_OVER = KeySet(
    frozenset(
        {
            "attention_head_dim",
            "cla_share_factor",
            "decoder_sparse_step",
            "dense_list",
            "first_k_dense_replace",
            "max_window_layers",
            "mlp_only_layers",
            "n_routed_experts",
            "n_shared_experts",
            "num_anchors",
            "num_local_experts",
            "num_nextn_predict_layers",
            "rope_local_base_freq",
            "use_mla",
        }
    ),
    ("interleave_moe", "moe_", "no_rope_layer", "num_experts", "shared_expert"),
)
"""Keys of the target that remain in files of heads and that no layer of a head reads."""
_BLOCK = KeySet(
    frozenset(
        {
            "attention_mode",
            "attention_sink_bias",
            "attention_value_scale",
            "block_size",
            "causal",
            "enable_confidence_head",
            "kv_fake_quant",
            "mask_token_id",
            "moe_bias_update_rate",
            "num_anchors",
            "target_layer_ids",
        }
    ),
    ("confidence_", "loss_", "markov_", "stage_"),
)
"""Keys of `dflash_config` that are read, or that change no bytes."""
_BLOCK_OF_KIND = {
    "dflash2": KeySet(frozenset({"final_logit_softcapping", "output_multiplier"}), ("conv_", "selector_")),
    "domino": KeySet(frozenset({"emb_dim", "gru_hidden_dim", "pure_draft_prefix_len", "shift_label"}), ()),
}
"""More such keys of `dflash_config`, by the only kind of draft to which they belong."""


def keys_of_layers(config: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """The keys for the reader of a head's layers. The head's own keys, and keys that remain from the target,
    are left out.
    """
    kept = {
        key: value
        for key, value in config.items()
        if key not in _OF_HEAD and not _is_left_over(key, config, kind)
    }
    if config.get("use_sliding_window") is False:
        kept.pop("sliding_window", None)
    return kept


def _is_left_over(key: str, config: Mapping[str, Any], kind: str) -> bool:
    """Whether a key remains from the target, and no layer of the head reads it."""
    if "o_lora_rank" in config:  # layers of DeepSeek-V4, experts included
        return key == "num_anchors"
    if key == "v_head_dim":
        return kind in EAGLES and "kv_lora_rank" not in config
    return _LEFT_OVER.holds(key)


def is_modelled(key: str, value: Any, kind: str) -> bool:
    """Whether a key of `dflash_config` is modelled: it is read, it changes no bytes, or it states the kind of
    head.
    """
    if key == "projector_type":
        return value in (kind, f"{kind}_v4")
    of_kind = _BLOCK_OF_KIND.get(kind)
    return _BLOCK.holds(key) or (of_kind is not None and of_kind.holds(key))
