"""Questions outside the rows behind the calibration of one server."""

from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from perfmodel.answers.point.warnings.outside_rows import outside_rows
from perfmodel.specs import MeasuredRange
from perfmodel.speculation import Scenario
from tests.speculation.scenarios import scenario

MEASURED = MeasuredRange(
    model="llama-3.1-8b", draft="eagle", draft_kv="full", batch=(2, 8), context=(1000, 4000), gamma=(1, 3)
)


@cache
def server(measured: MeasuredRange = MEASURED, **changes: Any) -> Scenario:
    """Llama-3.1-8B with EAGLE on an H100, with a calibration of these rows."""
    asked = scenario(**{"hardware": "h100", "context": 4096, "alpha": 0.7, "draft": "eagle"} | changes)
    calibration = asked.machine.calibration.replace(measured=measured)
    return replace(asked, machine=replace(asked.machine, calibration=calibration))


def parts(s: Scenario, batch: float, context: float, gamma: int) -> list[str]:
    """What each warning says was timed."""
    warnings = [warning.partition(": intervals")[0] for warning in outside_rows(s, batch, context, gamma)]
    return [warning.removeprefix(f"{s.machine.calibration.name} was timed ") for warning in warnings]


@pytest.mark.parametrize(("batch", "context", "gamma"), [(2, 1000, 1), (8, 4000, 3), (2, 1000, 0)])
def test_the_ends_of_the_rows_are_within(batch: float, context: float, gamma: int) -> None:
    assert parts(server(), batch, context, gamma) == []


def test_each_quantity_beyond_the_rows_is_named() -> None:
    assert parts(server(), 1.0, 480.0, 7) == [
        "at batch 2 to 8, not 1",
        "at context 1000 to 4000, not 480",
        "at gamma 1 to 3, not 7",
    ]
    assert parts(server(), 17.0, 8200.0, 0) == [
        "at batch 2 to 8, not 17",
        "at context 1000 to 4000, not 8200",
    ]


def test_five_verified_tokens_for_four_are_near() -> None:
    assert parts(server(), 2.0, 1000.0, 4) == []


def test_another_model_is_named() -> None:
    assert parts(server(model="qwen3-8b"), 2.0, 1000.0, 1) == ["serving llama-3.1-8b, not qwen3-8b"]


def test_another_draft_is_named_where_it_drafts() -> None:
    other = server(draft="llama-3.2-1b")
    assert parts(other, 2.0, 1000.0, 1) == ["with draft eagle (full), not llama-3.2-1b (full)"]
    assert parts(other, 2.0, 1000.0, 0) == []


def test_another_cache_of_the_draft_is_named() -> None:
    full = MEASURED.replace(draft="self")
    sparse = server(full, draft="self", draft_kv="streamingllm:512")
    cache_kept = sparse.draft.kv.label()
    assert parts(sparse, 2.0, 1000.0, 1) == [f"with draft self (full), not self ({cache_kept})"]


def test_a_warning_says_how_much_wider_intervals_are() -> None:
    """Another model counts as one doubling, each of which adds half of the error."""
    (warning,) = outside_rows(server(model="qwen3-8b"), 2.0, 1000.0, 1)
    assert warning.endswith(": intervals are 1.5 times as wide")


def test_a_calibration_of_many_rows_has_no_range() -> None:
    many = scenario(hardware="h100", draft="eagle", alpha=0.7)
    assert not [*outside_rows(many, 1.0, 1.0, 9)]
