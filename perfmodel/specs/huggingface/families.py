"""What transformers fixes or assumes for each `model_type` that is read: one line a family."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from perfmodel.specs.huggingface import experts, layers
from perfmodel.specs.huggingface.keys import Keys

Reader = Callable[[Keys, int], layers.Fields]


@dataclass(frozen=True)
class Family:
    """readers: shape fields from the file, later ones over earlier ones. fixed: shape fields of every model.

    bias: ``config`` reads `attention_bias` for q, k, v and o, ``config_qkv`` for q, k and v, ``qkv`` is always there,
    ``bias`` reads `use_bias` for all of these and the MLP.
    bias_default, eps, rope_theta, tied: what an absent key means. head_dim_needed: transformers' default is a constant,
    not hidden_size / num_attention_heads. heads_are_kv_heads: num_key_value_heads may be left out. defaults: sizes that
    published files of the family leave out. mtp: key of the multi-token prediction layers. modules: GEMM -> names of
    its modules in checkpoints, where they are not those of `quantised.MODULES`.
    """

    readers: tuple[Reader, ...] = (layers.all_full,)
    fixed: layers.Fields = field(default_factory=dict)
    bias: Literal["none", "qkv", "config", "config_qkv", "bias"] = "none"
    bias_default: bool = False
    mlp_bias: bool = False
    tied: bool = False
    heads_are_kv_heads: bool = False
    head_dim_needed: bool = False
    eps: float = 1e-6
    rope_theta: float = 1e4
    defaults: dict[str, int] = field(default_factory=dict)
    mtp: str = "num_nextn_predict_layers"
    modules: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


_QK_NORM = {"qk_norm": True}
_DEEPSEEK = Family((layers.latent, experts.deepseek), heads_are_kv_heads=True)
_SPARSE = replace(_DEEPSEEK, readers=(layers.latent, layers.indexer, experts.deepseek))
_QWEN3 = Family((layers.qwen,), _QK_NORM, "config", head_dim_needed=True)
_QWEN3_MOE = replace(_QWEN3, readers=(layers.qwen3_moe, experts.qwen))
_QWEN3_NEXT = replace(_QWEN3, readers=(layers.gated_delta, experts.qwen), mtp="mtp_num_hidden_layers")
_GEMMA3 = Family(
    (layers.slides_but_every(6, needed=True),),
    _QK_NORM | {"norms_per_layer": 4},
    "config",
    tied=True,
    head_dim_needed=True,
    rope_theta=1e6,
)
_MISTRAL = Family((layers.all_slide,))

_GLM4 = Family(fixed={"norms_per_layer": 4}, bias="config_qkv", bias_default=True, eps=1e-5)
_GLM4_MOE = Family((experts.deepseek,), bias="config_qkv", head_dim_needed=True, eps=1e-5)
_OLMO = Family((layers.slides_but_every(4),), {"wide_qk_norm": True, "qk_norm": True}, "config")
_MINIMAX3 = Family((layers.block_indexer, experts.minimax_m3), _QK_NORM, head_dim_needed=True)
_EXAONE = Family((layers.slides_but_every(4),), _QK_NORM, eps=1e-5)
_HUNYUAN = Family((layers.hunyuan,), _QK_NORM, "config", eps=1e-5)
_QWEN2 = Family((layers.qwen,), bias="qkv")
_STEP = Family((layers.step, experts.step), _QK_NORM, head_dim_needed=True, eps=1e-5)
_LFM2_MODULES = {"state_in": ("conv.in_proj",), "state_out": ("conv.out_proj",), "o": ("self_attn.out_proj",)}

FAMILIES: dict[str, Family] = {
    "bailing_moe": Family(
        (experts.of("num_experts", shared="num_shared_experts", first="first_k_dense_replace", bias=True),),
        _QK_NORM,
        "config",
    ),
    "cohere": Family(fixed={"norms_per_layer": 1}, bias="config", tied=True, eps=1e-5),
    "cohere2": Family((layers.slides_but_every(4),), {"norms_per_layer": 1}, "config", tied=True, eps=1e-5),
    "deepseek_v2": _DEEPSEEK,
    "deepseek_v3": _DEEPSEEK,
    "deepseek_v32": _SPARSE,
    "ernie4_5": Family(tied=True, eps=1e-5, rope_theta=5e5),
    "ernie4_5_moe": Family((experts.ernie,), tied=True, eps=1e-5, rope_theta=5e5),
    "exaone4": _EXAONE,
    "exaone4_5_text": _EXAONE,
    "falcon_h1": Family((layers.mamba_beside,), bias="config", mlp_bias=True, eps=1e-5),
    "gemma": Family(bias="config", tied=True, head_dim_needed=True),
    "gemma2": Family(
        (layers.slides_but_every(2, needed=True),), {"norms_per_layer": 4}, "config", tied=True, head_dim_needed=True
    ),
    "gemma3_text": _GEMMA3,
    "gemma4_text": replace(
        _GEMMA3,
        readers=(layers.gemma4, experts.gemma4),
        modules={
            "experts": ("experts.0.gate_proj", "experts.gate_up_proj"),
            "shared_gate_up": ("mlp.gate_proj", "mlp.up_proj"),
            "shared_down": ("mlp.down_proj",),
        },
    ),
    "glm4": _GLM4,
    "glm4_moe": _GLM4_MOE,
    "glm4_moe_lite": replace(_DEEPSEEK, eps=1e-5),
    "glm4v_moe_text": _GLM4_MOE,
    "glm4v_text": _GLM4,
    "glm_moe_dsa": replace(_SPARSE, eps=1e-5),
    "gpt_oss": Family(
        (layers.slides_but_every(2, needed=True), experts.gpt_oss),
        {"attention_sinks": True},
        "config",
        bias_default=True,
        head_dim_needed=True,
        eps=1e-5,
        rope_theta=150000.0,
    ),
    "granite": Family(bias="config", mlp_bias=True, heads_are_kv_heads=True),
    "granitemoe": Family((experts.of("num_local_experts", "intermediate_size"),), bias="config"),
    "granitemoehybrid": Family(
        (layers.granite_hybrid, experts.granite),
        bias="config",
        modules={"state_in": ("mamba.in_proj",), "state_out": ("mamba.out_proj",)},
    ),
    "hunyuan_v1_dense": _HUNYUAN,
    "hunyuan_v1_moe": replace(_HUNYUAN, readers=(layers.hunyuan, experts.hunyuan)),
    "hy_v3": Family(
        (experts.of("num_experts", shared="num_shared_experts", first="mlp_layer_types", bias=True),),
        _QK_NORM,
        "config",
    ),
    "kimi_k2": _DEEPSEEK,
    "kimi_linear": Family((layers.kimi_delta, experts.kimi), heads_are_kv_heads=True, eps=1e-5),
    "lfm2": Family((layers.short_convolutions,), _QK_NORM, tied=True, eps=1e-5, modules=_LFM2_MODULES),
    "lfm2_moe": Family(
        (layers.short_convolutions, experts.of("num_experts", first="num_dense_layers", bias=True)),
        _QK_NORM,
        tied=True,
        eps=1e-5,
        modules=_LFM2_MODULES,
    ),
    "llama": Family(bias="config", mlp_bias=True, heads_are_kv_heads=True),
    "llama4_text": Family((layers.chunked, experts.llama4), bias="config", head_dim_needed=True, eps=1e-5),
    "mimo": Family((layers.qwen,), bias="qkv"),
    "mimo_v2_flash": Family((layers.mimo_v2, experts.mimo_v2), {"attention_sinks": True}, eps=1e-5),
    "minimax_m2": Family(
        (layers.all_full, experts.minimax),
        _QK_NORM | {"wide_qk_norm": True},
        head_dim_needed=True,
        mtp="num_mtp_modules",
    ),
    "minimax_m3": _MINIMAX3,
    "minimax_m3_vl_text": _MINIMAX3,
    "ministral3": replace(_MISTRAL, head_dim_needed=True, eps=1e-5),
    "mistral": _MISTRAL,
    "mistral4": replace(_DEEPSEEK, eps=1e-6),
    "mllama_text_model": Family((layers.without_cross_attention,), eps=1e-5, rope_theta=5e5),
    "mixtral": Family(
        (layers.all_slide_if_given, experts.of("num_local_experts", "intermediate_size")), eps=1e-5, rope_theta=1e6
    ),
    "nemotron_h": Family((layers.nemotron_h, experts.nemotron_h), {"norms_per_layer": 1}, "config", eps=1e-5),
    "nemotron-nas": Family((layers.blocks_of_any_width,), bias="config", eps=1e-5),
    "olmo2": _OLMO,
    "olmo3": _OLMO,
    "olmoe": replace(_OLMO, readers=(experts.of("num_experts", "intermediate_size"),), eps=1e-5),
    "phi3": Family((layers.all_slide_if_given,), heads_are_kv_heads=True, eps=1e-5),
    "qwen2": _QWEN2,
    "qwen2_5_vl": _QWEN2,
    "qwen2_5_vl_text": _QWEN2,
    "qwen2_moe": Family((layers.qwen, experts.qwen), bias="qkv"),
    "qwen2_vl": _QWEN2,
    "qwen2_vl_text": _QWEN2,
    "qwen3": _QWEN3,
    "qwen3_5_moe_text": replace(_QWEN3_NEXT, readers=(layers.gated_delta, experts.qwen_without_dense)),
    "qwen3_5_text": replace(_QWEN3_NEXT, readers=(layers.gated_delta,)),
    "qwen3_moe": _QWEN3_MOE,
    "qwen3_next": _QWEN3_NEXT,
    "qwen3_vl_moe_text": _QWEN3_MOE,
    "qwen3_vl_text": _QWEN3,
    "seed_oss": Family(bias="config_qkv", bias_default=True, mlp_bias=True, head_dim_needed=True),
    "smollm3": Family((layers.qwen,), bias="config", mlp_bias=True, tied=True, rope_theta=2e6),
    "starcoder2": Family(
        (layers.all_slide_if_given,), {"gated_mlp": False, "norms_per_layer": 4}, "bias", tied=True, eps=1e-5
    ),
    "step3p5": _STEP,
    "step3p7": _STEP,
}

HEAD_OF_BLOCKS = Family((layers.block_head,), _QK_NORM, "config")
"""Layers of DFlash and DSpark: Qwen3's, whatever family the file says."""
LATENT_HEAD = Family((layers.latent,), bias="none", heads_are_kv_heads=True)
"""An EAGLE-3 head with latent attention (DeepSeek's) and a dense MLP."""

# Files with vision or audio beside a language model, which is under `text_config`: its `model_type` where it has none.
WRAPPERS = {
    "gemma3": "gemma3_text",
    "gemma4": "gemma4_text",
    "exaone4_5": "exaone4_5_text",
    "glm4v": "glm4v_text",
    "glm4v_moe": "glm4v_moe_text",
    "kimi_k25": "kimi_k2",
    "kimi_k3": "kimi_linear",
    "lfm2_vl": "lfm2",
    "llama4": "llama4_text",
    "minimax_m3_vl": "minimax_m3_vl_text",
    "mistral3": "mistral",
    "mllama": "mllama_text_model",
    "qwen3_5": "qwen3_5_text",
    "qwen3_5_moe": "qwen3_5_moe_text",
    "qwen3_vl": "qwen3_vl_text",
    "qwen3_vl_moe": "qwen3_vl_moe_text",
    "voxtral": "llama",
}
# transformers leaves class defaults out of a nested config, so the published Gemma 3 files rely on these.
NESTED_DEFAULTS = {
    "gemma3": {
        "vocab_size": 262208,
        "max_position_embeddings": 131072,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "sliding_window": 4096,
    }
}
SUPPORTED = tuple(sorted((*FAMILIES, *WRAPPERS)))
