"""The supported families: one row each, by `model_type`."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

from perfmodel.specs.huggingface import experts, layers, recurrent, sparse
from perfmodel.specs.huggingface.keys import Keys, perfmodel_names

Reader = Callable[[Keys, int], layers.Fields]
"""Maps the keys of a file and its layers to fields of ModelSpec."""
Rule = Literal[
    "attention_bias",
    "attention_bias_of_qkv",
    "bias_default",
    "head_dim_needed",
    "heads_are_kv_heads",
    "mlp_bias",
    "tied",
    "unbiased",
    "use_bias",
]
"""Which keys count.

attention_bias, attention_bias_of_qkv, mlp_bias, use_bias: the key that counts. The first is for q, k, v and
o, the second for q, k and v, the last for these and the MLP. unbiased: the key must be false. bias_default:
an absent key is true. tied: an absent `tie_word_embeddings` is true. head_dim_needed: transformers' default
is a constant, not hidden_size / num_attention_heads. heads_are_kv_heads: num_key_value_heads may be absent.
"""


@dataclass(frozen=True)
class Family:
    """One family. model_types: all words that it reads.

    readers: of its layers and experts (in `layers`, `recurrent`, `sparse` and `experts`); later ones override
    earlier ones. By default every layer attends to everything and has no experts. fixed: fields of ModelSpec
    that all its models share. rms_norm_eps, rope_theta: values of an absent key. mlp_ratio: width of an MLP
    over the hidden width, of a file without it. positions: the longest context of a file without it.
    """

    model_types: str
    readers: tuple[Reader, ...] = (layers.all_full,)
    rules: tuple[Rule, ...] = ()
    fixed: dict[str, Any] = field(default_factory=dict)
    rms_norm_eps: float = 1e-5
    rope_theta: float = 1e4
    mlp_ratio: int | None = None
    positions: int | None = None


EVERYWHERE = partial(
    experts.routed,
    shared="num_shared_experts",
    bias=True,
    dense_width="moe_intermediate_size",
    ignored="first_k_dense_replace+intermediate_size+mlp_layer_types",
)
"""Every layer has experts and one shared expert. In the first layers of DeepSeek-V4 the token determines the
experts, which costs nothing.
"""
ROWS = (
    Family(
        "afmoe",
        readers=(
            layers.named_windows,
            partial(experts.routed, shared="num_shared_experts", first="num_dense_layers", bias=True),
        ),
        rules=("attention_bias",),
        fixed={"attention_gate": True, "qk_norm": True, "norms_per_layer": 4},
    ),
    Family(
        "apertus", rules=("attention_bias", "heads_are_kv_heads"), fixed={"gated_mlp": False, "qk_norm": True}
    ),
    Family(
        "arcee cosmos3_edge_text",
        rules=("attention_bias", "heads_are_kv_heads", "mlp_bias"),
        fixed={"gated_mlp": False},
    ),
    Family(
        "aria_text",
        readers=(
            layers.all_full,
            partial(experts.routed, width="intermediate_size", shared="num_shared_experts"),
        ),
        rules=("heads_are_kv_heads",),
        rms_norm_eps=1e-06,
    ),
    Family(
        "axk1",
        readers=(sparse.latent, experts.deepseek),
        rules=("heads_are_kv_heads", "unbiased"),
        fixed={"norms_per_layer": 3},
        rms_norm_eps=1e-06,
    ),
    Family(
        "bailing_hybrid",
        readers=(
            recurrent.bailing,
            partial(experts.routed, shared="num_shared_experts", first="first_k_dense_replace", bias=True),
        ),
        rules=("heads_are_kv_heads",),
        rms_norm_eps=1e-06,
    ),
    Family(
        "bailing_moe bailing_moe_v2",
        readers=(
            layers.all_full,
            partial(experts.routed, shared="num_shared_experts", first="first_k_dense_replace", bias=True),
        ),
        rules=("attention_bias",),
        fixed={"qk_norm": True},
        rms_norm_eps=1e-06,
    ),
    Family("bamba", readers=(recurrent.bamba,), rules=("attention_bias", "mlp_bias")),
    Family(
        "bloom",
        rules=("heads_are_kv_heads", "tied"),
        fixed={
            "gated_mlp": False,
            "mlp_bias": True,
            "norm_bias": True,
            "output_bias": True,
            "qkv_bias": True,
        },
        mlp_ratio=4,
        positions=2048,
    ),
    Family("chatglm", rules=("heads_are_kv_heads",), fixed={"qkv_bias": True}),
    Family("cohere", rules=("attention_bias", "tied"), fixed={"norms_per_layer": 1}),
    Family(
        "cohere2 cohere_compass_text",
        readers=(layers.every_fourth_full,),
        rules=("attention_bias", "tied"),
        fixed={"norms_per_layer": 1},
    ),
    Family(
        "cohere2_moe",
        readers=(
            layers.every_fourth_full,
            partial(
                experts.routed,
                width="intermediate_size",
                shared="num_shared_experts",
                first="mlp_layer_types",
            ),
        ),
        rules=("attention_bias", "tied"),
        fixed={"norms_per_layer": 1},
    ),
    Family("cwm", readers=(layers.named_windows,), rope_theta=1000000.0),
    Family("dbrx", readers=(layers.all_full, experts.dbrx), rope_theta=500000.0),
    Family(
        "deepseek",
        readers=(layers.all_full, experts.deepseek),
        rules=("attention_bias", "heads_are_kv_heads"),
        rms_norm_eps=1e-06,
    ),
    Family(
        "deepseek_v3 deepseek_v2 kimi_k2 mistral4",
        readers=(sparse.latent, experts.deepseek),
        rules=("heads_are_kv_heads", "unbiased"),
        rms_norm_eps=1e-06,
    ),
    Family(
        "deepseek_v32",
        readers=(sparse.latent, sparse.indexer, experts.deepseek),
        rules=("heads_are_kv_heads", "unbiased"),
        rms_norm_eps=1e-06,
    ),
    Family(
        "deepseek_v4 deepseek_ref",
        readers=(sparse.compressed, EVERYWHERE),
        rules=("head_dim_needed",),
        fixed={"attention_sinks": True, "cached_once": True, "one_kv_projection": True},
        rms_norm_eps=1e-06,
    ),
    Family(
        "dots1",
        readers=(layers.named_windows, experts.deepseek),
        rules=("attention_bias", "heads_are_kv_heads"),
        fixed={"qk_norm": True},
        rms_norm_eps=1e-06,
    ),
    Family("ernie4_5", rules=("tied",), rope_theta=500000.0),
    Family("ernie4_5_moe", readers=(layers.all_full, experts.ernie), rules=("tied",), rope_theta=500000.0),
    Family("exaone4 exaone4_5_text", readers=(layers.every_fourth_full,), fixed={"qk_norm": True}),
    Family(
        "exaone_moe",
        readers=(
            layers.every_fourth_full,
            partial(experts.routed, shared="num_shared_experts", first="first_k_dense_replace", bias=True),
        ),
        fixed={"qk_norm": True},
    ),
    Family(
        "falcon",
        readers=(layers.falcon,),
        rules=("heads_are_kv_heads", "tied"),
        fixed={"gated_mlp": False, "norm_bias": True},
        mlp_ratio=4,
        positions=2048,
    ),
    Family("falcon_h1", readers=(recurrent.mamba_in_parallel,), rules=("attention_bias", "mlp_bias")),
    Family(
        "flex_olmo",
        readers=(layers.all_full, partial(experts.routed, width="intermediate_size")),
        rules=("attention_bias",),
        fixed={"qk_norm": True, "wide_qk_norm": True},
        rms_norm_eps=1e-06,
    ),
    Family("gemma", rules=("attention_bias", "head_dim_needed", "tied"), rms_norm_eps=1e-06),
    Family(
        "gemma2",
        readers=(layers.every_second_full,),
        rules=("attention_bias", "head_dim_needed", "tied"),
        fixed={"norms_per_layer": 4},
        rms_norm_eps=1e-06,
    ),
    Family(
        "gemma3_text",
        readers=(layers.every_sixth_full,),
        rules=("attention_bias", "head_dim_needed", "tied"),
        fixed={"qk_norm": True, "norms_per_layer": 4},
        rms_norm_eps=1e-06,
        rope_theta=1000000.0,
    ),
    Family(
        "gemma3n_text",
        readers=(layers.every_fifth_full, layers.gemma3n),
        rules=("attention_bias", "head_dim_needed", "tied"),
        fixed={"qk_norm": True, "norms_per_layer": 8},
        rms_norm_eps=1e-06,
        rope_theta=1000000.0,
    ),
    Family(
        "gemma4_text gemma4_unified_text",
        readers=(layers.gemma4, experts.gemma4),
        rules=("attention_bias", "head_dim_needed", "tied"),
        fixed={"qk_norm": True},
        rms_norm_eps=1e-06,
        rope_theta=1000000.0,
    ),
    Family("glm", rules=("attention_bias_of_qkv", "bias_default"), rms_norm_eps=1.5625e-07),
    Family("glm4 glm4v_text", rules=("attention_bias_of_qkv", "bias_default"), fixed={"norms_per_layer": 4}),
    Family(
        "glm4_moe glm4v_moe_text",
        readers=(layers.all_full, experts.deepseek),
        rules=("attention_bias_of_qkv",),
    ),
    Family(
        "glm4_moe_lite", readers=(sparse.latent, experts.deepseek), rules=("heads_are_kv_heads", "unbiased")
    ),
    Family("glm5_next_text", readers=(recurrent.glm5_next, experts.deepseek), rules=("heads_are_kv_heads",)),
    Family(
        "glm_moe_dsa",
        readers=(sparse.latent, sparse.indexer, experts.deepseek),
        rules=("heads_are_kv_heads", "unbiased"),
    ),
    Family("glm_ocr_text", rules=("bias_default",), fixed={"norms_per_layer": 4}),
    Family(
        "gpt2 gpt_bigcode",
        readers=(layers.learned_positions,),
        rules=("heads_are_kv_heads", "tied"),
        fixed={
            "gated_mlp": False,
            "mlp_bias": True,
            "norm_bias": True,
            "output_bias": True,
            "qkv_bias": True,
        },
        mlp_ratio=4,
    ),
    Family(
        "gpt_neo",
        readers=(layers.gpt_neo,),
        rules=("heads_are_kv_heads", "tied"),
        fixed={"gated_mlp": False, "mlp_bias": True, "norm_bias": True, "output_bias": True},
        mlp_ratio=4,
    ),
    Family(
        "gpt_neox",
        rules=("heads_are_kv_heads",),
        fixed={
            "gated_mlp": False,
            "mlp_bias": True,
            "norm_bias": True,
            "output_bias": True,
            "qkv_bias": True,
        },
    ),
    Family(
        "gpt_oss",
        readers=(
            layers.every_second_full,
            partial(
                experts.routed,
                experts="num_local_experts",
                width="intermediate_size",
                bias=True,
                expert_bias=True,
                ignored="experts_per_token",
            ),
        ),
        rules=("attention_bias", "bias_default", "head_dim_needed"),
        fixed={"attention_sinks": True},
        rope_theta=150000.0,
    ),
    Family(
        "gptj codegen",
        rules=("heads_are_kv_heads",),
        fixed={"gated_mlp": False, "mlp_bias": True, "norm_bias": True, "norms_per_layer": 1},
        mlp_ratio=4,
    ),
    Family(
        "granite_swa",
        readers=(layers.named_windows,),
        rules=("attention_bias", "mlp_bias", "tied"),
        fixed={"attention_sinks": True},
        rms_norm_eps=1e-06,
    ),
    Family(
        "granitemoe",
        readers=(
            layers.all_full,
            partial(experts.routed, experts="num_local_experts", width="intermediate_size"),
        ),
        rules=("attention_bias",),
        rms_norm_eps=1e-06,
    ),
    Family(
        "granitemoe_swa",
        readers=(layers.named_windows, experts.granite),
        rules=("attention_bias", "heads_are_kv_heads"),
        fixed={"attention_sinks": True},
        rms_norm_eps=1e-06,
    ),
    Family(
        "granitemoehybrid",
        readers=(recurrent.granite_hybrid, experts.granite),
        rules=("attention_bias",),
        rms_norm_eps=1e-06,
    ),
    Family(
        "granitemoeshared",
        readers=(layers.all_full, experts.granite),
        rules=("attention_bias", "heads_are_kv_heads"),
        rms_norm_eps=1e-06,
    ),
    Family(
        "hunyuan_v1_dense hunyuan_vl_text",
        readers=(layers.hunyuan,),
        rules=("attention_bias",),
        fixed={"qk_norm": True},
    ),
    Family(
        "hunyuan_v1_moe",
        readers=(layers.hunyuan, experts.hunyuan),
        rules=("attention_bias",),
        fixed={"qk_norm": True},
    ),
    Family(
        "hy_v3",
        readers=(
            layers.all_full,
            partial(experts.routed, shared="num_shared_experts", first="mlp_layer_types", bias=True),
        ),
        rules=("attention_bias",),
        fixed={"qk_norm": True},
        rms_norm_eps=1e-06,
    ),
    Family(
        "hy_v4",
        readers=(sparse.gated_latent, experts.deepseek),
        rules=("heads_are_kv_heads",),
        fixed={"attention_sinks": True},
    ),
    Family(
        "hyperclovax",
        rules=("attention_bias", "heads_are_kv_heads", "mlp_bias"),
        fixed={"norms_per_layer": 4},
        rms_norm_eps=1e-06,
    ),
    Family(
        "jais2",
        rules=("attention_bias", "bias_default", "heads_are_kv_heads", "mlp_bias"),
        fixed={"gated_mlp": False, "norm_bias": True},
    ),
    Family("jamba", readers=(recurrent.jamba, experts.jamba), rms_norm_eps=1e-06),
    Family(
        "kimi_linear",
        readers=(
            recurrent.kimi_delta,
            partial(
                experts.routed,
                shared="num_shared_experts",
                first="first_k_dense_replace",
                latent="routed_expert_hidden_size",
                bias=True,
                ignored="moe_layer_freq+num_expert_group+latent_moe_use_norm",
            ),
        ),
        rules=("heads_are_kv_heads",),
    ),
    Family(
        "laguna",
        readers=(
            layers.head_gates,
            partial(
                experts.routed,
                shared_width="shared_expert_intermediate_size",
                first="mlp_layer_types",
                bias=True,
            ),
        ),
        rules=("attention_bias", "head_dim_needed"),
        fixed={"qk_norm": True},
        rms_norm_eps=1e-06,
    ),
    Family("lfm2", readers=(recurrent.short_convolutions,), rules=("tied",), fixed={"qk_norm": True}),
    Family(
        "lfm2_moe",
        readers=(recurrent.short_convolutions, partial(experts.routed, first="num_dense_layers", bias=True)),
        rules=("tied",),
        fixed={"qk_norm": True},
    ),
    Family("lfm3", readers=(recurrent.lfm3,), rules=("tied",), fixed={"qk_norm": True}),
    Family(
        "llama aquila baichuan bitnet exaone granite granite4_vision_text granite_docling_text "
        "helium internlm2 internlm3 iquestcoder olmo telechat xverse Yi",
        rules=("attention_bias", "heads_are_kv_heads", "mlp_bias"),
        rms_norm_eps=1e-06,
    ),
    Family(
        "llama4_text", readers=(layers.chunked, experts.llama4), rules=("attention_bias", "head_dim_needed")
    ),
    Family(
        "longcat_flash",
        readers=(sparse.latent, experts.longcat),
        rules=("heads_are_kv_heads", "unbiased"),
        rope_theta=10000000.0,
    ),
    Family(
        "mellum",
        readers=(layers.named_windows, partial(experts.routed, first="mlp_layer_types")),
        rules=("attention_bias", "head_dim_needed"),
        fixed={"qk_norm": True},
        rms_norm_eps=1e-06,
    ),
    Family(
        "mimo_v2 mimo_v2_flash",
        readers=(
            layers.mimo_v2,
            partial(
                experts.routed,
                experts="n_routed_experts",
                shared="n_shared_experts",
                first="moe_layer_freq",
                bias=True,
            ),
        ),
        fixed={"attention_sinks": True},
    ),
    Family("minicpm", rules=("attention_bias", "heads_are_kv_heads", "mlp_bias", "tied")),
    Family("minicpm3", readers=(sparse.latent,), rules=("heads_are_kv_heads", "tied", "unbiased")),
    Family(
        "minimax minimax_m1 minimax_text_01",
        readers=(recurrent.lightning, partial(experts.routed, width="intermediate_size")),
        rope_theta=1000000.0,
    ),
    Family(
        "minimax_m2",
        readers=(layers.all_full, experts.minimax),
        rules=("head_dim_needed",),
        fixed={"qk_norm": True, "wide_qk_norm": True},
        rms_norm_eps=1e-06,
    ),
    Family(
        "minimax_m3 minimax_m3_vl_text",
        readers=(
            sparse.block_indexer,
            partial(
                experts.routed,
                experts="num_local_experts",
                width="intermediate_size",
                shared_width="shared_intermediate_size",
                first="moe_layer_freq",
                bias=True,
                dense_width="dense_intermediate_size",
                ignored="first_k_dense_replace+moe_intermediate_size+n_shared_experts",
            ),
        ),
        rules=("head_dim_needed",),
        fixed={"qk_norm": True},
        rms_norm_eps=1e-06,
    ),
    Family("ministral", readers=(layers.sliding_unless_named,), rms_norm_eps=1e-06),
    Family("ministral3", readers=(layers.all_slide,), rules=("head_dim_needed",)),
    Family("mistral", readers=(layers.all_slide,), rms_norm_eps=1e-06),
    Family(
        "mistral_large4_text",
        readers=(sparse.latent_without_query_rank, sparse.indexer, experts.deepseek),
        rules=("heads_are_kv_heads",),
    ),
    Family(
        "mixtral",
        readers=(
            layers.all_slide_if_given,
            partial(experts.routed, experts="num_local_experts", width="intermediate_size"),
        ),
        rope_theta=1000000.0,
    ),
    Family("mllama_text_model", readers=(layers.without_cross_attention,), rope_theta=500000.0),
    Family("molmo2_text", rules=("attention_bias",), fixed={"qk_norm": True}, rms_norm_eps=1e-06),
    Family("mpt", readers=(layers.mpt,), rules=("tied",), fixed={"gated_mlp": False}),
    Family(
        "muse_glimmer_text",
        readers=(layers.named_windows,),
        rules=("attention_bias", "head_dim_needed"),
        fixed={"attention_gate": True, "norms_per_layer": 4},
    ),
    Family(
        "muse_spark_text",
        readers=(layers.named_windows, experts.behind_latent),
        rules=("attention_bias", "head_dim_needed"),
        fixed={"attention_gate": True, "norms_per_layer": 5},
    ),
    Family("nanochat", rules=("heads_are_kv_heads",), fixed={"gated_mlp": False}, rms_norm_eps=1e-06),
    Family(
        "nemotron",
        rules=("attention_bias", "heads_are_kv_heads", "mlp_bias"),
        fixed={"gated_mlp": False, "norm_bias": True},
    ),
    Family("nemotron-nas", readers=(layers.blocks_of_any_width,), rules=("attention_bias",)),
    Family(
        "nemotron_h",
        readers=(recurrent.nemotron_h, experts.nemotron_h),
        rules=("attention_bias",),
        fixed={"norms_per_layer": 1},
    ),
    Family(
        "olmo2 olmo3",
        readers=(layers.every_fourth_full,),
        rules=("attention_bias",),
        fixed={"qk_norm": True, "wide_qk_norm": True},
        rms_norm_eps=1e-06,
    ),
    Family(
        "olmo_hybrid",
        readers=(partial(recurrent.gated_delta, gated=False),),
        rules=("attention_bias",),
        fixed={"qk_norm": True, "wide_qk_norm": True},
        rms_norm_eps=1e-06,
    ),
    Family(
        "olmoe",
        readers=(layers.all_full, partial(experts.routed, width="intermediate_size")),
        rules=("attention_bias",),
        fixed={"qk_norm": True, "wide_qk_norm": True},
    ),
    Family(
        "opt",
        readers=(layers.learned_positions_and_two,),
        rules=("heads_are_kv_heads", "tied"),
        fixed={
            "gated_mlp": False,
            "mlp_bias": True,
            "norm_bias": True,
            "output_bias": True,
            "qkv_bias": True,
        },
    ),
    Family("orion", rules=("attention_bias", "heads_are_kv_heads", "mlp_bias"), fixed={"norm_bias": True}),
    Family("paddleocr_vl_text", rules=("tied", "use_bias"), rope_theta=500000.0),
    Family(
        "persimmon",
        rules=("heads_are_kv_heads",),
        fixed={
            "gated_mlp": False,
            "mlp_bias": True,
            "norm_bias": True,
            "output_bias": True,
            "qk_norm": True,
            "qkv_bias": True,
        },
    ),
    Family(
        "phi",
        rules=("heads_are_kv_heads",),
        fixed={
            "gated_mlp": False,
            "mlp_bias": True,
            "norm_bias": True,
            "output_bias": True,
            "qkv_bias": True,
            "norms_per_layer": 1,
        },
    ),
    Family(
        "phi3 phi3_v phi4_multimodal phi4mm",
        readers=(layers.all_slide_if_given,),
        rules=("heads_are_kv_heads",),
    ),
    Family(
        "phimoe",
        readers=(layers.all_slide_if_given, partial(experts.routed, width="intermediate_size")),
        rules=("attention_bias",),
        fixed={"norm_bias": True},
        rope_theta=1000000.0,
    ),
    Family(
        "qwen",
        readers=(layers.half_width,),
        rules=("heads_are_kv_heads",),
        fixed={"qkv_bias": True},
        rms_norm_eps=1e-06,
    ),
    Family(
        "qwen2 mimo minicpmo minicpmv qwen2_5_omni_text qwen2_5_vl qwen2_5_vl_text qwen2_vl qwen2_vl_text",
        readers=(layers.qwen,),
        fixed={"qkv_bias": True},
        rms_norm_eps=1e-06,
    ),
    Family("qwen2_moe", readers=(layers.qwen, experts.qwen), rms_norm_eps=1e-06),
    Family(
        "qwen3 qwen3_vl_text",
        readers=(layers.qwen,),
        rules=("attention_bias", "head_dim_needed"),
        fixed={"qk_norm": True},
        rms_norm_eps=1e-06,
    ),
    Family(
        "qwen3_5_moe_text",
        readers=(recurrent.gated_delta, experts.qwen_without_dense),
        rules=("attention_bias", "head_dim_needed"),
        fixed={"qk_norm": True},
        rms_norm_eps=1e-06,
    ),
    Family(
        "qwen3_5_text",
        readers=(recurrent.gated_delta,),
        rules=("attention_bias", "head_dim_needed"),
        fixed={"qk_norm": True},
        rms_norm_eps=1e-06,
    ),
    Family(
        "qwen3_moe qwen3_omni_moe_text qwen3_vl_moe_text",
        readers=(layers.qwen3_moe, experts.qwen),
        rules=("attention_bias",),
        fixed={"qk_norm": True},
        rms_norm_eps=1e-06,
    ),
    Family(
        "qwen3_next",
        readers=(recurrent.gated_delta, experts.qwen),
        rules=("attention_bias", "head_dim_needed"),
        fixed={"qk_norm": True},
        rms_norm_eps=1e-06,
    ),
    Family(
        "qwen4_exp_text",
        readers=(recurrent.qwen4, experts.qwen_without_dense),
        rules=("attention_bias", "head_dim_needed"),
        fixed={"qk_norm": True},
        rms_norm_eps=1e-06,
    ),
    Family(
        "seed_oss",
        rules=("attention_bias_of_qkv", "bias_default", "head_dim_needed", "mlp_bias"),
        rms_norm_eps=1e-06,
    ),
    Family(
        "smollm3",
        readers=(layers.qwen,),
        rules=("attention_bias", "mlp_bias", "tied"),
        rms_norm_eps=1e-06,
        rope_theta=2000000.0,
    ),
    Family("solar_open", readers=(layers.all_full, EVERYWHERE), rules=("attention_bias_of_qkv",)),
    Family("stablelm", readers=(layers.stablelm,), fixed={"norm_bias": True}),
    Family(
        "starcoder2",
        readers=(layers.all_slide_if_given,),
        rules=("tied", "use_bias"),
        fixed={"gated_mlp": False, "norms_per_layer": 4},
    ),
    Family(
        "step3p5 step3p7",
        readers=(layers.step, experts.step),
        rules=("head_dim_needed",),
        fixed={"qk_norm": True},
    ),
    Family(
        "vaultgemma",
        readers=(layers.every_second_full,),
        rules=("attention_bias", "head_dim_needed", "tied"),
        rms_norm_eps=1e-06,
    ),
    Family(
        "youtu",
        readers=(sparse.latent,),
        rules=("heads_are_kv_heads", "tied", "unbiased"),
        rms_norm_eps=1e-06,
    ),
)
FAMILIES = {model_type: row for row in ROWS for model_type in row.model_types.split()}
HEAD_OF_BLOCKS = replace(FAMILIES["qwen3_moe"], readers=(layers.block_head,))
"""The family of DFlash's and DSpark's layers: Qwen3, regardless of the file."""
LATENT_HEAD = replace(FAMILIES["deepseek_v3"], readers=(sparse.latent,))
"""An EAGLE-3 head with latent attention (DeepSeek's) and a dense MLP."""

WRAPPERS = perfmodel_names("wrapper")
SUPPORTED = tuple(sorted((*FAMILIES, *WRAPPERS)))
