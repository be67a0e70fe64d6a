"""Predicted and measured figures, one cell each. The gate, the reports and all printed tables use this
comparison.

It uses the measured tokens per iteration, so it tests time. ``speedup_alpha`` also models acceptance, if a
published acceptance row has the same pair, budget and context.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np

from perfmodel.errors import InputError, unknown_name
from perfmodel.kv import parse_kv
from perfmodel.specs import Calibration, find_acceptance, load_calibration, load_gpu
from perfmodel.specs.published import MeasuredPoint, published_points
from perfmodel.speculation import Acceptance
from perfmodel.validate.fit.counted_points import Array, PointSet
from perfmodel.validate.fit.errors import Errors, errors_of, same_side
from perfmodel.validate.fit.folds import held_out
from perfmodel.validate.fit.recipes import RECIPES
from perfmodel.validate.records import BUNDLED, RESULTS, Record, points as own_points, records
from perfmodel.validate.solving import grouped

Mode = Literal["shipped", "held-out"]
SETS = ("magicdec", "gptfast_decode", "speculation_other")
"""Published sets of times. `gamma_optimal` has no time; `best_gamma` uses it."""
UNGATED = "local-"
"""Labels of users' machines. Their records are read when named, and enter no gate."""
BANDS = ((8000, "context < 8000"), (32000, "context < 32000"), (10**9, "context >= 32000"))
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

    fitted: whether the calibration was fitted to this device and stack. lower: the physical bound. binding:
    whether the working set exceeds the last-level cache, so that the bound holds.
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
        """Signed relative error."""
        return self.predicted / self.measured - 1.0

    @property
    def below_bound(self) -> bool:
        """Whether the time is faster than physics allows: the measurement, the spec or the count is wrong."""
        return self.binding and self.lower is not None and self.measured < self.lower

    @property
    def name(self) -> str:
        """``set/row/quantity``."""
        return f"{self.point.set_name}/{self.point.row_id}/{self.quantity}"

    def as_dict(self) -> dict[str, Any]:
        """The cell for JSON."""
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


def calibration_for(p: MeasuredPoint) -> Calibration:
    """The calibration that was fitted to the point's device and stack, or else the one that its device
    names.
    """
    fitted = f"{p.hardware}.{p.stack}"
    return load_calibration(fitted if fitted in RECIPES else load_gpu(p.hardware).calibration)


def own_records(results: Path = RESULTS) -> dict[str, Record]:
    """Own whole-pass records in ``results/<machine>/`` that are not withdrawn, by name."""
    return {r.name: r for r in records(results) if r.data.kind == "measure"}


def gated_sets(results: Path = RESULTS, bundled: Path = BUNDLED) -> tuple[str, ...]:
    """The sets that the gate replays: all published ones and all own records.

    Results of `UNGATED` machines in the bundled folder are left out.
    """
    names = [*own_records(results)]
    if results == bundled:
        names = [name for name in names if not name.startswith(UNGATED)]
    return (*SETS, *names)


def named_sets(names: Iterable[str], results: Path = RESULTS) -> tuple[str, ...]:
    """Sets by name. A machine's label means all of its records. Raises InputError for other names."""
    known = (*SETS, *own_records(results))
    sets: list[str] = []
    for name in names:
        of_machine = [known_name for known_name in known if known_name.startswith(f"{name}/")]
        if name not in known and not of_machine:
            raise unknown_name("--set", "set of measurements", name, known)
        sets += of_machine or [name]
    return tuple(dict.fromkeys(sets))


def compare(
    sets: Iterable[str] = SETS,
    mode: Mode = "shipped",
    calibration: str | None = None,
    results: Path = RESULTS,
) -> list[Cell]:
    """All cells of some sets. With held-out, a refit without its fold predicts each fitted row.

    Raises InputError for an unknown set or calibration, and for a named calibration with held-out.
    """
    if calibration and mode == "held-out":
        raise InputError("--calibration: must not be given with --held-out, which refits the fitted ones")
    named = load_calibration(calibration) if calibration else None
    cells: list[Cell] = []
    by_name = own_records(results)
    for name in sets:
        record = by_name.get(name)
        measured = published_points(name) if record is None else own_points(record)
        by_stack = grouped(measured, lambda p: f"{p.hardware}.{p.stack}")
        for stack, points in by_stack.items():
            used = named or _default_calibration(record, points[0])
            if mode == "held-out" and used.name == stack:
                refits = held_out(RECIPES[stack])
                cells += cells_of(refits.points, refits.times, used)
            else:
                cells += compare_points(points, used)
    return cells


def _default_calibration(record: Record | None, p: MeasuredPoint) -> Calibration:
    return calibration_for(p) if record is None else calibration_of(record)


def compare_points(points: Iterable[MeasuredPoint], calibration: Calibration) -> list[Cell]:
    """All cells of some points under one calibration."""
    counted = PointSet(tuple(points), calibration)
    return cells_of(counted, counted.predict(calibration), calibration)


def compare_record(record: Record, calibration: Calibration, hardware: str | None = None) -> list[Cell]:
    """All cells of an own record, predicted for its own device by default."""
    points = [replace(p, hardware=hardware or p.hardware) for p in own_points(record)]
    return compare_points(points, calibration)


def calibration_of(
    record: Record, hardware: str | None = None, calibration: str | None = None
) -> Calibration:
    """Default calibration of an own record: the one of its run, or else that of its device."""
    if calibration:
        return load_calibration(calibration)
    where = str(record.path)
    name = None if hardware else record.calibration
    if name is None:
        name = load_gpu(hardware or record.hardware, where).calibration
    return load_calibration(name, where)


def cells_of(points: PointSet, times: dict[str, Array], used: Calibration) -> list[Cell]:
    """The cells of counted points and their predicted times."""
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
                continue  # a baseline that was timed once is T_T
            lower, binding = bounds.get((i, BOUNDED.get(quantity, "")), (None, False))
            cells.append(Cell(p, quantity, measured, value, used.name, fitted, lower, binding))
    return cells


def _predictions(points: PointSet, times: dict[str, Array]) -> dict[str, Array]:
    """Quantity -> its prediction for each point; NaN if a point lacks what it needs."""
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
    """The name inside a model or device file; other names unchanged."""
    return Path(name).stem if name.endswith(".yaml") else name


@cache
def _modelled_tokens(p: MeasuredPoint) -> float:
    """Tokens per iteration from a published acceptance row; NaN without one."""
    if p.gamma is None or p.draft is None or p.draft_kv is None:
        return float("nan")
    kv = parse_kv(p.draft_kv)
    try:
        row = find_acceptance(p.target, p.draft, kv.name, kv.budget, p.context)
    except InputError:
        return float("nan")
    return float(np.asarray(Acceptance.from_row(row).tokens_per_iteration(p.gamma)))


def _bounds(points: PointSet) -> dict[tuple[int, str], tuple[float, bool]]:
    """(point, quantity) -> its physical lower bound, and whether its working set exceeds the last-level
    cache.
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


PARTITIONS: dict[str, Callable[[MeasuredPoint], str | None]] = {
    "": lambda p: "",
    "model": lambda p: f"/{file_label(p.target)}",
    "draft": lambda p: f"/draft {file_label(p.draft)}" if p.draft else None,
    "kv": lambda p: f"/{p.read}" if p.draft_kv else None,
    "drafted": lambda p: "/trees" if p.widths else None,
    "context": lambda p: "/" + next(name for end, name in BANDS if p.context < end),
}
"""Partitions of the cells of a set and device, each also split by quantity. None: the cell is in no part."""


def partitions(cells: Iterable[Cell], by: Iterable[str] = tuple(PARTITIONS)) -> dict[str, list[Cell]]:
    """``set/device[/part]/quantity`` -> its cells. A prediction of 0, such as the overhead under ``ideal``,
    has no error and no part.
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
    """Errors of figures, each with its `predicted` and `measured`."""
    predicted = np.array([row.predicted for row in rows])
    measured = np.array([row.measured for row in rows])
    errors = errors_of(predicted, measured)
    assert errors is not None
    return errors


def correct_verdicts(cells: Iterable[Cell]) -> tuple[int, int]:
    """Number of speedups with the predicted side of 1 equal to the measured one, and the number of all."""
    correct = [same_side(c.predicted, c.measured) for c in cells if c.quantity == "speedup"]
    return sum(correct), len(correct)
