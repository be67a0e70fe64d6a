"""Matrices of which the fast tests ask a part that stays the same, and the slow ones the rest."""

from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any

import pytest


def diagonal(rows: Sequence[Any], columns: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Parameters: every row with every column. Each row is fast with one column, the columns in turn."""
    pairs = product(enumerate(rows), enumerate(columns))
    return [_case((row, *column), slow=i % len(columns) != j) for (i, row), (j, column) in pairs]


def first_fast(cases: Iterable[tuple[Any, ...]]) -> list[Any]:
    """Parameters: all but the first are slow."""
    return [_case(case, slow=number > 0) for number, case in enumerate(cases)]


def _case(values: tuple[Any, ...], slow: bool) -> Any:
    return pytest.param(*values, marks=[pytest.mark.slow] if slow else [])
