"""Every draft kind: found by name, its contract, and one number of each worked by hand."""

import json
from pathlib import Path

import numpy as np
import pytest

from perfmodel.answers.query import Query, resolve
from perfmodel.drafts import make_draft
from perfmodel.errors import InputError
from perfmodel.specs.model import load_model
from perfmodel.specs.published_heads import published_heads
from perfmodel.speculation.chain import predict
from perfmodel.speculation.workload import Workload
from tests.specs.configs import sizes

LAYER = 4096 * (32 + 2 * 8) * 128 + 4096 * 4096 + 3 * 4096 * 14336
HEAD = 4096 * 128256
NORMS = 3 * 4096


def scenario(draft: str, **flags):
    asked = {"model": "llama-3.1-8b", "hardware": "h100-sxm-80gb", "batch": 1, "context": 1, "alpha": 0.7}
    return resolve(Query(**(asked | {"draft": draft} | flags)))


def test_ngram_costs_verification_alone() -> None:
    s = scenario("ngram")
    p = predict(s, Workload.of(4, 4096, 5))
    assert float(p.draft_s) == 0
    assert float(p.iteration_s) == pytest.approx(float(s.target_pass_s(4, 4096, 6) + s.overhead_s(4, 4096)), rel=1e-12)


def test_eagle_is_one_layer_a_projection_and_the_targets_head() -> None:
    """EAGLE on 8B reads one layer, 2h x h and the whole LM head a step, and keeps all of it but the head."""
    s = scenario("eagle", calibration="ideal")
    read = sum(float(op.cost.weight_bytes) for op in s.draft_ops(1.0, 512.0))
    assert read == 2 * (LAYER + 2 * 4096 * 4096 + HEAD)
    assert s.draft.own_weight_bytes(s.draft_shard) == 2 * (LAYER + 2 * 4096 * 4096 + NORMS)
    assert s.draft_shard.kv_bytes_per_token == 131072 / 32


QKV = 4096 * (32 + 2 * 8) * 128


def test_eagle_3_projects_its_features_once_an_iteration() -> None:
    """A step reads the layer with query, key and value projections of 2h and a head of 32000; 3h x h comes once."""
    s = scenario("eagle:features=3,vocab=32000")
    read = sum(float(op.cost.weight_bytes) for op in s.draft_ops(1.0, 512.0))
    assert read == 2 * (LAYER + QKV + 32000 * 4096)
    (once,) = s.draft.iteration_ops(s.draft_shard, 5.0)
    assert (once.cost.weight_bytes, once.cost.flops) == (2 * 3 * 4096 * 4096, 5 * 2 * 3 * 4096 * 4096)
    assert s.draft.own_weight_bytes(s.draft_shard) == 2 * (LAYER + QKV + 3 * 4096 * 4096 + 32000 * 4096 + NORMS)
    plain = scenario("eagle")
    assert plain.draft.iteration_ops(plain.draft_shard, 5.0) == []
    extra = float(s.overhead_s(5.0, 512.0)) - float(plain.overhead_s(5.0, 512.0))
    assert extra == pytest.approx(float(s.draft_machine.op_predicted_s(once)), rel=1e-9)
    # the wider projection is the same GEMM: one launch for both halves
    assert sum(float(op.kernels) for op in s.draft_ops(1.0, 512.0) if op.kind == "linear") == 5


def test_dflash_fills_a_block_in_one_pass() -> None:
    """Five layers on gamma + 1 positions, the head on gamma; features to keys and values once an iteration."""
    s = scenario("dflash:layers=5,features=5,block=16", calibration="ideal")
    ops = {op.name: op for op in s.draft_ops(3.0, 512.0, 8.0)}
    assert sum(float(op.cost.weight_bytes) for op in ops.values()) == 2 * (5 * LAYER + HEAD)
    assert ops["down"].cost.flops == 3 * 8 * 2 * 5 * 14336 * 4096
    assert ops["lm_head"].cost.flops == 3 * 7 * 2 * HEAD
    assert ops["attention (full)"].cost.kv_bytes == 3 * 512 * 5 * 131072 / 32
    once = s.draft.iteration_ops(s.draft_shard, 3.0)
    assert [float(op.cost.weight_bytes) for op in once] == [2 * 5 * 4096 * 4096, 2 * 4096 * 5 * 2 * 8 * 128]
    p = predict(s, Workload.of(3, 512, 7))
    assert float(7 * p.draft_s) == pytest.approx(float(s.draft_pass_s(3, 512, 8)), rel=1e-12)
    assert s.draft.max_gamma == 15
    with pytest.raises(InputError, match="at most 15"):
        predict(s, Workload.of(3, 512, 16))


def test_dspark_samples_at_every_position_and_steps_through_the_block() -> None:
    s = scenario("dspark:rank=64,block=7", calibration="ideal")
    ops = {op.name: op for op in s.draft_ops(3.0, 512.0, 7.0)}
    assert ops["lm_head"].cost.flops == 3 * 7 * 2 * HEAD
    # each of seven tokens reads 64 x 128256 weights, whole on every device
    assert ops["dspark transition"].cost.weight_bytes == 7 * 2 * 64 * 128256
    assert ops["dspark transition"].kernels == 7
    two = scenario("dspark:rank=64,block=7", calibration="ideal", tp=2)
    shared = {op.name: op for op in two.draft_ops(3.0, 512.0, 7.0)}
    assert shared["dspark transition"].cost == ops["dspark transition"].cost
    assert s.draft.max_gamma == 7


# Heads by their own config.json; key subsets of published files.

EAGLE3 = {  # yuhuili/EAGLE3-LLaMA3.1-Instruct-8B
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "draft_vocab_size": 32000,
    **sizes(1, 4096, 32, 8, 14336, 128256, 2048),
}
SPECULATORS = {  # the layout of RedHatAI/*-speculator.eagle3
    "architectures": ["Eagle3Speculator"],
    "speculators_model_type": "eagle3",
    "draft_vocab_size": 64000,
    "target_hidden_size": 2880,
    "eagle_aux_hidden_state_layer_ids": [2, 18, 33],
    "transformer_layer_config": {"model_type": "llama", **sizes(1, 4096, 32, 8, 14336, 201088, 4096)},
}
DFLASH = {  # the layout of z-lab/*-DFlash-b16
    "architectures": ["DFlashDraftModel"],
    "model_type": "qwen3",
    **sizes(5, 4096, 32, 8, 12288, 151936, 40960),
    "head_dim": 128,
    "block_size": 16,
    "dflash_config": {"mask_token_id": 151669, "target_layer_ids": [1, 9, 17, 25, 33]},
}


def head(tmp_path: Path, config: dict) -> str:
    (tmp_path / "config.json").write_text(json.dumps(config))
    return str(tmp_path)


def test_an_eagle_3_head_by_its_config(tmp_path: Path) -> None:
    """As the kind with the same numbers, but for its own maximum context; a folder, a file, or after the word."""
    path = head(tmp_path, EAGLE3)
    same = scenario("eagle:features=3,vocab=32000")
    for name in (path, f"{path}/config.json", f"eagle:{path}"):
        s = scenario(name)
        assert (s.draft.name, s.draft.precision.weights.name) == ("eagle3", "bf16")
        assert s.draft_ops(4.0, 512.0) == same.draft_ops(4.0, 512.0)
        assert s.draft.iteration_ops(s.draft_shard, 4.0) == same.draft.iteration_ops(same.draft_shard, 4.0)
        assert s.draft.own_weight_bytes(s.draft_shard) == same.draft.own_weight_bytes(same.draft_shard)


def test_a_head_of_another_width_and_in_the_layout_of_speculators(tmp_path: Path) -> None:
    s = scenario(head(tmp_path, SPECULATORS), model="gpt-oss-120b", hardware="h200")
    (once,) = s.draft.iteration_ops(s.draft_shard, 1.0)
    assert once.cost.weight_bytes == 2 * 3 * 2880 * 4096
    read = sum(float(op.cost.weight_bytes) for op in s.draft_ops(1.0, 512.0))
    assert read == 2 * (LAYER + QKV + 64000 * 4096)


@pytest.mark.parametrize(
    ("changes", "features"),
    [
        ({}, 3),
        ({"num_aux_hidden_states": 4}, 4),
        ({"eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 2]}}, 2),
        ({"eagle_config": {"use_aux_hidden_state": False}}, 1),
        ({"draft_vocab_size": None, "architectures": ["EagleLlamaForCausalLM"]}, 1),
        ({"draft_vocab_size": None, "architectures": ["LlamaForCausalLMEagle3"]}, 3),
    ],
)
def test_how_many_features_a_head_takes(tmp_path: Path, changes: dict, features: int) -> None:
    config = {key: value for key, value in (EAGLE3 | changes).items() if value is not None}
    assert scenario(head(tmp_path, config)).draft.features == features  # type: ignore[attr-defined]


def test_dflash_and_dspark_by_their_config(tmp_path: Path) -> None:
    s = scenario(head(tmp_path, DFLASH), model="qwen3-8b")
    same = scenario("dflash:layers=5,features=5,block=16", model="qwen3-8b")
    assert s.draft.name == "dflash"
    # the file's LM head and norms are as the kind's; vocabulary of its own or the target's is the same here
    assert s.draft_ops(4.0, 512.0, 8.0) == same.draft_ops(4.0, 512.0, 8.0)
    layers, into = 5 * (2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 12288), 5 * 4096 * 4096
    norms = 11 * 4096
    assert s.draft.own_weight_bytes(s.draft_shard) == 2 * (layers + into + norms)  # the LM head is the target's
    spark = DFLASH | {"architectures": ["Qwen3DSparkModel"], "markov_rank": 64, "block_size": 7}
    t = scenario(head(tmp_path, spark), model="qwen3-8b")
    assert (t.draft.name, t.draft.max_gamma) == ("dspark", 7)


def test_a_dspark_head_of_deepseek_v4s_layers(tmp_path: Path) -> None:
    """Three layers of the target's kind, windows alone: every one of 256 experts and a shared one is held."""
    config = {
        "architectures": ["DSparkV4DraftModel"], "block_size": 5, "hidden_size": 4096, "num_hidden_layers": 3,
        "num_attention_heads": 64, "num_key_value_heads": 1, "head_dim": 512, "q_lora_rank": 1024, "o_lora_rank": 1024,
        "o_groups": 8, "sliding_window": 128, "n_routed_experts": 256, "n_shared_experts": 1, "num_experts_per_tok": 6,
        "moe_intermediate_size": 2048, "vocab_size": 129280, "num_target_layers": 43, "rms_norm_eps": 1e-6,
        "dflash_config": {"markov_rank": 256, "projector_type": "dspark_v4", "target_layer_ids": [40, 41, 42]},
    }  # fmt: skip
    s = scenario(head(tmp_path, config), model="deepseek-v4-flash", hardware="b200", tp=1)
    model = s.draft.model
    assert (s.draft.name, model.num_sliding_layers, model.compressed, model.indexer) == ("dspark", 3, (), None)
    attention = 4096 * (1024 + 512) + 1024 * 64 * 512 + 64 * 512 * 1024 + 8 * 1024 * 4096
    experts = 4096 * 256 + 256 + 257 * 3 * 4096 * 2048
    into, transition = 3 * 4096 * 4096, 2 * 256 * 129280
    own = 2 * (3 * (attention + experts) + 7 * 4096 + into + transition)
    assert s.draft.own_weight_bytes(s.draft_shard) == pytest.approx(own, rel=1e-12)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (EAGLE3 | {"draft_vocab_size": "32000"}, "draft_vocab_size: must be a whole number"),
        (EAGLE3 | {"hidden_size": None}, "hidden_size: must be a whole number"),
        (
            DFLASH | {"dflash_config": DFLASH["dflash_config"] | {"gru_hidden_dim": 64}},
            "dflash_config.gru_hidden_dim: ",
        ),
        (
            DFLASH | {"architectures": ["DominoDraftModel"]},
            "architectures: must be of EAGLE, P-EAGLE, DFlash or DSpark",
        ),
        ({k: v for k, v in DFLASH.items() if k != "dflash_config"}, "target_layer_ids: must be the list"),
        (DFLASH | {"architectures": ["Qwen3DSparkModel"]}, "markov_rank: .*missing"),
        (EAGLE3 | {"index_topk": 64}, "index_topk: must be absent for model_type llama"),
    ],
)
def test_a_head_that_is_not_understood_is_named(tmp_path: Path, config: dict, words: str) -> None:
    with pytest.raises(InputError, match=words):
        scenario(head(tmp_path, config))


def test_keys_that_are_left_over_from_the_target_change_nothing(tmp_path: Path) -> None:
    left = {"max_window_layers": 36, "decoder_sparse_step": 1, "moe_intermediate_size": 768, "num_experts": 128}
    unused = {"sliding_window": 32768, "use_sliding_window": False, "attention_head_dim": 128}
    same = scenario("eagle:features=3,vocab=32000")
    assert scenario(head(tmp_path, EAGLE3 | left | unused)).draft_ops(4.0, 512.0) == same.draft_ops(4.0, 512.0)


def test_a_head_of_masks_drafts_in_one_pass(tmp_path: Path) -> None:
    """P-EAGLE: five tokens are one pass of five positions, and the draft's vocabulary is read once."""
    s = scenario(head(tmp_path, EAGLE3 | {"ptd_token_id": 128255}))
    assert (float(s.draft.passes(5.0)), float(s.draft.query(5.0))) == (1.0, 5.0)
    p = predict(s, Workload.of(4, 4096, 5))
    assert 5 * float(p.draft_s) == pytest.approx(float(s.draft_pass_s(4.0, 4096.0, 5.0)))


def test_a_head_with_a_latent_cache(tmp_path: Path) -> None:
    """512 + 64 values a token; the positions that its file leaves out are the target's."""
    mla = {"kv_lora_rank": 512, "q_lora_rank": 1536, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128}
    config = {k: v for k, v in EAGLE3.items() if k != "max_position_embeddings"} | mla | {"model_type": "kimi_k2"}
    s = scenario(head(tmp_path, config))
    assert s.draft.model.kv_bytes_per_token() == 2 * 576
    assert s.draft.model.max_position_embeddings == 131072


def test_eagle3_is_the_published_head_of_its_target_or_a_dense_layer() -> None:
    """Kimi-K2.5's head has 64 key and value heads of 128; DeepSeek-V3 is cut to 56 heads over 8: 4,096 B a token."""
    kimi = scenario("eagle3", model="kimi-k2.5", hardware="h200", tp=8).draft
    assert kimi.model.kv_bytes_per_token() == 2 * 2 * 64 * 128
    assert kimi.model.dense_mlp_params == 3 * 7168 * 18432
    v3 = scenario("eagle3", model="deepseek-v3", hardware="h200", tp=8).draft.model
    assert (v3.kv_bytes_per_token(), v3.dense_mlp_params) == (4096, 3 * 7168 * 18432)
    assert scenario("eagle3", model="gpt-oss-120b", hardware="h200").draft.model.intermediate_size == 3 * 2880
    for row in published_heads():
        draft = scenario("eagle3", model=row.target, hardware="b200", tp=8 if row.target == "kimi-k2.5" else 1).draft
        assert (draft.name, draft.vocab, len(row.source) > 8) == ("eagle3", row.vocab, True)  # type: ignore[attr-defined]


def test_medusa_runs_a_head_per_token_in_one_pass() -> None:
    s = scenario("medusa:heads=3", calibration="ideal")
    for gamma in (1, 3):
        read = sum(float(op.cost.weight_bytes) for op in s.draft_ops(1.0, 512.0, gamma))
        assert read == gamma * 2 * (4096 * 4096 + HEAD)
    p = predict(s, Workload.of(1, 512, 3))
    assert float(3 * p.draft_s) == pytest.approx(float(s.draft_pass_s(1, 512, 3)), rel=1e-12)
    assert s.draft.own_weight_bytes(s.draft_shard) == 3 * 2 * (4096 * 4096 + HEAD)


def test_a_parallel_draft_reads_its_weights_once() -> None:
    parallel, chain = scenario("parallel:llama-3.2-1b"), scenario("llama-3.2-1b")
    one, many = (predict(s, Workload.of(1, 4096, 6)) for s in (parallel, chain))
    assert float(6 * one.draft_s) == pytest.approx(float(parallel.draft_pass_s(1, 4096, 6)), rel=1e-12)
    assert float(6 * one.draft_s) < 1.2 * float(many.draft_s)
    assert float(one.speedup) > float(many.speedup)


def test_mtp_weighs_what_deepseek_prints() -> None:
    """The MTP module of DeepSeek-V3 has 11.5 B parameters of its own (model card: 14 B with embedding and head)."""
    s = scenario("mtp", model="deepseek-v3", hardware="h200-sxm-141gb", tp=8, weights="fp8")
    assert s.draft.own_weight_bytes(s.draft_shard) * 8 / 1e9 == pytest.approx(11.7, abs=0.3)


def test_stacked_mtp_layers() -> None:
    one, three = (scenario(f"mtp:modules={n}", model="minimax-m2", hardware="h200-sxm-141gb", tp=4) for n in (1, 3))
    assert three.draft.own_weight_bytes(three.draft_shard) == 3 * one.draft.own_weight_bytes(one.draft_shard)
    np.testing.assert_array_equal(three.draft_pass_s(1, 4096), one.draft_pass_s(1, 4096))
    assert (one.draft.max_gamma, three.draft.max_gamma) == (None, 3)


@pytest.mark.parametrize(
    ("draft", "flags", "words"),
    [
        ("eagle:layers=2", {}, "it takes features, vocab"),
        ("dflash:layers=0", {}, "dflash: layers: must be a whole number from 1 to 64"),
        ("dflash:block=1", {}, "dflash: block: must be a whole number from 2"),
        ("dspark:rank=0", {}, "dspark: rank: must be markov_rank of its config.json"),
        ("suffix", {"draft_kv": "quest:512"}, "reads no cache"),
        ("eagle:features=0", {}, "from 1 to 16"),
        ("eagle:vocab=999999", {}, "vocab must be 2 to 128256"),
        ("eagle:features=1,features=2", {}, "given twice"),
        ("medusa:heads=many", {}, "a whole number"),
        ("medusa", {"draft_kv": "snapkv:512"}, "read no cache"),
        ("ngram", {"draft_kv": "quest:512"}, "reads no cache"),
        ("ngram:size=3", {}, "it takes none"),
        ("mtp:modules=0", {}, "from 1 to 64"),
        ("mtp:modules=2", {"model": "deepseek-v3"}, "at most the 1 multi-token prediction layers of deepseek-v3"),
        ("mtp:modules=4", {"model": "minimax-m2"}, "at most the 3 multi-token prediction layers"),
        ("mtp", {"model": "kimi-k2"}, "kimi-k2 has none"),
        ("parallel", {}, "parallel:MODEL"),
        ("parallel:nothing", {}, "no model named"),
        ("self:fast=1", {}, "it takes none"),
        ("nothing", {}, "no model named"),
    ],
)
def test_refusals(draft: str, flags: dict, words: str) -> None:
    with pytest.raises(InputError, match=words):
        scenario(draft, **flags)


@pytest.mark.parametrize("draft", ["medusa:heads=2", "mtp:modules=2"])
def test_no_longer_draft_than_heads(draft: str) -> None:
    s = scenario(draft, alpha=1.0)
    assert int(predict(s, Workload.of(1, 4096, 1)).gamma_optimal) <= 2
    with pytest.raises(InputError, match="at most 2"):
        predict(s, Workload.of(1, 4096, 3))


def test_a_model_at_another_precision_keeps_a_second_copy() -> None:
    target = load_model("llama-3.1-8b")
    s = scenario("self")
    again = make_draft("self", target, s.precision, 1, s.draft.kv, weights="int4-g32")
    assert not again.shares_weights
    assert again.own_weight_bytes(s.draft_shard) == s.draft_shard.stored_weight_bytes
