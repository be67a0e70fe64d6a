"""Hugging Face config files: every family against the bundled models."""

import json
import warnings
from pathlib import Path

import pytest

from perfmodel.costs import Degrees, shard
from perfmodel.specs import load_gpu, load_model, precision_of
from perfmodel.specs.huggingface import from_config
from tests.refusals import refused
from tests.specs.configs import DESCRIPTIVE, LLAMA, PUBLISHED, TABLE, Config, shape, sizes, table

FILES = [*PUBLISHED.values(), *((name, row["config"]) for name, row in TABLE.items())]


@pytest.mark.parametrize(("name", "config"), FILES, ids=[*PUBLISHED, *TABLE])
def test_a_published_file_is_the_bundled_model(name: str, config: Config) -> None:
    spec = from_config(config, f"/models/{name}/config.json")
    bundled = load_model(name)
    assert spec.name == name
    assert shape(spec) == shape(bundled)
    assert bundled.rope_scaling in (None, spec.rope_scaling)
    assert name not in TABLE or config is not TABLE[name]["config"] or bundled.source == TABLE[name]["source"]


SMALL = sizes(2, 64, 8, 8, 40, 100, 512)
ATTENTION = 4 * 64 * 64
MLP = 3 * 64 * 40
ENDS = 5 * 64 + 2 * 100 * 64


@pytest.mark.parametrize(
    ("base", "keys"),
    [
        ("gemma3_text", {"rope_local_base_freq": 1e4}),  # gemma-3-1b-it
        ("gemma3_text", {"sliding_window_pattern": 6, "_sliding_window_pattern": 6}),
        ("gemma2", {"sliding_window_size": 4096}),  # gemma-2-9b
        ("llama", {"for_llm_compressor": False, "moe_router_dtype": None}),
        (
            "mistral",
            {"rope_scaling": {"rope_type": "yarn", "factor": 1, "mscale_all_dim": 0.0, "truncate": False}},
        ),
    ],
)
def test_keys_of_real_files_that_move_no_byte(base: str, keys: Config) -> None:
    name, config = PUBLISHED[base]
    assert shape(from_config(config | keys, "c.json")) == shape(load_model(name))


@pytest.mark.parametrize(
    ("stated", "kept"),
    [
        ({"truncate": False}, {"truncate": False}),
        ({"truncate": None, "mscale_all_dim": 0.0}, {"truncate": True, "mscale_all_dim": None}),
        ({"beta_fast": 16, "mscale": 0.7}, {"beta_fast": 16, "mscale": 0.7, "truncate": True}),
    ],
)
def test_a_rule_of_yarn_keeps_what_the_file_states_and_a_zero_is_nothing(
    stated: Config, kept: Config
) -> None:
    scaling = {"rope_type": "yarn", "factor": 2} | stated
    rule = from_config(PUBLISHED["mistral"][1] | {"rope_scaling": scaling}, "c.json").rope_scaling
    assert rule is not None
    assert {name: getattr(rule, name) for name in kept} == kept


def test_a_file_with_vision_is_read_by_its_language_model() -> None:
    """Under text_config, whose model_type may be left out, in an outer type that is known, is not, or is the
    text's.
    """
    bare = PUBLISHED["mistral3"][1]["text_config"]
    text = bare | {"model_type": "mistral"}
    for outer, inner in (("new_vl", text), ("mistral", text), ("mistral3", text), ("mistral3", bare)):
        file = {"model_type": outer, "text_config": inner, "vision_config": {"x": 1}}
        assert from_config(file, "c.json").total_params == 23_572_403_200
    for outer, inner, tied in (
        ("mistral3", {"tie_word_embeddings": False}, False),
        ("mistral3", {}, True),
        ("new_vl", {"tie_word_embeddings": False}, True),
    ):
        both = {"model_type": outer, "tie_word_embeddings": True, "text_config": text | inner}
        assert from_config(both, "c.json").tie_word_embeddings == tied
    refused(
        r"text_config\.model_type: must be one of .*, given 'pixtral'",
        from_config,
        {"model_type": "mistral3", "text_config": text | {"model_type": "pixtral"}},
        "c.json",
    )


def test_language_models_under_other_keys() -> None:
    """InternVL and Qwen-Omni; LLaVA's file leaves out what Llama's class says, and the notes say so."""
    text = SMALL | {"model_type": "internlm2"}
    omni = {"model_type": "qwen2_5_omni_thinker", "text_config": SMALL | {"model_type": "qwen2_5_omni_text"}}
    for file, count in (
        ({"model_type": "internvl_chat", "llm_config": text}, 2 * (ATTENTION + MLP) + ENDS),
        ({"model_type": "qwen2_5_omni", "thinker_config": omni}, 2 * (ATTENTION + 3 * 64 + MLP) + ENDS),
    ):
        assert from_config(file, "c.json").total_params == count
    llava = from_config(
        {"model_type": "llava", "text_config": {"model_type": "llama", "vocab_size": 32064}}, "c.json"
    )
    assert llava.total_params == 6_738_939_904  # Llama-2-7B and 64 tokens more, twice
    assert "hidden_size 4096" in llava.notes


def test_the_folder_names_the_model(tmp_path: Path) -> None:
    cached = tmp_path / "models--me--Tiny-1" / "snapshots" / "0123abcd"
    for folder, name in ((tmp_path / "my-llama", "my-llama"), (cached, "Tiny-1")):
        folder.mkdir(parents=True)
        (folder / "config.json").write_text(json.dumps(LLAMA))
        assert load_model(str(folder)).name == load_model(str(folder / "config.json")).name == name
    other = tmp_path / "other.json"
    other.write_text(json.dumps(LLAMA))
    assert load_model(str(other)).name == "other"


def test_global_sizes_as_transformers_5_writes_them() -> None:
    config = TABLE["gemma-4-26b-a4b"]["config"]
    left_out = ("global_head_dim", "num_global_key_value_heads")
    text = {k: v for k, v in config["text_config"].items() if k not in left_out}
    sizes_by_layer = {str(layer): {"head_dim": 512, "num_key_value_heads": 2} for layer in range(5, 30, 6)}
    spec = from_config(config | {"text_config": text | {"per_layer_config": sizes_by_layer}}, "c.json")
    assert shape(spec) == shape(load_model("gemma-4-26b-a4b"))
    uneven = sizes_by_layer | {"5": {"head_dim": 256, "num_key_value_heads": 2}}
    refused(
        "per_layer_config: must be the same head_dim",
        from_config,
        config | {"text_config": text | {"per_layer_config": uneven}},
        "c.json",
    )


# Small files: every field, and parameters and sliding layers as transformers' own models.

BASE = sizes(7, 64, 8, 4, 96, 101, 512)
TINY: list[Config] = table("tiny_configs")
"""Classes of transformers, and the keys with which a tiny model of each is built.

file: keys that a file must have and transformers derives. fields: of ModelSpec that are neither as `BASE` nor
as usual. counts: all parameters, those of a token, cached values a token, blocks; values of a state and FLOPs
for each, and columns of the keys of an indexer, where there are such.
"""
RARE = [{"model_type": family, **row} for family, rows in table("small_files").items() for row in rows]
"""The same of files that take the rarer ways through the readers."""


@pytest.mark.parametrize("row", [*TINY, *RARE])
def test_every_field_of_a_small_file(row: Config) -> None:
    config = {"model_type": row["model_type"]} | row.get("keys", {}) | row.get("file", {})
    spec = from_config(BASE | config, "c.json")
    stated = {k: v for k, v in spec.as_mapping(exclude_defaults=True).items() if k not in DESCRIPTIVE}
    assert stated == BASE | row["fields"]
    state = spec.linear_attention
    chosen = spec.indexer
    counts = [spec.total_params, spec.active_params, spec.kv_bytes_per_token(1.0), spec.num_blocks]
    counts += [state.state_values, state.flops_per_value] if state else []
    counts += [chosen.key_columns] if chosen else []
    assert counts == row["counts"]
    groups = shard(spec, Degrees(1), precision_of(spec, load_gpu("h100").peak)).attentions
    whole = sum(group.layers for group in groups if not group.name.startswith("every "))
    assert whole == spec.num_attention_layers  # layers of compressed keys have a window too


@pytest.mark.parametrize(("word", "name"), [("float32", "fp32"), ("bfloat16", "bf16"), ("float16", "fp16")])
def test_states_have_the_format_of_the_file(word: str, name: str) -> None:
    row = next(row for row in RARE if "mamba_ssm_dtype" in row.get("file", {}))
    config = BASE | {"model_type": row["model_type"]} | row.get("keys", {}) | row["file"]
    state = from_config(config | {"mamba_ssm_dtype": word}, "c.json").linear_attention
    assert state is not None
    assert state.state_dtype == name


@pytest.mark.parametrize("tiny", TINY, ids=[tiny["class"] for tiny in TINY])
def test_parameters_and_sliding_layers_equal_transformers(tiny: Config) -> None:
    """An independent count: transformers builds a tiny model of the family from the same file."""
    family = tiny["class"]
    keys = tiny["keys"]
    left_out = tiny.get("left_out", 0)
    torch = pytest.importorskip("torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        transformers = pytest.importorskip("transformers")
        if not hasattr(transformers, family):
            pytest.skip(f"this transformers has no {family}")
        config = getattr(transformers, family)(**(BASE | keys))
        with torch.device("meta"):
            whole = type(config) in transformers.AutoModelForCausalLM._model_mapping
            built = (transformers.AutoModelForCausalLM if whole else transformers.AutoModel).from_config(
                config
            )
    count = sum(p.numel() for p in built.parameters())
    count += 0 if whole or config.tie_word_embeddings else config.vocab_size * config.hidden_size
    # DeepSeek-V3's routing bias is a buffer in transformers but a weight in the checkpoint and in the card's
    # count.
    biases = ("e_score_correction_bias", "expert_bias")
    count += sum(b.numel() for name, b in built.named_buffers() if name.endswith(biases))
    for use_diff in (True, False):
        spec = from_config(json.loads(config.to_json_string(use_diff=use_diff)), "c.json")
        assert spec.total_params == count - left_out
        if getattr(config, "layer_types", None) and config.model_type not in ("qwen3_moe", "deepseek_v4"):
            slides = ("sliding_attention", "chunked_attention")
            window = getattr(config, "sliding_window", None) or getattr(config, "attention_chunk_size", None)
            sliding = sum(kind in slides for kind in config.layer_types) if window else 0
            assert spec.num_sliding_layers == sliding


def test_an_n_gram_table_in_host_memory_is_named_and_not_counted() -> None:
    """Qwen4-Exp: its row is projected onto all streams, as one key for each, and onto one value."""
    (tiny,) = [row for row in TINY if row["model_type"] == "qwen4_exp_text"]
    file = BASE | tiny["keys"] | {"model_type": "qwen4_exp_text"}
    tables = {"ple_layer_ids": [2], "ple_embed_dim": 64, "ngram_vocab_size_base": 20_000_000, "ngram_size": 3}
    plain = from_config(file, "c.json")
    spec = from_config(file | tables, "c.json")
    assert spec.total_params - plain.total_params == 64 * (4 + 1) * 64
    assert spec.notes == "N-gram tables of 1B values stay in host memory: not counted."
