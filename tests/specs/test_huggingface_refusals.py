"""Hugging Face config files: what cannot be held is refused by its key, whatever the key holds."""

import re

import pytest

from perfmodel.errors import InputError
from perfmodel.specs import load_model
from perfmodel.specs.huggingface import from_config
from perfmodel.specs.huggingface.unread import PATTERNS
from tests.refusals import refused
from tests.specs.configs import DEEPSEEK_V3, LLAMA, PUBLISHED, TABLE, Config, shape, sizes, table

NEEDED = ("num_hidden_layers", "hidden_size", "num_attention_heads", "intermediate_size", "vocab_size")
REFUSED = table("refused_files")
JUNK = (None, "32", 1.5, True, 0, -1, 10**30, float("nan"), float("inf"), [], {})


@pytest.mark.parametrize("family", [f for f in PUBLISHED if f not in ("gemma3", "mistral3")])
def test_a_needed_key_is_never_defaulted(family: str) -> None:
    config = PUBLISHED[family][1]
    optional = {
        "rms_norm_eps",
        "rope_theta",
        "tie_word_embeddings",
        "rope_scaling",
        "attention_bias",
        "torch_dtype",
        "quantization_config",
        "num_nextn_predict_layers",
        "moe_layer_freq",
        "layer_types",
        "norm_topk_prob",
        "decoder_sparse_step",
        "mlp_only_layers",
        "use_sliding_window",
        "max_window_layers",
    }
    if family in ("llama", "phi3", "deepseek_v2", "deepseek_v3"):
        optional.add("num_key_value_heads")
    if family in ("mixtral", "phi3", "qwen2", "qwen3"):
        optional.add("sliding_window")
    if family == "qwen3_moe":  # hidden_size / num_attention_heads
        optional.add("head_dim")
    for key in config.keys() - optional:
        refused(
            f"^m/config.json: {key}: must be .*missing$",
            from_config,
            {k: v for k, v in config.items() if k != key},
            "m/config.json",
        )


@pytest.mark.parametrize("key", NEEDED)
def test_junk_sizes_are_refused_in_one_line(key: str) -> None:
    for junk in JUNK:
        with pytest.raises(InputError, match=f"m.json: {key}: must be a whole number from 1 to") as error:
            from_config(LLAMA | {key: junk}, "m.json")
        assert str(error.value).isprintable()


@pytest.mark.parametrize(("base", "changes", "says"), REFUSED["published"])
def test_what_cannot_be_held_is_refused(base: str, changes: Config, says: str) -> None:
    """A wrong value, or a key that changes the cost and is not read, in a published file."""
    config = TABLE[base]["config"] if base in TABLE else PUBLISHED[base][1]
    with pytest.raises(InputError, match=says) as error:
        from_config(config | changes, "m.json")
    assert str(error.value).startswith("m.json: ")
    assert str(error.value).isprintable()


@pytest.mark.parametrize(("family", "changes", "says"), REFUSED["small"])
def test_small_files_that_cannot_be_held_are_refused(family: str, changes: Config, says: str) -> None:
    small = sizes(2, 64, 8, 4, 96, 101, 512)
    small |= {"sliding_window": 16, "head_dim": 8} if family == "gemma3_text" else {}
    refused(f"^m.json: {says}", from_config, {"model_type": family, **small, **changes}, "m.json")


def test_a_key_that_says_nothing_or_moves_no_byte_is_no_obstacle() -> None:
    for value in (None, False, 0, [], {}, ""):
        assert shape(from_config(LLAMA | {"index_topk": value}, "m.json")) == shape(
            load_model("llama-3.1-8b")
        )
    for key in (
        "router_aux_loss_coef",
        "moe_router_dtype",
        "bos_token_id",
        "topk_method",
        "routed_scaling_factor",
    ):
        assert shape(from_config(DEEPSEEK_V3 | {key: 3}, "m.json")) == shape(load_model("deepseek-v3"))


def test_a_pattern_of_unread_keys_matches_the_key_that_it_was_seen_in() -> None:
    """A key that changes no cost is listed only where another row would have it refused."""
    costly = [row.pattern for row in PATTERNS if row.changes_cost]
    for row in PATTERNS:
        key = row.seen_in.partition(" ")[0]
        assert not key or re.search(row.pattern, key), row
        assert not key or any(re.search(pattern, key) for pattern in costly), row
    assert len({row.pattern for row in PATTERNS}) == len(PATTERNS)
