"""A draft without a known acceptance: its break-even, its likely gain, and the line that measures it."""

import re
from typing import Any

import pytest

import perfmodel as pm
from perfmodel.answers.advice.advise import advise
from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.likely import draft_to_measure, named_to_measure
from perfmodel.answers.advice.margins import BreakEven
from perfmodel.answers.advice.reasons import _would_pay, likely_text
from perfmodel.answers.question.typical import TypicalGain
from perfmodel.specs.acceptance.acceptance_library import acceptance_library
from tests.answers.advise.questions import question_with

UNMEASURED: dict[str, Any] = {
    "model": "qwen2.5-7b",
    "batch": (1, 4, 9, 10, 11),
    "context": 32768,
    "rate": {},
    "max_gamma": 6,
}
QUESTIONS = {
    "latency": question_with(**UNMEASURED, objective="latency"),
    "bounded cost": question_with(**UNMEASURED, objective="cost", price=2.0, max_tpot_ms=20),
}
every_question = pytest.mark.parametrize("question", QUESTIONS.values(), ids=QUESTIONS)


@every_question
def test_without_an_acceptance_nothing_is_decided_and_the_break_even_is_named(question: AdviseQuery) -> None:
    a = advise(question)
    assert a.verdict == "unknown_acceptance"
    assert a.chosen.gamma == 0
    assert a.headline() == f"Undecided: {a.reason}"
    assert a.failed  # exit 1
    alphas = [one.smallest_alpha for one in a.unmeasured]
    assert alphas == sorted(alphas)
    bounded = ""
    if question.max_tpot_ms is not None:
        bounded = "; this compares tokens/s within the bound, which allows larger batches with a draft"
    assert f"measure the acceptance to decide{bounded}. A draft pays off from alpha " in a.reason


@every_question
def test_the_likely_gain_is_that_of_an_advice_with_the_typical_acceptance(question: AdviseQuery) -> None:
    likely = next(gain for gain in advise(question).likely if gain.draft == "eagle3")
    decay = acceptance_library().typical.decay("eagle3")
    for gain, first in zip(likely.speedups, likely.first_rates, strict=True):
        rates = "/".join(f"{first * decay**j:.12g}" for j in range(5))
        measured = advise(question, rate={"eagle3": rates})
        best = measured.gain(measured.option or measured.chosen)
        assert max(1.0, best or 0.0) == pytest.approx(gain, rel=1e-9)


@every_question
def test_a_draft_pays_just_above_the_named_break_even_and_not_below_it(question: AdviseQuery) -> None:
    unmeasured = advise(question).unmeasured
    itself = next(one for one in unmeasured if one.draft == "self")
    for one in (unmeasured[0], itself):
        for alpha, pays in ((one.smallest_alpha + 1e-4, True), (one.smallest_alpha - 1e-4, False)):
            answer = advise(question, rate={f"{one.draft}@{one.draft_kv}": alpha})
            assert ((answer.option or answer.chosen).gamma > 0) is pays, one


def test_a_draft_that_comes_with_the_model_is_named_first() -> None:
    answer = advise("mimo-v2.5", "b300", context=8192, tp=8, objective="latency", batch=1)
    assert "no acceptance is known for mimo-v2.5: likely" in answer.reason
    assert next(gain.draft for gain in answer.likely) == "mtp"
    _, _, pays = answer.reason.partition("A draft pays off from alpha ")
    assert pays.split("(")[1].startswith("mtp, gamma ")


@pytest.mark.parametrize("load", [{}, {"clients": 16, "gpus": 4, "input_len": 2048, "output_len": 600}])
def test_a_draft_that_surely_gains_comes_with_a_line_to_measure_it(load: dict[str, int]) -> None:
    """GLM-4.5-Air has a layer of MTP in its checkpoint, whose acceptance was not published."""
    place = {} if load else {"tp": 2}
    answer = advise("glm-4.5-air", "rtx-pro-6000", context=16384, weights="fp8", **place, **load)
    assert answer.verdict == "unknown_acceptance"
    assert answer.likely[0].draft == "mtp"
    assert answer.likely[0].speedups[0] >= 1.1
    assert "speculative" not in answer.serve.vllm_line
    assert '"method": "mtp"' in answer.serve_option.vllm_line
    assert answer.option is None


def test_without_a_typical_draft_the_line_measures_an_ngram_draft() -> None:
    answer = advise("gemma-3-27b", "h100", weights="awq-g128", context=8192)
    assert answer.verdict == "unknown_acceptance"
    assert '"method": "ngram"' in answer.serve_option.vllm_line
    assert "--speculative-config" not in answer.serve.vllm_line


def test_the_line_to_measure_drafts_as_many_tokens_as_the_stated_break_even() -> None:
    """A longer draft loses at the acceptance from which the answer says that it pays."""
    place = {"engine": "llamacpp", "weights": "q4_k_m", "context": 8192}
    answer = advise("llama-3.3-70b", "apple-m3-max-128gb", draft=["llama-3.2-1b"], **place)
    (even,) = answer.unmeasured
    assert even.gamma == 1
    assert " --spec-draft-n-max 1 " in answer.serve_option.llamacpp_line
    longer = {"draft": "llama-3.2-1b", "alpha": even.smallest_alpha, "gamma": 3}
    assert pm.whatif("llama-3.3-70b", "apple-m3-max-128gb", batch=1, **longer, **place).speedup < 0.9


def test_the_line_to_measure_has_as_many_seats_as_the_stated_break_even() -> None:
    """Of these batches only 16 meets the bound with this draft and gains at the break-even acceptance."""
    bounded = {"context": 1024, "batch": (1, 4, 16, 27), "max_tpot_ms": 12}
    answer = advise("qwen3-30b-a3b-2507", "h100", draft=["qwen3-0.6b"], **bounded)
    assert "(qwen3-0.6b, gamma 5, batch 16)" in answer.reason
    assert " --max-num-seqs 16 " in answer.serve_option.vllm_line
    assert '"num_speculative_tokens": 5' in answer.serve_option.vllm_line


def test_the_own_layer_of_a_model_is_named_beside_another_draft() -> None:
    answer = advise("qwen3-next-80b-a3b", "4xh100", context=8192)
    own = "The checkpoint has its own mtp layer, whose acceptance is not known: likely "
    (named,) = [each for each in answer.alternatives if each.text.startswith(own)]
    assert '"method": "mtp"' in named.line
    load = {"clients": 16, "input_len": 8192, "output_len": 500}
    under_load = advise("qwen3-next-80b-a3b", "2xh100", weights="fp8", **load)
    (named,) = [each for each in under_load.alternatives if each.text.startswith(own)]
    assert '"method": "mtp"' in named.line
    assert " --max-num-seqs 16 " in named.line
    named = advise("qwen3-next-80b-a3b", "4xh100", context=8192, draft=["eagle3"])
    assert not any(each.text.startswith(own) for each in named.alternatives)


def test_an_unknown_acceptance_names_the_model_that_was_asked_for() -> None:
    answer = advise("qwen3.8-27b", "h100", context=8192, draft=["dflash"])
    assert any(
        "for qwen3.8-27b (of the shape of qwen3.5-27b) with draft dflash" in w for w in answer.warnings
    )


def test_a_draft_that_would_only_slow_the_server_gains_nothing() -> None:
    """The server can run without it, so its likely gain is no less than 1."""
    likely = advise("llama-3.1-405b", "8xh200", weights="fp8", context=1024).likely
    assert likely
    assert all(gain.speedups == (1.0, 1.0) for gain in likely)


def test_a_cache_with_which_a_known_draft_fits_is_named_beside_the_server_asked_for() -> None:
    """The acceptance of EAGLE-3 is known, but it fits only beside an FP8 cache."""
    answer = advise("llama-3.3-70b", "rtx-a6000", weights="awq-g128", context=8192, batch=(1,))
    assert answer.verdict == "unknown_acceptance"
    assert answer.headline().startswith("Undecided: with --kv-dtype fp8 ")
    assert "no draft with a known acceptance fits in memory" in answer.headline()
    named = next(each for each in answer.alternatives if each.text.startswith("With --kv-dtype fp8"))
    assert " --kv-cache-dtype fp8 " in named.line
    assert '"method": "eagle3"' in named.line
    assert answer.first_line is None


def gain(draft: str, low: float) -> TypicalGain:
    """The gain of a draft with an acceptance from the low to the high end of what is typical."""
    return TypicalGain(draft, (0.6, 0.8), (low, 2.0), "a command")


@pytest.mark.parametrize(
    ("path", "gains", "measured"),
    [
        (None, [("eagle3", 1.5), ("mtp", 1.2)], "eagle3"),
        (None, [("dflash2", 1.5), ("mtp", 1.2)], "mtp"),
        ("/a/head", [("eagle3", 1.5), ("mtp", 1.2)], "eagle3"),
        ("/a/head", [("eagle3", 1.09), ("mtp", 1.11)], "mtp"),
        (None, [("mtp", 1.09)], None),
        (None, [("dflash2", 1.5)], None),
    ],
)
def test_the_draft_to_measure_is_the_first_that_a_line_starts_and_that_surely_gains(
    path, gains, measured
) -> None:
    """The own layer of a model is in its checkpoint. Other heads must be published, or need a path."""
    query = AdviseQuery("qwen3-8b", "h100", draft="eagle3", draft_path=path)
    found = draft_to_measure(query, tuple(gain(*each) for each in gains))
    assert (found and found.draft) == measured


@pytest.mark.parametrize(
    ("named", "would_pay", "measured"),
    [
        (None, [("suffix", "full"), ("ngram", "full")], "ngram"),
        (["suffix"], [("suffix", "full"), ("ngram", "full")], "suffix"),
        (["suffix"], [("eagle3", "full"), ("suffix", "quest:512"), ("ngram", "full")], "ngram"),
        (["suffix"], [("eagle3", "full")], None),
    ],
)
def test_without_a_typical_draft_the_one_to_measure_has_no_weights_or_is_named(
    named, would_pay, measured
) -> None:
    query = AdviseQuery("qwen3-8b", "h100", draft=named)
    even = tuple(BreakEven(draft, kv, 1, 3, 8, 0.5) for draft, kv in would_pay)
    found = named_to_measure(query, even)
    assert (found and found.draft) == measured


def test_a_gain_of_a_part_of_the_time_is_that_of_amdahl_s_law() -> None:
    """Half of the time twice as fast is 1 / (1/2 + 1/4)."""
    assert gain("mtp", 1.5).within(0.5).speedups == pytest.approx((1 / (0.5 + 0.5 / 1.5), 4 / 3))
    assert gain("mtp", 1.5).within(1.0).speedups == (1.5, 2.0)


def test_the_break_even_of_one_draft_of_each_sort_that_exists_is_named() -> None:
    """No EAGLE-3 head of GLM-4.5-Air is known, and a model that must accept nearly all is not named."""
    query = question_with(model="glm-4.5-air", hardware="h100")
    would_pay = [
        BreakEven("ngram", "full", 1, 3, 8, 0.2),
        BreakEven("self", "quest:512,page=16", 1, 2, 4, 0.3),
        BreakEven("eagle3", "full", 1, 3, 8, 0.4),
        BreakEven("mtp", "full", 1, 1, 16, 0.5),
        BreakEven("glm-4-9b", "full", 1, 1, 16, 0.95),
    ]
    assert _would_pay(query, tuple(would_pay)) == (
        ". A draft pays off from alpha 0.50 (mtp, gamma 1, batch 16), 0.20 (ngram, gamma 3, batch 8); give "
        "yours with --rate DRAFT=ALPHA or --acceptance"
    )
    alone = (BreakEven("eagle3", "full", 1, 3, 8, 0.4), BreakEven("glm-4-9b", "full", 1, 1, 16, 0.8))
    assert "0.40 (a trained eagle3, gamma 3, batch 8); " in _would_pay(query, alone[:1])
    assert ". A draft pays off from alpha 0.80 (glm-4-9b, gamma 1, batch 16); " in _would_pay(query, alone)
    assert _would_pay(query, ()) == "; no draft is predicted to pay off at any acceptance"


def test_a_head_that_must_be_trained_first_is_said_to_need_training() -> None:
    reason = advise("olmo-3-32b", "h100").reason
    assert "must be trained first or named with --draft-path: none is known for olmo-3-32b" in reason
    assert "trained" not in advise("glm-4.5-air", "4xh100").reason


def test_a_small_model_of_the_maker_is_named_with_its_line() -> None:
    answer = advise("gemma-3-27b", "a100")
    (named,) = [each for each in answer.alternatives if each.text.startswith("gemma-3-")]
    assert '"model": "google/gemma-3-' in named.line
    makers = {even.draft for even in advise("exaone-4.0-32b", "h100", tp=2).unmeasured}
    assert "deepseek-v2-lite" not in makers


def test_the_published_head_is_in_the_line_although_the_rate_is_given() -> None:
    answer = advise("llama-3.1-8b", "h100", rate={"eagle3": "0.7"})
    assert '"model": "lmsys/SGLang-EAGLE3-Llama-3.1-8B-Instruct-SpecForge"' in answer.serve.vllm_line


@pytest.mark.parametrize(
    ("highs", "named"),
    [
        ((1.06, 1.04, 2.0), ["mtp"]),
        ((1.06, 1.5, 2.0), ["mtp", "eagle3"]),
        ((1.04, 1.04, 2.0), None),
    ],
)
def test_likely_gains_of_the_first_two_drafts_are_named_unless_they_round_to_none(highs, named) -> None:
    query = question_with(model="qwen3-8b", hardware="h100", draft_path="/a/head")
    kinds = ("mtp", "eagle3", "dflash")
    gains = [TypicalGain(name, (0.6, 0.8), (1.0, high), "") for name, high in zip(kinds, highs, strict=True)]
    text = likely_text(query, tuple(gains))
    if named is None:
        assert text == ", and no draft is likely to gain with a typical acceptance"
    else:
        assert re.findall(r"typical (\w+) draft", text) == named
    assert likely_text(query, ()) == ""


@pytest.mark.parametrize(
    ("draft", "context", "verdicts"),
    [
        ("qwen3-0.6b", 32768, ("too_close_to_call", "too_close_to_call")),
        ("qwen3-4b", 4096, ("does_not_pay", "do_not_speculate")),
    ],
)
def test_a_draft_that_never_pays_has_the_verdict_of_whatif(draft: str, context: int, verdicts) -> None:
    """Even with acceptance 1 the draft is slower than the baseline, but the interval may reach above 1."""
    asked = {"model": "qwen3-30b-a3b-2507", "hardware": "apple-m4-pro-64gb", "engine": "mlx"}
    asked |= {"draft": draft, "context": context}
    point = pm.whatif(**asked, batch=1, weights="4bit")
    answer = pm.advise(**asked, weights="4bit")
    assert point.break_even_alpha is None
    assert (point.verdict, answer.verdict) == verdicts
