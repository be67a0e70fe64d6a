"""A batch that does not fit, states of drafted tokens, and the best batch of those that fit."""

import pytest

from perfmodel.answers.point.whatif import whatif
from perfmodel.errors import InputError
from tests.answers.whatif.questions import OPEN, ask


def test_a_batch_that_does_not_fit_is_answered_with_the_largest_that_does():
    most = ask()["memory"]["max_batch"]
    assert most >= 64
    assert ask(batch=most)["memory"]["fits"]
    a = ask(batch=most + 1)
    assert a["memory"]["fits"] is False
    assert a["memory"]["max_batch"] == most
    assert any(f"the largest that does is {most}" in note for note in a["warnings"])


@pytest.mark.parametrize(
    ("context", "would"), [(64_000, "would likely pay off"), (256, "would likely not pay off")]
)
def test_a_batch_that_does_not_fit_is_told_whether_it_would_pay_with_more_memory(
    context: int, would: str
) -> None:
    question = OPEN | {"context": context, "gamma": 2}
    most = whatif(**question).memory.max_batch
    answer = whatif(**question | {"batch": most + 1})
    assert answer.verdict == "does_not_fit"
    assert answer.reason.startswith(f"at most batch {most} fits (with more memory it {would}); ")
    assert whatif(**question | {"batch": most}).verdict != "does_not_fit"


def test_a_batch_that_does_not_fit_is_told_so_although_no_draft_pays_either() -> None:
    slow = {"model": "llama-3.1-8b", "batch": 1, "context": 4096, "draft": "llama-3.2-1b", "alpha": 0.1}
    assert whatif(hardware="rtx-3060", **slow).verdict == "does_not_fit"
    assert whatif(hardware="h100", **slow).verdict == "does_not_pay"


@pytest.mark.parametrize(
    ("context", "fits"),
    [(500, "fits only if 0.6 GB of the 1.1 GB that the engine leaves free"), (65_536, "not one sequence")],
)
def test_a_server_of_llama_cpp_that_misses_only_its_margin_is_told_so(context: int, fits: str) -> None:
    """`-ngl 999` loads all layers without the margin."""
    question = {"model": "qwen3.6-35b-a3b", "weights": "ud-q4_k_xl", "hardware": "rtx-3090", "draft": "mtp"}
    for acceptance in ({"alpha": 0.8}, {}):
        answer = whatif(**question, **acceptance, batch=1, context=context, gamma=2)
        assert answer.verdict == "does_not_fit"
        assert answer.reason.startswith(fits)
        assert "it would" in answer.reason


@pytest.mark.parametrize("context", [2_000, 32_000, 100_000])
def test_the_best_batch_is_the_best_of_all_that_fit(context: int) -> None:
    """Eleven batches are asked for with each length; the best one is asked for by itself too."""
    question = OPEN | {"context": context, "max_gamma": 4}
    best = whatif(**question).best
    assert best is not None
    here = whatif(**question | {"batch": best.batch}, gamma=best.gamma)
    assert here.memory.fits
    assert here.throughput_tokens_per_s == pytest.approx(best.throughput_tokens_per_s, rel=1e-12)
    assert here.speedup == pytest.approx(best.speedup, rel=1e-12)
    most = best.throughput_tokens_per_s * (1 + 1e-9)
    for batch in range(1, best.looked_to + 1, 1 + best.looked_to // 10):
        for gamma in range(5):
            other = whatif(**question | {"batch": batch}, gamma=gamma)
            assert not other.memory.fits or other.throughput_tokens_per_s <= most


def test_the_chosen_length_is_one_whose_states_fit_in_memory() -> None:
    """Nemotron-H-56B keeps gamma + 1 Mamba states a sequence: at gamma 4 7 sequences fit, at gamma 3 all
    8.
    """
    point = {"hardware": "h100", "tp": 2, "batch": 8, "context": 4096, "alpha": 0.7, "draft": "eagle3"}
    best = whatif(model="nemotron-h-56b", **point)
    longer = whatif(model="nemotron-h-56b", gamma=4, **point)
    assert best.query.gamma == 3
    assert best.verdict == "pays"
    assert best.memory.max_batch == 9
    assert longer.verdict == "does_not_fit"
    assert longer.memory.max_batch == 7
    assert longer.gamma_optimal == 3
    assert whatif(model="nemotron-h-56b", **point | {"batch": 31}).verdict == "does_not_fit"


STATES = {"weights": "nvfp4", "engine": "sglang"}
"""Qwen3.8-27B on one DGX Spark, whose recurrent states have a pool of their own."""


def test_requests_that_find_no_room_wait_and_the_gain_is_that_of_those_that_run() -> None:
    question = STATES | {"draft": "dflash2", "gamma": 7}
    all_of_them = whatif("qwen3.8-27b", "dgx-spark", 32, 1024, **question)
    most = all_of_them.memory.max_batch
    running = whatif("qwen3.8-27b", "dgx-spark", most, 1024, **question)
    part = all_of_them.admitted
    assert running.admitted is None
    assert part is not None
    assert (part.running, part.most, part.baseline_running) == (most, most, 32)
    assert part.throughput_tokens_per_s == pytest.approx(running.throughput_tokens_per_s)
    assert part.tpot_s == pytest.approx(running.tpot_s)
    baseline = all_of_them.ar_throughput_tokens_per_s  # all 32 fit without a draft
    assert part.gain == pytest.approx(running.throughput_tokens_per_s / baseline)
    assert all_of_them.headline().startswith(f"{most} of 32 requests run at once, {32 - most} wait; ")
    assert f"{most} of 32 requests run at once, {32 - most} wait; " in str(all_of_them)


def test_a_baseline_that_does_not_hold_all_requests_either_is_compared_with_what_it_runs() -> None:
    answer = whatif("qwen3-8b", "h100", 80, 32_768, draft="eagle3", gamma=3)
    assert answer.admitted is not None
    assert answer.admitted.running < answer.admitted.baseline_running < 80
    alone = whatif("qwen3-8b", "h100", answer.admitted.baseline_running, 32_768, gamma=0)
    assert alone.memory.fits
    assert answer.admitted.ar_throughput_tokens_per_s == pytest.approx(alone.ar_throughput_tokens_per_s)


def test_the_gain_of_those_that_run_is_as_uncertain_as_their_speedup() -> None:
    part = whatif("qwen3-8b", "h100", 80, 32_768, draft="eagle3", gamma=3).admitted
    assert part is not None
    running = whatif("qwen3-8b", "h100", part.running, 32_768, draft="eagle3", gamma=3)
    assert part.gain < running.speedup  # the baseline runs more requests at once
    for end, of_speedup in zip(part.gain_interval, running.speedup_interval, strict=True):
        assert end / part.gain == pytest.approx(of_speedup / running.speedup)


@pytest.mark.parametrize("engine", ["llamacpp", "perfmodel"])
def test_what_no_server_admits_step_by_step_does_not_fit(engine: str) -> None:
    """llama.cpp takes the caches of all its slots at the start."""
    answer = whatif("qwen3-8b", "rtx-3090", 200, 8192, draft="ngram", alpha=0.6, gamma=3, engine=engine)
    assert answer.verdict == "does_not_fit"
    assert answer.memory.max_batch > 0
    assert answer.admitted is None


@pytest.mark.parametrize(
    ("given", "bytes_of_a_value"), [("fp32", 4), ("float32", 4), ("bf16", 2), ("bfloat16", 2), ("float16", 2)]
)
def test_states_have_the_format_that_is_given(given: str, bytes_of_a_value: int) -> None:
    wide = whatif("qwen3.8-27b", "dgx-spark", 8, 1024, draft="mtp", gamma=3, **STATES)
    asked = whatif("qwen3.8-27b", "dgx-spark", 8, 1024, draft="mtp", gamma=3, state_dtype=given, **STATES)
    same = bytes_of_a_value == 4
    assert (asked.memory.max_batch == wide.memory.max_batch) == same
    assert (asked.verify_step.predicted_s == wide.verify_step.predicted_s) == same


def test_an_engine_without_a_flag_for_the_format_of_states_is_refused_another() -> None:
    gguf = {"weights": "q4_k_m", "engine": "llamacpp", "draft": "mtp"}
    with pytest.raises(InputError, match=r"state_dtype: must be fp32, because llama\.cpp has no flag"):
        whatif("qwen3.8-27b", "rtx-5090", 1, 1024, state_dtype="bf16", **gguf)
    assert whatif("qwen3.8-27b", "rtx-5090", 1, 1024, state_dtype="fp32", **gguf).memory.fits
    with pytest.raises(InputError, match="state_dtype: must be one of fp32, bf16, fp16, given 'int8'"):
        whatif("qwen3.8-27b", "dgx-spark", 8, 1024, draft="mtp", state_dtype="int8", **STATES)


def test_a_full_pool_of_states_is_named_with_what_leaves_more_room() -> None:
    """SGLang's DFlash does not run with the flag that keeps records in place of states; its MTP does."""
    question = STATES | {"gamma": 7}
    kept = whatif("qwen3.8-27b", "dgx-spark", 32, 1024, draft="dflash2", **question)
    narrow = whatif("qwen3.8-27b", "dgx-spark", 32, 1024, draft="dflash2", state_dtype="bf16", **question)
    assert kept.verdict == "does_not_fit"
    assert narrow.memory.fits
    said = " ".join(kept.warnings)
    assert "the memory for recurrent states is full" in said
    assert f"{narrow.memory.max_batch} requests run at once" in said
    assert "replay" not in said
    chain = whatif("qwen3.8-27b", "dgx-spark", 90, 1024, draft="mtp", **question)
    one = whatif("qwen3.8-27b", "dgx-spark", 90, 1024, draft="mtp", state_rollback="replay", **question)
    most = f"up to {one.memory.max_batch} run at once (--state-rollback replay)"
    assert any("--enable-linear-replayssm-spec" in text and most in text for text in chain.warnings)
    fits = whatif("qwen3.8-27b", "dgx-spark", 8, 1024, draft="dflash2", **question)
    assert not any("state" in warning for warning in fits.warnings)


def test_a_pool_that_long_contexts_fill_is_not_said_to_be_full_of_states() -> None:
    question = STATES | {"gamma": 2, "draft": "mtp"}
    answer = whatif("qwen3.8-27b", "dgx-spark", 30, 100_000, **question)
    assert answer.verdict == "does_not_fit"
    assert not any("memory for recurrent states" in warning for warning in answer.warnings)


def test_an_engine_whose_rule_was_not_read_has_both_bounds() -> None:
    question = {"weights": "nvfp4", "engine": "trtllm", "draft": "dflash2", "gamma": 7}
    kept = whatif("qwen3.8-27b", "rtx-5090", 20, 2048, **question)
    one = whatif("qwen3.8-27b", "rtx-5090", 20, 2048, state_rollback="replay", **question)
    assert kept.admitted is not None
    assert (kept.admitted.running, kept.admitted.most) == (kept.memory.max_batch, 20)
    assert one.memory.max_batch >= 20
    words = f"with one state per request {one.memory.max_batch} run at once (--state-rollback replay)"
    assert any(words in warning for warning in kept.warnings)
    assert kept.headline().startswith(f"{kept.memory.max_batch} to 20 of 20 requests run at once")


def test_a_part_of_the_memory_that_is_too_small_is_no_negative_shortfall() -> None:
    """SGLang keeps the recurrent states of Qwen3.5 in a part of its own; the rest of the memory has room."""
    question = {"model": "qwen3.5-27b", "hardware": "h100", "engine": "sglang", "draft": "mtp", "gamma": 2}
    answer = whatif(**question, batch=1, context=92_000, alpha=0.7)
    assert answer.verdict == "does_not_fit"
    assert answer.memory.missing_bytes < 0
    assert answer.reason.startswith("not one sequence fits (with more memory it would likely pay off)")
