"""The answer's contract and its edges."""

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest

from perfmodel.answers.point.inflection import InflectionQuery, inflection
from perfmodel.answers.point.whatif import whatif
from perfmodel.answers.question import Query
from perfmodel.answers.question.typical import TypicalGain
from perfmodel.costs.pass_time import LIMITERS
from perfmodel.errors import InputError
from perfmodel.specs.acceptance.acceptance_library import acceptance_library
from perfmodel.specs.boundary import files

README = Query(
    "llama-3.1-8b", "a100-sxm-80gb", 64, 32_000, gamma=2, tp=8, draft_kv="streamingllm:512", alpha=0.8
)
OPEN = {"model": "llama-3.1-8b", "hardware": "h100", "batch": 4, "context": 32_000, "alpha": 0.8}


def check(a: dict) -> dict:
    """What holds of every answer: plain JSON, and numbers that agree with each other."""
    assert json.loads(json.dumps(a, allow_nan=False)) == a
    for step in ("target_step", "verify_step"):
        assert 0 < a[step]["lower_s"] <= a[step]["predicted_s"] * (1 + 1e-12)
        assert a[step]["limiter"] in LIMITERS
    q = a["query"]
    ratios = a["cost_ratios"]
    gained = a["acceptance"]["tokens_per_iteration"]
    target = a["target_step"]["predicted_s"]
    drafting = q["gamma"] * ratios["draft_to_target"] * target
    iteration = drafting + a["verify_step"]["predicted_s"] + a["overhead_s"]
    assert a["speedup"] == pytest.approx(gained * target / iteration, rel=1e-9)
    assert a["tpot_s"] == pytest.approx(iteration / gained, rel=1e-9)
    assert a["ar_tpot_s"] == pytest.approx(target, rel=1e-12)
    assert a["throughput_tokens_per_s"] == pytest.approx(q["batch"] / a["tpot_s"], rel=1e-12)
    assert a["ar_throughput_tokens_per_s"] == pytest.approx(q["batch"] / target, rel=1e-12)
    assert ratios["verify_to_target"] == pytest.approx(a["verify_step"]["predicted_s"] / target, rel=1e-9)
    tried = a["speedup"] if q["gamma"] <= q["max_gamma"] else 0
    assert a["speedup_at_gamma_optimal"] >= max(1, tried) * (1 - 1e-12)
    if a["speedup_interval"] is None:
        assert a["interval_coverage"] is None
    else:
        low, high = a["speedup_interval"]
        assert low <= a["speedup"] <= high
        assert 0 < a["interval_coverage"] < 1
    m = a["memory"]
    used = m["weight_bytes"] + m["kv_bytes"] + m["draft_weight_bytes"] + m["draft_kv_bytes"]
    assert m["fits"] == (used <= m["available_bytes"])
    assert m["fits"] == (q["batch"] <= m["max_batch"]) == (a["verdict"] != "does_not_fit")
    return a


def test_a_longer_draft_than_was_published_accepts_less_as_is_usual() -> None:
    """EAGLE-3 of Qwen3-8B: seven positions were published. A draft of nine gains less than twice what the
    eighth token could add.
    """
    question = {"batch": 4, "context": 400, "draft": "eagle3"}
    seven, eight, nine = (whatif("qwen3-8b", "h100", gamma=g, **question).acceptance for g in (7, 8, 9))
    eighth = eight.tokens_per_iteration - seven.tokens_per_iteration
    assert 0 < nine.tokens_per_iteration - eight.tokens_per_iteration < eighth
    assert (
        f"each position beyond 7 at {acceptance_library().typical.decay('eagle3'):.2f} of the one before"
        in nine.source
    )


def ask(**flags) -> dict:
    return check(whatif(README, **flags).as_dict())


# The contract.


def test_the_question_of_the_readme():
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


def test_setup_is_earned_back():
    a = ask(draft_kv="streamingllm:512,own_prefill=true", calibration="ideal")
    assert a["draft_setup_s"] > 0
    assert a["break_even_new_tokens"] == math.ceil(a["draft_setup_s"] / (a["ar_tpot_s"] - a["tpot_s"]))
    assert ask(draft_kv="full")["draft_setup_s"] == 0
    assert ask(alpha=0.0)["break_even_new_tokens"] is None, "where nothing is saved, it never is"


# Edges that are answered.


def test_gamma_zero_is_plain_decoding():
    a = ask(gamma=0)
    assert a["speedup"] == 1.0
    assert a["speedup_interval"] == [1.0, 1.0]
    assert a["verdict"] == "does_not_pay"
    assert a["tpot_s"] == a["ar_tpot_s"]
    assert a["memory"]["draft_kv_bytes"] == 0
    assert a["memory"]["draft_weight_bytes"] == 0
    assert a["overhead_s"] == 0
    assert ask(gamma=0, alpha=None)["speedup"] == 1.0, "acceptance is not needed"


def test_a_batch_that_does_not_fit_is_answered_with_the_largest_and_never_pays():
    most = ask()["memory"]["max_batch"]
    assert most >= 64
    assert ask(batch=most)["memory"]["fits"]
    a = ask(batch=most + 1)
    assert a["memory"]["fits"] is False
    assert a["memory"]["max_batch"] == most
    assert any(f"the largest that does is {most}" in note for note in a["warnings"])
    for context, would in ((64_000, "would likely pay"), (256, "would likely not pay")):
        question = OPEN | {"context": context, "gamma": 2}
        most = whatif(**question).memory.max_batch
        answer = whatif(**question | {"batch": most + 1})
        assert answer.verdict == "does_not_fit"
        fits = f"at most batch {most} fits (with more memory it {would}); "
        assert answer.reason.startswith(fits)
        assert whatif(**question | {"batch": most}).verdict != "does_not_fit"


def test_a_device_of_another_maker_is_told_apart():
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


@pytest.mark.parametrize("context", [2_000, 32_000, 100_000])
def test_the_best_batch_is_the_best_of_all_that_fit(context: int) -> None:
    """By asking for every batch; what was found is an answer of its own."""
    question = OPEN | {"context": context, "max_gamma": 4}
    best = whatif(**question).best
    assert best is not None
    here = whatif(**question | {"batch": best.batch}, gamma=best.gamma)
    assert here.memory.fits
    assert here.throughput_tokens_per_s == pytest.approx(best.throughput_tokens_per_s, rel=1e-12)
    assert here.speedup == pytest.approx(best.speedup, rel=1e-12)
    for batch in range(1, best.looked_to + 1, 1 + best.looked_to // 10):
        for gamma in range(5):
            other = whatif(**question | {"batch": batch}, gamma=gamma)
            assert not other.memory.fits or other.throughput_tokens_per_s <= best.throughput_tokens_per_s * (
                1 + 1e-9
            )


# Unknown is not no.

UNKNOWN = Query("qwen2.5-7b", "h100", 13, 16_384, draft="eagle3", task=None)


@pytest.mark.parametrize("changes", [{}, {"gamma": 3}, {"engine": "sglang"}])
def test_where_no_acceptance_is_known_it_says_from_which_one_on_speculation_pays(
    changes: dict[str, object],
) -> None:
    unknown = replace(UNKNOWN, **changes)
    a = whatif(unknown)
    assert a.verdict == "unknown_acceptance"
    assert a.speedup is None
    assert a.tpot_s is None
    assert a.gamma_optimal is None
    assert a.acceptance.tokens_per_iteration is None
    gamma = a.query.gamma
    at = whatif(unknown, alpha=a.break_even_alpha, gamma=gamma)
    assert at.speedup == pytest.approx(1)
    assert a.ar_tpot_s == at.ar_tpot_s
    assert a.iteration_s == at.iteration_s
    assert a.memory == at.memory
    if "gamma" not in changes:  # no other draft length needs less
        for n in (1, 2, 3, 5, 9):
            assert whatif(unknown, alpha=a.break_even_alpha, gamma=n).speedup <= 1 + 1e-9
    alpha = f"{a.break_even_alpha:.2f}"
    assert a.headline() == f"Undecided: {a.typical.sentence}; pays from alpha {alpha} (gamma {gamma})"


def test_a_narrow_range_of_a_typical_draft_has_more_digits() -> None:
    assert TypicalGain("dspark", (0.48, 0.84), (1.0, 1.012), "").range == "1.00x to 1.01x"
    assert TypicalGain("dspark", (0.48, 0.84), (1.0, 1.1), "").range == "1.0x to 1.1x"


def test_where_no_acceptance_is_known_it_says_what_a_typical_draft_would_give() -> None:
    a = whatif(UNKNOWN)
    low, high = a.typical.speedups
    first_low, first_high = a.typical.first_rates
    assert 1 < low < high
    assert 0.5 < first_low < first_high < 0.9
    assert f"likely {low:.1f}x to {high:.1f}x with a typical eagle3 draft" in a.headline()
    assert "--target qwen2.5-7b --draft eagle3" in a.typical.measure
    decay = acceptance_library().typical.decay("eagle3")
    positions = "/".join(f"{first_high * decay**j:.12g}" for j in range(5))
    best = max(whatif(UNKNOWN, rate=positions, gamma=n).speedup or 0.0 for n in range(6))
    assert best == pytest.approx(high)


def test_a_draft_kind_with_few_published_results_has_no_typical_gain() -> None:
    a = whatif(UNKNOWN, model="qwen3-8b", draft="qwen3-0.6b")
    assert a.verdict == "unknown_acceptance"
    assert a.typical is None
    assert "likely" not in a.headline()


# One switch that turns the verdict.

UNSPLIT = Query("qwen3-30b-a3b", "rtx-4090", 1, 32_768, tp=2, weights="fp8")


def test_a_switch_that_turns_the_verdict_is_named_with_its_figure() -> None:
    a = whatif(UNSPLIT)
    assert a.verdict == "likely_does_not_pay"
    remedy = a.remedies[0]
    assert remedy.switch == "--attention-backend flashinfer"
    with_it = whatif(UNSPLIT, attention_backend="flashinfer", draft=a.query.draft)
    assert remedy.gamma == with_it.query.gamma
    assert remedy.speedup == pytest.approx(with_it.speedup)
    assert remedy.speedup_interval == pytest.approx(with_it.speedup_interval)
    assert with_it.remedies == ()


def test_a_tokens_per_iteration_is_not_carried_far_beyond_its_draft_length() -> None:
    """Measured at 1 token: positions 2 and 3 accept 0.90 and 0.90^2 of it, as other MTP layers do, and longer
    drafts are not recommended.
    """
    query = Query("qwen3.5-27b", "h100", 1, 4096, draft="mtp", gamma=1, tokens_per_iteration=1.9)
    a = whatif(query)
    assert a.gamma_optimal <= 3
    decay = acceptance_library().typical.decay("mtp")
    assert f"each position beyond 1 at {decay:.2f} of the one before" in a.acceptance.source
    assert a.acceptance.tokens_per_iteration == pytest.approx(1.9)
    rates = f"0.9/{0.9 * decay:.12g}/{0.9 * decay**2:.12g}"
    by_position = whatif(query, tokens_per_iteration=None, rate=rates, gamma=None)
    assert a.speedup_at_gamma_optimal == pytest.approx(by_position.speedup)


def test_break_even_by_hand() -> None:
    """Ideal, B=64, S=32000, gamma 1: T_T 139.0117 ms, T_D 9.4675 ms; T_V: 128 tokens still load, as T_T.

    1 + alpha >= (9.4675 + 139.0117) / 139.0117 = 1.068106; activation traffic adds a little.
    """
    assert 0.0681 < whatif(README, tp=1, gamma=1, calibration="ideal").break_even_alpha < 0.075


def test_a_draft_that_pays_at_no_acceptance_is_no_open_question() -> None:
    """At batch 200 four draft steps and the verification take 9 baseline steps, more than the 5 tokens there
    can be.
    """
    a = whatif(UNKNOWN, model="qwen3-8b", draft="qwen3-4b", batch=200, context=100, gamma=4)
    assert a.iteration_s > 5 * a.ar_tpot_s
    assert a.verdict == "does_not_pay"
    assert a.speedup is None
    assert a.break_even_alpha is None
    assert "(with more memory it would be undecided); " in whatif(UNKNOWN, batch=500).reason


def test_the_best_length_is_one_whose_states_fit() -> None:
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


@pytest.mark.parametrize(
    "more",
    [
        {"engine": "vllm@0.14"},
        {"engine": "sglang"},
        {"hardware": "h100-nvl"},
        {"hardware": "gb300"},
    ],
)
def test_the_query_of_an_answer_asks_it_again(more) -> None:
    """Also of a version of the engine (0.14 is faster at speculating than 0.22 is), and of boards of their
    own.
    """
    a = whatif(**{"model": "qwen3-8b", "hardware": "h100", "batch": 8, "context": 4096, **more})
    again = whatif(a.query)
    assert again.calibration.stack == a.calibration.stack
    assert again.ar_tpot_s == a.ar_tpot_s
    assert again.iteration_s == a.iteration_s


def test_the_draft_that_is_not_named_is_one_that_the_engine_runs() -> None:
    """Published heads first, MTP before others; else an MTP module of its own; self where a view or rate is
    given.
    """
    point = {"hardware": "h200", "batch": 8, "context": 8192, "tp": 8}
    for model, draft in (
        ("qwen3-32b", "eagle3"),
        ("deepseek-r1", "mtp"),
        ("qwen2.5-32b", "eagle3"),
        ("glm-4.5-air", "mtp"),
    ):
        a = whatif(model=model, **point)
        assert a.query.draft == draft
        assert a.runs_in is not None
        assert ">=" in a.runs_in
        assert f"no draft was given: {draft} is assumed" in a.warnings
    for given in (
        {"alpha": 0.7},
        {"draft_kv": "snapkv:512", "alpha": 0.7},
        {"engine": "magicdec", "hardware": "h100"},
    ):
        assert whatif(**{"model": "llama-3.1-8b", **point, **given}).query.draft == "self"
    a = inflection(InflectionQuery("qwen3-32b", "h200", 8, 3, 8192, engine="vllm"))  # `ideal` is no engine
    assert a.draft == "eagle3"
    assert a.draft_kv == "full"
    assert a.break_even_context == 1
    assert a.ideal.break_even_context == 1
    baseline = whatif(model="qwen3-32b", gamma=0, **point)
    assert baseline.query.draft == "eagle3"
    assert baseline.verdict == "does_not_pay"
    assert baseline.gamma_optimal == whatif(model="qwen3-32b", **point).gamma_optimal > 0
    assert baseline.sentence == "Baseline (no speculation), as asked"


def test_an_acceptance_of_the_bundled_model_is_not_that_of_another_model_of_its_shape() -> None:
    query = Query("llama-3.1-8b", "h100", 4, 8000, draft="self", draft_kv="streamingllm:512")
    assert whatif(query).speedup is not None
    other = whatif(replace(query, model="deepseek-r1-distill-llama-8b"))
    assert other.verdict == "unknown_acceptance"
    assert "no acceptance is known for deepseek-r1-distill-llama-8b" in other.headline()


def test_a_draft_of_an_own_file_needs_no_published_name(tmp_path: Path) -> None:
    """Its acceptance is given; nothing is looked up under its name."""
    bundled = files.data_directory("models") / "llama-3.2-1b.yaml"
    path = tmp_path / "mine.yaml"
    path.write_text(bundled.read_text(encoding="utf-8").replace("name: llama-3.2-1b", "name: mine-1b", 1))
    answer = whatif(model="llama-3.1-8b", hardware="h100", batch=4, context=4096, draft=str(path), alpha=0.7)
    assert answer.as_dict()["speedup"] > 0


def test_no_switch_is_a_backend_that_does_not_run_the_models_heads() -> None:
    """FlashInfer has no attention sinks on Ada, and has them on Blackwell (vLLM 0.32, supports_sink)."""
    at = {"model": "gpt-oss-20b", "hardware": "rtx-4090", "batch": 4, "context": 65536, "draft": "eagle3"}
    assert not any("flashinfer" in remedy.switch for remedy in whatif(**at).remedies)
    with pytest.raises(InputError, match="which has attention sinks, on rtx-4090"):
        whatif(**at, attention_backend="flashinfer")
    assert whatif(**at | {"hardware": "rtx-pro-6000"}, attention_backend="flashinfer").speedup


def test_an_unknown_acceptance_has_no_remedy_and_was_nowhere_measured() -> None:
    question = {"weights": "mxfp4", "engine": "sglang", "draft": "dspark", "gamma": 7}
    a = whatif("ling-3.0-flash", "dgx-spark", 1, 8704, **question)
    assert a.verdict == "unknown_acceptance"
    assert not a.remedies
    assert not any("was measured at" in warning for warning in a.warnings)


def test_states_of_drafted_tokens_that_do_not_fit_are_said() -> None:
    question = {"weights": "nvfp4", "engine": "sglang", "draft": "dflash2", "gamma": 7}
    kept = whatif("qwen3.8-27b", "dgx-spark", 32, 1024, **question)
    one = whatif("qwen3.8-27b", "dgx-spark", 32, 1024, state_rollback="replay", **question)
    assert kept.verdict == "does_not_fit"
    assert one.memory.fits
    words = f"one state per sequence has room for batch {one.memory.max_batch} (--state-rollback replay)"
    assert any(words in warning for warning in kept.warnings)
    fits = whatif("qwen3.8-27b", "dgx-spark", 8, 1024, **question)
    assert not any("--state-rollback" in warning for warning in (*one.warnings, *fits.warnings))


def test_where_no_length_gains_the_verdict_is_that_of_the_least_loss() -> None:
    """A loss of 1 % within a wide interval is not sure; one at an acceptance of 0 is."""
    near = whatif("gpt-oss-20b", "rtx-5090", 1, 4096, draft="eagle3", engine="llamacpp")
    assert near.query.gamma == 0
    assert near.verdict == "too_close_to_call"
    stated = re.search(r"gamma (\d+) gives ([\d.]+)x \(([\d.]+) to ([\d.]+)\)", near.reason)
    length, speedup, low, high = map(float, stated.groups())
    at_length = whatif(near.query, gamma=int(length))
    assert at_length.verdict == near.verdict
    assert at_length.speedup == pytest.approx(speedup, abs=0.005)
    assert at_length.speedup_interval == pytest.approx((low, high), abs=0.005)
    shorter = [whatif(near.query, gamma=n).speedup or 0.0 for n in (1, 2, 3)]
    assert at_length.speedup == max(shorter) < 1.0
    sure = whatif("llama-3.1-8b", "h100", 1, 1024, draft="eagle3", alpha=0.0)
    assert sure.verdict == "does_not_pay"
    asked = whatif("gpt-oss-20b", "rtx-5090", 1, 4096, draft="eagle3", engine="llamacpp", gamma=0)
    assert asked.verdict == "does_not_pay"
