"""Where no acceptance is known: the break-even, what a typical draft would give, and no made-up verdict."""

from dataclasses import replace

import pytest

from perfmodel.answers.point.whatif import whatif
from perfmodel.answers.question import Query, measured_acceptance, resolve, resolve_costs
from perfmodel.answers.question.typical import TypicalGain, typical_acceptance
from perfmodel.specs import UnknownAcceptance
from perfmodel.specs.acceptance.acceptance_library import acceptance_library
from tests.answers.whatif.questions import UNKNOWN


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
    assert a.headline() == f"Undecided: {a.typical.sentence}; pays off from alpha {alpha} (gamma {gamma})"


def test_a_narrow_range_of_a_typical_draft_has_more_digits() -> None:
    assert TypicalGain("dspark", (0.48, 0.84), (1.0, 1.012), "").range == "1.00x to 1.01x"
    assert TypicalGain("dspark", (0.48, 0.84), (1.0, 1.1), "").range == "1.0x to 1.1x"
    assert TypicalGain("mtp", (0.65, 0.92), (1.221, 1.223), "").range == "1.22x"


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


@pytest.mark.parametrize(("draft", "published", "known"), [("dspark", 5, True), ("ngram", 4, False)])
def test_five_published_results_make_an_acceptance_typical(draft: str, published: int, known: bool) -> None:
    assert len(acceptance_library().typical.first_rates(draft)) == published
    drafting = resolve_costs(Query("qwen3-8b", "h100", 1, 1000, draft=draft)).draft
    assert (typical_acceptance(drafting) is not None) is known


def test_a_draft_that_would_pay_at_no_acceptance_does_not_pay() -> None:
    """At batch 200 four draft steps and the verification take 9 baseline steps, more than the 5 tokens there
    can be.
    """
    a = whatif(UNKNOWN, model="qwen3-8b", draft="qwen3-4b", batch=200, context=100, gamma=4)
    assert a.iteration_s > 5 * a.ar_tpot_s
    assert a.verdict == "does_not_pay"
    assert a.speedup is None
    assert a.break_even_alpha is None
    assert "(with more memory it would be undecided); " in whatif(UNKNOWN, batch=500).reason


def test_a_draft_that_no_acceptance_helps_has_the_verdict_of_the_acceptance_1() -> None:
    """At acceptance 1 the draft is predicted to lose, but the interval contains 1."""
    point = {"model": "qwen3-30b-a3b-2507", "hardware": "apple-m4-pro-64gb", "batch": 1, "context": 32_768}
    asked = Query(**point, gamma=3, draft="qwen3-0.6b", engine="mlx", weights="4bit")
    best = whatif(asked, alpha=1.0)
    assert best.speedup < 1.0 < best.speedup_interval[1]
    unknown = whatif(asked)
    assert unknown.break_even_alpha is None
    assert unknown.verdict == best.verdict == "too_close_to_call"
    assert "is not predicted to pay off at gamma 3 with any acceptance" in unknown.reason
    assert whatif(asked, gamma=None).query.gamma == 3


def test_an_acceptance_of_the_bundled_model_is_not_that_of_another_model_of_its_shape() -> None:
    query = Query("llama-3.1-8b", "h100", 4, 8000, draft="self", draft_kv="streamingllm:512")
    assert whatif(query).speedup is not None
    other = whatif(replace(query, model="deepseek-r1-distill-llama-8b"))
    assert other.verdict == "unknown_acceptance"
    assert "no acceptance is known for deepseek-r1-distill-llama-8b" in other.headline()


def test_beyond_the_longest_measured_context_speculation_likely_pays_with_a_wider_interval() -> None:
    """MagicDec measured this cache at up to 100,000 tokens; the model takes 131,072."""
    stack = {"tp": 8, "engine": "magicdec", "draft_kv": "streamingllm:512"}
    measured, longer = (whatif("llama-3.1-8b", "a100", 32, c, 4, **stack) for c in (100_000, 128_000))
    assert [a.verdict for a in (measured, longer)] == ["pays", "likely_pays"]
    low, high = longer.speedup_interval
    known_low, known_high = measured.speedup_interval
    assert high / low > known_high / known_low
    assert any("up to 100000 tokens; at 128000" in warning for warning in longer.warnings)


def test_four_times_the_longest_measured_context_is_the_last_one_with_an_acceptance() -> None:
    stack = {"tp": 8, "engine": "magicdec", "draft_kv": "streamingllm:512"}
    known = resolve(Query("llama-3.1-8b", "a100", 32, 100_000, 4, **stack))
    subject = ("llama-3.1-8b", known.target, known.draft)
    assert measured_acceptance(*subject, 400_000.0).measured_context == 100_000
    with pytest.raises(UnknownAcceptance):
        measured_acceptance(*subject, 400_001.0)


def test_an_unknown_acceptance_has_no_remedy_and_was_nowhere_measured() -> None:
    question = {"weights": "mxfp4", "engine": "sglang", "draft": "dspark", "gamma": 7}
    a = whatif("ling-3.0-flash", "dgx-spark", 1, 8704, **question)
    assert a.verdict == "unknown_acceptance"
    assert not a.remedies
    assert not any("was measured at" in warning for warning in a.warnings)


def test_a_switch_with_which_a_typical_draft_gains_is_named() -> None:
    """With vLLM's default backend on this board, verifying several tokens takes as long as they save."""
    point = {"batch": 1, "context": 65_536, "tp": 2, "weights": "fp8", "draft": "mtp"}
    asked = whatif("glm-4.5-air", "rtx-pro-6000", **point)
    switched = whatif("glm-4.5-air", "rtx-pro-6000", attention_backend="flashinfer", **point)
    assert asked.typical.speedups == (1.0, 1.0)
    assert f"; with --attention-backend flashinfer likely {switched.typical.range};" in asked.reason
    assert "; with --" not in switched.reason
    assert "; with --" not in whatif("glm-4.5-air", "h100", **point).reason


def test_the_acceptance_of_an_instruct_model_is_not_that_of_its_thinking_one() -> None:
    """Both have one shape. Kimi-K2-Thinking has the experts of Kimi-K2.5, in 4 bits, so that eight fit."""
    for instruct, thinking in (
        ("qwen3-235b-a22b-instruct-2507", "qwen3-235b-a22b-thinking-2507"),
        ("moonshotai/Kimi-K2-Instruct", "moonshotai/Kimi-K2-Thinking"),
    ):
        point = {"hardware": "h200", "batch": 1, "context": 2048, "tp": 8, "draft": "eagle3"}
        assert whatif(instruct, **point).speedup > 1
        answer = whatif(thinking, **point)
        assert answer.verdict == "unknown_acceptance"
        assert answer.memory.fits
    assert answer.memory.weight_bytes < 90e9


@pytest.mark.parametrize(("gamma", "tokens"), [(1, 1.5), (4, 3.0)])
def test_a_share_of_accepted_tokens_is_known_at_its_draft_length(gamma: int, tokens: float) -> None:
    answer = whatif(replace(UNKNOWN, gamma=gamma), acceptance_rate=0.5)
    assert answer.acceptance.tokens_per_iteration == pytest.approx(tokens)
