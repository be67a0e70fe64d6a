"""A ModelSpec from any local Hugging Face ``config.json`` of the families below, as transformers reads it.

A key that decides a size must be in the file, unless transformers derives it from others. Keys that move no byte and
no FLOP (`quantization_config`, routing groups, soft caps, ...) are not read.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from perfmodel.specs import files
from perfmodel.specs.keys import NEEDED, Keys
from perfmodel.specs.shape import MAX_LAYERS, MAX_TOKENS, ModelSpec, RopeType

# Which layers slide: (window, number of sliding layers).
_Window = Callable[[Keys, int], tuple[int | None, int]]


def _by_layer(keys: Keys, layers: int, rule: Sequence[bool]) -> int:
    """Sliding layers by the file's `layer_types`, or by the family's rule where it has none."""
    types = keys.data.get("layer_types")
    if types is None:
        return sum(rule)
    kinds = ("full_attention", "sliding_attention")
    if not isinstance(types, list) or len(types) != layers or any(t not in kinds for t in types):
        raise keys.bad("layer_types", f"a list of {layers} entries out of {', '.join(kinds)}")
    return types.count("sliding_attention")


def _all_slide(keys: Keys, layers: int) -> tuple[int | None, int]:
    window = keys.present_or_null("sliding_window", MAX_TOKENS)
    return window, layers if window else 0


def _all_slide_if_given(keys: Keys, layers: int) -> tuple[int | None, int]:
    return _all_slide(keys, layers) if keys.data.get("sliding_window") is not None else (None, 0)


def _alternate(keys: Keys, layers: int) -> tuple[int | None, int]:
    window = keys.present_or_null("sliding_window", MAX_TOKENS)
    return window, _by_layer(keys, layers, [i % 2 == 0 for i in range(layers)]) if window else 0


def _gemma3(keys: Keys, layers: int) -> tuple[int | None, int]:
    window = keys.present_or_null("sliding_window", MAX_TOKENS)
    old = "_sliding_window_pattern" if "_sliding_window_pattern" in keys.data else "sliding_window_pattern"
    pattern = keys.integer(old, 6, high=MAX_LAYERS)
    return window, _by_layer(keys, layers, [(i + 1) % pattern != 0 for i in range(layers)]) if window else 0


def _qwen(keys: Keys, layers: int) -> tuple[int | None, int]:
    if not keys.flag("use_sliding_window", False):
        return None, 0
    window = keys.present_or_null("sliding_window", MAX_TOKENS)
    if not window:
        return None, 0
    full = layers if "layer_types" in keys.data else keys.integer("max_window_layers", low=0, high=MAX_LAYERS)
    return window, _by_layer(keys, layers, [i >= full for i in range(layers)])


def _qwen3_moe(keys: Keys, layers: int) -> tuple[int | None, int]:
    if keys.flag("use_sliding_window", False):
        raise keys.bad("use_sliding_window", "false (transformers' versions disagree on which qwen3_moe layers slide)")
    return None, 0


def _none_slide(keys: Keys, layers: int) -> tuple[int | None, int]:
    return None, 0


# Routed experts: the `moe` mapping of ModelSpec.
_Moe = Callable[[Keys, int], dict[str, Any]]


def _first_dense(keys: Keys, key: str, dense: list[int]) -> int:
    if dense != list(range(len(dense))):
        raise keys.bad(key, "such that the dense layers come first and all later ones are MoE layers")
    return len(dense)


def _qwen_moe(keys: Keys, layers: int) -> dict[str, Any]:
    step, only = keys.integer("decoder_sparse_step", 1, high=MAX_LAYERS), set(keys.integers("mlp_only_layers"))
    dense = [i for i in range(layers) if i in only or (i + 1) % step]
    shared = keys.data.get("model_type") == "qwen2_moe"
    return {
        "num_experts": keys.integer("num_local_experts" if "num_local_experts" in keys.data else "num_experts"),
        "intermediate_size": keys.integer("moe_intermediate_size"),
        "shared_intermediate_size": keys.integer("shared_expert_intermediate_size", low=0) if shared else 0,
        "first_dense_layers": _first_dense(keys, "decoder_sparse_step" if step > 1 else "mlp_only_layers", dense),
    }


def _deepseek_moe(keys: Keys, layers: int) -> dict[str, Any]:
    first, step = keys.integer("first_k_dense_replace", low=0, high=layers), keys.integer("moe_layer_freq", 1)
    dense = [i for i in range(layers) if i < first or i % step]
    if "n_shared_experts" not in keys.data:
        raise keys.bad("n_shared_experts", "a whole number, or null for none")
    width = keys.integer("moe_intermediate_size")
    return {
        "num_experts": keys.integer("n_routed_experts"),
        "intermediate_size": width,
        "shared_intermediate_size": keys.integer("n_shared_experts", 0, low=0) * width,
        "first_dense_layers": _first_dense(keys, "moe_layer_freq", dense),
        "router_bias": keys.data.get("model_type") == "deepseek_v3",
    }


def _mixtral_moe(keys: Keys, layers: int) -> dict[str, Any]:
    return {"num_experts": keys.integer("num_local_experts"), "intermediate_size": keys.integer("intermediate_size")}


def _gpt_oss_moe(keys: Keys, layers: int) -> dict[str, Any]:
    return {**_mixtral_moe(keys, layers), "router_bias": True, "expert_bias": True}


@dataclass(frozen=True)
class _Family:
    """What transformers fixes or assumes for one `model_type`."""

    window: _Window = _none_slide
    moe: _Moe | None = None
    bias: Literal["none", "qkv", "config"] = "none"  # config: `attention_bias` covers q, k, v and o
    bias_default: bool = False
    mlp_bias: bool = False  # the family reads `mlp_bias`
    mla: bool = False
    tied: bool = False  # default of tie_word_embeddings
    heads_are_kv_heads: bool = False  # num_key_value_heads may be left out
    head_dim_needed: bool = False  # transformers' default is a constant, not hidden_size / num_attention_heads
    qk_norm: bool = False
    norms_per_layer: int = 2
    attention_sinks: bool = False
    eps: float = 1e-6
    rope_theta: float = 1e4
    defaults: dict[str, int] | None = None  # sizes that published files of the family leave out


_GEMMA3 = _Family(
    window=_gemma3, bias="config", tied=True, head_dim_needed=True, qk_norm=True, norms_per_layer=4, rope_theta=1e6
)
_FAMILIES: dict[str, _Family] = {
    "llama": _Family(bias="config", mlp_bias=True, heads_are_kv_heads=True),
    "mistral": _Family(window=_all_slide),
    "mixtral": _Family(window=_all_slide_if_given, moe=_mixtral_moe, eps=1e-5, rope_theta=1e6),
    "qwen2": _Family(window=_qwen, bias="qkv"),
    "qwen2_moe": _Family(window=_qwen, moe=_qwen_moe, bias="qkv"),
    "qwen3": _Family(window=_qwen, bias="config", head_dim_needed=True, qk_norm=True),
    "qwen3_moe": _Family(window=_qwen3_moe, moe=_qwen_moe, bias="config", head_dim_needed=True, qk_norm=True),
    "deepseek_v2": _Family(moe=_deepseek_moe, mla=True, heads_are_kv_heads=True),
    "deepseek_v3": _Family(moe=_deepseek_moe, mla=True, heads_are_kv_heads=True),
    "gpt_oss": _Family(
        window=_alternate,
        moe=_gpt_oss_moe,
        bias="config",
        bias_default=True,
        head_dim_needed=True,
        attention_sinks=True,
        eps=1e-5,
        rope_theta=150000.0,
    ),
    "gemma2": _Family(window=_alternate, bias="config", tied=True, head_dim_needed=True, norms_per_layer=4),
    "gemma3_text": _GEMMA3,
    "phi3": _Family(window=_all_slide_if_given, heads_are_kv_heads=True, eps=1e-5),
}
# transformers leaves class defaults out of a nested config, so the published Gemma 3 files rely on these.
_NESTED_GEMMA3 = {
    "vocab_size": 262208,
    "max_position_embeddings": 131072,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "sliding_window": 4096,
}
SUPPORTED = (*_FAMILIES, "gemma3")


def from_config(data: dict[str, Any], where: str) -> ModelSpec:
    """Read one config. `where` is its path; it names the model. Raises InputError naming file and key."""
    model_type = data.get("model_type")
    if model_type == "gemma3":
        inner = Keys(data, where).mapping("text_config")
        if inner is None:
            raise Keys(data, where).bad("text_config", "a mapping with the language model's sizes")
        tied = data.get("tie_word_embeddings", inner.data.get("tie_word_embeddings", True))
        text = {**inner.data, "model_type": "gemma3_text", "tie_word_embeddings": tied}
        keys = Keys(text, where, "text_config.", _NESTED_GEMMA3)
    else:
        keys = Keys(data, where)
        if not isinstance(model_type, str) or model_type not in _FAMILIES:
            raise keys.bad("model_type", f"one of {', '.join(sorted(SUPPORTED))}")
    return files.parse(ModelSpec, _shape(keys, _FAMILIES[keys.data["model_type"]]), where)


def _shape(keys: Keys, family: _Family) -> dict[str, Any]:
    layers = keys.integer("num_hidden_layers", high=MAX_LAYERS)
    heads = keys.integer("num_attention_heads")
    hidden = keys.integer("hidden_size")
    bias = family.bias == "qkv" or keys.flag("attention_bias", family.bias_default)
    if family.mla and (bias or keys.flag("mlp_bias", False)):
        raise keys.bad("attention_bias" if bias else "mlp_bias", "false for this architecture")
    if family.bias == "none":
        bias = False
    if keys.data["model_type"] == "qwen2_moe":
        bias = keys.flag("qkv_bias", True)
    window, sliding = family.window(keys, layers)
    mla = _latent(keys) if family.mla else None
    # A null num_key_value_heads means num_attention_heads; in some families an absent one does too.
    may_omit = family.heads_are_kv_heads or keys.data.get("num_key_value_heads", NEEDED) is None
    kv_heads = heads if mla else keys.integer("num_key_value_heads", heads if may_omit else NEEDED)
    head_dim = mla.pop("head_dim") if mla else _head_dim(keys, family, hidden, heads)
    positions = keys.integer("max_position_embeddings", high=MAX_TOKENS)
    moe = family.moe(keys, layers) if family.moe else None
    shape: dict[str, Any] = {
        "name": _name(keys.where),
        "title": _name(keys.where),
        "model_type": keys.data["model_type"],
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": head_dim,
        "intermediate_size": keys.integer("intermediate_size"),
        "vocab_size": keys.integer("vocab_size"),
        "max_position_embeddings": positions,
        "tie_word_embeddings": keys.flag("tie_word_embeddings", family.tied),
        "qkv_bias": bias,
        "output_bias": bias and family.bias == "config",
        "mlp_bias": family.mlp_bias and keys.flag("mlp_bias", False),
        "qk_norm": family.qk_norm,
        "norms_per_layer": family.norms_per_layer,
        "attention_sinks": family.attention_sinks,
        "rms_norm_eps": keys.number("rms_norm_eps", family.eps),
        **_rotary(keys, family, positions),
        "sliding_window": window if sliding else None,
        "num_sliding_layers": sliding,
        "moe": {"experts_per_token": keys.integer("num_experts_per_tok"), **moe} if moe else None,
        "mla": mla,
        "source": keys.where,
    }
    if keys.defaulted:
        shape["notes"] = f"Not in the file, transformers' defaults: {', '.join(dict.fromkeys(keys.defaulted))}."
    return shape


def _head_dim(keys: Keys, family: _Family, hidden: int, heads: int) -> int:
    if family.head_dim_needed or keys.data.get("head_dim") is not None:
        return keys.integer("head_dim")
    if hidden % heads:
        raise keys.bad("head_dim", f"given where num_attention_heads ({heads}) does not divide hidden_size ({hidden})")
    return hidden // heads


def _latent(keys: Keys) -> dict[str, int | None]:
    """The `mla` mapping of ModelSpec, and the width of a query head."""
    names = ("kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")
    sizes = {name: keys.integer(name) for name in names}
    width = sizes["qk_nope_head_dim"] + sizes["qk_rope_head_dim"]
    return {"q_lora_rank": keys.present_or_null("q_lora_rank"), **sizes, "head_dim": width}


def _rotary(keys: Keys, family: _Family, positions: int) -> dict[str, Any]:
    """`rope_theta` and `rope_scaling`, from the old layout or the newer `rope_parameters`."""
    newer = keys.mapping("rope_parameters")
    if newer and "full_attention" in newer.data:
        newer = newer.mapping("full_attention")
    theta = (newer or keys).number("rope_theta", keys.number("rope_theta", family.rope_theta))
    scaling = newer or keys.mapping("rope_scaling")
    if scaling is None:
        return {"rope_theta": theta}
    key = "rope_type" if "rope_type" in scaling.data else "type"
    rope_type = scaling.data.get(key, "default" if newer else None)
    if rope_type == "default":
        return {"rope_theta": theta}
    rope_type = "longrope" if rope_type == "su" else rope_type
    if not isinstance(rope_type, str) or rope_type not in get_args(RopeType):
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
    return {"rope_theta": theta, "rope_scaling": rule}


def _name(where: str) -> str:
    """The folder of a ``config.json`` (the repository in a Hugging Face cache), else the file's stem."""
    path = Path(where).absolute()
    if path.name != "config.json":
        return files.one_line(path.stem) or "config"
    if path.parent.parent.name == "snapshots":
        return files.one_line(path.parent.parent.parent.name.split("--")[-1]) or "config"
    return files.one_line(path.parent.name) or "config"
