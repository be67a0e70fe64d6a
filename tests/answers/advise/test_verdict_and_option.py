"""How sure an advice is: a doubtful draft is an option, and intervals and break-evens keep the bound."""

from types import SimpleNamespace
from typing import Any

import pytest

from perfmodel.answers.advice import decision, load_decision
from perfmodel.answers.advice.advise import advise
from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.margins import worth_the_risk
from perfmodel.answers.point.whatif import whatif
from tests.answers.advise.questions import question_with


def test_a_choice_that_is_close_only_at_its_own_batch_says_so() -> None:
    query = {"model": "qwen3-next-80b-a3b", "hardware": "h200", "tp": (8,), "context": 4096}
    by_position = "/".join(["0.53"] * 16)
    a = advise(AdviseQuery(batch=(8, 64), rate={"ngram": by_position}, max_tpot_ms=8, **query))
    assert a.verdict == "too_close_to_call"
    assert a.robustness.gain_over_baseline_interval[0] > 1
    query["tp"] = 8
    itself = whatif(batch=64, draft="ngram", rate=by_position, gamma=a.chosen.gamma, **query)
    low, high = itself.speedup_interval
    assert f"{itself.speedup:.2f} times the baseline of the same batch ({low:.2f} to {high:.2f})" in a.reason


def test_the_interval_and_the_break_even_of_a_bounded_choice_keep_the_bound() -> None:
    """At the least alpha the chosen batch and gamma take just the bound; slower drafts take a smaller
    batch.
    """
    query = question_with(rate={"eagle": "0.7"}, context=32768, batch="1..16", max_tpot_ms=12)
    a = advise(query)
    r = a.robustness
    p = a.chosen
    assert p.tpot_s * p.tokens_per_iteration / r.smallest_tokens_per_iteration == pytest.approx(0.012)
    low, high = r.gain_over_baseline_interval
    assert low < r.gain_over_baseline < high
    free = advise(query, max_tpot_ms=None).robustness
    assert free.smallest_alpha < r.smallest_alpha
    assert free.robust is True
    assert 1 < free.gain_over_baseline_interval[0] < 2


def test_a_draft_that_may_lose_more_than_it_gains_is_an_option() -> None:
    """The choice has no draft, and both command lines are given; a gain well above its risk is chosen."""
    doubtful = advise("gpt-oss-120b", "h100", context=8192)
    assert doubtful.verdict == "too_close_to_call"
    low, high = doubtful.robustness.gain_over_baseline_interval
    gain = doubtful.robustness.gain_over_baseline
    assert low < 1 < gain < min(high, 1 / low)
    assert doubtful.chosen == doubtful.baseline
    assert doubtful.option.draft == "eagle3"
    assert doubtful.option.throughput_tokens_per_s == pytest.approx(
        gain * doubtful.chosen.throughput_tokens_per_s
    )
    assert "speculative" not in doubtful.serve.vllm_line
    assert '"method": "eagle3"' in doubtful.serve_option.vllm_line
    assert not any(p.gamma for p in doubtful.layouts)
    worth = advise("gpt-oss-20b", "rtx-5090", context=16384)
    low, high = worth.robustness.gain_over_baseline_interval
    assert worth.verdict == "too_close_to_call"
    assert low * worth.robustness.gain_over_baseline > 1
    assert (worth.chosen.draft, worth.option) == ("eagle3", None)
    assert "speculative" not in worth.serve_option.vllm_line, "the line without it"


@pytest.mark.parametrize(
    ("at_its_batch", "interval", "verdict"),
    [
        ("pays", (1.1, 1.3), "speculate"),
        ("likely_pays", (1.1, 1.3), "likely_speculate"),
        ("pays", None, "speculate"),
        ("pays", (0.99, 1.3), "too_close_to_call"),
        ("too_close_to_call", (1.1, 1.3), "too_close_to_call"),
        ("does_not_pay", (1.1, 1.3), "too_close_to_call"),
    ],
)
def test_a_chosen_draft_must_pay_at_its_own_batch_and_beat_the_best_baseline(
    monkeypatch, at_its_batch, interval, verdict
) -> None:
    monkeypatch.setattr(decision, "point_verdict", lambda query, point: at_its_batch)
    robustness = SimpleNamespace(gain_over_baseline_interval=interval)
    drafting = SimpleNamespace(gamma=3)
    assert decision._verdict(None, drafting, drafting, robustness, ()) == verdict


@pytest.mark.parametrize(
    ("at_its_batch", "measured", "verdict"),
    [
        ("too_close_to_call", True, "too_close_to_call"),
        ("does_not_pay", True, "do_not_speculate"),
        ("pays", True, "do_not_speculate"),
        ("does_not_pay", False, "likely_do_not_speculate"),
    ],
)
def test_where_the_baseline_is_best_a_draft_that_is_close_at_its_own_batch_leaves_it_open(
    monkeypatch, at_its_batch, measured, verdict
) -> None:
    monkeypatch.setattr(decision, "point_verdict", lambda query, point: at_its_batch)
    monkeypatch.setattr(decision, "is_measured", lambda scenario: measured)
    rival = SimpleNamespace(gamma=3, candidate=SimpleNamespace(scenario=None))
    robustness = SimpleNamespace(gain_over_baseline_interval=None)
    assert decision._verdict(None, SimpleNamespace(gamma=0), rival, robustness, ()) == verdict


@pytest.mark.parametrize(("would_pay", "verdict"), [((), "do_not_speculate"), ((1,), "unknown_acceptance")])
def test_without_a_known_acceptance_the_verdict_is_open_if_some_acceptance_would_pay(
    monkeypatch, would_pay, verdict
) -> None:
    monkeypatch.setattr(decision, "surest_draft", lambda query, baseline: None)
    assert decision._verdict(None, SimpleNamespace(gamma=0), None, None, would_pay) == verdict


@pytest.mark.parametrize(
    ("gamma", "at_its_batch", "unknown", "verdict"),
    [
        (3, "pays", False, "speculate"),
        (3, "likely_pays", False, "likely_speculate"),
        (3, "too_close_to_call", False, "too_close_to_call"),
        (3, "does_not_pay", False, "too_close_to_call"),
        (0, "pays", False, "do_not_speculate"),
        (0, "pays", True, "unknown_acceptance"),
    ],
)
def test_under_a_load_the_verdict_is_that_of_the_draft_at_the_mean_batch(
    monkeypatch, gamma, at_its_batch, unknown, verdict
) -> None:
    monkeypatch.setattr(load_decision, "point_verdict", lambda question, point: at_its_batch)
    monkeypatch.setattr(load_decision, "without_acceptance", lambda question: unknown)
    search = SimpleNamespace(question=None, drafted=[])
    chosen = SimpleNamespace(row=SimpleNamespace(gamma=gamma), at_its_batch=lambda question: None)
    assert load_decision._verdict(search, chosen) == verdict
    assert load_decision._verdict(search, None) == "infeasible"
    if not gamma:
        search.drafted = [chosen]
        assert load_decision._verdict(search, chosen) == "do_not_speculate", "an acceptance is known"


@pytest.mark.parametrize(
    ("interval", "is_option"), [((0.95, 1.4), False), ((0.8, 1.4), True), ((0.6, 1.6), True), (None, False)]
)
def test_under_a_load_a_doubtful_draft_is_chosen_if_it_gains_more_than_it_may_lose(
    monkeypatch, interval, is_option
) -> None:
    """A gain of 1.2 is worth a loss of a sixth."""

    def servers(gamma: int) -> SimpleNamespace:
        layout = SimpleNamespace(gpus=8)
        return SimpleNamespace(
            row=SimpleNamespace(gamma=gamma),
            at_its_batch=lambda question: None,
            candidate=SimpleNamespace(layout=layout),
            request_s=2.0 - gamma / 10,
        )

    baseline, drafting, other, other_drafting = (servers(gamma) for gamma in (0, 3, 0, 2))
    question = SimpleNamespace(objective="throughput", latency_limits_ms={}, fills=False)
    search = SimpleNamespace(
        question=question,
        baseline=baseline,
        rival=drafting,
        drafted=[drafting],
        candidates=SimpleNamespace(drafted=[drafting]),
        sufficient=[other, baseline, other_drafting, drafting],
    )
    monkeypatch.setattr(load_decision, "point_verdict", lambda question, point: "too_close_to_call")
    monkeypatch.setattr(load_decision, "point_speedup", lambda question, point: (1.2, interval))
    decided = load_decision.decide_under_load(search)
    assert decided.verdict == "too_close_to_call"
    if is_option:
        assert (decided.chosen, decided.option, decided.without_draft) == (baseline, drafting, None)
        assert decided.others == [other], "layouts without a draft"
    else:
        assert (decided.chosen, decided.option, decided.without_draft) == (drafting, None, baseline)
        assert decided.others == [other_drafting, other, baseline], "the fastest first"


def test_a_clear_choice_has_one_command_line() -> None:
    clear = advise(question_with(rate={"eagle": "0.7"}, context=32768, batch="8"))
    assert clear.verdict == "speculate"
    assert clear.chosen.gamma
    assert clear.serve_option is None


def test_a_gain_under_a_bound_is_as_uncertain_as_the_steps_of_both() -> None:
    """Steps that are all a quarter slower or faster meet a bound as these do one of 20 or 32 ms: the batch of
    the baseline then differs by more than that of the draft.
    """
    question = {"model": "deepseek-v3.2", "hardware": "gb200", "weights": "nvfp4", "draft": ["mtp"]}
    question |= {"context": 8192, "tp": (4,), "dp": (4,), "ep": (4,)}
    tight, at, loose = (advise(**question, max_tpot_ms=bound).robustness for bound in (20, 25, 32))
    low, high = at.gain_over_baseline_interval
    assert low < loose.gain_over_baseline < at.gain_over_baseline < tight.gain_over_baseline < high


@pytest.mark.parametrize(
    ("gain", "low", "worth"), [(1.1, 0.91, True), (1.09, 0.95, False), (1.25, 0.8, True), (1.25, 0.79, False)]
)
def test_a_doubtful_draft_must_gain_a_tenth_and_more_than_it_may_lose(gain, low, worth) -> None:
    assert worth_the_risk(gain, (low, 2.0)) is worth


@pytest.mark.parametrize(
    ("verdict", "gamma", "is_tried"),
    [
        ("too_close_to_call", 3, True),
        ("speculate", 3, False),
        ("likely_speculate", 3, False),
        ("too_close_to_call", 0, False),
    ],
)
def test_servers_without_a_draft_are_only_tried_beside_a_doubtful_draft(verdict, gamma, is_tried) -> None:
    chosen: Any = SimpleNamespace(row=SimpleNamespace(gamma=gamma))
    baseline: Any = SimpleNamespace(row=SimpleNamespace(gamma=0))
    decided = load_decision.LoadDecision(chosen, None, baseline, chosen, [], verdict)
    assert decided.without_draft is (baseline if is_tried else None)
    nothing = load_decision.LoadDecision(None, None, baseline, None, [], verdict)
    assert nothing.without_draft is None
