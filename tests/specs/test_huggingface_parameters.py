"""Small Hugging Face config files: every field, and parameters and sliding layers as transformers' own models."""

import json
import warnings

import pytest

from perfmodel.specs.huggingface import from_config
from tests.specs.configs import DESCRIPTIVE, Config, sizes, table

BASE = sizes(7, 64, 8, 4, 96, 101, 512)
TINY: list[Config] = table("tiny_configs")
"""Classes of transformers, and the keys with which a tiny model of each is built.

file: keys that a file must have and transformers derives. fields: of ModelSpec that are neither as `BASE` nor as usual.
counts: all parameters, those of a token, cached values a token, blocks; values of a state and FLOPs for each, and
columns of the keys of an indexer, where there are such.
"""
RARE = [{"model_type": family, **row} for family, rows in table("small_files").items() for row in rows]
"""The same of files that take the rarer ways through the readers."""


@pytest.mark.parametrize("row", [*TINY, *RARE])
def test_every_field_of_a_small_file(row: Config) -> None:
    own = {"model_type": row["model_type"]} | row.get("keys", {}) | row.get("file", {})
    spec = from_config(BASE | own, "c.json")
    assert spec.model_dump(mode="json", exclude=DESCRIPTIVE, exclude_defaults=True) == BASE | row["fields"]
    state, chosen = spec.linear_attention, spec.indexer
    counts = [spec.total_params, spec.active_params, spec.kv_bytes_per_token(1.0), spec.num_blocks]
    counts += [state.state_values, state.flops_per_value] if state else []
    counts += [chosen.key_columns] if chosen else []
    assert counts == row["counts"]


@pytest.mark.parametrize("tiny", TINY, ids=[tiny["class"] for tiny in TINY])
def test_parameters_and_sliding_layers_equal_transformers(tiny: Config) -> None:
    """An independent count: transformers builds a tiny model of the family from the same file."""
    family, keys, left_out = tiny["class"], tiny["keys"], tiny.get("left_out", 0)
    torch = pytest.importorskip("torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        transformers = pytest.importorskip("transformers")
        if not hasattr(transformers, family):
            pytest.skip(f"this transformers has no {family}")
        config = getattr(transformers, family)(**(BASE | keys))
        with torch.device("meta"):
            whole = type(config) in transformers.AutoModelForCausalLM._model_mapping
            built = (transformers.AutoModelForCausalLM if whole else transformers.AutoModel).from_config(config)
    count = sum(p.numel() for p in built.parameters())
    count += 0 if whole or config.tie_word_embeddings else config.vocab_size * config.hidden_size
    # DeepSeek-V3's routing bias is a buffer in transformers but a weight in the checkpoint and in the card's count.
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
