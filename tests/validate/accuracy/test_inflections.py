"""The context from which on a speedup does not fall with the batch, by hand."""

from types import SimpleNamespace
from typing import Any

import pytest

from perfmodel.validate.accuracy.inflections import inflection_of, inflections

FALLS = [2.0, 1.9, 1.8]
EVEN = [2.0, 2.0, 2.0]
RISES = [2.0, 2.2, 2.5]


@pytest.mark.parametrize(
    ("curves", "context"),
    [
        ({1000: FALLS, 4000: EVEN, 16_000: RISES}, 4000),
        ({1000: RISES, 4000: FALLS, 16_000: RISES}, 16_000),
        ({1000: EVEN, 4000: EVEN}, 1000),
        ({1000: RISES, 4000: FALLS}, None),
    ],
    ids=["from the middle on", "a shorter one does not count", "from the first on", "at no context"],
)
def test_the_inflection_is_the_first_context_after_which_no_curve_falls(
    curves: dict[int, list[float]], context: int | None
) -> None:
    assert inflection_of(curves, tolerance=0.0) == context


@pytest.mark.parametrize(("tolerance", "context"), [(0.05, None), (0.06, 1000)])
def test_a_small_fall_is_ignored(tolerance: float, context: int | None) -> None:
    """The larger fall is that from 1.9 to 1.8, which is 5.3 %."""
    assert inflection_of({1000: FALLS}, tolerance) == context


def cell(context: int, batch: int, measured: float, predicted: float, draft: str = "eagle3") -> Any:
    point = SimpleNamespace(
        target="t", draft=draft, draft_kv=None, gamma=3, batch=batch, context=context, asked_context=None
    )
    return SimpleNamespace(point=point, measured=measured, predicted=predicted)


def test_each_chain_has_a_measured_and_a_predicted_inflection() -> None:
    """Cells in any order; a context with one batch has no curve."""
    cells = [
        cell(4000, 8, measured=2.5, predicted=1.5),
        cell(4000, 1, measured=2.0, predicted=2.0),
        cell(1000, 1, measured=2.0, predicted=2.0),
        cell(500, 1, measured=2.0, predicted=2.0, draft="alone"),
    ]
    assert inflections(cells, 0.0) == {("t", "eagle3", None, 3): (4000, None)}
