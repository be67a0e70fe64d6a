"""A ModelSpec from any local Hugging Face ``config.json``, as transformers reads it.

Families are rows of the tables in ``models/families``; ``models/names.csv`` has the names that files use. A
key that decides a size must be in the file, unless transformers derives it from others. Keys that change no
byte and no FLOP (routing groups, soft caps, ...) are not read. A key that may change them and that the family
does not read is refused.
"""

import difflib
from pathlib import Path
from typing import Any, get_args

from perfmodel.errors import one_line
from perfmodel.specs.boundary import files
from perfmodel.specs.huggingface import mamba
from perfmodel.specs.huggingface.families import WRAPPERS, Family, family_of, rows, supported
from perfmodel.specs.huggingface.keys import NEEDED, USUAL, Keys, other_spellings, refuse_unread
from perfmodel.specs.huggingface.quantised import formats_of
from perfmodel.specs.models.components import MAX_LAYERS, MAX_TOKENS, RopeType
from perfmodel.specs.models.shape import ModelSpec

__all__ = ["from_config", "supported"]

INNER = ("text_config", "llm_config", "language_config", "thinker_config")
"""Keys of the language model in a file with vision or audio."""


def from_config(
    data: dict[str, Any], where: str, beside: dict[str, Any] | None = None, family: Family | None = None
) -> ModelSpec:
    """Reads one config.

    `where`: its path, which also names the model. beside: the ``hf_quant_config.json`` of its folder. family:
    replaces `model_type` (for the layers of a drafting head). Raises InputError naming file and key.
    """
    keys = _language_model(data, where) if family is None else Keys(data, where)
    family = family or family_of(keys.data["model_type"])
    keys.usual(family.names)
    shape = _shape(keys, family)
    refuse_unread(keys)
    quantised = Keys(data, where) if "quantization_config" in data else keys
    sidecar = Keys(beside, str(Path(where).with_name("hf_quant_config.json"))) if beside else None
    formats = formats_of(quantised, sidecar, _gemm_layers(keys, shape), shape["model_type"])
    return files.parse(ModelSpec, shape | formats, where)


def _language_model(data: dict[str, Any], where: str) -> Keys:
    """The keys of the language model: the file's own, or those under a key of `INNER` in a file with
    vision.
    """
    outer = Keys(data, where)
    model_type = data.get("model_type")
    place = next((key for key in INNER if data.get(key) is not None), "text_config")
    inner = outer.mapping(place)
    if inner and place == "thinker_config":  # Qwen's Omni: the language model is a part of the thinker
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
    """The known families, the most similar names first."""
    near = difflib.get_close_matches(str(given).lower(), supported())
    named = f", such as {', '.join(near)}" if near else ""
    return f"one of the {len(supported())} listed in docs/models.md{named}"


def _shape(keys: Keys, family: Family) -> dict[str, Any]:
    """ModelSpec's fields: those of all families, then those of the family's own readers."""
    layers = mamba.depth(keys)
    heads = keys.integer("num_attention_heads")
    hidden = keys.integer("hidden_size")
    longest = "max_position_embeddings" if "model_max_length" not in keys.data else "model_max_length"
    positions = keys.integer(longest, family.max_position_embeddings or NEEDED, high=MAX_TOKENS)
    mlp_width = family.mlp_ratio * hidden if family.mlp_ratio else NEEDED
    of_family = family.fields(keys, layers)
    kv_heads = of_family.get("num_key_value_heads") or _kv_heads(keys, family, heads)
    head_dim = of_family.get("head_dim") or _head_dim(keys, family, hidden, heads)
    width = of_family.get("intermediate_size") or family.fixed.get("intermediate_size")
    if not width:
        width = keys.integer("intermediate_size", mlp_width)
    shape = {
        "name": _name(keys.where),
        "title": _name(keys.where),
        "model_type": keys.data["model_type"],
        "num_hidden_layers": of_family.get("num_hidden_layers", layers),
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": head_dim,
        "intermediate_size": width,
        "vocab_size": keys.integer("vocab_size"),
        "max_position_embeddings": positions,
        "tie_word_embeddings": keys.flag("tie_word_embeddings", "tied" in family.rules),
        **_biases(keys, family),
        "rms_norm_eps": keys.number("rms_norm_eps", family.rms_norm_eps),
        **_rotary(keys, family, positions),
        "num_nextn_predict_layers": _predicting(keys),
        "source": keys.where,
    }
    if keys.defaulted:
        named = ", ".join(dict.fromkeys(keys.defaulted))
        shape["notes"] = f"Not in the file, transformers' defaults: {named}."
    return shape | family.fixed | of_family


def _kv_heads(keys: Keys, family: Family, heads: int) -> int:
    """The number of KV heads. A null num_key_value_heads means num_attention_heads; in some families an
    absent one does too.
    """
    may_omit = "heads_are_kv_heads" in family.rules or keys.data.get("num_key_value_heads", NEEDED) is None
    return keys.integer("num_key_value_heads", heads if may_omit else NEEDED)


def _head_dim(keys: Keys, family: Family, hidden: int, heads: int) -> int:
    if "head_dim_needed" in family.rules or keys.data.get("head_dim") is not None:
        return keys.integer("head_dim")
    if hidden % heads:
        raise keys.bad(
            "head_dim", f"given where num_attention_heads ({heads}) does not divide hidden_size ({hidden})"
        )
    return hidden // heads


def _biases(keys: Keys, family: Family) -> dict[str, bool]:
    if "use_bias" in family.rules:
        return dict.fromkeys(("qkv_bias", "output_bias", "mlp_bias"), keys.flag("use_bias", True))
    biased = keys.flag("attention_bias", "bias_default" in family.rules)
    mlp = keys.flag("mlp_bias", False)
    if "unbiased" in family.rules and (biased or mlp):
        raise keys.bad("attention_bias" if biased else "mlp_bias", "false for this architecture")
    whole = biased and "attention_bias" in family.rules
    qkv = whole or (biased and "attention_bias_of_qkv" in family.rules)
    output = keys.flag("attention_out_bias", whole)
    return {"qkv_bias": qkv, "output_bias": output, "mlp_bias": mlp and "mlp_bias" in family.rules}


def _predicting(keys: Keys) -> int | None:
    """Number of multi-token prediction layers, if the file states it."""
    key = "num_nextn_predict_layers"
    keys.ignore(*USUAL[key])
    if keys.data.get(key) is not None:
        return keys.integer(key, low=0, high=MAX_LAYERS)
    return None


_SCALING = {
    "yarn": ("attention_factor", "beta_fast", "beta_slow", "truncate", "mscale", "mscale_all_dim"),
    "longrope": ("attention_factor", "short_factor", "long_factor"),
}


def _rotary(keys: Keys, family: Family, positions: int) -> dict[str, Any]:
    """`rope_theta` and `rope_scaling`, from the old layout or the newer `rope_parameters`."""
    newer = keys.mapping("rope_parameters")
    if newer and "full_attention" in newer.data:
        newer = newer.mapping("full_attention")
    theta = (newer or keys).number("rope_theta", keys.number("rope_theta", family.rope_theta))
    scaling = newer or keys.mapping("rope_scaling")
    share = "partial_rotary_factor"
    rotary = {"rope_theta": theta, share: (newer or keys).number(share, keys.number(share, 1.0))}
    if scaling is None:
        return rotary
    key = "rope_type" if "rope_type" in scaling.data else "type"
    rope_type = scaling.data.get(key, "default" if newer else None)
    if rope_type in ("default", "proportional", "mrope"):
        return rotary
    rope_type = "longrope" if rope_type == "su" else rope_type
    if rope_type not in get_args(RopeType):
        raise scaling.bad(key, f"one of default, {', '.join(get_args(RopeType))}")
    fixed = rope_type == "llama3"
    original = "original_max_position_embeddings"
    before = keys.integer(original, positions, high=MAX_TOKENS)
    before = scaling.integer(original, NEEDED if fixed else before, high=MAX_TOKENS)
    rule = {
        "rope_type": rope_type,
        "factor": scaling.number("factor", positions / before if rope_type == "longrope" else NEEDED),
        original: before,
    }
    if fixed:
        rule |= {name: scaling.number(name) for name in ("low_freq_factor", "high_freq_factor")}
    optional = {name: scaling.data.get(name) for name in _SCALING.get(rope_type, ())}
    given = {name: value for name, value in optional.items() if value or value is False}  # 0 stands for null
    return rotary | {"rope_scaling": rule | given}


def _gemm_layers(keys: Keys, shape: dict[str, Any]) -> dict[str, list[int]]:
    """GEMM -> the layers that have it. ``mtp`` stands for the layers after the model's own."""
    depth = shape["num_hidden_layers"]
    moe = shape.get("moe")
    every = list(range(depth))
    if "layers_block_type" in keys.data or "hybrid_override_pattern" in keys.data:
        kinds = mamba.blocks(keys)
        at = {kind: [i for i in every if kinds[i] == kind] for kind in ("mamba", "attention", "mlp", "moe")}
    else:
        types = keys.data.get("layer_types") if shape.get("linear_attention") else None
        state = [i for i in every if types and types[i] in ("linear_attention", "mamba", "conv")]
        dense = moe.get("first_dense_layers", 0) if moe else depth
        at = {"mamba": state, "attention": [i for i in every if i not in state]}
        at |= {"mlp": every[:dense], "moe": every[dense:]}
    gemms: tuple[str, ...] = ("qkv_down", "q_up", "o") if shape.get("mla") else ("qkv", "o")
    if shape.get("low_rank"):
        gemms = ("qkv", "q_up", "o_down", "o")
    layers_of = dict.fromkeys(gemms, at["attention"])
    layers_of |= dict.fromkeys(("state_in", "state_out"), at["mamba"])
    layers_of |= dict.fromkeys(("gate_up", "down"), at["mlp"])
    if shape.get("indexer"):
        layers_of["index_q"] = at["attention"]
    shared = ("shared_gate_up", "shared_down") if moe and moe.get("shared_intermediate_size") else ()
    layers_of |= dict.fromkeys(("experts", *shared), at["moe"] if moe else [])
    if moe and moe.get("latent_size"):
        layers_of |= dict.fromkeys(("latent_in", "latent_out"), at["moe"])
    return layers_of | {"mtp": list(range(depth, depth + (shape["num_nextn_predict_layers"] or 0)))}


def _name(where: str) -> str:
    """The folder of a ``config.json`` (or the repository in a Hugging Face cache), else the file's stem."""
    path = Path(where).absolute()
    if path.name != "config.json":
        return one_line(path.stem) or "config"
    if path.parent.parent.name == "snapshots":
        return one_line(path.parent.parent.parent.name.split("--")[-1]) or "config"
    return one_line(path.parent.name) or "config"
