"""A drafting head's own ``config.json``: EAGLE, EAGLE-3, P-EAGLE, DFlash, DFlash2, Domino and DSpark, in the
form of their makers or of speculators.

The keys are those that vLLM reads: models/llama_eagle3.py, qwen3_dflash.py, qwen3_dspark.py and
configs/speculators/algos.py. A head's layers are dense, even if its file still describes the target that it
was made from. Keys that the head's own class reads and this module does not are refused by name.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perfmodel.errors import about_file
from perfmodel.reading import is_file, is_folder
from perfmodel.specs.boundary import files
from perfmodel.specs.huggingface import from_config
from perfmodel.specs.huggingface.families import Family, family_of, head_of_blocks, latent_head
from perfmodel.specs.huggingface.keys import Keys
from perfmodel.specs.models.components import MAX_LAYERS
from perfmodel.specs.models.model import ModelSpec

_OWN = (
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
)
"""Keys of a head that are hidden from the reader of its layers."""
_LEFT_OVER = re.compile(
    r"attention_head_dim|cla_share_factor|decoder_sparse_step|dense_list|first_k_dense_replace|interleave_moe\w*"
    r"|max_window_layers|mlp_only_layers|moe_\w+|no_rope_layer\w*|num_experts\w*|num_local_experts|n_routed_experts"
    r"|n_shared_experts|num_nextn_predict_layers|num_anchors|rope_local_base_freq|shared_expert\w*|v_head_dim|use_mla"
)
"""Keys of the target that remain in files of heads and that no layer of a head reads."""
_EAGLES = ("eagle", "peagle")
_DENSE = ("llama", "mistral", "qwen2", "qwen3")
"""Families that an EAGLE head's file may name for its layer; else Llama's."""
_BLOCK_KEYS = re.compile(
    r"attention_(mode|value_scale|sink_bias)|block_size|causal|confidence_\w+|enable_confidence_head|kv_fake_quant|loss_\w+"
    r"|markov_\w+|mask_token_id|moe_bias_update_rate|stage_\w+|num_anchors|target_layer_ids"
)
"""Keys of `dflash_config` that are read, or that change no byte."""
_MORE_KEYS = {
    "dflash2": re.compile(r"conv_\w+|selector_\w+|final_logit_softcapping|output_multiplier"),
    "domino": re.compile(r"gru_hidden_dim|emb_dim|pure_draft_prefix_len|shift_label"),
}
"""The same for one kind only."""
_MASKS = ("ptd_token_id", "pard_token", "mask_token_id")
"""Keys that mark an EAGLE head as one that drafts all of its tokens in one pass over masks (vLLM,
spec_decode).
"""
BLOCK = 16
"""Positions of DFlash's published blocks (arXiv 2602.06036), used where a file does not state them."""


@dataclass(frozen=True, slots=True)
class Head:
    """A drafting head. kind: its draft kind. model: its layers, with the vocabulary that it drafts. options:
    fields of that kind, as on a command line.
    """

    kind: str
    model: ModelSpec
    options: dict[str, int]


def load_head(name: str, target: ModelSpec) -> Head | None:
    """The head in a ``config.json``, or in a folder that holds one; None for a whole model, and without a
    file.

    target: gives the vocabulary and the longest context where the file leaves them out.
    """
    path = Path(name) / "config.json" if is_folder(name) else Path(name)
    if not is_file(path):
        return None
    with about_file(path):
        data = files.read_mapping(path, infinity=True)
        kind = _kind(data)
        if kind:
            return _read(kind, Keys(data, str(path)), target)
    return None


def _kind(data: dict[str, Any]) -> str | None:
    """dspark, dflash, dflash2, domino, peagle or eagle; None for a whole model."""
    names = data.get("architectures")
    words = [data.get("speculators_model_type"), *(names if isinstance(names, list) else ())]
    text = " ".join(word.lower() for word in words if isinstance(word, str))
    found = next((kind for kind in ("dspark", "dflash", "dflare", "domino", "eagle") if kind in text), None)
    if found is None and {"block_size", "target_layer_ids"} <= data.keys():
        found = "dflash"
    found = found or ("eagle" if "draft_vocab_size" in data else None)
    flash = data.get("dflash_config") or {}
    if found == "dflash" and ("selector_rank" in flash or flash.get("projector_type") == "domino"):
        return "dflash2" if "selector_rank" in flash else "domino"
    masked = "peagle" in text or any(data.get(key) is not None for key in _MASKS)
    return "peagle" if found == "eagle" and masked else found


def _read(kind: str, keys: Keys, target: ModelSpec) -> Head:
    """The head of a config.json. Raises InputError for a kind that is not modelled."""
    if kind == "dflare":
        raise keys.bad(
            "architectures",
            "of EAGLE, P-EAGLE, DFlash, Domino or DSpark: other heads are not modelled",
        )
    nested = keys.mapping("transformer_layer_config")
    own = {"vocab_size": target.vocab_size, "max_position_embeddings": target.max_position_embeddings}
    inner = own | dict(nested.data if nested else keys.data)
    vocab = keys.integer("draft_vocab_size", Keys(inner, keys.where).integer("vocab_size"))
    model = from_config(_layers(inner, kind) | {"vocab_size": vocab}, keys.where, family=_family(kind, inner))
    options = {"features": _features(kind, keys)}
    if keys.data.get("draft_vocab_size") is not None or (kind in _EAGLES and options["features"] > 1):
        options["vocab"] = vocab
    if (width := keys.integer("target_hidden_size", model.hidden_size)) != model.hidden_size:
        options["target_width"] = width
    if kind == "peagle":
        options["layers"] = model.num_hidden_layers
    elif kind != "eagle":
        options |= {"layers": model.num_hidden_layers} | _block(kind, keys)
    return Head(kind, model.replace(num_nextn_predict_layers=None), options)


def _layers(inner: dict[str, Any], kind: str) -> dict[str, Any]:
    """The keys for the reader of its layers, without the head's own keys and those that remain from the
    target.
    """
    left = "num_anchors" if "o_lora_rank" in inner else _LEFT_OVER.pattern
    if kind not in _EAGLES or "kv_lora_rank" in inner:
        left = left.replace("|v_head_dim", "")
    kept = {key: value for key, value in inner.items() if key not in _OWN and not re.fullmatch(left, key)}
    if inner.get("use_sliding_window") is False:
        kept.pop("sliding_window", None)
    return {"model_type": "llama"} | kept


def _family(kind: str, inner: dict[str, Any]) -> Family:
    """The family of its layers: Qwen3 for a block, one for a latent cache, or the one that the file names,
    else Llama.
    """
    if "o_lora_rank" in inner:  # layers of DeepSeek-V4, experts included
        return family_of("deepseek_v4")
    if kind not in _EAGLES:
        return head_of_blocks()
    if inner.get("kv_lora_rank"):
        return latent_head()
    model_type = str(inner.get("model_type"))
    return family_of(model_type if model_type in _DENSE else "llama")


def _block(kind: str, keys: Keys) -> dict[str, int]:
    """Positions of a block, and for DSpark the width of its transitions; next to `dflash_config` or in it."""
    flash = keys.mapping("dflash_config") or keys
    for key in flash.data if flash is not keys else ():
        if kind in _MORE_KEYS and _MORE_KEYS[kind].fullmatch(key):
            continue
        if not _BLOCK_KEYS.fullmatch(key) and (key, flash.data[key]) not in (
            ("projector_type", kind),
            ("projector_type", f"{kind}_v4"),
        ):
            raise flash.bad(key, f"absent for {kind}: its effect is not modelled")

    def integer(key: str, *default: int) -> int:
        return (flash if flash.data.get(key) is not None else keys).integer(key, *default)

    names = {
        "dspark": {"rank": "markov_rank"},
        "dflash2": {"rank": "selector_rank", "kernel": "conv_kernel_size", "group": "conv_group_size"},
        "domino": {"gru": "gru_hidden_dim", "emb": "emb_dim"},
    }
    own = {option: integer(key) for option, key in names.get(kind, {}).items()}
    return {"block": integer("block_size", BLOCK)} | own


def _features(kind: str, keys: Keys) -> int:
    """Number of the target's hidden states that the head takes: the number of named layers, else EAGLE-3's
    three.
    """
    eagle = keys.mapping("eagle_config")
    flash = keys.mapping("dflash_config")
    if eagle and not eagle.flag("use_aux_hidden_state", True):
        return 1
    for place, key in (
        (keys, "aux_hidden_state_layer_ids"),
        (keys, "eagle_aux_hidden_state_layer_ids"),
        (keys, "target_layer_ids"),
        (eagle, "eagle_aux_hidden_state_layer_ids"),
        (flash, "target_layer_ids"),
    ):
        if place and (named := place.integers(key)):
            return len(named)
    if kind in _EAGLES:
        whole = "draft_vocab_size" in keys.data or "eagle3" in str(keys.data.get("architectures")).lower()
        return keys.integer("num_aux_hidden_states", 3, high=MAX_LAYERS) if whole else 1
    raise keys.bad("target_layer_ids", "the list of the target's layers that the head takes in")
