"""Files in which vision or audio stands beside the language model, and what they leave to defaults of its class."""

INNER = ("text_config", "llm_config", "language_config", "thinker_config")
# Files with vision or audio beside a language model, under a key of `INNER`: its `model_type` where it has none.
WRAPPERS = {
    "gemma3": "gemma3_text",
    "gemma3n": "gemma3n_text",
    "gemma4": "gemma4_text",
    "exaone4_5": "exaone4_5_text",
    "cohere_compass": "cohere_compass_text",
    "glm4v": "glm4v_text",
    "glm5_next": "glm5_next_text",
    "glm4v_moe": "glm4v_moe_text",
    "kimi_k25": "kimi_k2",
    "kimi_k3": "kimi_linear",
    "internvl_chat": "qwen2",
    "lfm2_vl": "lfm2",
    "llava": "llama",
    "llama4": "llama4_text",
    "minimax_m3_vl": "minimax_m3_vl_text",
    "mistral3": "mistral",
    "mistral_large4": "mistral_large4_text",
    "mllama": "mllama_text_model",
    "qwen3_5": "qwen3_5_text",
    "qwen3_5_moe": "qwen3_5_moe_text",
    "qwen3_vl": "qwen3_vl_text",
    "qwen3_vl_moe": "qwen3_vl_moe_text",
    "voxtral": "llama",
}
# transformers leaves class defaults out of a nested config, so published files (Gemma 3, LLaVA) rely on these.
NESTED_DEFAULTS = {
    "gemma3": {
        "vocab_size": 262208,
        "max_position_embeddings": 131072,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "sliding_window": 4096,
    },
    "llama": {"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "intermediate_size": 11008,
              "vocab_size": 32000, "max_position_embeddings": 2048},
    "mistral": {"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
                "intermediate_size": 14336, "vocab_size": 32000, "max_position_embeddings": 131072},
    "qwen2": {"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32,
              "intermediate_size": 22016, "vocab_size": 151936, "max_position_embeddings": 32768},
}  # fmt: skip
