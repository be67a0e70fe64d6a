"""Groups cells by device, model, draft, KV method and context, and computes the errors and verdicts of a
group.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from perfmodel.specs.published import MeasuredPoint
from perfmodel.validate.accuracy.cells import Cell, file_label
from perfmodel.validate.fit.errors import Errors, errors_of, same_side

BANDS = ((8000, "context < 8000"), (32000, "context < 32000"), (10**9, "context >= 32000"))
"""Pairs of the end of a range of contexts, in tokens, and the name of the range."""
PARTITIONS: dict[str, Callable[[MeasuredPoint], str | None]] = {
    "": lambda p: "",
    "model": lambda p: f"/{file_label(p.target)}",
    "draft": lambda p: f"/draft {file_label(p.draft)}" if p.draft else None,
    "kv": lambda p: f"/{p.read}" if p.draft_kv else None,
    "drafted": lambda p: "/trees" if p.widths else None,
    "context": lambda p: "/" + next(name for end, name in BANDS if p.context < end),
}
"""Partition -> a function that returns the part of a point in the partition; None if the point is in no part.
The cells of a part are also divided by set, device and quantity.
"""


def partitions(cells: Iterable[Cell], by: Iterable[str] = tuple(PARTITIONS)) -> dict[str, list[Cell]]:
    """``set/device[/part]/quantity`` -> its cells. A cell with a prediction of 0, such as the overhead with
    the calibration ``ideal``, is left out.

    - by: the partitions, keys of `PARTITIONS`.
    """
    cells_by_part: dict[str, list[Cell]] = {}
    for cell in cells:
        if not cell.predicted > 0:
            continue
        device = f"{cell.point.set_name}/{file_label(cell.point.hardware)}"
        for partition in by:
            suffix = PARTITIONS[partition](cell.point)
            if suffix is not None:
                name = f"{device}{suffix}/{cell.quantity}"
                cells_by_part.setdefault(name, []).append(cell)
    return dict(sorted(cells_by_part.items()))


def error(rows: Sequence[Any]) -> Errors:
    """The errors of rows that have the attributes `predicted` and `measured`."""
    predicted = np.array([row.predicted for row in rows])
    measured = np.array([row.measured for row in rows])
    errors = errors_of(predicted, measured)
    assert errors is not None
    return errors


class VerdictCount(NamedTuple):
    """The number of correct verdicts on speedups.

    - correct: the number of speedups that were predicted on the measured side of 1.
    - judged: the number of all speedups.
    """

    correct: int
    judged: int


def correct_verdicts(cells: Iterable[Cell]) -> VerdictCount:
    """Counts the correct verdicts among the speedups of some cells."""
    correct = [same_side(c.predicted, c.measured) for c in cells if c.quantity == "speedup"]
    return VerdictCount(sum(correct), len(correct))
