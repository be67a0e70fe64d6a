"""Config files as they were published, and the tables that the reader is held to."""

import json
from pathlib import Path
from typing import Any

from perfmodel.specs.model import ModelSpec

Config = dict[str, Any]


def sizes(layers: int, hidden: int, heads: int, kv: int, inter: int, vocab: int, positions: int) -> Config:
    return {
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "num_key_value_heads": kv,
        "intermediate_size": inter,
        "vocab_size": vocab,
        "max_position_embeddings": positions,
    }


LLAMA3_ROPE = {
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
    "rope_type": "llama3",
}
LLAMA = {
    "model_type": "llama",
    **sizes(32, 4096, 32, 8, 14336, 128256, 131072),
    "attention_bias": False,
    "rms_norm_eps": 1e-5,
    "rope_theta": 500000.0,
    "rope_scaling": LLAMA3_ROPE,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}
QWEN2 = {
    "model_type": "qwen2",
    **sizes(28, 3584, 28, 4, 18944, 152064, 131072),
    "max_window_layers": 28,
    "rms_norm_eps": 1e-6,
    "rope_theta": 1000000.0,
    "sliding_window": 131072,
    "tie_word_embeddings": False,
    "use_sliding_window": False,
}
DEEPSEEK_V3 = {
    "model_type": "deepseek_v3",
    **sizes(61, 7168, 128, 128, 18432, 129280, 163840),
    "first_k_dense_replace": 3,
    "kv_lora_rank": 512,
    "moe_intermediate_size": 2048,
    "moe_layer_freq": 1,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "num_experts_per_tok": 8,
    "num_nextn_predict_layers": 1,
    "q_lora_rank": 1536,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]},
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000,
    "tie_word_embeddings": False,
    "v_head_dim": 128,
}
GPT_OSS = {
    "model_type": "gpt_oss",
    **sizes(24, 2880, 64, 8, 2880, 201088, 131072),
    "attention_bias": True,
    "head_dim": 64,
    "layer_types": ["sliding_attention", "full_attention"] * 12,
    "num_experts_per_tok": 4,
    "num_local_experts": 32,
    "quantization_config": {
        "modules_to_not_convert": [
            "model.layers.*.self_attn",
            "model.layers.*.mlp.router",
            "model.embed_tokens",
            "lm_head",
        ],
        "quant_method": "mxfp4",
    },
    "rms_norm_eps": 1e-5,
    "rope_theta": 150000,
    "sliding_window": 128,
    "tie_word_embeddings": False,
}
GEMMA3 = {
    "head_dim": 128,
    **sizes(62, 5376, 32, 16, 21504, 262144, 131072),
    "model_type": "gemma3_text",
    "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
    "sliding_window": 1024,
}
# Written from the published config files; each must give the bundled model.
PUBLISHED: dict[str, tuple[str, Config]] = {
    "llama": ("llama-3.1-8b", LLAMA),
    "mistral": (
        "mistral-7b-v0.3",
        {
            "model_type": "mistral",
            **sizes(32, 4096, 32, 8, 14336, 32768, 32768),
            "rms_norm_eps": 1e-5,
            "rope_theta": 1000000.0,
            "sliding_window": None,
            "tie_word_embeddings": False,
        },
    ),
    "mixtral": (
        "mixtral-8x7b",
        {
            "model_type": "mixtral",
            **sizes(32, 4096, 32, 8, 14336, 32000, 32768),
            "num_experts_per_tok": 2,
            "num_local_experts": 8,
            "rms_norm_eps": 1e-5,
            "rope_theta": 1000000.0,
            "sliding_window": None,
            "tie_word_embeddings": False,
        },
    ),
    "qwen2": ("qwen2.5-7b", QWEN2),
    "qwen3": (
        "qwen3-8b",
        {
            "model_type": "qwen3",
            **sizes(36, 4096, 32, 8, 12288, 151936, 40960),
            "attention_bias": False,
            "head_dim": 128,
            "max_window_layers": 36,
            "rms_norm_eps": 1e-6,
            "rope_theta": 1000000,
            "sliding_window": None,
            "tie_word_embeddings": False,
            "use_sliding_window": False,
        },
    ),
    "qwen3_moe": (
        "qwen3-30b-a3b",
        {
            "model_type": "qwen3_moe",
            **sizes(48, 2048, 32, 4, 6144, 151936, 40960),
            "attention_bias": False,
            "decoder_sparse_step": 1,
            "head_dim": 128,
            "mlp_only_layers": [],
            "moe_intermediate_size": 768,
            "norm_topk_prob": True,
            "num_experts": 128,
            "num_experts_per_tok": 8,
            "rms_norm_eps": 1e-6,
            "rope_theta": 1000000.0,
            "tie_word_embeddings": False,
        },
    ),
    "deepseek_v2": (
        "deepseek-v2-lite",
        {
            "model_type": "deepseek_v2",
            **sizes(27, 2048, 16, 16, 10944, 102400, 163840),
            "first_k_dense_replace": 1,
            "kv_lora_rank": 512,
            "moe_intermediate_size": 1408,
            "moe_layer_freq": 1,
            "n_routed_experts": 64,
            "n_shared_experts": 2,
            "num_experts_per_tok": 6,
            "q_lora_rank": None,
            "qk_nope_head_dim": 128,
            "qk_rope_head_dim": 64,
            "rms_norm_eps": 1e-6,
            "tie_word_embeddings": False,
            "v_head_dim": 128,
        },
    ),
    "deepseek_v3": ("deepseek-v3", DEEPSEEK_V3),
    "gpt_oss": ("gpt-oss-20b", GPT_OSS),
    "gemma2": (
        "gemma-2-9b",
        {
            "model_type": "gemma2",
            **sizes(42, 3584, 16, 8, 14336, 256000, 8192),
            "head_dim": 256,
            "rms_norm_eps": 1e-6,
            "sliding_window": 4096,
        },
    ),
    "gemma3": ("gemma-3-27b", {"model_type": "gemma3", "text_config": GEMMA3, "vision_config": {}}),
    "gemma3_text": ("gemma-3-27b", GEMMA3),
    "mistral3": (
        "mistral-small-3.2-24b",
        {
            "model_type": "mistral3",
            "text_config": {
                "head_dim": 128,
                **sizes(40, 5120, 32, 8, 32768, 131072, 131072),
                "rms_norm_eps": 1e-5,
                "rope_theta": 1e9,
                "sliding_window": None,
            },
        },
    ),
    "phi3": (
        "phi-3-mini-4k",
        {
            "model_type": "phi3",
            **sizes(32, 3072, 32, 32, 8192, 32064, 4096),
            "rms_norm_eps": 1e-5,
            "sliding_window": 2047,
            "tie_word_embeddings": False,
        },
    ),
}
DESCRIPTIVE = {"name", "title", "hf_id", "aliases", "model_type", "published", "source", "notes", "rope_scaling"}


def shape(spec: ModelSpec) -> Config:
    return spec.model_dump(exclude=DESCRIPTIVE)


# The fewest keys of published files from which the reader gets each of the newer bundled models, with their sources.
TABLE: dict[str, Config] = json.loads((Path(__file__).parent / "published_configs.json").read_text(encoding="utf-8"))
