"""A drafting head's own ``config.json``: EAGLE, EAGLE-3, DFlash and DSpark, as their makers or speculators write it.

The keys are those that vLLM reads: models/llama_eagle3.py, qwen3_dflash.py, qwen3_dspark.py and
configs/speculators/algos.py.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perfmodel.specs import files
from perfmodel.specs.huggingface import from_config
from perfmodel.specs.huggingface.keys import Keys
from perfmodel.specs.parts import MAX_LAYERS
from perfmodel.specs.shape import ModelSpec

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
    "target_hidden_size",
    "target_layer_ids",
    "vocab_size",
)
"""Keys of a head that its layers' reader must not see."""


@dataclass(frozen=True, slots=True)
class Head:
    """kind: word of the draft kind that runs it. model: its layers, with the vocabulary that it drafts.

    options: fields of that kind, as on a command line.
    """

    kind: str
    model: ModelSpec
    options: dict[str, int]


def load_head(name: str) -> Head | None:
    """The head in a ``config.json`` or in a folder that holds one; None where it is a whole model, or no file."""
    path = Path(name) / "config.json" if os.path.isdir(name) else Path(name)
    if path.suffix != ".json" or not path.is_file():
        return None
    data = files.read_mapping(path, infinity=True)
    kind = _kind(data)
    return _read(kind, data, str(path)) if kind else None


def _kind(data: dict[str, Any]) -> str | None:
    names = data.get("architectures")
    words = [data.get("speculators_model_type"), *(names if isinstance(names, list) else ())]
    said = " ".join(word.lower() for word in words if isinstance(word, str))
    found = next((kind for kind in ("dspark", "dflash", "eagle") if kind in said), None)
    return found or ("eagle" if "draft_vocab_size" in data else None)


def _read(kind: str, data: dict[str, Any], where: str) -> Head:
    keys = Keys(data, where)
    nested = keys.mapping("transformer_layer_config")
    inner = nested.data if nested else data
    vocab = keys.integer("draft_vocab_size", (nested or keys).integer("vocab_size"))
    layers = {key: inner[key] for key in inner if key not in _OWN}
    model = from_config({"model_type": "llama", **layers, "vocab_size": vocab}, where)
    options = {"features": _features(kind, keys), "vocab": vocab}
    if (width := keys.integer("target_hidden_size", model.hidden_size)) != model.hidden_size:
        options["target_width"] = width
    if kind != "eagle":
        flash = keys.mapping("dflash_config")
        block = (flash if flash and "block_size" in flash.data else keys).integer("block_size")
        options |= {"layers": model.num_hidden_layers, "block": block}
    if kind == "dspark":
        options["rank"] = keys.integer("markov_rank")
    return Head(kind, model.model_copy(update={"num_nextn_predict_layers": None}), options)


def _features(kind: str, keys: Keys) -> int:
    """Hidden states of the target that the head takes in: as many as layers are named, else EAGLE-3's three."""
    eagle, flash = keys.mapping("eagle_config"), keys.mapping("dflash_config")
    if eagle and not eagle.flag("use_aux_hidden_state", True):
        return 1
    for place, key in (
        (keys, "aux_hidden_state_layer_ids"),
        (keys, "eagle_aux_hidden_state_layer_ids"),
        (keys, "target_layer_ids"),
        (eagle, "eagle_aux_hidden_state_layer_ids"),
        (flash, "target_layer_ids"),
    ):
        if place and (found := place.integers(key)):
            return len(found)
    if kind == "eagle":
        whole = "draft_vocab_size" in keys.data or "eagle3" in str(keys.data.get("architectures")).lower()
        return keys.integer("num_aux_hidden_states", 3, high=MAX_LAYERS) if whole else 1
    raise keys.bad("target_layer_ids", "the list of the target's layers that the head takes in")
