"""The numbers of an answer agree with each other, with a question worked by hand, and when asked again."""

import math

import pytest

from perfmodel.answers.point.whatif import whatif
from tests.answers.whatif.questions import README, ask


def test_the_question_of_the_readme_is_answered_as_by_hand():
    """TP 8: 1 876 164 608 bytes of weights to load, 64 x 32000 x 16 384 of KV, at 2.039e12 bytes/s.

    vLLM 0.22 has 0.9 of the 79.2 GiB that the device reports. Its profile run takes 2048 x 2 x (2 x 14336 / 8
    + 3 x 4096) bytes for the pass and 64 x 128 256 x 12 for the sampler; 0.07 + 0.15 + 1 GiB are outside
    PyTorch on eight devices, and graphs with a draft take 0.15 x 1.29 GiB.
    """
    device = (0.9 * 79.2 - 1.22 - 0.15 * 1.29) * 2**30
    activations = 2048 * 2 * 15_872
    logits = 64 * 128_256 * 12
    available = device - activations - logits
    a = ask()
    assert a["verdict"] == "too_close_to_call"  # no engine of the rows drafts for itself
    expected = a["cost_ratios"]["draft_to_target"] * a["ar_tpot_s"]
    assert a["draft_step"]["predicted_s"] == pytest.approx(expected)
    assert a["target_step"]["param_load_s"] == pytest.approx(1_876_164_608 / 2.039e12)
    assert a["target_step"]["kv_load_s"] == pytest.approx(64 * 32_000 * 16_384 / 2.039e12)
    assert a["memory"]["kv_bytes"] == 64 * 32_003 * 16_384
    assert a["memory"]["draft_kv_bytes"] == 64 * 512 * 16_384
    assert a["memory"]["available_bytes"] == pytest.approx(available)
    assert "limited by KV)" in a["reason"]


def test_the_time_to_set_up_a_draft_is_earned_back_after_the_stated_tokens():
    a = ask(draft_kv="streamingllm:512,own_prefill=true", calibration="ideal")
    assert a["draft_setup_s"] > 0
    assert a["break_even_new_tokens"] == math.ceil(a["draft_setup_s"] / (a["ar_tpot_s"] - a["tpot_s"]))
    assert ask(draft_kv="full")["draft_setup_s"] == 0
    assert ask(alpha=0.0)["break_even_new_tokens"] is None, "where nothing is saved, it never is"


def test_no_drafted_token_is_plain_decoding_and_needs_no_acceptance():
    a = ask(gamma=0)
    assert a["speedup"] == 1.0
    assert a["speedup_interval"] == [1.0, 1.0]
    assert a["verdict"] == "does_not_pay"
    assert a["tpot_s"] == a["ar_tpot_s"]
    assert a["memory"]["draft_kv_bytes"] == 0
    assert a["memory"]["draft_weight_bytes"] == 0
    assert a["overhead_s"] == 0
    assert ask(gamma=0, alpha=None)["speedup"] == 1.0, "acceptance is not needed"


def test_the_break_even_is_that_worked_out_by_hand() -> None:
    """Ideal, B=64, S=32000, gamma 1: T_T 139.0117 ms, T_D 9.4675 ms; T_V: 128 tokens still load, as T_T.

    1 + alpha >= (9.4675 + 139.0117) / 139.0117 = 1.068106; activation traffic adds a little.
    """
    assert 0.0681 < whatif(README, tp=1, gamma=1, calibration="ideal").break_even_alpha < 0.075


def test_under_a_power_limit_each_pass_is_slower_and_the_passes_add_up_to_an_iteration() -> None:
    question = {"model": "qwen3-8b", "hardware": "5090", "batch": 256, "context": 256, "gamma": 3}
    question |= {"draft": "eagle3", "alpha": 0.7}
    free = whatif(**question)
    limited = whatif(**question, power_limit=400)
    for step in ("target_step", "draft_step", "verify_step"):
        assert getattr(limited, step).predicted_s > getattr(free, step).predicted_s, step
    assert limited.target_step.predicted_s == pytest.approx(limited.ar_tpot_s)
    drafting_s = 3 * limited.draft_step.predicted_s
    passes_s = drafting_s + limited.verify_step.predicted_s
    assert passes_s + limited.overhead_s == pytest.approx(limited.iteration_s)


@pytest.mark.parametrize("gamma", [1, 3])
def test_an_uncertain_draft_yields_at_most_its_own_tokens_and_one_of_the_target(gamma: int) -> None:
    """Its acceptance was published for short prompts, far from 128 k tokens."""
    question = {"model": "llama-3.3-70b", "hardware": "h100", "tp": 4, "draft": "eagle3", "weights": "fp8"}
    accepted = whatif(**question, batch=8, context=131_072, gamma=gamma).acceptance
    assert accepted.tokens_per_iteration_interval is not None
    low, high = accepted.tokens_per_iteration_interval
    assert 1 < low < accepted.tokens_per_iteration < high
    assert high == gamma + 1


@pytest.mark.parametrize(
    "more",
    [
        {"engine": "vllm@0.14"},
        {"engine": "sglang"},
        {"hardware": "h100-nvl"},
        {"hardware": "gb300"},
    ],
)
def test_the_printed_question_gives_the_same_answer_again(more) -> None:
    """Also of a version of the engine (0.14 is faster at speculating than 0.22 is), and of boards of their
    own.
    """
    a = whatif(**{"model": "qwen3-8b", "hardware": "h100", "batch": 8, "context": 4096, **more})
    again = whatif(a.query)
    assert again.calibration.stack == a.calibration.stack
    assert again.ar_tpot_s == a.ar_tpot_s
    assert again.iteration_s == a.iteration_s


def test_kernels_of_another_maker_widen_the_interval_and_are_named():
    """Kernels of NVIDIA's devices answer for AMD's steps with a wider interval than for NVIDIA's own, and
    with a warning where no public run is of the device.
    """
    question = {
        "model": "llama-3.1-8b",
        "batch": 8,
        "context": 8192,
        "draft": "eagle",
        "gamma": 3,
        "alpha": 0.7,
    }
    other, same_maker = (whatif(**question, hardware=gpu) for gpu in ("mi325x", "a100-sxm-80gb"))
    known = whatif(**question, hardware="mi300x")
    warned = ["is from another vendor; such" in " ".join(a.warnings) for a in (other, same_maker, known)]
    assert warned == [True, False, False]
    widths = [high / low for low, high in (a.ar_tpot_interval for a in (other, known, same_maker))]
    assert widths[0] > widths[1] > widths[2]


def test_without_a_draft_a_token_takes_the_energy_of_the_baseline() -> None:
    """No part of an iteration outside its passes is counted where nothing is drafted."""
    for power_limit in (None, 400):
        answer = whatif("llama-3.1-8b", "rtx-5090", 4, 4096, 0, power_limit=power_limit)
        assert answer.joules_per_token == pytest.approx(answer.ar_joules_per_token, rel=1e-12)
