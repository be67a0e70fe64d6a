"""Drafting heads by their own config.json; key subsets of published files."""

import json
from pathlib import Path

import pytest

from perfmodel.costs import Degrees, shard
from perfmodel.drafts import kind_of
from perfmodel.kv import parse_kv
from perfmodel.specs import load_model, precision_of
from perfmodel.specs.huggingface.heads import load_head
from tests.drafts.test_drafts import LAYER, QKV, scenario
from tests.refusals import refused
from tests.specs.configs import table

HEADS = table("heads")
EAGLE3, SPECULATORS, DFLASH, DSPARK_V4 = HEADS["heads"].values()
"""Of yuhuili/EAGLE3-LLaMA3.1-Instruct-8B; in the layouts of RedHatAI/*-speculator.eagle3 and
z-lab/*-DFlash-b16.
"""


def head(tmp_path: Path, config: dict) -> str:
    (tmp_path / "config.json").write_text(json.dumps(config))
    return str(tmp_path)


def test_an_eagle_3_head_by_its_config(tmp_path: Path) -> None:
    """As the kind with the same numbers, but for its own maximum context; a folder, a file, or after the
    word.
    """
    path = head(tmp_path, EAGLE3)
    same = scenario("eagle:features=3,vocab=32000")
    for name in (path, f"{path}/config.json", f"eagle:{path}"):
        s = scenario(name)
        assert s.draft.name == "eagle3"
        assert s.draft.precision.weights.name == "bf16"
        assert s.draft_ops(4.0, 512.0) == same.draft_ops(4.0, 512.0)
        head_ops = s.draft.iteration_ops(s.draft_shard, 4.0)
        assert head_ops == same.draft.iteration_ops(same.draft_shard, 4.0)
        weights = s.draft.own_weight_bytes(s.draft_shard)
        assert weights == same.draft.own_weight_bytes(same.draft_shard)


def test_a_head_of_another_width_and_in_the_layout_of_speculators(tmp_path: Path) -> None:
    s = scenario(head(tmp_path, SPECULATORS), model="gpt-oss-120b", hardware="h200")
    (once,) = s.draft.iteration_ops(s.draft_shard, 1.0)
    assert once.cost.weight_bytes == 2 * 3 * 2880 * 4096
    loaded = [float(op.cost.weight_bytes) for op in s.draft_ops(1.0, 512.0)]
    read = sum(loaded)
    assert read == 2 * (LAYER + QKV + 64000 * 4096)


def test_dflash_and_dspark_by_their_config(tmp_path: Path) -> None:
    s = scenario(head(tmp_path, DFLASH), model="qwen3-8b")
    same = scenario("dflash:layers=5,features=5,block=16", model="qwen3-8b")
    assert s.draft.name == "dflash"
    # the file's LM head and norms are as the kind's; vocabulary of its own or the target's is the same here
    assert s.draft_ops(4.0, 512.0, 8.0) == same.draft_ops(4.0, 512.0, 8.0)
    attention = 2 * 4096 * 4096 + 2 * 4096 * 1024
    layers = 5 * (attention + 3 * 4096 * 12288)
    into = 5 * 4096 * 4096
    norms = 11 * 4096
    # the LM head is the target's
    assert s.draft.own_weight_bytes(s.draft_shard) == 2 * (layers + into + norms)
    spark = DFLASH | {"architectures": ["Qwen3DSparkModel"], "markov_rank": 64, "block_size": 7}
    t = scenario(head(tmp_path, spark), model="qwen3-8b")
    assert t.draft.name == "dspark"
    assert t.draft.max_gamma == 7


def test_a_dspark_head_of_deepseek_v4s_layers(tmp_path: Path) -> None:
    """Three layers of the target's kind, windows alone: every one of 256 experts and a shared one is held."""
    s = scenario(head(tmp_path, DSPARK_V4), model="deepseek-v4-flash", hardware="b200", tp=1)
    model = s.draft.model
    assert s.draft.name == "dspark"
    assert model.num_sliding_layers == 3
    assert model.compressed == ()
    assert model.indexer is None
    queries = 4096 * (1024 + 512) + 1024 * 64 * 512
    outputs = 64 * 512 * 1024 + 8 * 1024 * 4096
    router = 4096 * 256 + 256
    experts = 257 * 3 * 4096 * 2048
    into = 3 * 4096 * 4096
    transition = 2 * 256 * 129280
    layer = queries + outputs + router + experts
    head_bytes = 2 * (3 * layer + 7 * 4096 + into + transition)
    assert s.draft.own_weight_bytes(s.draft_shard) == pytest.approx(head_bytes, rel=1e-12)


@pytest.mark.parametrize(("kind", "changes", "fields"), HEADS["stated"])
def test_what_a_file_states_of_its_head(tmp_path: Path, kind: str, changes: dict, fields: dict) -> None:
    """Its kind, how many features it takes, its vocabulary, its layers and its block."""
    config = HEADS["heads"][kind] | changes
    config = {key: value for key, value in config.items() if value != "absent"}
    loaded = load_head(head(tmp_path, config), load_model("qwen3-8b"))
    usual = {"vocab": 0, "target_width": 0}
    stated = usual | loaded.model.as_mapping() | loaded.options | {"kind": loaded.kind}
    assert {name: stated[name] for name in fields} == fields


@pytest.mark.parametrize(("kind", "changes", "words"), HEADS["refused"])
def test_a_head_that_is_not_understood_is_named(tmp_path: Path, kind: str, changes: dict, words: str) -> None:
    config = HEADS["heads"][kind] | changes
    refused(words, scenario, head(tmp_path, config))


def test_a_published_dflash2_head_by_its_own_count(tmp_path: Path) -> None:
    """z-lab/dflash@0698f537 tests/fixtures: 5,544,319,488 bytes of bf16, without embedding and LM head."""
    flash = {
        "block_size": 16,
        "conv_group_size": 16,
        "conv_kernel_size": 2,
        "selector_rank": 256,
        "selector_top_k": 16,
        "mask_token_id": 201818,
        "target_layer_ids": [1, 13, 25, 37, 49],
        "final_logit_softcapping": 20.0,
        "output_multiplier": 0.196,
    }
    config = {
        "architectures": ["DFlash2DraftModel"],
        "model_type": "qwen3",
        "dflash_config": flash,
        "num_hidden_layers": 5,
        "hidden_size": 6656,
        "num_attention_heads": 32,
        "head_dim": 128,
        "num_key_value_heads": 8,
        "intermediate_size": 19968,
        "vocab_size": 202048,
    }
    loaded = load_head(head(tmp_path, config | {"rms_norm_eps": 1e-5}), load_model("llama-3.1-8b"))
    assert loaded.kind == "dflash2"
    assert loaded.options["rank"] == 256
    assert loaded.options["block"] == 16
    draft = kind_of("dflash2")(
        loaded.model, parse_kv("full"), 1, precision_of(loaded.model, ()), **loaded.options
    )
    head_bytes = draft.own_weight_bytes(shard(loaded.model, Degrees(1), draft.precision))
    assert head_bytes == pytest.approx(
        5_544_319_488, rel=2e-4
    )  # norms and the convolutions' means are left out


def test_a_domino_head_by_hand(tmp_path: Path) -> None:
    """DFlash's block, a GRU of three gates over token and state, and logits of 2048 words a step."""
    flash = {"block_size": 8, "target_layer_ids": [1, 9, 17], "mask_token_id": 5}
    sizes = {
        "num_hidden_layers": 2,
        "num_key_value_heads": 8,
        "intermediate_size": 14336,
        "vocab_size": 128256,
    }
    config = {
        "architectures": ["DFlashDraftModel"],
        "model_type": "qwen3",
        "hidden_size": 4096,
        **sizes,
        "num_attention_heads": 32,
        "head_dim": 128,
    }
    domino_config = {
        "projector_type": "domino",
        "gru_hidden_dim": 512,
        "emb_dim": 64,
        "shift_label": True,
        "pure_draft_prefix_len": 1,
    }
    target = load_model("llama-3.1-8b")
    drafts = []
    for block_config in (flash, flash | domino_config):
        loaded = load_head(head(tmp_path, config | {"dflash_config": block_config}), target)
        precision = precision_of(loaded.model, ())
        kind = kind_of(loaded.kind)
        drafts.append(kind(loaded.model, parse_kv("full"), 1, precision, **loaded.options))
    plain, domino = drafts
    assert plain.kind == "dflash"
    assert domino.kind == "domino"
    assert domino.max_gamma == 7
    whole = shard(domino.model, Degrees(1), domino.precision)
    read = 4096 + 512
    added_bytes = domino.own_weight_bytes(whole) - plain.own_weight_bytes(whole)
    corrector = read * (3 * 512 + 64)
    assert added_bytes == 2 * (corrector + 64 * 128256)
    steps = [op for op in domino.ops(whole, 1.0, 512.0, 8.0) if op.name.startswith("domino")]
    loaded = sum(op.cost.weight_bytes for op in steps)
    assert loaded == 7 * 2 * (corrector + 64 * 2048)


def test_a_head_with_a_latent_cache(tmp_path: Path) -> None:
    """512 + 64 values a token; the positions that its file leaves out are the target's."""
    mla = {
        "kv_lora_rank": 512,
        "q_lora_rank": 1536,
        "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64,
        "v_head_dim": 128,
    }
    without = {key: value for key, value in EAGLE3.items() if key != "max_position_embeddings"}
    s = scenario(head(tmp_path, without | mla | {"model_type": "kimi_k2"}))
    assert s.draft.model.kv_bytes_per_token() == 2 * 576
    assert s.draft.model.max_position_embeddings == 131072


def test_a_head_on_two_devices_and_of_two_layers(tmp_path: Path) -> None:
    """EAGLE-3's wider projection is one layer's, split, and launches nothing; a head of masks runs five
    tokens.
    """
    config = EAGLE3 | {"num_hidden_layers": 2, "ptd_token_id": 1}
    s = scenario(head(tmp_path, config), tp=2, draft_weights="fp8")
    wider, *_ = s.draft_ops(4.0, 512.0, 5.0)
    assert wider.cost.weight_bytes == QKV / 2
    assert wider.cost.flops == 2 * QKV / 2 * 20
    assert wider.kernels == 0
    assert wider.quantisations == 0
    head_values = 2 * LAYER + QKV + 3 * 4096 * 4096
    embedding = 32000 * 4096 / 2
    in_bf16 = 2 * (embedding + 5 * 4096)
    assert s.draft.own_weight_bytes(s.draft_shard) == head_values / 2 + in_bf16
    into, *_ = scenario("eagle").draft_ops(4.0, 512.0, 5.0)
    assert into.cost.flops == 20 * 2 * 2 * 4096 * 4096
