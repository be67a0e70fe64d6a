"""docs/model.md is executable: every worked number is recomputed."""

import doctest
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "model.md"


def test_every_worked_number_recomputes() -> None:
    failed, tried = doctest.testfile(str(PAGE), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert tried >= 30
    assert failed == 0
