"""Every draft kind: found by name, its contract, and one number of each worked by hand."""

from dataclasses import replace

import numpy as np
import pytest
from msgspec.structs import asdict

from perfmodel.answers.point.ops import ops
from perfmodel.answers.question import Query, resolve, resolve_costs
from perfmodel.drafts import kind_of, kinds, make_draft
from perfmodel.drafts.base import Draft, dense
from perfmodel.drafts.eagle import Eagle, few_layers
from perfmodel.specs import load_model
from perfmodel.specs.models.published_heads import published_heads
from perfmodel.speculation import Workload, predict
from perfmodel.speculation.capacity import draft_weight_bytes
from tests.refusals import refused

LAYER = 4096 * (32 + 2 * 8) * 128 + 4096 * 4096 + 3 * 4096 * 14336
HEAD = 4096 * 128256
QKV = 4096 * (32 + 2 * 8) * 128
NORMS = 3 * 4096


def scenario(draft: str, **flags):
    question = {"model": "llama-3.1-8b", "hardware": "h100-sxm-80gb", "batch": 1, "context": 1, "alpha": 0.7}
    return resolve(Query(**(question | {"draft": draft} | flags)))


@pytest.mark.parametrize(
    ("draft", "tokens", "read"),
    [
        ("eagle", 1.0, LAYER + 2 * 4096 * 4096 + HEAD),  # one layer, 2h x h and the whole LM head a step
        (
            "eagle:features=3,vocab=32000",
            1.0,
            LAYER + QKV + 32000 * 4096,
        ),  # projections of 2h, a head of 32000
        ("dflash:layers=5,features=5,block=16", 8.0, 5 * LAYER + HEAD),
        ("medusa:heads=3", 1.0, 4096 * 4096 + HEAD),  # a head per token in one pass
        ("medusa:heads=3", 3.0, 3 * (4096 * 4096 + HEAD)),
    ],
)
def test_weights_that_a_pass_reads(draft: str, tokens: float, read: float) -> None:
    ops = scenario(draft).draft_ops(1.0, 512.0, tokens)
    assert sum(float(op.cost.weight_bytes) for op in ops) == 2 * read


def test_eagle_3_projects_its_features_once_an_iteration() -> None:
    s = scenario("eagle:features=3,vocab=32000")
    (once,) = s.draft.iteration_ops(s.draft_shard, 5.0)
    assert once.cost.weight_bytes == 2 * 3 * 4096 * 4096
    assert once.cost.flops == 5 * 2 * 3 * 4096 * 4096
    plain = scenario("eagle")
    assert plain.draft.iteration_ops(plain.draft_shard, 5.0) == []
    assert plain.draft_shard.stored_kv_bytes(1.0) == 131072 / 32
    overhead_s = float(s.overhead_s(5.0, 512.0))
    extra = overhead_s - float(plain.overhead_s(5.0, 512.0))
    assert extra == pytest.approx(float(s.draft_machine.op_predicted_s(once)), rel=1e-9)
    # the wider projection is the same GEMM: one launch for both halves
    launches = sum(float(op.kernels) for op in s.draft_ops(1.0, 512.0) if op.kind == "linear")
    assert launches == 5


def test_drafts_of_all_tokens_in_one_pass_and_of_some_without_one() -> None:
    """P-EAGLE's four layers see one position a token; PARD is a parallel drafter; look-up takes no pass."""
    eagle = scenario("peagle", calibration="ideal")
    ops = {op.name: op for op in eagle.draft_ops(3.0, 512.0, 5.0)}
    assert float(eagle.draft.passes(5.0)) == 1.0
    assert float(eagle.draft.query(5.0)) == 5.0
    assert ops["down"].cost.flops == 3 * 5 * 2 * 4 * 14336 * 4096
    assert ops["lm_head"].cost.weight_bytes == 2 * 32000 * 4096
    pard, parallel = (scenario(f"{kind}:llama-3.2-1b").draft for kind in ("pard", "parallel"))
    assert pard.name == parallel.name == "parallel:llama-3.2-1b"
    assert pard.model == parallel.model
    assert pard.passes(7.0) == 1.0
    assert pard.query(7.0) == 7.0
    both = scenario("mtp_ngram:steps=2", model="deepseek-v3", hardware="h200", tp=8).draft
    assert float(both.passes(0.0)) == 0.0
    assert float(both.passes(1.0)) == 1.0
    assert float(both.passes(2.0)) == 2.0
    assert float(both.passes(9.0)) == 2.0


def test_dflash_fills_a_block_in_one_pass() -> None:
    """Five layers on gamma + 1 positions, the head on gamma; features to keys and values once an
    iteration.
    """
    s = scenario("dflash:layers=5,features=5,block=16", calibration="ideal")
    ops = {op.name: op for op in s.draft_ops(3.0, 512.0, 8.0)}
    assert ops["down"].cost.flops == 3 * 8 * 2 * 5 * 14336 * 4096
    assert ops["lm_head"].cost.flops == 3 * 7 * 2 * HEAD
    assert ops["attention (full)"].cost.kv_bytes == 3 * 512 * 5 * 131072 / 32
    once = s.draft.iteration_ops(s.draft_shard, 3.0)
    into_cache = 4096 * 5 * 2 * 8 * 128
    head_bytes, cache = (float(op.cost.weight_bytes) for op in once)
    assert head_bytes == 2 * 5 * 4096 * 4096
    assert cache == 2 * into_cache
    assert s.draft.max_gamma == 15


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


def test_eagle3_is_the_published_head_of_its_target_or_a_dense_layer() -> None:
    """Kimi-K2.5's head has 64 key and value heads of 128; DeepSeek-V3 is cut to 56 heads over 8: 4,096 B a
    token.
    """
    kimi = scenario("eagle3", model="kimi-k2.5", hardware="h200", tp=8).draft
    assert kimi.model.kv_bytes_per_token() == 2 * 2 * 64 * 128
    assert kimi.model.dense_mlp_params == 3 * 7168 * 18432
    v3 = scenario("eagle3", model="deepseek-v3", hardware="h200", tp=8).draft.model
    assert v3.kv_bytes_per_token() == 4096
    assert v3.dense_mlp_params == 3 * 7168 * 18432
    assert scenario("eagle3", model="gpt-oss-120b", hardware="h200").draft.model.intermediate_size == 3 * 2880
    for row in (row for row in published_heads() if row.kind == "eagle3"):
        tp = 8 if row.target == "kimi-k2.5" else 1
        draft = scenario("eagle3", model=row.target, hardware="b200", tp=tp).draft
        assert draft.name == "eagle3"
        assert draft.vocab == row.vocab
        assert len(row.source) > 8


@pytest.mark.parametrize(
    ("model", "params"),
    [("gemma-4-12b", 422_856_964), ("gemma-4-26b-a4b", 419_711_236), ("gemma-4-31b", 469_518_596)],
)
def test_gemmas_assistants_have_the_parameters_of_their_checkpoints(model: str, params: int) -> None:
    """All but four layer scalars; norms, of queries (256, 256, 256, 512) too, are no GEMMs."""
    s = scenario("mtp", model=model, hardware="h100")
    read = sum(op.cost.weight_bytes for op in s.draft_ops(1.0, 4096.0, 1.0))
    projections = 3 * s.target.hidden_size * 1024
    assert s.draft.model.total_params + projections == params - 4
    assert s.draft.own_weight_bytes(s.draft_shard) == 2 * (params - 1280 - 4)
    assert read == 2 * (params - 1280 - 4 - 17 * 1024)
    assert s.draft.model.kv_bytes_per_token() == 0, "keys and values are the target's"


def test_a_longcat_module_has_an_mlp_in_place_of_the_experts() -> None:
    """As vLLM's longcat_flash_mtp.py: MLA, an MLP and a projection from two widths."""
    s = scenario("mtp", model="longcat-flash", hardware="h200", tp=1)
    query = 6144 * 1536 + 1536 * 64 * 192
    latent = 6144 * 576 + 512 * 64 * 256
    output = 64 * 128 * 6144
    mlp = 3 * 6144 * 12288
    projection = 2 * 6144**2
    read = sum(op.cost.weight_bytes for op in s.draft_ops(1.0, 4096.0, 1.0) if op.name != "lm_head")
    assert s.draft.model.moe is None
    expected = 2 * (query + latent + output + mlp + projection)
    assert read == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize(
    ("spelled", "name"),
    [
        ("NEXTN", "mtp"),
        ("qwen3_next_mtp", "mtp"),
        ("draft-mtp", "mtp"),
        ("EAGLE-3", "eagle3"),
        ("P-EAGLE", "peagle"),
        ("n-gram", "ngram"),
        ("DFlash-2", "dflash2"),
    ],
)
def test_kinds_as_engines_spell_them(spelled: str, name: str) -> None:
    assert scenario(spelled, model="qwen3.5-27b").draft.name == name


def test_a_name_that_ends_in_mtp_is_no_kind() -> None:
    refused("no model named 'Qwen3-0", scenario, "Qwen3-0.6B-MTP", model="qwen3.5-27b")


@pytest.mark.parametrize("word", ["StreamingLLM", "snap-kv:512", "triforce"])
def test_a_sparse_cache_is_not_a_draft(word: str) -> None:
    refused(
        "is a KV cache of a draft, as in --draft self --draft-kv (streamingllm|snapkv|retrieval):",
        scenario,
        word,
    )


def test_stacked_mtp_layers() -> None:
    one = scenario("mtp:modules=1", model="minimax-m2", hardware="h200-sxm-141gb", tp=4)
    three = scenario("mtp:modules=3", model="minimax-m2", hardware="h200-sxm-141gb", tp=4)
    np.testing.assert_array_equal(three.draft_pass_s(1, 4096), one.draft_pass_s(1, 4096))
    assert one.draft.max_gamma is None
    assert three.draft.max_gamma == 3


ENDS = {
    "eagle.features": (1, 16),
    "dflash.layers": (1, 64),
    "dflash.features": (1, 64),
    "dflash.block": (2, 1025),
    "dflash2.rank": (1, 65536),
    "dflash2.kernel": (1, 64),
    "dflash2.group": (1, 65536),
    "domino.gru": (1, 65536),
    "domino.emb": (1, 65536),
    "domino.pool": (0, 1_048_576),
    "dspark.rank": (1, 65536),
    "medusa.heads": (1, 64),
    "mtp.modules": (1, 64),
    "mtp_ngram.steps": (1, 64),
    "peagle.layers": (1, 64),
}


@pytest.mark.parametrize("name", ENDS)
def test_options_at_the_ends_of_what_is_allowed(name: str) -> None:
    draft, _, option = name.partition(".")
    least, most = ENDS[name]
    known = scenario(kind_of(draft).example).draft
    for value in (least, most):
        assert getattr(replace(known, **{option: value}), option) == value
    for value in (least - 1, most + 1):
        says = f"from {least} to {most}, as in .*, given {value}"
        refused(says, replace, known, **{option: value})


@pytest.mark.parametrize(
    ("target", "changes", "experts", "expected"),
    [
        ("deepseek-v3", {}, False, {"heads": 56, "kv": 8, "dim": 128, "norms_per_layer": 2}),
        ("deepseek-v3", {"hidden_size": 200}, False, {"heads": 1, "kv": 1}),
        (
            "gemma-3-4b",
            {"table_params": 7},
            False,
            {"norms_per_layer": 4, "num_sliding_layers": 0, "table_params": 0},
        ),
        (
            "nemotron-h-56b",
            {},
            False,
            {"norms_per_layer": 2, "attention_layers": None, "linear_attention": None},
        ),
        ("gpt-oss-20b", {}, False, {"moe": None, "intermediate_size": 3 * 2880, "attention_sinks": False}),
        (
            "deepseek-v4-flash",
            {},
            False,
            {"num_sliding_layers": 0, "indexer": None, "compressed": (), "heads": 32},
        ),
        (
            "deepseek-v4-flash",
            {},
            True,
            {"num_sliding_layers": 2, "indexer": None, "compressed": (), "heads": 64},
        ),
        ("gemma-3-4b", {}, True, {"num_sliding_layers": 0}),
        ("deepseek-v3", {}, True, {"routed": 2}),
        ("minimax-m3", {}, True, {"routed": 2, "indexed": 2, "plain": 0}),
    ],
)
def test_a_target_cut_to_two_layers(target: str, changes: dict, experts: bool, expected: dict) -> None:
    cut = few_layers(load_model(target).replace(**changes), "x", 2, keep_experts=experts)
    shape = {"heads": cut.num_attention_heads, "kv": cut.num_key_value_heads, "dim": cut.head_dim} | asdict(
        cut
    )
    shape["routed"] = cut.num_moe_layers
    if cut.indexer:
        shape |= {"indexed": cut.indexer.layers, "plain": cut.indexer.dense_layers}
    assert {name: shape[name] for name in expected} == expected
    few = Eagle.shape(cut.replace(vocab_size=1000), {"features": 3})
    assert few.vocab_size == 1000  # no more words than its target has


def test_a_projection_beside_the_layers_by_hand() -> None:
    """Three of 64 x 96 on two devices, five tokens: inputs of a byte and a scale per 128, outputs of two
    bytes.
    """
    device_shard = scenario("self", tp=2, weights="fp8-block").draft_shard
    op = dense("name", device_shard, 64, 96, 5.0, 3.0)
    scales = 4 / 128**2  # of a block of weights
    assert op.cost.flops == 2 * 64 * 48 * 15
    assert op.cost.weight_bytes == 64 * 48 * 3 * (1 + scales)
    assert op.cost.kv_bytes == 0
    quantised_bytes = 64 * (1 + 4 / 128)
    assert op.cost.activation_bytes == (quantised_bytes + 48 * 2) * 15
    assert op.kernels == 3
    assert op.rows == 5
    head = dense("name", device_shard, 64, 96, 5.0, tensor="lm_head")
    assert head.cost.weight_bytes == 2 * 64 * 48


@pytest.mark.parametrize(
    ("draft", "params"),
    [
        ("self", 0),
        ("eagle", LAYER + 2 * 4096 * 4096 + NORMS),
        ("eagle:features=3,vocab=32000", LAYER + QKV + 3 * 4096 * 4096 + 32000 * 4096 + NORMS),
        ("medusa:heads=3", 3 * (4096 * 4096 + HEAD)),
        ("eagle:vocab=1000", LAYER + 2 * 4096 * 4096 + 1000 * 4096 + NORMS),
        ("eagle:features=2", LAYER + QKV + 2 * 4096 * 4096 + 32000 * 4096 + NORMS),
        ("mtp:modules=1", LAYER + 2 * 4096 * 4096 + NORMS),
        ("mtp:modules=3", 3 * (LAYER + 2 * 4096 * 4096 + NORMS)),
        ("dflash:layers=1,features=2", LAYER + 2 * 4096 * 4096 + NORMS),
        ("dflash:layers=1,features=2,vocab=1000", LAYER + 2 * 4096 * 4096 + 1000 * 4096 + NORMS),
    ],
)
def test_what_is_kept_beside_the_target(draft, params) -> None:
    """An LM head of its own by its vocabulary or by several features; of an MTP layer neither head nor
    embedding.
    """
    s = scenario(draft)
    assert s.draft.own_weight_bytes(s.draft_shard) == 2 * params


@pytest.mark.parametrize(("draft", "tokens"), [("self", 1), ("dflash", 6), ("dspark", 5), ("medusa", 5)])
def test_the_tokens_of_a_drafts_pass(draft, tokens) -> None:
    """For five drafted tokens."""
    assert float(scenario(draft).draft.query(5.0)) == tokens


def test_an_mtp_layer_is_tried_where_one_is_known() -> None:
    target = load_model("llama-3.1-8b")
    layers = [target.replace(num_nextn_predict_layers=count) for count in (None, 0, 1)]
    suits = [kind_of("mtp").suits(each) for each in layers]
    assert suits == [False, False, True]
    assert kind_of("mtp").suits(load_model("gemma-4-31b")), "in a checkpoint of its own"


@pytest.mark.parametrize(("weights", "value_bytes"), [("fp8", 1), ("fp8,mtp=bf16", 2)])
def test_formats_that_the_user_names_include_that_of_the_mtp_layer(weights: str, value_bytes: int) -> None:
    """Qwen3.5-27B: 424.7 million parameters in the GEMMs of its layer."""
    question = Query("qwen3.5-27b", "b200", 1, 1024, gamma=1, weights=weights, draft="mtp")
    s = resolve_costs(question)
    assert draft_weight_bytes(s) == pytest.approx(424.7e6 * value_bytes, rel=1e-3)


@pytest.mark.parametrize("draft", ["medusa:heads=2", "mtp:modules=2"])
def test_no_longer_draft_than_heads(draft: str) -> None:
    s = scenario(draft, alpha=1.0)
    assert int(predict(s, Workload.of(1, 4096, 1)).gamma_optimal) <= 2
    refused("at most 2", predict, s, Workload.of(1, 4096, 3))


def test_a_model_at_another_precision_keeps_a_second_copy() -> None:
    target = load_model("llama-3.1-8b")
    s = scenario("self")
    again = make_draft("self", target, s.precision, 1, s.draft.kv, weights="int4-g32")
    assert not again.shares_weights
    assert again.own_weight_bytes(s.draft_shard) == s.draft_shard.stored_weight_bytes


@pytest.mark.parametrize(
    ("draft", "gamma", "tokens"),
    [
        ("eagle3", 7, 1),
        ("dflash", 7, 8),
        ("dflash", None, 2),
    ],
)
def test_a_pass_of_a_block_is_listed_with_its_masks(draft, gamma, tokens) -> None:
    """The last token, and a mask for each drafted one: at least one."""
    listed = ops("qwen3-8b", "h100", 1, 8192, gamma=gamma, draft=draft, stage="draft")
    assert listed.query_tokens == tokens


def test_a_draft_with_few_heads_is_on_fewer_devices_unless_a_number_is_given() -> None:
    """14 heads with 2 of keys: on 2 of 8 devices."""
    pair = {"model": "qwen2.5-72b", "tp": 8, "calibration": "ideal"}
    assert scenario("qwen2.5-0.5b", **pair).draft.tensor_parallel == 2
    assert scenario("qwen2.5-0.5b", **pair, draft_tp=1).draft.tensor_parallel == 1


READ_A_CACHE = [word for word, kind in kinds().items() if kind.reads_cache]


@pytest.mark.parametrize("word", READ_A_CACHE)
def test_every_draft_that_reads_a_cache_pays_for_the_engines_work_on_it(word: str) -> None:
    kind = kind_of(word)
    s = scenario(kind.example)
    names = [op.name for op in s.draft_ops(2.0, 512.0, 4.0)]
    assert names.count("cache upkeep") == 1
    assert names.count("host launches") == int(kind.launched_by_host)


def test_no_kind_replaces_the_ops_of_every_pass() -> None:
    assert [kind.kind for kind in kinds().values() if kind.ops is not Draft.ops] == []


def test_no_draft_is_a_length_of_0_and_not_a_draft() -> None:
    refused(
        "--draft: must be a draft: every answer has the baseline, and --gamma 0 is a server", scenario, "none"
    )


@pytest.mark.parametrize("chain", ["mtp,ngram", "eagle3+ngram", "mtp:modules=1,suffix"])
def test_kinds_that_take_turns_are_refused_as_not_modelled(chain: str) -> None:
    refused("--draft: must be one kind of draft: kinds that take turns", scenario, chain)
