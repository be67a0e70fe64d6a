"""Reads a model (ModelSpec) from any local Hugging Face ``config.json``, in the same way as transformers.

Families are rows of the tables in ``models/families``. ``models/names.csv`` has the names of keys that files
use. A key that determines a size must be in the file, unless transformers derives it from other keys. Keys
that change no bytes and no FLOPs (routing groups, soft caps, ...) are not read. If a key may change bytes or
FLOPs and the family does not read it, the file is refused.
"""

import difflib
from pathlib import Path
from typing import Any

from perfmodel.errors import one_line
from perfmodel.specs.boundary import files
from perfmodel.specs.huggingface import mamba
from perfmodel.specs.huggingface.biases import biases_of
from perfmodel.specs.huggingface.families import WRAPPERS, Family, family_of, rows, supported
from perfmodel.specs.huggingface.gemm_layers import gemm_layers
from perfmodel.specs.huggingface.keys import NEEDED, USUAL, Fields, Keys
from perfmodel.specs.huggingface.names import other_spellings
from perfmodel.specs.huggingface.quantised import formats_of
from perfmodel.specs.huggingface.rotary import rotary
from perfmodel.specs.huggingface.unread import refuse_unread
from perfmodel.specs.models.components import MAX_LAYERS, MAX_TOKENS
from perfmodel.specs.models.model import ModelSpec

__all__ = ["from_config", "supported"]

INNER = ("text_config", "llm_config", "language_config", "thinker_config")
"""Keys of the language model in a file with vision or audio."""


def from_config(
    data: dict[str, Any], where: str, beside: dict[str, Any] | None = None, family: Family | None = None
) -> ModelSpec:
    """Reads one ``config.json``.

    `where` is the path of the file. The name of the model follows from this path.

    - beside: contents of ``hf_quant_config.json`` in the same folder.
    - family: the family to use instead of that of `model_type`. It is given for the layers of a draft head.

    Raises InputError, which names the file and the key.
    """
    keys = _language_model(data, where) if family is None else Keys(data, where)
    family = family or family_of(keys.data["model_type"])
    keys.usual(family.names)
    shape = _shape(keys, family)
    refuse_unread(keys)
    quantised = Keys(data, where) if "quantization_config" in data else keys
    sidecar = Keys(beside, str(Path(where).with_name("hf_quant_config.json"))) if beside else None
    formats = formats_of(quantised, sidecar, gemm_layers(keys, shape), shape["model_type"])
    return files.parse(ModelSpec, shape | formats, where)


def _language_model(data: dict[str, Any], where: str) -> Keys:
    """The keys of the language model. In a file with vision or audio, they are under a key of `INNER`."""
    outer = Keys(data, where)
    model_type = data.get("model_type")
    place = next((key for key in INNER if data.get(key) is not None), "text_config")
    inner = outer.mapping(place)
    if inner and place == "thinker_config":  # Qwen-Omni's language model is a part of its thinker
        return _language_model({"model_type": inner.data.get("model_type"), **inner.data}, where)
    inner_type = str(inner.data.get("model_type")) if inner else ""
    if not isinstance(model_type, str) or (model_type not in supported() and inner_type not in rows()):
        raise outer.bad("model_type", _families(model_type))
    if model_type in rows() and ("num_hidden_layers" in data or inner is None):
        return outer
    if inner is None:
        raise outer.bad("text_config", "a mapping with the language model's sizes")
    text = {"model_type": WRAPPERS.get(model_type, model_type), **inner.data}
    if "tie_word_embeddings" in data and not (model_type == "mistral3" and "tie_word_embeddings" in text):
        text["tie_word_embeddings"] = data["tie_word_embeddings"]
    sizes = other_spellings("default")
    left_out = sizes.get(model_type) or sizes.get(str(text["model_type"]), [])
    defaults = {key: int(size) for key, _, size in (each.partition("=") for each in left_out)}
    keys = Keys(text, where, f"{place}.", defaults)
    if str(text["model_type"]) not in rows():
        raise keys.bad("model_type", _families(text["model_type"]))
    return keys


def _families(given: Any) -> str:
    """The allowed values of `model_type`, with the most similar known families."""
    near = difflib.get_close_matches(str(given).lower(), supported())
    named = f", such as {', '.join(near)}" if near else ""
    return f"one of the {len(supported())} listed in docs/models.md{named}"


def _shape(keys: Keys, family: Family) -> Fields:
    """The fields of ModelSpec. The family's readers replace fields that all families have."""
    layers = mamba.depth(keys)
    of_family = family.fields(keys, layers)
    positions = _positions(keys, family)
    shape: Fields = {
        "name": _name(keys.where),
        "title": _name(keys.where),
        "model_type": keys.data["model_type"],
        "num_hidden_layers": layers,
        "vocab_size": keys.integer("vocab_size"),
        "max_position_embeddings": positions,
        "tie_word_embeddings": keys.flag("tie_word_embeddings", "tied" in family.rules),
        "rms_norm_eps": keys.number("rms_norm_eps", family.rms_norm_eps),
        "num_nextn_predict_layers": _predicting(keys),
        "source": keys.where,
    }
    shape |= _widths(keys, family, of_family)
    shape |= biases_of(keys, family)
    shape |= rotary(keys, family, positions)
    if keys.defaulted:
        named = ", ".join(dict.fromkeys(keys.defaulted))
        shape["notes"] = f"Not in the file, transformers' defaults: {named}."
    return shape | family.fixed | of_family


def _positions(keys: Keys, family: Family) -> int:
    """The longest sequence, in tokens."""
    key = "model_max_length" if "model_max_length" in keys.data else "max_position_embeddings"
    return keys.integer(key, family.max_position_embeddings or NEEDED, high=MAX_TOKENS)


def _widths(keys: Keys, family: Family, of_family: Fields) -> Fields:
    """Widths of the hidden states, of the heads and of the MLP. A width in `of_family` replaces the width
    under the usual key.
    """
    heads = keys.integer("num_attention_heads")
    hidden = keys.integer("hidden_size")
    usual_mlp = family.mlp_ratio * hidden if family.mlp_ratio else NEEDED
    mlp = of_family.get("intermediate_size") or family.fixed.get("intermediate_size")
    return {
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "num_key_value_heads": of_family.get("num_key_value_heads") or _kv_heads(keys, family, heads),
        "head_dim": of_family.get("head_dim") or _head_dim(keys, family, hidden, heads),
        "intermediate_size": mlp or keys.integer("intermediate_size", usual_mlp),
    }


def _kv_heads(keys: Keys, family: Family, heads: int) -> int:
    """The number of KV heads. If num_key_value_heads is null, the result is num_attention_heads. In some
    families, the same holds if the key is absent.
    """
    may_omit = "heads_are_kv_heads" in family.rules or keys.data.get("num_key_value_heads", NEEDED) is None
    return keys.integer("num_key_value_heads", heads if may_omit else NEEDED)


def _head_dim(keys: Keys, family: Family, hidden: int, heads: int) -> int:
    """The width of a head. Raises InputError if the file does not state it and it does not follow from
    other keys.
    """
    if "head_dim_needed" in family.rules or keys.data.get("head_dim") is not None:
        return keys.integer("head_dim")
    if hidden % heads:
        raise keys.bad(
            "head_dim", f"given where num_attention_heads ({heads}) does not divide hidden_size ({hidden})"
        )
    return hidden // heads


def _predicting(keys: Keys) -> int | None:
    """Number of multi-token prediction layers, if the file states it."""
    key = "num_nextn_predict_layers"
    keys.ignore(*USUAL[key])
    if keys.data.get(key) is not None:
        return keys.integer(key, low=0, high=MAX_LAYERS)
    return None


def _name(where: str) -> str:
    """The name of a model. It is the folder of a ``config.json``, the repository in a Hugging Face cache, or
    the stem of any other file.
    """
    path = Path(where).absolute()
    if path.name != "config.json":
        return one_line(path.stem) or "config"
    if path.parent.parent.name == "snapshots":
        return one_line(path.parent.parent.parent.name.split("--")[-1]) or "config"
    return one_line(path.parent.name) or "config"
