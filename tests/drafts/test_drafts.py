"""Every draft kind: found by name, its contract, and one number of each worked by hand."""

import re
from dataclasses import replace

import pytest

import perfmodel as pm
from perfmodel.answers.point.ops import ops
from perfmodel.answers.question import Query, resolve
from perfmodel.drafts import kind_of, kinds, make_draft
from perfmodel.drafts.base import Draft, dense
from perfmodel.errors import InputError
from perfmodel.specs import load_model
from perfmodel.speculation import Workload, predict
from tests.refusals import refused

LAYER = 4096 * (32 + 2 * 8) * 128 + 4096 * 4096 + 3 * 4096 * 14336
HEAD = 4096 * 128256
QKV = 4096 * (32 + 2 * 8) * 128


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


def test_heads_without_options_have_the_layers_of_the_published_ones() -> None:
    """DFlash has five layers and a block of 16, P-EAGLE four layers and 32,000 tokens. DFlash2's convolutions
    cover two tokens, and 16 channels share their coefficients. There are four Medusa heads.
    """
    dflash = scenario("dflash").draft
    peagle = scenario("peagle").draft
    dflash2 = scenario("dflash2").draft
    assert (dflash.model.num_hidden_layers, dflash.max_gamma) == (5, 15)
    assert (dflash2.kernel, dflash2.group, dflash2.rank) == (2, 16, 256)
    assert scenario("medusa").draft.max_gamma == 4
    assert (peagle.model.num_hidden_layers, peagle.model.vocab_size) == (4, 32000)


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


@pytest.mark.parametrize(
    ("spelled", "name"),
    [
        ("NEXTN", "mtp"),
        ("qwen3_next_mtp", "mtp"),
        ("draft-mtp", "mtp"),
        ("EAGLE-3", "eagle3"),
        ("P-EAGLE", "peagle"),
        ("n-gram", "ngram"),
        ("n gram", "ngram"),
        ("ngram_gpu", "ngram"),
        ("ngram-mod", "ngram"),
        ("DFlash-2", "dflash2"),
    ],
)
def test_kinds_as_engines_spell_them(spelled: str, name: str) -> None:
    assert scenario(spelled, model="qwen3.5-27b").draft.name == name


def test_a_name_that_ends_in_mtp_is_no_kind() -> None:
    refused("no model named 'Qwen3-0", scenario, "Qwen3-0.6B-MTP", model="qwen3.5-27b")


@pytest.mark.parametrize(
    ("word", "meant"),
    [("eagel3", "eagle3"), ("mtpp", "mtp"), ("slef", "self"), ("ngrm", "ngram"), ("EAGLE-33", "eagle3")],
)
def test_a_misspelled_kind_is_named(word: str, meant: str) -> None:
    refused(f"no draft or model named '{word}'; did you mean {meant}", scenario, word)


def test_a_list_with_an_unknown_draft_is_refused_as_a_list() -> None:
    refused("must be one draft .*, given 'eagle3,nothin'", scenario, "eagle3,nothin")


def test_a_misspelled_model_has_models_that_are_alike() -> None:
    refused("no model named 'tinylama'; did you mean tinyllama-1.1b", scenario, "tinylama")


@pytest.mark.parametrize("word", ["StreamingLLM", "snap-kv:512", "triforce"])
def test_a_sparse_cache_is_not_a_draft(word: str) -> None:
    refused(
        "is a KV cache of a draft, as in --draft self --draft-kv (streamingllm|snapkv|retrieval):",
        scenario,
        word,
    )


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


@pytest.mark.parametrize(("draft", "tokens"), [("self", 1), ("dflash", 6), ("dspark", 5), ("medusa", 5)])
def test_the_tokens_of_a_drafts_pass(draft, tokens) -> None:
    """For five drafted tokens."""
    assert float(scenario(draft).draft.query(5.0)) == tokens


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


@pytest.mark.parametrize("word", ["none", "Off"])
def test_no_draft_is_a_length_of_0_and_not_a_draft(word: str) -> None:
    refused(
        "--draft: must be a draft: every answer has the baseline, and --gamma 0 is a server", scenario, word
    )


@pytest.mark.parametrize(
    "chain", ["mtp,ngram", "eagle3+ngram", "mtp:modules=1,suffix", "draft-mtp,ngram-mod"]
)
def test_kinds_that_take_turns_are_refused_with_the_speedup_of_both(chain: str) -> None:
    both = "the speedup of both is (m N + (1-m) M) / (m N/S + (1-m) M/R)"
    with pytest.raises(InputError, match=f"^--draft: must be one kind of draft.*{re.escape(both)}"):
        scenario(chain)


def test_several_kinds_of_draft_are_compared_by_advise() -> None:
    refused("`advise --draft eagle3 --draft dflash` compares them.,", scenario, "eagle3,dflash")


def test_the_speedup_of_kinds_that_take_turns_follows_from_their_answers() -> None:
    """A third of the iterations drafts with the n-gram: the tokens and times of all iterations are added."""
    point = {"model": "qwen3.8-27b", "weights": "q4_k_m", "hardware": "rtx-5090", "batch": 1, "context": 4096}
    mtp = pm.whatif(**point, draft="mtp", gamma=3, alpha=0.7)
    ngram = pm.whatif(**point, draft="ngram", gamma=8, alpha=0.9)
    third = 1 / 3
    tokens, seconds, shares = [], [], []
    for answer, share in ((ngram, third), (mtp, 1 - third)):
        tokens.append(share * answer.acceptance.tokens_per_iteration)
        seconds.append(share * answer.iteration_s)
        shares.append(tokens[-1] / answer.speedup)
    of_both = sum(tokens) / sum(seconds) * mtp.ar_tpot_s
    assert sum(tokens) / sum(shares) == pytest.approx(of_both, rel=1e-9)
    assert mtp.speedup < of_both < ngram.speedup
