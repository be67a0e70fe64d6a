"""Files in which vision or audio stands beside the language model, and what they leave to defaults of its class."""

INNER = ("text_config", "llm_config", "language_config", "thinker_config")
_BY_NAME = (
    "cohere_compass exaone4_5 gemma3 gemma3n gemma4 glm4v glm4v_moe glm5_next llama4 minimax_m3_vl mistral_large4 "
    "qwen3_5 qwen3_5_moe qwen3_vl qwen3_vl_moe"
)
# Files with vision or audio beside a language model, under a key of `INNER`: its `model_type` where it has none.
WRAPPERS = {name: f"{name}_text" for name in _BY_NAME.split()} | {
    "kimi_k25": "kimi_k2",
    "kimi_k3": "kimi_linear",
    "internvl_chat": "qwen2",
    "lfm2_vl": "lfm2",
    "llava": "llama",
    "mistral3": "mistral",
    "mllama": "mllama_text_model",
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
