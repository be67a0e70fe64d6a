"""What transformers fixes or assumes for each `model_type` that is read: one line a family."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from perfmodel.specs.huggingface import experts, layers, recurrent, sparse
from perfmodel.specs.huggingface.keys import Keys
from perfmodel.specs.huggingface.wrappers import WRAPPERS

Reader = Callable[[Keys, int], layers.Fields]


@dataclass(frozen=True)
class Family:
    """readers: shape fields from the file, later ones over earlier ones. fixed: shape fields of every model.

    bias: ``config`` reads `attention_bias` for q, k, v and o, ``config_qkv`` for q, k and v, ``qkv`` is always there,
    ``bias`` reads `use_bias` for all of these and the MLP.
    bias_default, eps, rope_theta, tied: what an absent key means. head_dim_needed: transformers' default is a constant,
    not hidden_size / num_attention_heads. heads_are_kv_heads: num_key_value_heads may be left out. mlp_ratio: width
    of an MLP over the hidden one, and positions: the longest context, where the file does not say. modules: GEMM ->
    names of its modules in checkpoints, where they are not those of `quantised.MODULES`.
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
    mlp_ratio: int = 0
    positions: int | None = None
    modules: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def _routed(first: str) -> Reader:
    """Experts and shared ones by the usual keys, `first` for the dense layers, and a router with a bias."""
    return experts.of("num_experts", shared="num_shared_experts", first=first, bias=True)


_QK_NORM = {"qk_norm": True}
_DEEPSEEK = Family((sparse.latent, experts.deepseek), heads_are_kv_heads=True)
_SPARSE = replace(_DEEPSEEK, readers=(sparse.latent, sparse.indexer, experts.deepseek))
_QWEN3 = Family((layers.qwen,), _QK_NORM, "config", head_dim_needed=True)
_QWEN3_NEXT = replace(_QWEN3, readers=(recurrent.gated_delta, experts.qwen))
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
_GLM4_MOE = Family((experts.deepseek,), bias="config_qkv", eps=1e-5)
_OLMO = Family((layers.slides_but_every(4),), {"wide_qk_norm": True, "qk_norm": True}, "config")
_EXAONE = Family((layers.slides_but_every(4),), _QK_NORM, eps=1e-5)
_HUNYUAN = Family((layers.hunyuan,), _QK_NORM, "config", eps=1e-5)
_BIASES = dict.fromkeys(("qkv_bias", "output_bias", "mlp_bias"), True)
_PLAIN = {"gated_mlp": False, "norm_bias": True}
_LLAMA = Family(bias="config", mlp_bias=True, heads_are_kv_heads=True)
_FIRST_DENSE = _routed("first_k_dense_replace")
_PLAIN_EXPERTS = experts.of("num_experts", "intermediate_size")
_GRANITE_MOE = Family((experts.granite,), bias="config", heads_are_kv_heads=True)
_GATED = {"attention_gate": True, "norms_per_layer": 4}
_LFM2_MODULES = {"state_in": ("conv.in_proj",), "state_out": ("conv.out_proj",), "o": ("self_attn.out_proj",)}

FAMILIES: dict[str, Family] = {
    "afmoe": Family((layers.named_windows, _routed("num_dense_layers")), _QK_NORM | _GATED, "config", eps=1e-5),
    "apertus": Family(fixed=_QK_NORM | {"gated_mlp": False}, bias="config", heads_are_kv_heads=True, eps=1e-5),
    "arcee": replace(_LLAMA, fixed={"gated_mlp": False}, eps=1e-5),
    "aria_text": Family(
        (experts.of("num_experts", "intermediate_size", shared="num_shared_experts"),), heads_are_kv_heads=True
    ),
    "axk1": replace(_DEEPSEEK, fixed={"norms_per_layer": 3}),
    "bailing_hybrid": Family((recurrent.bailing, _FIRST_DENSE), heads_are_kv_heads=True),
    "bailing_moe": Family((_FIRST_DENSE,), _QK_NORM, "config"),
    "bamba": Family((recurrent.bamba,), bias="config", mlp_bias=True, eps=1e-5),
    "bloom": Family(fixed=_BIASES | _PLAIN, tied=True, heads_are_kv_heads=True, mlp_ratio=4, positions=2048, eps=1e-5),
    "chatglm": Family(bias="qkv", heads_are_kv_heads=True, eps=1e-5),
    "cohere": Family(fixed={"norms_per_layer": 1}, bias="config", tied=True, eps=1e-5),
    "cohere2": Family((layers.slides_but_every(4),), {"norms_per_layer": 1}, "config", tied=True, eps=1e-5),
    "cohere2_moe": Family(
        (
            layers.slides_but_every(4),
            experts.of("num_experts", "intermediate_size", shared="num_shared_experts", first="mlp_layer_types"),
        ),
        {"norms_per_layer": 1},
        "config",
        tied=True,
        eps=1e-5,
    ),
    "cosmos3_edge_text": replace(_LLAMA, fixed={"gated_mlp": False}, eps=1e-5),
    "cwm": Family((layers.named_windows,), eps=1e-5, rope_theta=1e6),
    "dbrx": Family((experts.dbrx,), rope_theta=5e5, eps=1e-5),
    "deepseek": Family((experts.deepseek,), bias="config", heads_are_kv_heads=True),
    "deepseek_v3": _DEEPSEEK,
    "deepseek_v32": _SPARSE,
    "deepseek_v4": Family(
        (sparse.compressed, experts.everywhere),
        {"attention_sinks": True, "one_kv_projection": True, "cached_once": True},
        head_dim_needed=True,
        modules={
            "experts": ("ffn.experts.0.w1",),
            "shared_gate_up": ("ffn.shared_experts.w1",),
            "shared_down": ("ffn.shared_experts.w2",),
            "qkv": ("attn.wkv",),
            "q_up": ("attn.wq_b",),
            "o_down": ("attn.wo_a",),
            "o": ("attn.wo_b",),
            "index_q": ("attn.indexer.wq_b",),
        },
    ),
    "dots1": Family((layers.named_windows, experts.deepseek), _QK_NORM, "config", heads_are_kv_heads=True),
    "ernie4_5": Family(tied=True, eps=1e-5, rope_theta=5e5),
    "ernie4_5_moe": Family((experts.ernie,), tied=True, eps=1e-5, rope_theta=5e5),
    "exaone4": _EXAONE,
    "exaone_moe": replace(_EXAONE, readers=(layers.slides_but_every(4), _FIRST_DENSE)),
    "falcon": Family(
        (layers.falcon,), _PLAIN, tied=True, heads_are_kv_heads=True, mlp_ratio=4, positions=2048, eps=1e-5
    ),
    "falcon_h1": Family((recurrent.mamba_beside,), bias="config", mlp_bias=True, eps=1e-5),
    "flex_olmo": replace(_OLMO, readers=(_PLAIN_EXPERTS,)),
    "gemma": Family(bias="config", tied=True, head_dim_needed=True),
    "gemma2": Family(
        (layers.slides_but_every(2, needed=True),), {"norms_per_layer": 4}, "config", tied=True, head_dim_needed=True
    ),
    "gemma3_text": _GEMMA3,
    "gemma3n_text": Family(
        (layers.slides_but_every(5, needed=True), layers.gemma3n),
        _QK_NORM | {"norms_per_layer": 8},
        "config",
        tied=True,
        head_dim_needed=True,
        rope_theta=1e6,
    ),
    "gemma4_text": replace(
        _GEMMA3,
        readers=(layers.gemma4, experts.gemma4),
        fixed=_QK_NORM,
        modules={
            "experts": ("experts.0.gate_proj", "experts.gate_up_proj"),
            "shared_gate_up": ("mlp.gate_proj", "mlp.up_proj"),
            "shared_down": ("mlp.down_proj",),
        },
    ),
    "glm": Family(bias="config_qkv", bias_default=True, eps=1.5625e-07),
    "glm4": _GLM4,
    "glm4_moe": _GLM4_MOE,
    "glm4_moe_lite": replace(_DEEPSEEK, eps=1e-5),
    "glm5_next_text": Family((recurrent.glm5_next, experts.deepseek), heads_are_kv_heads=True, eps=1e-5),
    "glm_moe_dsa": replace(_SPARSE, eps=1e-5),
    "glm_ocr_text": replace(_GLM4, bias="none"),
    "gpt2": Family(
        (layers.learned_positions(),), _BIASES | _PLAIN, tied=True, heads_are_kv_heads=True, mlp_ratio=4, eps=1e-5
    ),
    "gpt_neo": Family(
        (layers.gpt_neo,),
        {"output_bias": True, "mlp_bias": True} | _PLAIN,
        tied=True,
        heads_are_kv_heads=True,
        mlp_ratio=4,
        eps=1e-5,
    ),
    "gpt_neox": Family(fixed=_BIASES | _PLAIN, heads_are_kv_heads=True, eps=1e-5),
    "gpt_oss": Family(
        (layers.slides_but_every(2, needed=True), experts.gpt_oss),
        {"attention_sinks": True},
        "config",
        bias_default=True,
        head_dim_needed=True,
        eps=1e-5,
        rope_theta=150000.0,
    ),
    "gptj": Family(
        fixed={"mlp_bias": True, "norms_per_layer": 1} | _PLAIN, heads_are_kv_heads=True, mlp_ratio=4, eps=1e-5
    ),
    "granite_swa": Family((layers.named_windows,), {"attention_sinks": True}, "config", mlp_bias=True, tied=True),
    "granitemoe": Family((experts.of("num_local_experts", "intermediate_size"),), bias="config"),
    "granitemoe_swa": replace(
        _GRANITE_MOE, readers=(layers.named_windows, experts.granite), fixed={"attention_sinks": True}
    ),
    "granitemoehybrid": Family(
        (recurrent.granite_hybrid, experts.granite),
        bias="config",
        modules={"state_in": ("mamba.in_proj",), "state_out": ("mamba.out_proj",)},
    ),
    "granitemoeshared": _GRANITE_MOE,
    "hunyuan_v1_dense": _HUNYUAN,
    "hunyuan_v1_moe": replace(_HUNYUAN, readers=(layers.hunyuan, experts.hunyuan)),
    "hy_v3": Family((_routed("mlp_layer_types"),), _QK_NORM, "config"),
    "hy_v4": Family(
        (sparse.gated_latent, experts.deepseek), {"attention_sinks": True}, heads_are_kv_heads=True, eps=1e-5
    ),
    "hyperclovax": replace(_LLAMA, fixed={"norms_per_layer": 4}),
    "jais2": Family(fixed=_PLAIN, bias="config", bias_default=True, mlp_bias=True, heads_are_kv_heads=True, eps=1e-5),
    "jamba": Family((recurrent.jamba, experts.jamba)),
    "kimi_linear": Family((recurrent.kimi_delta, experts.kimi), heads_are_kv_heads=True, eps=1e-5),
    "laguna": Family(
        (
            layers.head_gates,
            experts.of(
                "num_experts", shared_width="shared_expert_intermediate_size", first="mlp_layer_types", bias=True
            ),
        ),
        _QK_NORM,
        "config",
        head_dim_needed=True,
    ),
    "lfm2": Family((recurrent.short_convolutions,), _QK_NORM, tied=True, eps=1e-5, modules=_LFM2_MODULES),
    "lfm2_moe": Family(
        (recurrent.short_convolutions, experts.of("num_experts", first="num_dense_layers", bias=True)),
        _QK_NORM,
        tied=True,
        eps=1e-5,
        modules=_LFM2_MODULES,
    ),
    "lfm3": Family((recurrent.lfm3,), _QK_NORM, tied=True, eps=1e-5, modules=_LFM2_MODULES),
    "llama": _LLAMA,
    "llama4_text": Family((layers.chunked, experts.llama4), bias="config", head_dim_needed=True, eps=1e-5),
    "longcat_flash": Family((sparse.latent, experts.longcat), heads_are_kv_heads=True, eps=1e-5, rope_theta=1e7),
    "mellum": Family(
        (layers.named_windows, experts.of("num_experts", first="mlp_layer_types")),
        _QK_NORM,
        "config",
        head_dim_needed=True,
    ),
    "mimo": Family((layers.qwen,), bias="qkv"),
    "mimo_v2_flash": Family((layers.mimo_v2, experts.mimo_v2), {"attention_sinks": True}, eps=1e-5),
    "minicpm": replace(_LLAMA, tied=True, eps=1e-5),
    "minicpm3": Family((sparse.latent,), tied=True, heads_are_kv_heads=True, eps=1e-5),
    "minimax": Family((recurrent.lightning, _PLAIN_EXPERTS), eps=1e-5, rope_theta=1e6),
    "minimax_m2": Family((layers.all_full, experts.minimax), _QK_NORM | {"wide_qk_norm": True}, head_dim_needed=True),
    "minimax_m3": Family((sparse.block_indexer, experts.minimax_m3), _QK_NORM, head_dim_needed=True),
    "ministral": Family((layers.sliding_unless_named,)),
    "ministral3": replace(_MISTRAL, head_dim_needed=True, eps=1e-5),
    "mistral": _MISTRAL,
    "mistral_large4_text": Family(
        (sparse.latent_without_query_rank, sparse.indexer, experts.deepseek), heads_are_kv_heads=True, eps=1e-5
    ),
    "mixtral": Family(
        (layers.all_slide_if_given, experts.of("num_local_experts", "intermediate_size")), eps=1e-5, rope_theta=1e6
    ),
    "mllama_text_model": Family((layers.without_cross_attention,), eps=1e-5, rope_theta=5e5),
    "molmo2_text": Family(fixed=_QK_NORM, bias="config"),
    "mpt": Family((layers.mpt,), {"gated_mlp": False}, tied=True, eps=1e-5),
    "muse_glimmer_text": Family((layers.named_windows,), _GATED, "config", head_dim_needed=True, eps=1e-5),
    "muse_spark_text": Family(
        (layers.named_windows, experts.behind_latent),
        _GATED | {"norms_per_layer": 5},
        "config",
        head_dim_needed=True,
        eps=1e-5,
    ),
    "nanochat": Family(fixed={"gated_mlp": False}, heads_are_kv_heads=True),
    "nemotron": Family(fixed=_PLAIN, bias="config", mlp_bias=True, heads_are_kv_heads=True, eps=1e-5),
    "nemotron-nas": Family((layers.blocks_of_any_width,), bias="config", eps=1e-5),
    "nemotron_h": Family((recurrent.nemotron_h, experts.nemotron_h), {"norms_per_layer": 1}, "config", eps=1e-5),
    "olmo2": _OLMO,
    "olmo_hybrid": replace(_OLMO, readers=(recurrent.ungated_delta,)),
    "olmoe": replace(_OLMO, readers=(_PLAIN_EXPERTS,), eps=1e-5),
    "opt": Family((layers.learned_positions(2),), _BIASES | _PLAIN, tied=True, heads_are_kv_heads=True, eps=1e-5),
    "orion": replace(_LLAMA, fixed={"norm_bias": True}, eps=1e-5),
    "paddleocr_vl_text": Family(bias="bias", tied=True, eps=1e-5, rope_theta=5e5),
    "persimmon": Family(fixed=_BIASES | _PLAIN | _QK_NORM, heads_are_kv_heads=True, eps=1e-5),
    "phi": Family(fixed=_BIASES | _PLAIN | {"norms_per_layer": 1}, heads_are_kv_heads=True, eps=1e-5),
    "phi3": Family((layers.all_slide_if_given,), heads_are_kv_heads=True, eps=1e-5),
    "phimoe": Family(
        (layers.all_slide_if_given, _PLAIN_EXPERTS), {"norm_bias": True}, "config", eps=1e-5, rope_theta=1e6
    ),
    "qwen": Family((layers.half_width,), bias="qkv", heads_are_kv_heads=True),
    "qwen2": Family((layers.qwen,), bias="qkv"),
    "qwen2_moe": Family((layers.qwen, experts.qwen), bias="qkv"),
    "qwen3": _QWEN3,
    "qwen3_5_moe_text": replace(_QWEN3_NEXT, readers=(recurrent.gated_delta, experts.qwen_without_dense)),
    "qwen3_5_text": replace(_QWEN3_NEXT, readers=(recurrent.gated_delta,)),
    "qwen3_moe": replace(_QWEN3, readers=(layers.qwen3_moe, experts.qwen), head_dim_needed=False),
    "qwen3_next": _QWEN3_NEXT,
    "seed_oss": Family(bias="config_qkv", bias_default=True, mlp_bias=True, head_dim_needed=True),
    "smollm3": Family((layers.qwen,), bias="config", mlp_bias=True, tied=True, rope_theta=2e6),
    "solar_open": replace(_GLM4_MOE, readers=(experts.everywhere,)),
    "stablelm": Family((layers.stablelm,), {"norm_bias": True}, eps=1e-5),
    "starcoder2": Family(
        (layers.all_slide_if_given,), {"gated_mlp": False, "norms_per_layer": 4}, "bias", tied=True, eps=1e-5
    ),
    "step3p5": Family((layers.step, experts.step), _QK_NORM, head_dim_needed=True, eps=1e-5),
    "vaultgemma": Family((layers.slides_but_every(2, needed=True),), bias="config", tied=True, head_dim_needed=True),
    "youtu": Family((sparse.latent,), tied=True, heads_are_kv_heads=True),
}
_SAME = {
    "bailing_moe": "bailing_moe_v2",
    "cohere2": "cohere_compass_text",
    "deepseek_v3": "deepseek_v2 kimi_k2 mistral4",
    "deepseek_v4": "deepseek_ref",
    "exaone4": "exaone4_5_text",
    "gemma4_text": "gemma4_unified_text",
    "glm4": "glm4v_text",
    "glm4_moe": "glm4v_moe_text",
    "gpt2": "gpt_bigcode",
    "gptj": "codegen",
    "hunyuan_v1_dense": "hunyuan_vl_text",
    "llama": "aquila baichuan bitnet exaone granite granite4_vision_text granite_docling_text helium internlm2 "
    "internlm3 iquestcoder olmo telechat xverse Yi",
    "minimax": "minimax_m1 minimax_text_01",
    "minimax_m3": "minimax_m3_vl_text",
    "olmo2": "olmo3",
    "phi3": "phi3_v phi4_multimodal phi4mm",
    "qwen2": "minicpmo minicpmv qwen2_5_omni_text qwen2_5_vl qwen2_5_vl_text qwen2_vl qwen2_vl_text",
    "qwen3": "qwen3_vl_text",
    "qwen3_moe": "qwen3_omni_moe_text qwen3_vl_moe_text",
    "step3p5": "step3p7",
}
"""Family -> other `model_type`s that are read just as it."""
FAMILIES |= {name: FAMILIES[family] for family, names in _SAME.items() for name in names.split()}

HEAD_OF_BLOCKS = Family((layers.block_head,), _QK_NORM, "config")
"""Layers of DFlash and DSpark: Qwen3's, whatever family the file says."""
LATENT_HEAD = Family((sparse.latent,), bias="none", heads_are_kv_heads=True)
"""An EAGLE-3 head with latent attention (DeepSeek's) and a dense MLP."""

SUPPORTED = tuple(sorted((*FAMILIES, *WRAPPERS)))
