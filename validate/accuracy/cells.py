"""Pairs measured figures with their predictions, and measured times with their physical lower bounds.

Predictions use the measured tokens per iteration, so their errors are those of the predicted times. The
quantity ``speedup_alpha`` is an exception. It uses a published acceptance for the same models, KV budget and
context, and exists only for points with such an acceptance.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from perfmodel.errors import InputError
from perfmodel.kv import parse_kv
from perfmodel.specs import Calibration, find_acceptance
from perfmodel.specs.published import MeasuredPoint
from perfmodel.speculation import Acceptance
from perfmodel.validate.fit.counted_points import Array, PointSet

LABELS = {
    "target_s": "T_T",
    "draft_s": "T_D",
    "verify_s": "T_V",
    "overhead_s": "overhead",
    "ar_tpot_s": "baseline TPOT",
    "sd_tpot_s": "TPOT",
    "speedup": "speedup",
    "speedup_alpha": "speedup, acceptance modelled too",
}
"""Quantity -> its heading in tables."""
BOUNDED = {"target_s": "target_s", "draft_s": "draft_s", "verify_s": "verify_s", "ar_tpot_s": "target_s"}
"""Quantity -> the pass that gives its physical lower bound."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One measured figure and its prediction.

    - quantity: a key of `LABELS`.
    - calibration: the name of the calibration that predicts the figure.
    - fitted: whether this calibration was fitted to the device and stack of the point.
    - lower: the physical lower bound of the figure; None for a quantity without a bound.
    - binding: whether the working set exceeds the last-level cache. Otherwise, the bound does not apply.
    """

    point: MeasuredPoint
    quantity: str
    measured: float
    predicted: float
    calibration: str
    fitted: bool = False
    lower: float | None = None
    binding: bool = False

    @property
    def error(self) -> float:
        """The signed relative error of the prediction."""
        return self.predicted / self.measured - 1.0

    @property
    def below_bound(self) -> bool:
        """Whether the measured time is shorter than its physical lower bound. If so, the measurement, the
        device file or the count of operations is wrong.
        """
        return self.binding and self.lower is not None and self.measured < self.lower

    @property
    def name(self) -> str:
        """``set/row/quantity``."""
        return f"{self.point.set_name}/{self.point.row_id}/{self.quantity}"

    def as_dict(self) -> dict[str, Any]:
        """The cell in JSON types."""
        p = self.point
        configuration = {
            "set_name": p.set_name,
            "row": p.row_id,
            "quantity": self.quantity,
            "hardware": file_label(p.hardware),
            "stack": p.stack,
            "target": file_label(p.target),
            "draft": file_label(p.draft or ""),
            "kv": p.read,
            "batch": p.batch,
            "context": p.context,
            "gamma": p.gamma,
            "tree": p.widths,
        }
        figures = {
            "calibration": self.calibration,
            "fitted": self.fitted,
            "measured": self.measured,
            "predicted": self.predicted,
            "lower": self.lower,
            "binding": self.binding,
            "error": self.error,
        }
        return configuration | figures


def cells_of(points: PointSet, times: dict[str, Array], used: Calibration) -> list[Cell]:
    """The cells of all measured quantities of some points.

    - times: the predicted seconds (`PointSet.predict`).
    - used: the calibration that predicted them.
    """
    predicted = _predictions(points, times)
    bounds = _bounds(points)
    cells = []
    for i, p in enumerate(points.points):
        fitted = used.name == f"{p.hardware}.{p.stack}"
        for quantity in LABELS:
            measured = getattr(p, quantity.removesuffix("_alpha"))
            value = float(predicted[quantity][i])
            if measured is None or np.isnan(value):
                continue
            if quantity == "ar_tpot_s" and measured == p.target_s:
                continue  # the baseline was timed only once, and this time is already T_T
            lower, binding = bounds.get((i, BOUNDED.get(quantity, "")), (None, False))
            cells.append(Cell(p, quantity, measured, value, used.name, fitted, lower, binding))
    return cells


def _predictions(points: PointSet, times: dict[str, Array]) -> dict[str, Array]:
    """Quantity -> its prediction for each point; NaN if a point does not state the inputs of the
    prediction.
    """
    iteration_s = points.iteration_s(times)
    measured_tokens = np.array([p.tokens_per_iteration or np.nan for p in points.points])
    modelled_tokens = np.array([_modelled_tokens(p) for p in points.points])
    return times | {
        "ar_tpot_s": times["target_s"],
        "sd_tpot_s": iteration_s / measured_tokens,
        "speedup": points.speedup(times),
        "speedup_alpha": modelled_tokens * times["target_s"] / iteration_s,
    }


def file_label(name: str) -> str:
    """The file name without its suffix, if `name` is the path of a YAML file. Other names are returned
    unchanged.
    """
    return Path(name).stem if name.endswith(".yaml") else name


@cache
def _modelled_tokens(p: MeasuredPoint) -> float:
    """The tokens per iteration from a published acceptance. The result is NaN if there is none, or if it
    comes from the same table as the point.
    """
    if p.gamma is None or p.draft is None or p.draft_kv is None:
        return float("nan")
    kv = parse_kv(p.draft_kv)
    try:
        row = find_acceptance(p.target, p.draft, kv.name, kv.budget, p.context)
    except InputError:
        return float("nan")
    if row.source.startswith(p.source):
        return float("nan")
    return float(np.asarray(Acceptance.from_row(row).tokens_per_iteration(p.gamma)))


def _bounds(points: PointSet) -> dict[tuple[int, str], tuple[float, bool]]:
    """(index of a point, quantity) -> the physical lower bound, and whether the working set exceeds the
    last-level cache.
    """
    bounds = {}
    for group in points.groups:
        cache = group.scenario.machine.gpu.last_level_cache
        for quantity in group.passes:
            lower_s = group.lower_s(quantity)
            bytes_read = group.bytes_read(quantity)
            for place, i in enumerate(group.index):
                exceeds_cache = cache is None or bool(bytes_read[place] > cache.si)
                bounds[int(i), quantity] = float(lower_s[place]), exceeds_cache
    return bounds
