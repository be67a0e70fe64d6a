"""Verdicts of a point, at the number where they change."""

import math
from dataclasses import replace

import pytest

import perfmodel as pm
from perfmodel.answers.point.verdict import does_not_fit, verdicts
from perfmodel.answers.point.versions import other_verdict
from perfmodel.answers.question import Query
from perfmodel.specs.engines.engines import engines
from perfmodel.speculation import memory_of
from tests.speculation.scenarios import scenario


@pytest.mark.parametrize(
    ("low", "high", "gamma", "fits", "word"),
    [
        (1.0, 1.4, 3, True, "too_close_to_call"),
        (1.0001, 1.4, 3, True, "pays"),
        (1.0001, 1.4, 1, True, "pays"),
        (1.0001, 1.4, 3, False, "does_not_fit"),
        (1.0001, 1.4, 0, True, "does_not_pay"),
        (0.8, 1.0, 3, True, "does_not_pay"),
        (0.8, 1.0001, 3, True, "too_close_to_call"),
        (math.nan, math.nan, 3, True, "pays"),  # of the speedup, 1.2
    ],
)
def test_a_verdict_takes_the_whole_interval(low, high, gamma, fits, word) -> None:
    assert verdicts(1.2, low, high, gamma, fits, measured=True).item() == word
    likely = {"pays": "likely_pays", "does_not_pay": "likely_does_not_pay"} if gamma else {}
    assert verdicts(1.2, low, high, gamma, fits, measured=False).item() == likely.get(word, word)


def test_no_verdict_says_that_a_draft_pays_which_a_known_defect_may_slow() -> None:
    """Only that it does not pay off is certain."""
    assert verdicts(1.5, 1.2, 1.8, 3, True, measured=True, slow=True).item() == "too_close_to_call"
    assert verdicts(0.8, 0.7, 0.9, 3, True, measured=True, slow=True).item() == "does_not_pay"


def test_a_point_that_does_not_fit_says_what_does_and_what_it_would_be() -> None:
    """Llama-3.1-8B on 80 GB has room for some sequences of 100,000 tokens, and for none of 10 million."""
    some = memory_of(scenario(), 64.0, 100_000.0, 3, 0.9).single()
    assert does_not_fit(some, 3, "likely_pays") == (
        f"at most batch {some.max_batch} fits (with more memory it would likely pay off)"
    )
    assert does_not_fit(some, 0, "does_not_pay") == f"at most batch {some.max_batch} fits"
    none = memory_of(scenario(), 1.0, 1e7, 3, 0.9).single()
    assert does_not_fit(none, 3, "pays") == "not one sequence fits (with more memory it would pay off)"


def test_a_verdict_is_sure_only_where_such_a_draft_was_measured_on_such_a_device() -> None:
    """EAGLE-3 was measured in vLLM on an H100, no n-gram was, and EAGLE-3 not on an RTX 4090."""
    question = {"model": "llama-3.1-8b", "batch": 1, "context": 4096, "gamma": 3, "alpha": 0.9}
    assert pm.whatif(hardware="h100", draft="eagle3", **question).verdict == "pays"
    for hardware, draft in (("h100", "ngram"), ("rtx-4090", "eagle3")):
        answer = pm.whatif(hardware=hardware, draft=draft, **question)
        assert answer.speedup_interval[0] > 1
        assert answer.verdict == "likely_pays"
        assert "likely" in answer.sentence
    never = pm.whatif(hardware="h100", draft="ngram", **question | {"alpha": 0.01, "gamma": 7, "batch": 64})
    assert never.verdict == "likely_does_not_pay"
    assert pm.whatif(hardware="h100", draft="ngram", **question | {"gamma": 0}).verdict == "does_not_pay"


def test_an_acceptance_of_short_prompts_makes_no_sure_verdict_at_a_long_context() -> None:
    """In every answer alike. The head's acceptance was published for prompts of up to 4,096 tokens."""
    question = {"model": "llama-3.3-70b", "hardware": "h100", "tp": 4, "draft": "eagle3", "weights": "fp8"}
    for context, word in ((4096, "pays"), (32768, "likely_pays")):
        answer = pm.whatif(batch=8, context=context, gamma=3, **question)
        assert answer.speedup_interval[0] > 1
        assert answer.verdict == word
        frame = pm.sweep(batch=[8], context=[context], gamma=3, **question).to_frame()
        assert list(frame["verdict"]) == [word]
        advised = pm.advise(batch=8, context=context, **question | {"draft": ["eagle3"]})
        assert advised.verdict == {"pays": "speculate", "likely_pays": "likely_speculate"}[word]
    own = pm.whatif(batch=8, context=32768, gamma=3, alpha=0.79, **question)
    assert own.verdict == "pays"


def test_no_verdict_is_sure_of_a_draft_with_layers_on_the_host() -> None:
    ask = {"batch": 1, "context": 1000, "weights": "iq4_xs", "draft": "mtp", "gamma": 2, "alpha": 0.9}
    on_device = pm.whatif("qwen3.6-27b", "rtx-3090", **ask)
    on_host = pm.whatif("qwen3.6-27b", "rtx-3090", **ask, gpu_layers=25, host_bandwidth=80)
    assert on_device.verdict == "pays"
    assert on_host.verdict == "likely_pays"


def test_an_older_version_on_the_other_side_of_the_baseline_is_named() -> None:
    """EAGLE-3 of Qwen3-30B-A3B in SGLang, which sgl-project/sglang#14824 measured at 0.72 in 0.5.5."""
    query = Query("qwen3-30b-a3b", "h100", 1, 500, gamma=3, tp=2, engine="sglang", draft="eagle3")
    query = replace(query, tokens_per_iteration=1.86)
    now = pm.whatif(query)
    older = other_verdict(query, now.verdict, now.speedup)
    assert older is not None
    assert older.version == "0.5.5"
    assert older.verdict == "does_not_pay"
    assert older.speedup < 1 < now.speedup


def test_the_newest_of_the_older_versions_with_another_verdict_is_named() -> None:
    """No version has the verdict of this call, so that the version before the newest one differs already."""
    query = Query("llama-3.1-8b", "h100", 1, 8192, gamma=3, engine="sglang", draft="eagle3", alpha=0.7)
    older = other_verdict(query, "does_not_fit", 2.0)
    assert older is not None
    assert older.version == engines().engines["sglang"].versions[-2]
