"""Drafts of a few layers of their target, or of a published head: their shapes and what they keep."""

import numpy as np
import pytest
from msgspec.structs import asdict

from perfmodel.answers.question import Query, resolve_costs
from perfmodel.drafts import kind_of
from perfmodel.drafts.eagle import Eagle, few_layers
from perfmodel.specs import load_model
from perfmodel.specs.models.published_heads import published_heads
from perfmodel.speculation.capacity import draft_weight_bytes
from tests.drafts.test_drafts import HEAD, LAYER, QKV, scenario
from tests.refusals import refused

NORMS = 3 * 4096


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


def test_stacked_mtp_layers() -> None:
    one = scenario("mtp:modules=1", model="minimax-m2", hardware="h200-sxm-141gb", tp=4)
    three = scenario("mtp:modules=3", model="minimax-m2", hardware="h200-sxm-141gb", tp=4)
    np.testing.assert_array_equal(three.draft_pass_s(1, 4096), one.draft_pass_s(1, 4096))
    assert one.draft.max_gamma is None
    assert three.draft.max_gamma == 3


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


@pytest.mark.parametrize(
    ("model", "allowed"),
    [
        ("minimax-m2", "must be at most the 3 multi-token prediction layers of minimax-m2, given 4"),
        ("kimi-k2", "must be left out: kimi-k2 has none"),
    ],
)
def test_more_modules_than_the_checkpoint_has_are_refused(model: str, allowed: str) -> None:
    hardware = {"hardware": "h200-sxm-141gb", "tp": 4}
    refused(f"mtp: modules: {allowed}", scenario, "mtp:modules=4", model=model, **hardware)
