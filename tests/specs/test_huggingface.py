"""Hugging Face config files: every family against the bundled models and against transformers' own parameters."""

import json
import re
import warnings
from pathlib import Path
from typing import Any

import pytest

from perfmodel.errors import InputError
from perfmodel.specs.huggingface import SUPPORTED, from_config
from perfmodel.specs.model import ModelSpec, load_model

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


@pytest.mark.parametrize("family", PUBLISHED)
def test_a_published_config_is_the_bundled_model(family: str) -> None:
    name, config = PUBLISHED[family]
    spec, bundled = from_config(config, f"/models/{name}/config.json"), load_model(name)
    assert spec.name == name
    assert shape(spec) == shape(bundled)
    assert (spec.total_params, spec.active_params) == (bundled.total_params, bundled.active_params)


# The fewest keys of published files from which the reader gets each of the newer bundled models, with their sources.
TABLE: dict[str, Config] = json.loads((Path(__file__).parent / "published_configs.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", TABLE)
def test_a_published_file_is_the_bundled_model(name: str) -> None:
    spec, bundled = from_config(TABLE[name]["config"], f"/models/{name}/config.json"), load_model(name)
    assert spec.name == name
    assert shape(spec) == shape(bundled)
    assert bundled.source == TABLE[name]["source"]


@pytest.mark.parametrize("name", TABLE)
def test_no_key_of_the_table_is_idle(name: str) -> None:
    """Without any one of its keys a file is refused or another model."""
    config = TABLE[name]["config"]
    whole = shape(from_config(config, "c.json"))
    boxes = [(config, lambda cut: cut)]
    if "text_config" in config:
        boxes.append((config["text_config"], lambda cut: config | {"text_config": cut}))
    for box, put in boxes:
        for key in box.keys() - {"model_type", "text_config"}:
            try:
                cut = shape(from_config(put({k: v for k, v in box.items() if k != key}), "c.json"))
            except InputError:
                continue
            assert cut != whole, key


def test_every_supported_family_is_tested() -> None:
    inner = {c["config"].get("text_config", {}).get("model_type") for c in TABLE.values()}
    outer = {c["config"]["model_type"] for c in TABLE.values()}
    assert {*PUBLISHED, *inner, *outer, "qwen2_moe"} - {None} == set(SUPPORTED)


def test_a_file_with_vision_beside_the_language_model() -> None:
    """Mistral-Small-3.2: the language model is under text_config, whose model_type may be left out."""
    text = TABLE["mistral-small-3.2-24b"]["config"]
    bare = {k: v for k, v in text.items() if k != "model_type"}
    for inner in (text, bare):
        spec = from_config({"model_type": "mistral3", "text_config": inner, "vision_config": {"x": 1}}, "c.json")
        assert shape(spec) == shape(load_model("mistral-small-3.2-24b"))
    with pytest.raises(InputError, match=r"text_config\.model_type: must be one of .*, given 'pixtral'"):
        from_config({"model_type": "mistral3", "text_config": text | {"model_type": "pixtral"}}, "c.json")


def test_qwen2_moe_by_hand() -> None:
    """Qwen1.5-MoE-A2.7B: the card says 14.3B in all and 2.7B active."""
    config = {
        "model_type": "qwen2_moe",
        **sizes(24, 2048, 16, 16, 5632, 151936, 8192),
        "decoder_sparse_step": 1,
        "moe_intermediate_size": 1408,
        "num_experts": 60,
        "num_experts_per_tok": 4,
        "shared_expert_intermediate_size": 5632,
        "tie_word_embeddings": False,
    }
    spec = from_config(config, "config.json")
    layer = 4 * 2048**2 + 3 * 2048 + 2048 * 60 + 60 * 3 * 2048 * 1408 + 3 * 2048 * 5632 + 2048 + 2 * 2048
    assert spec.total_params == 24 * layer + 2048 + 2 * 151936 * 2048
    assert spec.total_params / 1e9 == pytest.approx(14.3, abs=0.05)
    assert (spec.active_params + spec.embedding_params) / 1e9 == pytest.approx(2.7, abs=0.05)


def test_llama3_scaling_in_both_layouts() -> None:
    newer = {k: v for k, v in LLAMA.items() if k not in ("rope_theta", "rope_scaling")}
    newer["rope_parameters"] = {**LLAMA3_ROPE, "rope_theta": 500000.0}
    old, new, bundled = from_config(LLAMA, "c.json"), from_config(newer, "c.json"), load_model("llama-3.1-8b")
    assert old.rope_scaling == new.rope_scaling == bundled.rope_scaling
    assert old.rope_theta == new.rope_theta == 500000


@pytest.mark.parametrize(
    ("scaling", "expected"),
    [
        (None, None),
        ({"rope_type": "default"}, None),
        ({"type": "linear", "factor": 8}, ("linear", 8.0, 131072)),
        ({"type": "yarn", "factor": 40, "original_max_position_embeddings": 4096}, ("yarn", 40.0, 4096)),
        ({"type": "su", "original_max_position_embeddings": 4096, "short_factor": [1.0]}, ("longrope", 32.0, 4096)),
    ],
)
def test_other_scalings_are_held_by_name(scaling: Config | None, expected: tuple[str, float, int] | None) -> None:
    rope = from_config(LLAMA | {"rope_scaling": scaling}, "c.json").rope_scaling
    assert (rope and (rope.rope_type, rope.factor, rope.original_max_position_embeddings)) == expected


@pytest.mark.parametrize(
    ("base", "changes", "expected"),
    [
        ("mistral", {"sliding_window": 4096}, (4096, 32)),
        ("mixtral", {"sliding_window": 4096}, (4096, 32)),
        ("phi3", {"sliding_window": None}, (None, 0)),
        ("qwen2", {"use_sliding_window": True, "sliding_window": 4096, "max_window_layers": 20}, (4096, 8)),
        ("qwen2", {"use_sliding_window": True, "sliding_window": 4096}, (None, 0)),  # from layer 28 of 28
        ("gpt_oss", {"layer_types": None}, (128, 12)),
        ("gpt_oss", {"layer_types": ["full_attention"] * 20 + ["sliding_attention"] * 4}, (128, 4)),
        ("gemma3_text", {"sliding_window_pattern": 2}, (1024, 31)),
    ],
)
def test_which_layers_slide(base: str, changes: Config, expected: tuple[int | None, int]) -> None:
    spec = from_config(PUBLISHED[base][1] | changes, "c.json")
    assert (spec.sliding_window, spec.num_sliding_layers) == expected


def test_llama_without_kv_heads_is_multi_head() -> None:
    config = {k: v for k, v in LLAMA.items() if k != "num_key_value_heads"}
    assert from_config(config, "c.json").num_key_value_heads == 32


def test_llama_attention_bias_covers_all_four_projections() -> None:
    spec = from_config(LLAMA | {"attention_bias": True}, "c.json")
    biases = 32 * (4096 + 2 * 1024 + 4096)
    assert spec.total_params - from_config(LLAMA, "c.json").total_params == biases


def test_sizes_that_published_gemma_3_files_leave_out_are_named_in_the_notes() -> None:
    text = {k: v for k, v in GEMMA3.items() if k not in ("vocab_size", "max_position_embeddings")}
    spec = from_config({"model_type": "gemma3", "text_config": text}, "c.json")
    assert (spec.vocab_size, spec.max_position_embeddings) == (262208, 131072)
    assert "vocab_size 262208" in spec.notes
    with pytest.raises(InputError, match=r"max_position_embeddings: .*missing"):
        from_config(text, "c.json")


def test_the_folder_names_the_model(tmp_path: Path) -> None:
    cached = tmp_path / "models--me--Tiny-1" / "snapshots" / "0123abcd"
    for folder, name in ((tmp_path / "my-llama", "my-llama"), (cached, "Tiny-1")):
        folder.mkdir(parents=True)
        (folder / "config.json").write_text(json.dumps(LLAMA))
        assert load_model(str(folder)).name == load_model(str(folder / "config.json")).name == name
    other = tmp_path / "other.json"
    other.write_text(json.dumps(LLAMA))
    assert load_model(str(other)).name == "other"


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
    for key in config.keys() - optional:
        with pytest.raises(InputError, match=f"^m/config.json: {key}: must be .*missing$"):
            from_config({k: v for k, v in config.items() if k != key}, "m/config.json")


@pytest.mark.parametrize("key", NEEDED)
@pytest.mark.parametrize("junk", JUNK, ids=str)
@pytest.mark.parametrize("family", ["llama", "deepseek_v3", "gpt_oss"])
def test_junk_sizes_are_refused_in_one_line(family: str, key: str, junk: object) -> None:
    with pytest.raises(InputError, match=f"m.json: {key}: must be a whole number from 1 to") as error:
        from_config(PUBLISHED[family][1] | {key: junk}, "m.json")
    assert str(error.value).isprintable()


@pytest.mark.parametrize(
    ("base", "changes", "says"),
    [
        ("llama", {"model_type": "mamba"}, "model_type: must be one of .*gpt_oss.*, given 'mamba'"),
        ("llama", {"model_type": None}, "model_type"),
        ("llama", {"model_type": ["llama"]}, "model_type"),
        ("llama", {"model_type": "a\nb"}, "model_type"),
        ("llama", {"num_key_value_heads": 7}, "num_key_value_heads must divide"),
        ("llama", {"num_attention_heads": 48, "num_key_value_heads": 48}, "head_dim: .*does not divide hidden_size"),
        ("llama", {"attention_bias": "no"}, "attention_bias: must be true or false"),
        ("llama", {"tie_word_embeddings": 1}, "tie_word_embeddings: must be true or false"),
        ("llama", {"rope_theta": -1}, "rope_theta: must be a number above 0"),
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
    ],
)
def test_what_cannot_be_held_is_refused(base: str, changes: Config, says: str) -> None:
    with pytest.raises(InputError, match=says) as error:
        from_config(PUBLISHED[base][1] | changes, "m.json")
    assert str(error.value).startswith("m.json: ")
    assert str(error.value).isprintable()


@pytest.mark.parametrize(
    ("base", "key", "value"),
    [
        ("llama", "index_topk", 2048),
        ("llama", "sparse_attention_config", {"sparse_topk_blocks": 16}),
        ("llama", "linear_attn_config", {"kda_layers": [1]}),
        ("llama", "num_local_experts", 8),
        ("llama", "sliding_window", 4096),
        ("llama", "kv_lora_rank", 512),
        ("llama", "block_configs", [{"ffn": {"ffn_mult": 2.6}}]),
        ("llama", "head_dims_by_layer", [64]),
        ("deepseek_v3", "index_n_heads", 64),
        ("deepseek_v3", "compress_ratios", [4, 128]),
        ("deepseek_v3", "hc_mult", 4),
        ("qwen3_moe", "moe_latent_size", 1024),
        ("qwen3_moe", "shared_expert_frequency", 2),
        ("gpt_oss", "swa_num_key_value_heads", 4),
        ("gemma3_text", "num_kv_shared_layers", 10),
        ("gemma3_text", "hidden_size_per_layer_input", 256),
        ("qwen3", "layer_types", ["linear_attention"] * 36),
    ],
)
def test_a_key_that_changes_the_cost_and_is_not_read_is_refused(base: str, key: str, value: object) -> None:
    with pytest.raises(InputError, match=f"m.json: {key}: must be (absent for model_type {base}|a list of)"):
        from_config(PUBLISHED[base][1] | {key: value}, "m.json")


@pytest.mark.parametrize("value", [None, False, 0, [], {}, ""])
def test_a_key_that_says_nothing_is_no_obstacle(value: object) -> None:
    assert shape(from_config(LLAMA | {"index_topk": value}, "m.json")) == shape(load_model("llama-3.1-8b"))


@pytest.mark.parametrize(
    "key",
    ["initializer_range", "router_aux_loss_coef", "moe_router_dtype", "bos_token_id", "pretraining_tp", "n_group",
     "topk_method", "norm_topk_prob", "routed_scaling_factor", "rope_interleave", "embd_pdrop", "hidden_act"],
)  # fmt: skip
def test_keys_that_move_no_byte_are_left_alone(key: str) -> None:
    assert shape(from_config(DEEPSEEK_V3 | {key: 3}, "m.json")) == shape(load_model("deepseek-v3"))


@pytest.mark.parametrize(
    ("name", "changes", "says"),
    [
        ("glm-5.2", {"indexer_types": ["full"]}, "indexer_types: must be a list of 78 entries out of full, shared"),
        ("glm-5", {"index_topk_pattern": "FS"}, "index_topk_pattern: must be null"),
        (
            "glm-5",
            {"layer_types": ["full_attention"] * 78},
            "layer_types: must be a list of 78 entries out of deepseek",
        ),
        ("glm-5", {"mlp_layer_types": ["sparse"] * 78}, "mlp_layer_types: must be dense for the first"),
        ("minimax-m2.7", {"attn_type_list": [0] * 62}, "attn_type_list: must be a list of ones"),
        ("nemotron-h-56b", {"hybrid_override_pattern": "MX"}, "hybrid_override_pattern: must be a pattern of M"),
        ("nemotron-3-ultra-550b-a55b", {"layers_block_type": ["moe", 3]}, "layers_block_type: must be a list out of"),
        ("mimo-v2-flash", {"hybrid_layer_pattern": [2] * 48}, "hybrid_layer_pattern: must be a list of 48 zeros"),
        ("mimo-v2-flash", {"moe_layer_freq": [0]}, "moe_layer_freq: must be a list of 48 zeros"),
    ],
)
def test_what_the_newer_families_cannot_hold_is_refused(name: str, changes: Config, says: str) -> None:
    with pytest.raises(InputError, match=f"^m.json: {says}"):
        from_config(TABLE[name]["config"] | changes, "m.json")


def test_global_sizes_as_transformers_5_writes_them() -> None:
    config = TABLE["gemma-4-26b-a4b"]["config"]
    text = {
        k: v for k, v in config["text_config"].items() if k not in ("global_head_dim", "num_global_key_value_heads")
    }
    own = {str(layer): {"head_dim": 512, "num_key_value_heads": 2} for layer in range(5, 30, 6)}
    spec = from_config(config | {"text_config": text | {"per_layer_config": own}}, "c.json")
    assert shape(spec) == shape(load_model("gemma-4-26b-a4b"))
    uneven = own | {"5": {"head_dim": 256, "num_key_value_heads": 2}}
    with pytest.raises(InputError, match="per_layer_config: must be the same head_dim"):
        from_config(config | {"text_config": text | {"per_layer_config": uneven}}, "c.json")


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


@pytest.mark.parametrize(
    ("kind", "key", "value", "said"),
    [
        ("nemotron_h", "num_hidden_layers", 7, ", as many as there are blocks, given 7"),
        ("deepseek_v32", "indexer_types", [["full"]] * 61, "indexer_types: must be a list of 61 entries"),
    ],
)
def test_lists_of_layers_that_fit_no_model(tmp_path: Path, kind: str, key: str, value: object, said: str) -> None:
    config = next(entry["config"] for entry in TABLE.values() if entry["config"]["model_type"] == kind)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config | {key: value}))
    with pytest.raises(InputError, match=re.escape(said)):
        load_model(str(path))
