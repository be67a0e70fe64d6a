"""Which machine and which ops a draft pass is timed with, by hand on the ideal roofline of an A100."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from perfmodel.answers.question import Query, resolve
from perfmodel.costs import PassShape, forward
from perfmodel.kv.full import Full
from perfmodel.specs import load_calibration
from perfmodel.speculation import with_calibration, with_values
from tests.speculation import scenarios

BANDWIDTH = 2.039e12
KEY = 8 * 128 * 2
"""Bytes of a token's keys in a layer of Llama-3.1-8B: 8 KV heads of 128 in bf16. The values are as many."""


scenario = partial(scenarios.scenario, calibration="ideal")


def test_a_drafts_step_pays_for_choosing_what_it_reads() -> None:
    """Quest over 32,000 tokens: the smallest and largest key of 2,000 pages of 16, then 1,024 tokens.

    In 32 layers and for 64 sequences the bounds are 16.8 GB (8.2 ms), scored at far less than the peak.
    """
    quest = scenario(draft_kv="quest:1024,page=16")
    window = scenario(draft_kv="streamingllm:1024")
    chosen_s = 64 * 32 * 2000 * 2 * KEY / BANDWIDTH
    quest_s = float(quest.draft_pass_s(64.0, 32000.0))
    extra = quest_s - float(window.draft_pass_s(64.0, 32000.0))
    assert chosen_s == pytest.approx(8.229e-3, rel=1e-3)
    assert extra == pytest.approx(chosen_s, rel=1e-9)
    assert quest.draft_step(64.0, 32000.0).predicted_s == pytest.approx(quest_s)
    quest_below_s = float(quest.draft_pass_s(64.0, 1000.0))
    below = quest_below_s - float(window.draft_pass_s(64.0, 1000.0))
    assert below == pytest.approx(0.0, abs=1e-12)  # the budget holds the whole context: nothing to choose
    token = quest.draft_token_s(64.0, 32000.0, np.arange(4))
    first = np.asarray(token).reshape(-1)[0]
    assert first == pytest.approx(quest_s)


def test_an_iteration_costs_a_time_of_its_own_and_one_for_each_sequence() -> None:
    """1 ms and 10 us each; a rebuild of 512 tokens every 4 iterations is beside it."""
    plain = scenario(draft_kv="full")
    added = with_values(plain.machine.calibration, {"iteration_fixed_s": 1e-3, "iteration_sequence_s": 1e-5})
    both = with_calibration(plain, added)
    assert both.overhead_s(8.0, 4000.0) == pytest.approx(1e-3 + 8e-5)
    fixed = with_values(plain.machine.calibration, {"iteration_fixed_s": 1e-3})
    assert with_calibration(plain, fixed).overhead_s(8.0, 4000.0) == pytest.approx(1e-3)
    rebuilt = with_calibration(scenario(draft_kv="retrieval:512,every=4"), added)
    layer_bytes = 500 * KEY + 2 * 512 * 2 * KEY
    moved_s = 8 * 32 * layer_bytes / 4 / BANDWIDTH
    assert rebuilt.overhead_s(8.0, 4000.0) == pytest.approx(1e-3 + 8e-5 + moved_s)


def test_the_draft_of_llamacpp_reads_the_verified_tokens_in_a_pass_of_its_own() -> None:
    """A small model makes a whole pass. An EAGLE head leaves out the LM head of 128,256 tokens in bf16. The
    assistant of Gemma 4 reads the target's cache and has nothing to write.
    """

    def reading_s(**flags: str) -> tuple[float, float]:
        plain = scenario(draft_kv="full", **flags)
        old_build = plain.machine.calibration.replace(stack="llama.cpp-0c1e57098")
        with_pass_s = with_calibration(plain, old_build).overhead_s(1.0, 4000.0)
        added_s = np.asarray(with_pass_s - plain.overhead_s(1.0, 4000.0))
        return float(added_s), float(plain.draft_pass_s(1.0, 4000.0))

    added, whole = reading_s(draft="llama-3.2-1b")
    assert added == pytest.approx(whole)
    added, whole = reading_s(draft="eagle")
    head_s = 4096 * 128256 * 2 / BANDWIDTH
    assert added == pytest.approx(whole - head_s, rel=1e-3)
    without = {"draft": "ngram"}, {"draft": "dflash"}, {"model": "gemma-4-31b", "draft": "mtp"}
    assert [reading_s(**flags)[0] for flags in without] == [0.0, 0.0, 0.0]


def test_llamacpp_runs_both_heads_over_a_prompt_with_a_draft_from_features() -> None:
    """An EAGLE head: two LM heads of 128,256 tokens over 2,000 tokens, in place of one that is read for the
    last token. A small model runs one head, for the last token.
    """
    heads_flops = 2 * 2 * 2000 * 4096 * 128_256
    head_bytes = 2 * 4096 * 128_256
    heads_s = heads_flops / 312e12 - head_bytes / BANDWIDTH

    def more_s(draft: str) -> float:
        plain = scenario(draft=draft, draft_kv="full")
        llamacpp = plain.machine.calibration.replace(stack="llamacpp")
        as_llamacpp_s = with_calibration(plain, llamacpp).setup_s(1.0, 2000.0)
        return float(as_llamacpp_s - plain.setup_s(1.0, 2000.0))

    assert more_s("eagle") == pytest.approx(heads_s, rel=2e-3)
    assert more_s("llama-3.2-1b") == 0.0


def test_a_separate_draft_reads_the_prompt_and_then_chooses() -> None:
    """Llama-3.2-1B: SnapKV scores 2,000 keys of 8 heads of 64 with 32 queries in 16 layers and copies 512
    tokens.
    """
    full = scenario(draft="llama-3.2-1b", draft_kv="full")
    snap = scenario(draft="llama-3.2-1b", draft_kv="snapkv:512")
    score_flops = 2000 * 2 * 32 * 64 * 32
    pool_flops = 2000 * 32 * (32 + 7)
    flops = score_flops + pool_flops
    score_bytes = 4 * 4 * 2000 * 32
    copy_bytes = 2 * 512 * 2048
    moved = 2000 * 1024 + score_bytes + copy_bytes
    choosing = 8 * 16 * max(flops / 312e12, moved / BANDWIDTH)
    added_s = float(snap.setup_s(8.0, 2000.0) - full.setup_s(8.0, 2000.0))
    assert added_s == pytest.approx(choosing, rel=1e-6)
    prefill = forward(full.draft_shard, PassShape(8.0, 2000.0, 0.0, head_query=1.0), Full())
    costly = with_values(full.machine.calibration, {"token_s": 1e-3, "pass_fixed_s": 0.5})
    alone = float(full.draft_machine.predicted_s(prefill, 8.0))
    assert full.setup_s(8.0, 2000.0) == pytest.approx(alone)
    slow = with_calibration(full, costly)
    assert slow.setup_s(8.0, 2000.0) == pytest.approx(alone + 0.5 + 8e-3)


def test_the_longest_of_a_batch_whose_contexts_are_uniform() -> None:
    """A standard deviation of 400 around 1000 is 1000 +- 693; of 3 sequences the longest lies at 3/4 of that
    width.
    """
    ragged = replace(scenario(), context_std=400.0)
    longer = ragged.longer_tokens(np.array([1.0, 3.0]))
    half_width = 3**0.5 * 400
    assert longer.tolist() == pytest.approx([0.0, half_width * 2 / 4])
    assert scenario().longer_tokens(3.0) == 0.0


def test_another_stack_has_shards_of_its_own() -> None:
    """vLLM gathers the logits of a sharded LM head, and the ideal device has no engine."""
    served = {"model": "qwen2.5-72b", "hardware": "h100", "batch": 4, "context": 4096, "gamma": 0, "tp": 4}
    of_vllm = resolve(Query(**served, engine="vllm"))
    assert of_vllm.target_shard.gathers_logits
    ideal = with_calibration(of_vllm, load_calibration("ideal"))
    assert ideal.target_shard == resolve(Query(**served, calibration="ideal")).target_shard
    of_no_engine = of_vllm.machine.calibration.replace(stack="ideal")
    assert not with_calibration(of_vllm, of_no_engine).target_shard.gathers_logits
