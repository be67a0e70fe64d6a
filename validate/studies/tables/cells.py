"""The cells of tables of errors: figures of the accuracy record as text."""

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

    - sign: ``+`` also writes the sign of positive values.
    """
    return f"{100 * value:{sign}.{digits}f}"


def figures(errors: Record | None, *names: str, digits: int = 1) -> list[str]:
    """The named figures as text: shares in per cent, counts unchanged. The bias and the worst error have a
    sign. A missing figure is a dash.

    - digits: decimals of the shares without a sign.
    """
    stated = errors or {}
    return [_figure(name, stated.get(name), digits) for name in names]


def _figure(name: str, value: float | None, digits: int) -> str:
    """A figure as text: a count unchanged, a share in per cent."""
    if value is None:
        return "-"
    if isinstance(value, int):
        return str(value)
    if name in ("bias", "worst"):
        return percent(value, sign="+")
    return percent(value, digits)


def right_of_all(side: Record) -> str:
    """The number of correct verdicts out of all verdicts, as text."""
    return f"{side['right']} of {side['rows']}"


def right_if_it_pays(side: Record) -> str:
    """The number of correct verdicts out of the speedups that were measured above 1, as text."""
    return f"{side['pays_and_right']} of {side['pays']}"


def right_if_not(side: Record) -> str:
    """The number of correct verdicts out of the speedups that were measured below 1, as text; a dash if there
    are no such speedups.
    """
    below = side["rows"] - side["pays"]
    return f"{side['right'] - side['pays_and_right']} of {below}" if below else "-"


def wrong_of_sure(side: Record) -> str:
    """The number of wrong verdicts out of those whose whole interval is on one side of 1, as text."""
    return f"{side['sure_and_wrong']} of {side['sure']}"


def coverage_cells(errors: Record) -> list[str]:
    """The coverage of intervals on held-out rows, and their median half-width. Both are dashes if the record
    has no interval.
    """
    if "inside" not in errors:
        return ["-", "-"]
    share = percent(errors["inside"] / errors["rows"], 0)
    return [f"{errors['inside']} ({share} %)", percent(errors["width"], 0)]
