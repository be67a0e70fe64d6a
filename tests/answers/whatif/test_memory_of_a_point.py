"""A batch that does not fit, states of drafted tokens, and the best batch of those that fit."""

import pytest

from perfmodel.answers.point.whatif import whatif
from tests.answers.whatif.questions import OPEN, ask


def test_a_batch_that_does_not_fit_is_answered_with_the_largest_that_does():
    most = ask()["memory"]["max_batch"]
    assert most >= 64
    assert ask(batch=most)["memory"]["fits"]
    a = ask(batch=most + 1)
    assert a["memory"]["fits"] is False
    assert a["memory"]["max_batch"] == most
    assert any(f"the largest that does is {most}" in note for note in a["warnings"])


@pytest.mark.parametrize(("context", "would"), [(64_000, "would likely pay"), (256, "would likely not pay")])
def test_a_batch_that_does_not_fit_is_told_whether_it_would_pay_with_more_memory(
    context: int, would: str
) -> None:
    question = OPEN | {"context": context, "gamma": 2}
    most = whatif(**question).memory.max_batch
    answer = whatif(**question | {"batch": most + 1})
    assert answer.verdict == "does_not_fit"
    assert answer.reason.startswith(f"at most batch {most} fits (with more memory it {would}); ")
    assert whatif(**question | {"batch": most}).verdict != "does_not_fit"


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


def test_where_states_of_drafted_tokens_do_not_fit_the_switch_that_saves_them_is_named() -> None:
    question = {"weights": "nvfp4", "engine": "sglang", "draft": "dflash2", "gamma": 7}
    kept = whatif("qwen3.8-27b", "dgx-spark", 32, 1024, **question)
    one = whatif("qwen3.8-27b", "dgx-spark", 32, 1024, state_rollback="replay", **question)
    assert kept.verdict == "does_not_fit"
    assert one.memory.fits
    words = f"one state per sequence has room for batch {one.memory.max_batch} (--state-rollback replay)"
    assert any(words in warning for warning in kept.warnings)
    fits = whatif("qwen3.8-27b", "dgx-spark", 8, 1024, **question)
    assert not any("--state-rollback" in warning for warning in (*one.warnings, *fits.warnings))
