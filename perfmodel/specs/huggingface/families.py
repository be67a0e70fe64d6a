"""What transformers fixes or assumes for each `model_type` that is read: one row a family."""

from collections.abc import Callable, Mapping
from typing import Any

from perfmodel.specs.huggingface import experts, layers, recurrent, sparse
from perfmodel.specs.huggingface.keys import Keys
from perfmodel.specs.huggingface.wrappers import WRAPPERS

Reader = Callable[[Keys, int], layers.Fields]
_FLAGS = {
    "attention_bias", "attention_bias_of_qkv", "bias_default", "head_dim_needed", "heads_are_kv_heads", "mlp_bias",
    "tied", "use_bias",
}  # fmt: skip


class Family:
    """words: flags, and fields of ModelSpec that are true of all its models. fixed: other fields that all have alike.

    Flags: attention_bias, attention_bias_of_qkv, mlp_bias and use_bias: that key of a file counts, the first for q, k,
    v and o, the second for q, k and v, the last for these and the MLP; bias_default: an absent one is true. tied: so
    is an absent `tie_word_embeddings`. head_dim_needed: transformers' default is a constant, not hidden_size /
    num_attention_heads. heads_are_kv_heads: num_key_value_heads may be left out.
    readers: shape fields from the file, later ones over earlier ones. eps, rope_theta: what an absent key means.
    mlp_ratio: width of an MLP over the hidden one, and positions: the longest context, where the file does not say.
    modules: GEMM -> names of its modules in checkpoints, where they are not those of `quantised.MODULES`.
    """

    def __init__(
        self,
        words: str,
        *readers: Reader,
        eps: float = 1e-5,
        rope_theta: float = 1e4,
        mlp_ratio: int = 0,
        positions: int | None = None,
        modules: Mapping[str, tuple[str, ...]] | None = None,
        **fixed: Any,
    ) -> None:
        said = set(words.split())
        self.flags, self.fixed = said & _FLAGS, dict.fromkeys(said - _FLAGS, True) | fixed
        self.readers = readers or (layers.all_full,)
        self.eps, self.rope_theta, self.mlp_ratio, self.positions = eps, rope_theta, mlp_ratio, positions
        self.modules = modules or {}


def _routed(first: str) -> Reader:
    """Experts and shared ones by the usual keys, `first` for the dense layers, and a router with a bias."""
    return experts.of("num_experts", shared="num_shared_experts", first=first, bias=True)


_BIASES: dict[str, Any] = dict.fromkeys(("qkv_bias", "output_bias", "mlp_bias"), True)
_PLAIN: dict[str, Any] = {"gated_mlp": False, "norm_bias": True}
_PLAIN_EXPERTS = experts.of("num_experts", "intermediate_size")
_GEMMA4_MODULES = {
    "shared_gate_up": ("mlp.gate_proj", "mlp.up_proj"),
    "shared_down": ("mlp.down_proj",),
    "experts": ("experts.0.gate_proj", "experts.gate_up_proj"),
}

FAMILIES: dict[str, Family] = {
    "afmoe": Family(
        "attention_bias qk_norm attention_gate", layers.named_windows, _routed("num_dense_layers"), norms_per_layer=4
    ),
    "apertus": Family("attention_bias heads_are_kv_heads qk_norm", gated_mlp=False),
    "arcee": Family("attention_bias mlp_bias heads_are_kv_heads", gated_mlp=False),
    "aria_text": Family(
        "heads_are_kv_heads", experts.of("num_experts", "intermediate_size", shared="num_shared_experts"), eps=1e-6
    ),
    "axk1": Family("heads_are_kv_heads", sparse.latent, experts.deepseek, eps=1e-6, norms_per_layer=3),
    "bailing_hybrid": Family("heads_are_kv_heads", recurrent.bailing, _routed("first_k_dense_replace"), eps=1e-6),
    "bailing_moe": Family("attention_bias qk_norm", _routed("first_k_dense_replace"), eps=1e-6),
    "bamba": Family("attention_bias mlp_bias", recurrent.bamba),
    "bloom": Family("tied heads_are_kv_heads", mlp_ratio=4, positions=2048, **_PLAIN, **_BIASES),
    "chatglm": Family("qkv_bias heads_are_kv_heads"),
    "cohere": Family("attention_bias tied", norms_per_layer=1),
    "cohere2": Family("attention_bias tied", layers.slides_but_every(4), norms_per_layer=1),
    "cohere2_moe": Family(
        "attention_bias tied",
        layers.slides_but_every(4),
        experts.of("num_experts", "intermediate_size", shared="num_shared_experts", first="mlp_layer_types"),
        norms_per_layer=1,
    ),
    "cwm": Family("", layers.named_windows, rope_theta=1e6),
    "dbrx": Family("", experts.dbrx, rope_theta=5e5),
    "deepseek": Family("attention_bias heads_are_kv_heads", experts.deepseek, eps=1e-6),
    "deepseek_v3": Family("heads_are_kv_heads", sparse.latent, experts.deepseek, eps=1e-6),
    "deepseek_v32": Family("heads_are_kv_heads", sparse.latent, sparse.indexer, experts.deepseek, eps=1e-6),
    "deepseek_v4": Family(
        "head_dim_needed attention_sinks one_kv_projection cached_once", sparse.compressed, experts.everywhere, eps=1e-6
    ),
    "dots1": Family("attention_bias heads_are_kv_heads qk_norm", layers.named_windows, experts.deepseek, eps=1e-6),
    "ernie4_5": Family("tied", rope_theta=5e5),
    "ernie4_5_moe": Family("tied", experts.ernie, rope_theta=5e5),
    "exaone4": Family("qk_norm", layers.slides_but_every(4)),
    "exaone_moe": Family("qk_norm", layers.slides_but_every(4), _routed("first_k_dense_replace")),
    "falcon": Family("tied heads_are_kv_heads", layers.falcon, mlp_ratio=4, positions=2048, **_PLAIN),
    "falcon_h1": Family("attention_bias mlp_bias", recurrent.mamba_beside),
    "flex_olmo": Family("attention_bias wide_qk_norm qk_norm", _PLAIN_EXPERTS, eps=1e-6),
    "gemma": Family("attention_bias tied head_dim_needed", eps=1e-6),
    "gemma2": Family(
        "attention_bias tied head_dim_needed", layers.slides_but_every(2, needed=True), eps=1e-6, norms_per_layer=4
    ),
    "gemma3_text": Family(
        "attention_bias tied head_dim_needed qk_norm",
        layers.slides_but_every(6, needed=True),
        eps=1e-6,
        rope_theta=1e6,
        norms_per_layer=4,
    ),
    "gemma3n_text": Family(
        "attention_bias tied head_dim_needed qk_norm",
        layers.slides_but_every(5, needed=True),
        layers.gemma3n,
        eps=1e-6,
        rope_theta=1e6,
        norms_per_layer=8,
    ),
    "gemma4_text": Family(
        "attention_bias tied head_dim_needed qk_norm",
        layers.gemma4,
        experts.gemma4,
        eps=1e-6,
        rope_theta=1e6,
        modules=_GEMMA4_MODULES,
    ),
    "glm": Family("attention_bias_of_qkv bias_default", eps=1.5625e-07),
    "glm4": Family("attention_bias_of_qkv bias_default", norms_per_layer=4),
    "glm4_moe": Family("attention_bias_of_qkv", experts.deepseek),
    "glm4_moe_lite": Family("heads_are_kv_heads", sparse.latent, experts.deepseek),
    "glm5_next_text": Family("heads_are_kv_heads", recurrent.glm5_next, experts.deepseek),
    "glm_moe_dsa": Family("heads_are_kv_heads", sparse.latent, sparse.indexer, experts.deepseek),
    "glm_ocr_text": Family("bias_default", norms_per_layer=4),
    "gpt2": Family("tied heads_are_kv_heads", layers.learned_positions(), mlp_ratio=4, **_PLAIN, **_BIASES),
    "gpt_neo": Family(
        "tied heads_are_kv_heads", layers.gpt_neo, mlp_ratio=4, output_bias=True, mlp_bias=True, **_PLAIN
    ),
    "gpt_neox": Family("heads_are_kv_heads", **_PLAIN, **_BIASES),
    "gpt_oss": Family(
        "attention_bias bias_default head_dim_needed attention_sinks",
        layers.slides_but_every(2, needed=True),
        experts.gpt_oss,
        rope_theta=1.5e5,
    ),
    "gptj": Family("heads_are_kv_heads", mlp_ratio=4, mlp_bias=True, norms_per_layer=1, **_PLAIN),
    "granite_swa": Family("attention_bias mlp_bias tied attention_sinks", layers.named_windows, eps=1e-6),
    "granitemoe": Family("attention_bias", experts.of("num_local_experts", "intermediate_size"), eps=1e-6),
    "granitemoe_swa": Family(
        "attention_bias heads_are_kv_heads attention_sinks", layers.named_windows, experts.granite, eps=1e-6
    ),
    "granitemoehybrid": Family("attention_bias", recurrent.granite_hybrid, experts.granite, eps=1e-6),
    "granitemoeshared": Family("attention_bias heads_are_kv_heads", experts.granite, eps=1e-6),
    "hunyuan_v1_dense": Family("attention_bias qk_norm", layers.hunyuan),
    "hunyuan_v1_moe": Family("attention_bias qk_norm", layers.hunyuan, experts.hunyuan),
    "hy_v3": Family("attention_bias qk_norm", _routed("mlp_layer_types"), eps=1e-6),
    "hy_v4": Family("heads_are_kv_heads attention_sinks", sparse.gated_latent, experts.deepseek),
    "hyperclovax": Family("attention_bias mlp_bias heads_are_kv_heads", eps=1e-6, norms_per_layer=4),
    "jais2": Family("attention_bias bias_default mlp_bias heads_are_kv_heads", **_PLAIN),
    "jamba": Family("", recurrent.jamba, experts.jamba, eps=1e-6),
    "kimi_linear": Family("heads_are_kv_heads", recurrent.kimi_delta, experts.kimi),
    "laguna": Family(
        "attention_bias head_dim_needed qk_norm",
        layers.head_gates,
        experts.of("num_experts", shared_width="shared_expert_intermediate_size", first="mlp_layer_types", bias=True),
        eps=1e-6,
    ),
    "lfm2": Family("tied qk_norm", recurrent.short_convolutions),
    "lfm2_moe": Family(
        "tied qk_norm", recurrent.short_convolutions, experts.of("num_experts", first="num_dense_layers", bias=True)
    ),
    "lfm3": Family("tied qk_norm", recurrent.lfm3),
    "llama": Family("attention_bias mlp_bias heads_are_kv_heads", eps=1e-6),
    "llama4_text": Family("attention_bias head_dim_needed", layers.chunked, experts.llama4),
    "longcat_flash": Family("heads_are_kv_heads", sparse.latent, experts.longcat, rope_theta=1e7),
    "mellum": Family(
        "attention_bias head_dim_needed qk_norm",
        layers.named_windows,
        experts.of("num_experts", first="mlp_layer_types"),
        eps=1e-6,
    ),
    "mimo_v2_flash": Family("attention_sinks", layers.mimo_v2, experts.mimo_v2),
    "minicpm": Family("attention_bias mlp_bias tied heads_are_kv_heads"),
    "minicpm3": Family("tied heads_are_kv_heads", sparse.latent),
    "minimax": Family("", recurrent.lightning, _PLAIN_EXPERTS, rope_theta=1e6),
    "minimax_m2": Family("head_dim_needed qk_norm wide_qk_norm", layers.all_full, experts.minimax, eps=1e-6),
    "minimax_m3": Family("head_dim_needed qk_norm", sparse.block_indexer, experts.minimax_m3, eps=1e-6),
    "ministral": Family("", layers.sliding_unless_named, eps=1e-6),
    "ministral3": Family("head_dim_needed", layers.all_slide),
    "mistral": Family("", layers.all_slide, eps=1e-6),
    "mistral_large4_text": Family(
        "heads_are_kv_heads", sparse.latent_without_query_rank, sparse.indexer, experts.deepseek
    ),
    "mixtral": Family(
        "", layers.all_slide_if_given, experts.of("num_local_experts", "intermediate_size"), rope_theta=1e6
    ),
    "mllama_text_model": Family("", layers.without_cross_attention, rope_theta=5e5),
    "molmo2_text": Family("attention_bias qk_norm", eps=1e-6),
    "mpt": Family("tied", layers.mpt, gated_mlp=False),
    "muse_glimmer_text": Family(
        "attention_bias head_dim_needed attention_gate", layers.named_windows, norms_per_layer=4
    ),
    "muse_spark_text": Family(
        "attention_bias head_dim_needed attention_gate", layers.named_windows, experts.behind_latent, norms_per_layer=5
    ),
    "nanochat": Family("heads_are_kv_heads", eps=1e-6, gated_mlp=False),
    "nemotron": Family("attention_bias mlp_bias heads_are_kv_heads", **_PLAIN),
    "nemotron-nas": Family("attention_bias", layers.blocks_of_any_width),
    "nemotron_h": Family("attention_bias", recurrent.nemotron_h, experts.nemotron_h, norms_per_layer=1),
    "olmo2": Family("attention_bias wide_qk_norm qk_norm", layers.slides_but_every(4), eps=1e-6),
    "olmo_hybrid": Family("attention_bias wide_qk_norm qk_norm", recurrent.ungated_delta, eps=1e-6),
    "olmoe": Family("attention_bias wide_qk_norm qk_norm", _PLAIN_EXPERTS),
    "opt": Family("tied heads_are_kv_heads", layers.learned_positions(2), **_PLAIN, **_BIASES),
    "orion": Family("attention_bias mlp_bias heads_are_kv_heads norm_bias"),
    "paddleocr_vl_text": Family("use_bias tied", rope_theta=5e5),
    "persimmon": Family("heads_are_kv_heads qk_norm", **_PLAIN, **_BIASES),
    "phi": Family("heads_are_kv_heads", norms_per_layer=1, **_PLAIN, **_BIASES),
    "phi3": Family("heads_are_kv_heads", layers.all_slide_if_given),
    "phimoe": Family("attention_bias norm_bias", layers.all_slide_if_given, _PLAIN_EXPERTS, rope_theta=1e6),
    "qwen": Family("qkv_bias heads_are_kv_heads", layers.half_width, eps=1e-6),
    "qwen2": Family("qkv_bias", layers.qwen, eps=1e-6),
    "qwen2_moe": Family("", layers.qwen, experts.qwen, eps=1e-6),
    "qwen3": Family("attention_bias head_dim_needed qk_norm", layers.qwen, eps=1e-6),
    "qwen3_5_moe_text": Family(
        "attention_bias head_dim_needed qk_norm", recurrent.gated_delta, experts.qwen_without_dense, eps=1e-6
    ),
    "qwen3_5_text": Family("attention_bias head_dim_needed qk_norm", recurrent.gated_delta, eps=1e-6),
    "qwen3_moe": Family("attention_bias qk_norm", layers.qwen3_moe, experts.qwen, eps=1e-6),
    "qwen3_next": Family("attention_bias head_dim_needed qk_norm", recurrent.gated_delta, experts.qwen, eps=1e-6),
    "seed_oss": Family("attention_bias_of_qkv bias_default mlp_bias head_dim_needed", eps=1e-6),
    "smollm3": Family("attention_bias mlp_bias tied", layers.qwen, eps=1e-6, rope_theta=2e6),
    "solar_open": Family("attention_bias_of_qkv", experts.everywhere),
    "stablelm": Family("norm_bias", layers.stablelm),
    "starcoder2": Family("use_bias tied", layers.all_slide_if_given, gated_mlp=False, norms_per_layer=4),
    "step3p5": Family("head_dim_needed qk_norm", layers.step, experts.step),
    "vaultgemma": Family("attention_bias tied head_dim_needed", layers.slides_but_every(2, needed=True), eps=1e-6),
    "youtu": Family("tied heads_are_kv_heads", sparse.latent, eps=1e-6),
}
_SAME = {
    "arcee": "cosmos3_edge_text",
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
    "qwen2": "mimo minicpmo minicpmv qwen2_5_omni_text qwen2_5_vl qwen2_5_vl_text qwen2_vl qwen2_vl_text",
    "qwen3": "qwen3_vl_text",
    "qwen3_moe": "qwen3_omni_moe_text qwen3_vl_moe_text",
    "step3p5": "step3p7",
}
"""Family -> other `model_type`s that are read just as it."""
FAMILIES |= {name: FAMILIES[family] for family, names in _SAME.items() for name in names.split()}

HEAD_OF_BLOCKS = Family("attention_bias qk_norm", layers.block_head, eps=1e-6)
"""Layers of DFlash and DSpark: Qwen3's, whatever family the file says."""
LATENT_HEAD = Family("heads_are_kv_heads", sparse.latent, eps=1e-6)
"""An EAGLE-3 head with latent attention (DeepSeek's) and a dense MLP."""

SUPPORTED = tuple(sorted((*FAMILIES, *WRAPPERS)))
