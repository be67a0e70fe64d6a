"""Widths of intervals: errors of sources that were left out, by class of question.

A width is the size that 90 % of the errors of a class do not exceed. Errors of one source are alike, so a
source counts as often as it has independent rows. A class of devices has a width of its own, in which errors
on other devices count a fifth; errors of the other classes count a tenth of that (`held_out`). So a class
with few sources borrows from them. Errors of speedups are relative to the share of an iteration that is extra
time (`extra_share`).

Data: errors of public runs and of the tables to which engines are fitted, by constants that have not seen
their source. A class of speedups is ``known`` if another source has the engine's kind of draft, and ``new``
if none has; the tables' rows also count as new, by constants that have not seen their kind of draft. Folds:
a width without each source judges its rows (`covered`).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np

from perfmodel.answers.question import resolve
from perfmodel.specs import LLAMACPP, device_class, load_gpu
from perfmodel.specs.engines.source_errors import SourceError, SpeedupClass, extra_share
from perfmodel.speculation.evidence import step_class
from perfmodel.validate.solving import grouped
from perfmodel.validate.studies.engines import HeldOutReplay
from perfmodel.validate.studies.held_out import BORROWED, HeldOutErrors, quantile
from perfmodel.validate.studies.left_out import alike
from perfmodel.validate.studies.public_runs import PublicRun, spelled_kind, step_query

OTHER_DEVICES = 0.2
"""Weight of a source on another class of devices relative to one on the same."""


@dataclass(frozen=True, slots=True)
class LeftOutError:
    """The logarithm of predicted over measured by constants that have not seen the row's source.

    per: the share to which it is relative. counts: whether widths are fitted to it; without, it is left out
    by judgement and counts for the coverage only. device: its class (`device_class`).
    """

    source: str
    off: float
    per: float = 1.0
    counts: bool = True
    device: str = ""

    @classmethod
    def of_ratio(
        cls, source: str, off: float, measured: float, counts: bool = True, device: str = ""
    ) -> "LeftOutError":
        """The error of a ratio of an iteration to a step, relative to the predicted extra time."""
        return cls(source, off, float(extra_share(measured * np.exp(off))), counts, device)

    @property
    def relative(self) -> float:
        """The error over its share."""
        return self.off / self.per


ByClass = Mapping[str, Sequence[LeftOutError]]


def class_of_step(run: PublicRun) -> str:
    """The class of a run's step."""
    name = step_class(resolve(step_query(run)))
    assert name
    return name


@dataclass(frozen=True, slots=True)
class MeasuredDraft:
    """A kind of draft in an engine, with a source that measured it on a class of device."""

    engine: str
    draft: str
    device: str
    source: str


def measured_drafts(runs: Iterable[PublicRun], ratios: HeldOutReplay) -> list[MeasuredDraft]:
    """The drafts of public runs that count and of the tables' rows, each once."""
    measured = []
    for run in runs:
        device = device_class(load_gpu(run.hardware))
        measured.append(MeasuredDraft(run.engine, spelled_kind(run), device, run.source_id))
    for row in ratios.rows:
        device = device_class(load_gpu(row.query.hardware))
        measured.append(MeasuredDraft(row.engine, row.kind, device, row.study))
    return list(dict.fromkeys(measured))


def class_of_speedup(engine: str, draft: str, source: str, measured: Sequence[MeasuredDraft]) -> SpeedupClass:
    """The class of a speedup without its source."""
    of_kind = [m for m in measured if m.engine == engine and m.draft == draft]
    if all(alike(m.source, source) for m in of_kind):
        return "new"
    return "llamacpp" if engine == LLAMACPP else "known"


def of_tables(
    ratios: HeldOutReplay, measured: Sequence[MeasuredDraft]
) -> dict[SpeedupClass, list[LeftOutError]]:
    """Errors of the tables' rows by class: without their study, and without their kind of draft."""
    by_class: dict[SpeedupClass, list[LeftOutError]] = {name: [] for name in get_args(SpeedupClass)}
    without_study = ratios.ratios["model"].off.tolist()
    without_kind = ratios.ratios["draft"].off.tolist()
    for row, of_study, of_kind in zip(ratios.rows, without_study, without_kind, strict=True):
        name = class_of_speedup(row.engine, row.kind, row.study, measured)
        device = device_class(load_gpu(row.query.hardware))
        by_class[name].append(LeftOutError.of_ratio(row.study, of_study, row.ratio, device=device))
        if name != "new":
            by_class["new"].append(LeftOutError.of_ratio(row.study, of_kind, row.ratio, device=device))
    return by_class


def within(by_class: ByClass, name: str, device: str = "", without: str = "") -> float:
    """Half-width of the intervals of a class on a class of devices, or on all of them, from all rows that
    count, or from those of other sources than `without`.
    """
    relative = []
    cells = []
    groups = []
    class_weights = []
    device_weights = []
    for class_name, errors in by_class.items():
        for e in errors:
            if not e.counts or alike(e.source, without):
                continue
            cell = (class_name, e.device)
            is_near = not device or cell == (name, device)
            class_weights.append(1.0 if class_name == name else BORROWED)
            device_weights.append(1.0 if is_near else OTHER_DEVICES)
            relative.append(e.relative)
            cells.append("/".join(cell))
            groups.append((cell, e.source))
    off = np.array(relative)
    independent = HeldOutErrors(off, cells, groups).weights("", borrowed=1.0)
    weights = independent * np.array(class_weights) * np.array(device_weights)
    return quantile(np.abs(off), weights)


def fitted(by_class: ByClass, name: str) -> SourceError:
    """The error to state for a class."""
    counted = [e for e in by_class[name] if e.counts]
    devices = sorted({e.device for e in counted} - {""})
    return SourceError(
        log_within=within(by_class, name),
        sources=len({e.source for e in counted}),
        rows=len(counted),
        devices={device: within(by_class, name, device) for device in devices},
    )


def covered(by_class: ByClass, name: str) -> dict[str, Any]:
    """Coverage of a class by widths without the source of each row: of rows, of rows where each source counts
    as one, and of all rows, with those that are left out by judgement.

    ratio: of the mean half-width to the mean error.
    """
    errors = by_class[name]
    places = dict.fromkeys((e.device, e.source) for e in errors)
    without = {place: within(by_class, name, *place) for place in places}

    def width_of(e: LeftOutError) -> float:
        return e.per * without[e.device, e.source]

    def inside(some: Sequence[LeftOutError]) -> float:
        return float(np.mean([abs(e.off) <= width_of(e) for e in some]))

    counted = [e for e in errors if e.counts]
    of_sources = grouped(counted, lambda e: e.source)
    error = float(np.expm1(np.mean([abs(e.off) for e in counted])))
    width = float(np.expm1(np.mean([width_of(e) for e in counted])))
    return {
        "rows": len(counted),
        "sources": len(of_sources),
        "error": error,
        "width": width,
        "ratio": width / error,
        "inside": inside(counted),
        "inside_sources": float(np.mean([inside(rows) for rows in of_sources.values()])),
        "all_rows": len(errors),
        "inside_all": inside(errors),
    }
