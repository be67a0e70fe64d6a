"""Which changes of a question `advise` names next to its choice."""

from types import SimpleNamespace
from typing import Any

import pytest

from perfmodel.answers.advice import better_changes
from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.better_changes import BETTER_FORMAT, BETTER_SWITCH, _is_named


@pytest.mark.parametrize(
    ("gain", "enough", "before", "named"),
    [
        (1.05, BETTER_SWITCH, None, True),
        (1.04, BETTER_SWITCH, None, False),
        (1.5, BETTER_FORMAT, None, True),
        (1.49, BETTER_FORMAT, None, False),
        (1.8, BETTER_FORMAT, 1.5, True),
        (1.79, BETTER_FORMAT, 1.5, False),
        (1.5, BETTER_FORMAT, 1.05, True),
    ],
)
def test_a_format_needs_half_more_and_a_fifth_more_than_one_that_loses_less(
    gain, enough, before, named
) -> None:
    assert _is_named(gain, enough, before) is named


@pytest.mark.parametrize(
    ("decoding", "interval"),
    [(1.0, (1.5 / 2, 1.5 * 2)), (0.5, (1.5 / (0.5 + 0.5 * 2), 1.5 / (0.5 + 0.5 / 2)))],
)
def test_the_gain_of_a_change_is_as_uncertain_as_the_decoding_that_its_draft_shortens(
    monkeypatch: pytest.MonkeyPatch, decoding: float, interval: tuple[float, float]
) -> None:
    """A speedup of 2 between 1 and 4, in servers that are 1.5 times as good."""
    monkeypatch.setattr(better_changes, "point_speedup", lambda query, point: (2.0, (1.0, 4.0)))
    draft = SimpleNamespace(scenario=SimpleNamespace(draft=SimpleNamespace(name="eagle3")))
    point: Any = SimpleNamespace(gamma=3, batch=8, candidate=draft)
    change = better_changes.change_of("--x", AdviseQuery("qwen3-8b", "h100"), point, 1.5, decoding)
    assert (change.draft, change.gain) == ("eagle3", 1.5)
    assert change.gain_interval == pytest.approx(interval)


def test_only_defects_that_come_with_a_change_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    defects = {"changed": ("slow", "wrong"), "before": ("slow",)}
    monkeypatch.setattr(better_changes, "known_defects", lambda scenario, context, gamma: defects[scenario])
    monkeypatch.setattr(better_changes, "defect_warning", str)
    changed, before = (
        SimpleNamespace(gamma=3, candidate=SimpleNamespace(scenario=name)) for name in ("changed", "before")
    )
    asked: Any = SimpleNamespace(context=4096)
    told: Any = better_changes.new_defects
    assert told(asked, changed, before) == " (wrong)"
    assert told(asked, changed, None) == " (slow) (wrong)"
