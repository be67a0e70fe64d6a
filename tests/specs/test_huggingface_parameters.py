"""Hugging Face config files: parameters and sliding layers against transformers' own models."""

import json
import warnings

import pytest

from perfmodel.specs.huggingface import from_config
from tests.specs.configs import Config, sizes

BASE = sizes(7, 64, 8, 4, 96, 101, 512)
EXPERTS = {"num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 24}
LATENT = {"kv_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 12, "num_key_value_heads": 8}
ROUTED = {"n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 24, "n_group": 2, "topk_group": 1}
INDEX = {"index_n_heads": 4, "index_head_dim": 16, "index_topk": 32, "n_shared_experts": 1}
DELTA = {
    "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 12,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
}
MAMBA = {
    "head_dim": 16,
    "mamba_num_heads": 4,
    "mamba_head_dim": 8,
    "n_groups": 2,
    "ssm_state_size": 16,
    "conv_kernel": 4,
    "n_routed_experts": 8,
    "n_shared_experts": 1,
    "moe_intermediate_size": 24,
    "moe_shared_expert_intermediate_size": 40,
    "num_experts_per_tok": 2,
}
GLOBAL = {
    "head_dim": 16,
    "global_head_dim": 32,
    "num_global_key_value_heads": 2,
    "attention_k_eq_v": True,
    "hidden_size_per_layer_input": 0,
    "enable_moe_block": False,
    "sliding_window": 32,
}
TINY: list[tuple[str, Config]] = [
    ("LlamaConfig", {"pad_token_id": 0}),
    ("LlamaConfig", {"attention_bias": True, "mlp_bias": True, "head_dim": 16, "tie_word_embeddings": True}),
    ("MistralConfig", {"sliding_window": 64}),
    ("MixtralConfig", {"num_local_experts": 4, "num_experts_per_tok": 2}),
    ("Qwen2Config", {"use_sliding_window": True, "sliding_window": 32, "max_window_layers": 3}),
    ("Qwen2MoeConfig", EXPERTS | {"shared_expert_intermediate_size": 48, "mlp_only_layers": [0]}),
    ("Qwen3Config", {"head_dim": 16, "attention_bias": True, "tie_word_embeddings": True}),
    ("Qwen3MoeConfig", EXPERTS | {"head_dim": 16}),
    ("DeepseekV2Config", LATENT | ROUTED | {"q_lora_rank": None, "first_k_dense_replace": 1, "n_shared_experts": 2}),
    ("DeepseekV3Config", LATENT | ROUTED | {"q_lora_rank": 20, "first_k_dense_replace": 2, "n_shared_experts": 1}),
    ("GptOssConfig", {"head_dim": 16, "num_local_experts": 4, "num_experts_per_tok": 2}),
    ("Gemma2Config", {"head_dim": 16}),
    ("Gemma3TextConfig", {"head_dim": 16}),
    ("Phi3Config", {"sliding_window": 33, "pad_token_id": 0, "eos_token_id": 1}),
    (
        "Glm4MoeConfig",
        ROUTED | {"n_routed_experts": 8, "first_k_dense_replace": 1, "head_dim": 16, "attention_bias": True},
    ),
    (
        "DeepseekV32Config",
        LATENT | ROUTED | INDEX | {"q_lora_rank": 20, "first_k_dense_replace": 2, "n_shared_experts": 1},
    ),
    (
        "GlmMoeDsaConfig",
        LATENT
        | ROUTED
        | INDEX
        | {"q_lora_rank": 20, "first_k_dense_replace": 1, "indexer_types": ["full", "shared"] * 3 + ["full"]},
    ),
    ("Qwen3NextConfig", EXPERTS | DELTA | {"head_dim": 16, "shared_expert_intermediate_size": 40}),
    ("Qwen3_5TextConfig", DELTA | {"head_dim": 16}),
    ("Qwen3_5MoeTextConfig", EXPERTS | DELTA | {"head_dim": 16, "shared_expert_intermediate_size": 40}),
    ("NemotronHConfig", MAMBA | {"hybrid_override_pattern": "M-M*-ME"}),
    ("NemotronHConfig", MAMBA | {"hybrid_override_pattern": "MEM*EM-", "moe_latent_size": 20}),
    ("Gemma4TextConfig", GLOBAL),
    (
        "Llama4TextConfig",
        {"num_local_experts": 4, "interleave_moe_layer_step": 2, "intermediate_size_mlp": 80, "head_dim": 16},
    ),
    ("Ministral3Config", {"head_dim": 16}),
]


@pytest.mark.parametrize(("family", "keys"), TINY, ids=[name for name, _ in TINY])
def test_parameters_and_sliding_layers_equal_transformers(family: str, keys: Config) -> None:
    """An independent count: transformers builds a tiny model of the family from the same file."""
    torch = pytest.importorskip("torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        transformers = pytest.importorskip("transformers")
        if not hasattr(transformers, family):
            pytest.skip(f"this transformers has no {family}")
        config = getattr(transformers, family)(**(BASE | keys))
        with torch.device("meta"):
            built = transformers.AutoModelForCausalLM.from_config(config)
    count = sum(p.numel() for p in built.parameters())
    # DeepSeek-V3's routing bias is a buffer in transformers but a weight in the checkpoint and in the card's count.
    count += sum(b.numel() for name, b in built.named_buffers() if name.endswith("e_score_correction_bias"))
    for use_diff in (True, False):
        spec = from_config(json.loads(config.to_json_string(use_diff=use_diff)), "c.json")
        assert spec.total_params == count
        if getattr(config, "layer_types", None) and config.model_type != "qwen3_moe":
            slides = ("sliding_attention", "chunked_attention")
            window = getattr(config, "sliding_window", None) or getattr(config, "attention_chunk_size", None)
            sliding = sum(kind in slides for kind in config.layer_types) if window else 0
            assert spec.num_sliding_layers == sliding
