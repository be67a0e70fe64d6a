"""Predicted beside measured, one cell a figure; errors by partition and what breaks a physical bound.

The measured tokens per iteration are given, so that this tests time; ``speedup_alpha`` models acceptance too, where a
published acceptance row of the same pair, budget and context exists.
"""

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np

from perfmodel.errors import InputError
from perfmodel.specs.acceptance_rows import find_acceptance
from perfmodel.specs.calibration import Calibration, load_calibration
from perfmodel.specs.gpu import load_gpu
from perfmodel.specs.published import MeasuredPoint, published_points
from perfmodel.speculation.acceptance import Acceptance
from perfmodel.validate.fit.calibrate import Error, error_of
from perfmodel.validate.fit.counted import Array, PointSet
from perfmodel.validate.fit.folds import held_out
from perfmodel.validate.fit.recipes import RECIPES
from perfmodel.validate.records.record import records
from perfmodel.validate.records.summary import points as own_points

Mode = Literal["shipped", "held-out"]
SETS = ("magicdec", "gptfast_decode", "speculation_other")
"""Published sets of times; `gamma_optimal` holds no time and is looked at by `best_gamma`."""
UNGATED = "local-"
"""Machines with such a label are somebody's own: their records are read when named, and enter no gate."""
BANDS = ((8000, "context < 8000"), (32000, "context < 32000"), (10**9, "context >= 32000"))


@dataclass(frozen=True, slots=True)
class Cell:
    """One measured figure and its prediction. lower: its physical bound; binding: its working set exceeds the cache."""

    set_name: str
    row: str
    quantity: str
    hardware: str
    stack: str
    target: str
    draft: str
    kv: str
    batch: int
    context: int
    calibration: str
    fitted: bool
    measured: float
    predicted: float
    lower: float | None = None
    binding: bool = False

    @property
    def error(self) -> float:
        """Signed relative error."""
        return self.predicted / self.measured - 1.0

    @property
    def below_bound(self) -> bool:
        """Faster than physics allows: the measurement, the spec or the count is wrong."""
        return self.binding and self.lower is not None and self.measured < self.lower

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self) | {"error": self.error}


def calibration_for(p: MeasuredPoint) -> Calibration:
    """The calibration fitted to the point's device and stack, else the one that its device names."""
    own = f"{p.hardware}.{p.stack}"
    return load_calibration(own if own in RECIPES else load_gpu(p.hardware).calibration)


def own_sets() -> dict[str, tuple[MeasuredPoint, ...]]:
    """Own whole-pass records in ``results/<machine>/`` that are not withdrawn, by name."""
    return {r.name: own_points(r) for r in records() if r.data.kind == "measure"}


def gated_sets() -> tuple[str, ...]:
    """The sets that the gate replays: all published ones and all own records but those of `UNGATED` machines."""
    return (*SETS, *(name for name in own_sets() if not name.startswith(UNGATED)))


def compare(sets: Iterable[str] = SETS, mode: Mode = "shipped", calibration: str | None = None) -> list[Cell]:
    """All cells of some sets. Held-out predicts each fitted row by a refit without its fold.

    Raises InputError for an unknown set or calibration, or where a calibration is named for held-out.
    """
    if calibration and mode == "held-out":
        raise InputError("--calibration: must be left out with --held-out, which refits the fitted ones")
    named = load_calibration(calibration) if calibration else None
    cells: list[Cell] = []
    own = own_sets()
    for name in sets:
        for points in _by_stack(own[name] if name in own else published_points(name)):
            used = named or calibration_for(points[0])
            if mode == "held-out" and used.name == f"{points[0].hardware}.{points[0].stack}":
                out = held_out(RECIPES[used.name])
                cells += cells_of(out.points, out.times, used)
            else:
                counted = PointSet(points, used)
                cells += cells_of(counted, counted.predict(used), used)
    return cells


def cells_of(points: PointSet, times: dict[str, Array], used: Calibration) -> list[Cell]:
    """The cells of counted points and their predicted times."""
    predicted = dict(times)
    iteration = _iteration(points, times)
    gained = np.array([p.tokens_per_iteration or np.nan for p in points.points])
    predicted["sd_tpot_s"] = iteration / gained
    predicted["speedup"] = points.speedup(times)
    modelled = np.array([_modelled_tokens(p) for p in points.points])
    predicted["speedup_alpha"] = modelled * times["target_s"] / iteration
    bounds = _bounds(points)
    cells = []
    for i, p in enumerate(points.points):
        for quantity, values in predicted.items():
            measured = getattr(p, quantity.removesuffix("_alpha"))
            if measured is None or np.isnan(values[i]):
                continue
            lower, binding = bounds.get((i, quantity), (None, False))
            cells.append(_cell(p, quantity, measured, float(values[i]), used, lower, binding))
    return cells


def _cell(
    p: MeasuredPoint,
    quantity: str,
    measured: float,
    predicted: float,
    used: Calibration,
    lower: float | None,
    binding: bool,
) -> Cell:
    return Cell(
        set_name=p.set_name,
        row=p.row_id,
        quantity=quantity,
        hardware=p.hardware,
        stack=p.stack,
        target=_label(p.target),
        draft=_label(p.draft or ""),
        kv=p.draft_kv or "",
        batch=p.batch,
        context=p.context,
        calibration=used.name,
        fitted=used.name == f"{p.hardware}.{p.stack}",
        measured=measured,
        predicted=predicted,
        lower=lower,
        binding=binding,
    )


def _label(model: str) -> str:
    """A model's name, where it is given as the file of a measuring shape."""
    return Path(model).stem if model.endswith(".yaml") else model


def _iteration(points: PointSet, times: dict[str, Array]) -> Array:
    gamma = np.array([p.gamma or 0 for p in points.points])
    iteration: Array = gamma * times["draft_s"] + times["verify_s"] + times["overhead_s"]
    return iteration


@cache
def _modelled_tokens(p: MeasuredPoint) -> float:
    """Tokens per iteration from a published acceptance row, NaN where there is none."""
    if p.gamma is None or p.draft is None or p.draft_kv is None:
        return float("nan")
    method, _, budget = p.draft_kv.partition(":")
    try:
        row = find_acceptance(p.target, p.draft, method, int(budget) if budget else None, p.context, None)
    except InputError:
        return float("nan")
    return float(np.asarray(Acceptance.from_row(row).tokens_per_iteration(p.gamma)))


def _bounds(points: PointSet) -> dict[tuple[int, str], tuple[float, bool]]:
    """(point, quantity) -> its physical lower bound and whether its working set exceeds the last-level cache."""
    found = {}
    for group in points.groups:
        gpu = group.scenario.machine.gpu
        cache_bytes = gpu.last_level_cache.si if gpu.last_level_cache else 0.0
        for quantity, ops in group.passes.items():
            shape = group.batch.shape
            lower = np.broadcast_to(group.pass_time(quantity).lower_s, shape)
            bytes_read = np.zeros(shape) + sum((op.cost.weight_bytes + op.cost.kv_bytes for op in ops), start=0.0)
            for place, i in enumerate(group.index):
                found[int(i), quantity] = float(lower[place]), bool(bytes_read[place] > cache_bytes)
    return found


def _by_stack(points: tuple[MeasuredPoint, ...]) -> list[tuple[MeasuredPoint, ...]]:
    groups: dict[tuple[str, str], list[MeasuredPoint]] = {}
    for p in points:
        groups.setdefault((p.hardware, p.stack), []).append(p)
    return [tuple(group) for group in groups.values()]


def band(context: int) -> str:
    """The context band of a partition."""
    return next(name for end, name in BANDS if context < end)


PARTITIONS: dict[str, Callable[[Cell], str]] = {
    "": lambda c: f"{c.set_name}/{c.hardware}",
    "model": lambda c: f"{c.set_name}/{c.hardware}/{c.target}",
    "draft": lambda c: f"{c.set_name}/{c.hardware}/draft {c.draft}" if c.draft else "",
    "kv": lambda c: f"{c.set_name}/{c.hardware}/{c.kv}" if c.kv else "",
    "context": lambda c: f"{c.set_name}/{c.hardware}/{band(c.context)}",
}
"""Ways to cut the cells; each is cut by quantity too. An empty name leaves a cell out."""


def partitions(cells: Iterable[Cell], by: Iterable[str] = tuple(PARTITIONS)) -> dict[str, list[Cell]]:
    """``set/device[/part]/quantity`` -> its cells."""
    cut: dict[str, list[Cell]] = {}
    for cell in cells:
        for way in by:
            if name := PARTITIONS[way](cell):
                cut.setdefault(f"{name}/{cell.quantity}", []).append(cell)
    return dict(sorted(cut.items()))


def error(cells: list[Cell]) -> Error:
    """Errors of a non-empty partition."""
    found = error_of(np.array([c.predicted for c in cells]), np.array([c.measured for c in cells]))
    assert found is not None
    return found


def worst(cells: Iterable[Cell], count: int) -> list[Cell]:
    """The cells with the largest errors, worst first."""
    return sorted(cells, key=lambda c: -abs(c.error))[:count]


def right_side(cells: Iterable[Cell]) -> tuple[int, int]:
    """How many speedups are predicted on the measured side of 1, of how many."""
    seen = [(c.predicted >= 1.0) == (c.measured >= 1.0) for c in cells if c.quantity == "speedup"]
    return sum(seen), len(seen)
