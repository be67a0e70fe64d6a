"""The reason why no servers meet the limits: what one request alone exceeds, worked out by hand."""

from types import SimpleNamespace
from typing import Any

import pytest

from perfmodel.answers.advice import one_alone as module
from perfmodel.answers.advice.one_alone import one_alone


def servers(layout: str, ttft_ms: float | None, tpot_ms: float) -> Any:
    """Servers on which one request has these times at its 90th percentile, and half of them as means."""
    ttft_s = None if ttft_ms is None else SimpleNamespace(mean=ttft_ms / 2e3, p90=ttft_ms / 1e3)
    by_limit = {"ttft": ttft_s, "tpot": SimpleNamespace(mean=tpot_ms / 2e3, p90=tpot_ms / 1e3)}
    candidate = SimpleNamespace(layout=SimpleNamespace(label=lambda: layout))
    return SimpleNamespace(row=SimpleNamespace(ttft_s=ttft_s, by_limit=by_limit), candidate=candidate)


def reason(monkeypatch: pytest.MonkeyPatch, *found: Any, **limits_ms: float) -> str | None:
    def used(question: Any, row: Any) -> dict[str, float]:
        return {name: 1e3 * row.by_limit[name].p90 / most for name, most in limits_ms.items()}

    monkeypatch.setattr(module, "_served", lambda question, candidates: found)
    monkeypatch.setattr(module, "limits_used", used)
    question: Any = SimpleNamespace(latency_limits_ms=limits_ms)
    candidates: Any = None
    told = one_alone(question, candidates)
    return told and told.text


def test_the_servers_nearest_to_the_limits_are_named_with_the_limit_that_they_exceed(monkeypatch) -> None:
    """Three times the limit on TPOT, or twice the limit on TTFT. Others run no request."""
    found = servers("TP 1", 500.0, 30.0), servers("TP 2", 2000.0, 9.0), servers("TP 4", None, 1.0)
    said = reason(monkeypatch, *found, ttft=1000.0, tpot=10.0)
    assert said == "one request alone exceeds the limit on TTFT: 2.0 s on TP 2"


def test_nothing_is_said_if_one_request_meets_the_limits_or_there_are_none(monkeypatch) -> None:
    found = servers("TP 1", 500.0, 9.0), servers("TP 2", 2000.0, 30.0)
    assert reason(monkeypatch, *found, ttft=1000.0, tpot=10.0) is None
    assert reason(monkeypatch, *found) is None
    assert reason(monkeypatch, servers("TP 1", None, 1.0), ttft=1000.0) is None
