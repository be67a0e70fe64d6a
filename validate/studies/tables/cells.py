"""Cells of the tables of errors: figures of the accuracy record as text."""

from collections.abc import Iterable, Sequence
from typing import Any

from perfmodel.specs import COVERAGE

Record = dict[str, Any]
"""The accuracy record, or a part of it."""
Rows = Iterable[Sequence[str]]
"""The header of a table, then its rows."""
IN_INTERVAL = f"in {COVERAGE:.0%} interval"
INTERVAL_HEAD = (IN_INTERVAL, "half-width % (median)")


def percent(value: float, digits: int = 1, sign: str = "") -> str:
    """A share in per cent.

    - sign: ``+`` writes the sign of positive ones too.
    """
    return f"{100 * value:{sign}.{digits}f}"


def figures(errors: Record | None, *names: str, digits: int = 1) -> list[str]:
    """Figures by name, all except counts in per cent; signed where the sign matters. Missing ones are
    dashes.
    """
    stated = errors or {}
    return [_figure(name, stated.get(name), digits) for name in names]


def _figure(name: str, value: float | None, digits: int) -> str:
    """A count as it is, and a share in per cent."""
    if value is None:
        return "-"
    if isinstance(value, int):
        return str(value)
    if name in ("bias", "worst"):
        return percent(value, sign="+")
    return percent(value, digits)


def right_of_all(side: Record) -> str:
    """Correct verdicts out of all."""
    return f"{side['right']} of {side['rows']}"


def right_if_it_pays(side: Record) -> str:
    """Correct verdicts out of the speedups that were measured above 1."""
    return f"{side['pays_and_right']} of {side['pays']}"


def right_if_not(side: Record) -> str:
    """Correct verdicts out of the speedups that were measured below 1; a dash if there are none."""
    below = side["rows"] - side["pays"]
    return f"{side['right'] - side['pays_and_right']} of {below}" if below else "-"


def wrong_of_sure(side: Record) -> str:
    """Wrong verdicts out of the certain ones."""
    return f"{side['sure_and_wrong']} of {side['sure']}"


def coverage_cells(errors: Record) -> list[str]:
    """Coverage of the stated interval on held-out rows, and its width. A single group has no other group for
    an estimate.
    """
    if "inside" not in errors:
        return ["-", "-"]
    share = percent(errors["inside"] / errors["rows"], 0)
    return [f"{errors['inside']} ({share} %)", percent(errors["width"], 0)]
