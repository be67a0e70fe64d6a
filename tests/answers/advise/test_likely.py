"""The likely gain of a draft is its own: no other draft, file or method of the question has a part in it."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from perfmodel.answers.advice.likely import likely_gains, typical_point
from perfmodel.answers.advice.ranking import PricedPoint
from perfmodel.answers.advice.search import Search
from perfmodel.answers.question import typical
from tests.answers.advise.questions import question_with

QUESTION = question_with(any_draft=False, rate={})
LOW, HIGH = 1.15, 2.35
"""The gains of a DSpark head at both ends of what is typical."""


@pytest.fixture(scope="module")
def baseline() -> PricedPoint:
    point = Search.of(QUESTION).best_baseline
    assert point is not None
    return point


@pytest.fixture
def measured_eagle(tmp_path: Path) -> str:
    """A file with an EAGLE-3 head whose tokens are nearly all accepted."""
    row = {
        "target": "llama-3.1-8b",
        "draft": "eagle3",
        "draft_kv": "full",
        "context_tokens": 16384,
        "alpha": 0.99,
    }
    path = tmp_path / "rows.json"
    path.write_text(json.dumps({"schema_version": 1, "source": "a test", "rows": [row]}), encoding="utf-8")
    return str(path)


def test_a_better_draft_beside_it_does_not_raise_a_likely_gain(baseline: PricedPoint) -> None:
    """At the low end EAGLE-3, whose acceptance is published, gains 2.0x."""
    query = replace(QUESTION, draft=["eagle3", "dspark"])
    (gain,) = likely_gains(query, baseline)
    assert (gain.draft, *gain.speedups) == (
        "dspark",
        pytest.approx(LOW, abs=0.01),
        pytest.approx(HIGH, abs=0.01),
    )


def test_a_measured_draft_of_a_file_does_not_raise_a_likely_gain(
    baseline: PricedPoint, measured_eagle: str
) -> None:
    query = replace(QUESTION, acceptance=measured_eagle, draft=["dspark"])
    (gain,) = likely_gains(query, baseline)
    assert gain.speedups == pytest.approx((LOW, HIGH), abs=0.01)


def test_a_likely_gain_is_that_of_the_whole_cache(baseline: PricedPoint) -> None:
    """No acceptance is typical of a draft that reads only a part of it."""
    (gain,) = likely_gains(replace(QUESTION, draft=["dspark"], draft_kv=["full", "quest:512"]), baseline)
    assert gain.speedups == pytest.approx((LOW, HIGH), abs=0.01)
    assert likely_gains(replace(QUESTION, draft=["dspark"], draft_kv=["quest:512"]), baseline) == ()


def test_the_draft_to_measure_is_as_long_as_gains_most_with_a_low_acceptance(baseline: PricedPoint) -> None:
    """With a high one five tokens would gain most, and lose if few of them are accepted."""
    point = typical_point(QUESTION, baseline, "dspark")
    assert point is not None
    assert (point.batch, point.gamma) == (16, 3)


def test_no_gain_is_likely_without_the_weights_of_a_head(
    baseline: PricedPoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What an n-gram draft accepts depends on the text, however many results are published."""
    monkeypatch.setattr(typical, "LEAST_PUBLISHED", 1)
    query = replace(QUESTION, draft=["ngram", "eagle3"], model="qwen2.5-7b")
    assert [gain.draft for gain in likely_gains(query, baseline)] == ["eagle3"]
