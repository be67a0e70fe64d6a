"""Every draft kind: found by name, its contract, and one number of each worked by hand."""

from dataclasses import replace

import numpy as np
import pytest

from perfmodel.answers.query import Query, resolve
from perfmodel.drafts import kinds, make_draft
from perfmodel.errors import InputError
from perfmodel.specs.model import load_model
from perfmodel.speculation.acceptance import Acceptance
from perfmodel.speculation.chain import predict
from perfmodel.speculation.workload import Workload

LAYER = 4096 * (32 + 2 * 8) * 128 + 4096 * 4096 + 3 * 4096 * 14336
HEAD = 4096 * 128256
NORMS = 3 * 4096


def scenario(draft: str, **flags):
    asked = {"model": "llama-3.1-8b", "hardware": "h100-sxm-80gb", "batch": 1, "context": 1, "alpha": 0.7}
    return resolve(Query(**(asked | {"draft": draft} | flags)))


def test_the_kinds_that_ship() -> None:
    assert {"eagle", "medusa", "model", "mtp", "ngram", "parallel", "self"} <= set(kinds())


def test_ngram_costs_verification_alone() -> None:
    s = scenario("ngram")
    p = predict(s, Workload.of(4, 4096, 5))
    assert float(p.draft_s) == 0
    assert float(p.iteration_s) == pytest.approx(float(s.target_pass_s(4, 4096, 6) + s.overhead_s(4, 4096)), rel=1e-12)


def test_ngram_acceptance_is_hits_times_runs() -> None:
    """Hit half of the time, runs of 2 (a_2 = .5): Omega(3) = 1 + .5 + .25 + .125."""
    s = replace(scenario("ngram"), acceptance=Acceptance.from_ngram(0.5, 2.0))
    assert float(predict(s, Workload.of(1, 512, 3)).tokens_per_iteration) == pytest.approx(1.875)


def test_eagle_is_one_layer_a_projection_and_the_targets_head() -> None:
    """EAGLE on 8B reads one layer, 2h x h and the whole LM head a step, and keeps all of it but the head."""
    s = scenario("eagle", calibration="ideal")
    read = sum(float(op.cost.weight_bytes) for op in s.draft_ops(1.0, 512.0))
    assert read == 2 * (LAYER + 2 * 4096 * 4096 + HEAD)
    assert s.draft.own_weight_bytes(s.draft_shard) == 2 * (LAYER + 2 * 4096 * 4096 + NORMS)
    assert s.draft_shard.kv_bytes_per_token == 131072 / 32


def test_eagle_3_has_a_small_head_of_its_own_and_three_features() -> None:
    s = scenario("eagle:features=3,vocab=32000")
    read = sum(float(op.cost.weight_bytes) for op in s.draft_ops(1.0, 512.0))
    assert read == 2 * (LAYER + 4 * 4096 * 4096 + 32000 * 4096)
    assert s.draft.own_weight_bytes(s.draft_shard) == 2 * (LAYER + 4 * 4096 * 4096 + 32000 * 4096 + NORMS)


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
    stacked = scenario("mtp:modules=3", model="deepseek-v3", hardware="h200-sxm-141gb", tp=8, weights="fp8")
    assert stacked.draft.own_weight_bytes(stacked.draft_shard) == 3 * s.draft.own_weight_bytes(s.draft_shard)
    np.testing.assert_array_equal(stacked.draft_pass_s(1, 4096), s.draft_pass_s(1, 4096))


def test_acceptance_that_falls_with_the_position() -> None:
    falling = Acceptance.from_decay(0.8, 0.5)
    assert falling.tokens_per_iteration(3) == pytest.approx(1 + 0.8 + 0.8 * 0.4 + 0.8 * 0.4 * 0.2)
    assert Acceptance.from_decay(0.8, 1.0).tokens_per_iteration(7) == pytest.approx(
        Acceptance.from_alpha(0.8).tokens_per_iteration(7)
    )
    for alpha, decay in ((1.1, 0.5), (0.5, -0.1), (0.5, 1.1)):
        with pytest.raises(InputError):
            Acceptance.from_decay(alpha, decay)


@pytest.mark.parametrize(
    ("draft", "flags", "words"),
    [
        ("eagle:layers=2", {}, "it takes features, vocab"),
        ("eagle:features=0", {}, "from 1 to 16"),
        ("eagle:vocab=999999", {}, "vocab must be 2 to 128256"),
        ("eagle:features=1,features=2", {}, "given twice"),
        ("medusa:heads=many", {}, "a whole number"),
        ("medusa", {"draft_kv": "snapkv:512"}, "read no cache"),
        ("ngram", {"draft_kv": "quest:512"}, "reads no cache"),
        ("ngram:size=3", {}, "it takes none"),
        ("mtp:modules=0", {}, "from 1 to 64"),
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
