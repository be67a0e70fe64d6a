"""Hugging Face config files: what cannot be held is refused by its key, whatever the key holds."""

import pytest

from perfmodel.errors import InputError
from perfmodel.specs.huggingface import from_config
from perfmodel.specs.model import load_model
from tests.specs.configs import DEEPSEEK_V3, GEMMA3, LLAMA, PUBLISHED, TABLE, Config, shape, sizes

NEEDED = ("num_hidden_layers", "hidden_size", "num_attention_heads", "intermediate_size", "vocab_size")
JUNK = (None, "32", 1.5, True, 0, -1, 10**30, float("nan"), float("inf"), [], {})


@pytest.mark.parametrize("family", [f for f in PUBLISHED if f not in ("gemma3", "mistral3")])
def test_a_needed_key_is_never_defaulted(family: str) -> None:
    config = PUBLISHED[family][1]
    optional = {"rms_norm_eps", "rope_theta", "tie_word_embeddings", "rope_scaling", "attention_bias"}
    optional |= {"torch_dtype", "quantization_config", "num_nextn_predict_layers", "moe_layer_freq", "layer_types"}
    optional |= {"norm_topk_prob", "decoder_sparse_step", "mlp_only_layers", "use_sliding_window", "max_window_layers"}
    if family in ("llama", "phi3", "deepseek_v2", "deepseek_v3"):
        optional.add("num_key_value_heads")
    if family in ("mixtral", "phi3", "qwen2", "qwen3"):
        optional.add("sliding_window")
    if family == "qwen3_moe":  # hidden_size / num_attention_heads
        optional.add("head_dim")
    for key in config.keys() - optional:
        with pytest.raises(InputError, match=f"^m/config.json: {key}: must be .*missing$"):
            from_config({k: v for k, v in config.items() if k != key}, "m/config.json")


@pytest.mark.parametrize("key", NEEDED)
def test_junk_sizes_are_refused_in_one_line(key: str) -> None:
    for junk in JUNK:
        with pytest.raises(InputError, match=f"m.json: {key}: must be a whole number from 1 to") as error:
            from_config(LLAMA | {key: junk}, "m.json")
        assert str(error.value).isprintable()


@pytest.mark.parametrize(("base", "changes", "says"), [
    ("llama", {"model_type": "mamba"}, "model_type: must be one of the .*such as .*bamba.*, given 'mamba'"),
    ("llama", {"model_type": None}, "model_type"),
    ("llama", {"model_type": ["llama"]}, "model_type"),
    ("llama", {"model_type": "a\nb"}, "model_type"),
    ("llama", {"num_key_value_heads": 7}, "num_key_value_heads must divide"),
    ("llama", {"num_attention_heads": 48, "num_key_value_heads": 48}, "head_dim: .*does not divide hidden_size"),
    ("llama", {"attention_bias": "no"}, "attention_bias: must be true or false"),
    ("llama", {"tie_word_embeddings": 1}, "tie_word_embeddings: must be true or false"),
    ("llama", {"rope_scaling": "llama3"}, "rope_scaling: must be a mapping"),
    ("llama", {"rope_scaling": {"rope_type": "magic", "factor": 2}}, "rope_scaling.rope_type: must be one of"),
    ("llama", {"rope_scaling": {"rope_type": "llama3", "factor": 8}}, "rope_scaling.original_max"),
    ("llama", {"rope_scaling": {"type": "linear"}}, "rope_scaling.factor.*missing"),
    ("qwen3_moe", {"decoder_sparse_step": 2}, "decoder_sparse_step: must be such that the dense layers come first"),
    ("qwen3_moe", {"mlp_only_layers": [3]}, "mlp_only_layers: must be such that"),
    ("qwen3_moe", {"mlp_only_layers": "0"}, "mlp_only_layers: must be a list"),
    ("qwen3_moe", {"use_sliding_window": True}, "use_sliding_window: must be false"),
    ("qwen3_moe", {"num_experts_per_tok": 200}, "experts_per_token must be at most num_experts"),
    ("deepseek_v3", {"moe_layer_freq": 2}, "moe_layer_freq: must be such that"),
    ("deepseek_v3", {"attention_bias": True}, "attention_bias: must be false"),
    ("deepseek_v3", {"first_k_dense_replace": 62}, "first_k_dense_replace: must be a whole number from 0 to 61"),
    ("gpt_oss", {"layer_types": ["full_attention"]}, "layer_types: must be a list of 24 entries"),
    ("gpt_oss", {"layer_types": ["linear_attention"] * 24}, "layer_types: must be a list of 24 entries"),
    ("gemma3", {"text_config": None}, "text_config: must be a mapping"),
    ("gemma3", {"text_config": {}}, "text_config"),
    ("gemma3", {"text_config": GEMMA3 | {"hidden_size": None}}, "text_config.hidden_size"),
    ("glm-5.2", {"indexer_types": ["full"]}, "indexer_types: must be a list of 78 entries out of full, shared"),
    ("glm-5", {"index_topk_pattern": "FS"}, "index_topk_pattern: must be null"),
    ("glm-5", {"layer_types": ["full_attention"] * 78}, "layer_types: must be a list of 78 entries out of deepseek"),
    ("glm-5", {"mlp_layer_types": ["sparse"] * 78}, "mlp_layer_types: must be dense for the first"),
    ("minimax-m2.7", {"attn_type_list": [0] * 62}, "attn_type_list: must be a list of ones"),
    ("nemotron-h-56b", {"hybrid_override_pattern": "MX"}, "hybrid_override_pattern: must be a pattern of M"),
    ("nemotron-3-ultra-550b-a55b", {"layers_block_type": ["moe", 3]}, "layers_block_type: must be a list out of"),
    ("mimo-v2-flash", {"hybrid_layer_pattern": [2] * 48}, "hybrid_layer_pattern: must be a list of 48 zeros"),
    ("mimo-v2-flash", {"moe_layer_freq": [0]}, "moe_layer_freq: must be a list of 48 zeros"),
])  # fmt: skip
def test_what_cannot_be_held_is_refused(base: str, changes: Config, says: str) -> None:
    config = TABLE[base]["config"] if base in TABLE else PUBLISHED[base][1]
    with pytest.raises(InputError, match=says) as error:
        from_config(config | changes, "m.json")
    assert str(error.value).startswith("m.json: ")
    assert str(error.value).isprintable()


@pytest.mark.parametrize(("base", "key", "value"), [
    ("llama", "index_topk", 2048), ("llama", "sparse_attention_config", {"sparse_topk_blocks": 16}),
    ("llama", "linear_attn_config", {"kda_layers": [1]}), ("llama", "num_local_experts", 8),
    ("llama", "sliding_window", 4096), ("llama", "kv_lora_rank", 512),
    ("llama", "block_configs", [{"ffn": {"ffn_mult": 2.6}}]), ("llama", "head_dims_by_layer", [64]),
    ("deepseek_v3", "index_n_heads", 64), ("deepseek_v3", "compress_ratios", [4, 128]), ("deepseek_v3", "hc_mult", 4),
    ("qwen3_moe", "moe_latent_size", 1024), ("qwen3_moe", "shared_expert_frequency", 2),
    ("gpt_oss", "swa_num_key_value_heads", 4), ("gemma3_text", "num_kv_shared_layers", 10),
    ("gemma3_text", "hidden_size_per_layer_input", 256), ("qwen3", "layer_types", ["linear_attention"] * 36),
])  # fmt: skip
def test_a_key_that_changes_the_cost_and_is_not_read_is_refused(base: str, key: str, value: object) -> None:
    with pytest.raises(InputError, match=f"m.json: {key}: must be (absent for model_type {base}|a list of)"):
        from_config(PUBLISHED[base][1] | {key: value}, "m.json")


def test_a_key_that_says_nothing_or_moves_no_byte_is_no_obstacle() -> None:
    for value in (None, False, 0, [], {}, ""):
        assert shape(from_config(LLAMA | {"index_topk": value}, "m.json")) == shape(load_model("llama-3.1-8b"))
    for key in ("router_aux_loss_coef", "moe_router_dtype", "bos_token_id", "topk_method", "routed_scaling_factor"):
        assert shape(from_config(DEEPSEEK_V3 | {key: 3}, "m.json")) == shape(load_model("deepseek-v3"))


BLOCK = {"attention": {"n_heads_in_group": 2}, "ffn": {"ffn_mult": 1.0}}
ERNIE = {"moe_num_experts": 4, "moe_k": 2, "moe_intermediate_size": 24, "moe_layer_start_index": 1}
HUNYUAN = {"num_experts": 4, "moe_topk": 2, "moe_intermediate_size": 24}
LATENT = {"kv_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 12, "q_lora_rank": None}
LAYERS = "block_configs: must be a list of 2 mappings"


@pytest.mark.parametrize(("family", "changes", "says"), [
    ("dbrx", {"ffn_config": {"ffn_hidden_size": 24, "moe_num_experts": 4, "moe_top_k": 2}}, "ffn_config: must be a"),
    ("nemotron-nas", {"block_configs": "none"}, LAYERS),
    ("nemotron-nas", {"block_configs": [BLOCK]}, LAYERS),
    ("nemotron-nas", {"block_configs": [BLOCK, 3]}, LAYERS),
    ("nemotron-nas", {"block_configs": [BLOCK, BLOCK | {"attention": None}]}, "block_configs: must be mappings"),
    ("nemotron-nas", {"block_configs": [BLOCK, BLOCK | {"ffn": None}]}, "block_configs: must be mappings"),
    ("nemotron-nas", {"block_configs": [BLOCK, BLOCK | {"attention": {"n_heads_in_group": 2,
     "replace_with_linear": True}}]}, "block_configs: must be mappings"),
    ("nemotron-nas", {"block_configs": [BLOCK, BLOCK | {"attention": {"n_heads_in_group": 4}}]}, "block_configs: "),
    ("ernie4_5_moe", ERNIE | {"moe_layer_end_index": -2}, "moe_layer_end_index: must be a whole number from -1"),
    ("ernie4_5_moe", ERNIE | {"moe_layer_interval": 2}, "moe_layer_interval: must be 1"),
    ("hunyuan_v1_moe", HUNYUAN | {"moe_topk": [1, 2]}, "moe_topk: must be a whole number, or a list of the same"),
    ("hunyuan_v1_moe", HUNYUAN | {"num_experts": 0}, "num_experts: must be a whole number from 1"),
    ("hunyuan_v1_moe", HUNYUAN | {"num_shared_expert": 0}, "num_shared_expert: must be a whole number from 1"),
    ("hunyuan_v1_dense", {"use_cla": True}, "use_cla: must be false"),
    ("gpt2", {"word_embed_proj_dim": 32}, "word_embed_proj_dim: must be hidden_size"),
    ("laguna", {"head_dim": 8, "num_attention_heads_per_layer": [8, 4]}, "num_attention_heads_per_layer: must be 8"),
    ("gemma3_text", {"layer_types": ["full_attention", "conv"]}, "layer_types: must be a list of 2 entries"),
    *(("gemma3_text", {"sliding_window_pattern": step},
        "sliding_window_pattern: must be a whole number from 1 to") for step in (True, "", 0, 10_001, [2])),
    ("llama", {"rope_theta": 0}, "rope_theta: must be a number above 0"),
    ("llama", {"rope_theta": 1.1e15}, "rope_theta: must be a number above 0, at most 1e15"),
    ("llama", {"rope_scaling": {"factor": 2}}, "rope_scaling.type: must be one of default, llama3"),
    ("minimax", {"attn_type_list": [0, 2]}, "attn_type_list: must be a list of 0 "),
    ("minimax_m2", {"attn_type_list": [True, 1]}, "attn_type_list: must be a list of layer numbers"),
    ("kimi_linear", LATENT, "linear_attn_config: must be a mapping"),
    ("deepseek_v4", {"head_dim": 8, "index_topk": 8, "compress_ratios": [0, 5]},
     "compress_ratios: must be a list of 2"),
    ("deepseek_v32", LATENT | {"q_lora_rank": 20, "indexer_types": ["full", "none"]}, "indexer_types: must be a list"),
    ("youtu", LATENT | {"attention_bias": True}, "attention_bias: must be false"),
    ("youtu", LATENT | {"mlp_bias": True}, "mlp_bias: must be false"),
    ("xverse2", {},
     "model_type: must be one of the .* listed in docs/models.md, such as xverse(, [a-z0-9_]+){0,2}, given"),
])  # fmt: skip
def test_small_files_that_cannot_be_held_are_refused(family: str, changes: Config, says: str) -> None:
    small = sizes(2, 64, 8, 4, 96, 101, 512)
    small |= {"sliding_window": 16, "head_dim": 8} if family == "gemma3_text" else {}
    with pytest.raises(InputError, match=f"^m.json: {says}"):
        from_config({"model_type": family, **small, **changes}, "m.json")
