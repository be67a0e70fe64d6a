"""Computes the widths of intervals for each class of questions, from the errors on sources that were left
out.

The half-width for steps is the size that 90 % of the errors of a class do not exceed. The interval of a
speedup leaves 5 % of the errors on each side. It need not be symmetric, because a new kind of draft is
predicted too fast more often than too slow.

The errors of one source are correlated, so a source counts as its effective number of independent rows. The
errors of a series (rows that differ only in batch and context) are also correlated, even if the errors of
several series of a source cancel.

Each class of devices has its own width. Errors on other devices have a lower weight (`OTHER_DEVICES`). Errors
of other classes of questions also have a lower weight (`BORROWED`), so a class with few sources uses them
too. Errors of speedups are divided by the share of an iteration that is extra time (`extra_share`).

- Data: the errors of public runs and of the rows of `iterations`. Each row was predicted with constants that
  were fitted without its source.
- Classes: see `width_classes`. The class ``other_engine`` has only the errors of `other_engines`.
- Folds: the coverage of a source is that of intervals whose widths were fitted without the source
  (`covered`).
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from perfmodel.operations import Array
from perfmodel.specs import COVERAGE
from perfmodel.specs.engines.source_errors import SourceError
from perfmodel.validate.solving import grouped
from perfmodel.validate.studies.held_out_errors import BORROWED, HeldOutErrors, quantile
from perfmodel.validate.studies.left_out_error import LeftOutError
from perfmodel.validate.studies.published_engines import alike

ONE_SIDE = (1.0 + COVERAGE) / 2.0
"""Share of the errors that are below the upper end of the interval of a speedup. The same share is above the
lower end.
"""
OTHER_DEVICES = 0.2
"""Weight of an error on another class of devices, relative to an error on the same class of devices.
The value is a choice (`choices`).
"""


@dataclass(frozen=True, slots=True)
class Ends:
    """An interval of log errors from -below to above."""

    below: float
    above: float

    @property
    def half(self) -> float:
        """Half of the interval's width."""
        return (self.below + self.above) / 2.0

    @property
    def middle(self) -> float:
        """The middle of the interval. For errors of ratios, the same number is the middle of the logarithms
        of the measured over the predicted speedup. The file of widths states it.
        """
        return (self.above - self.below) / 2.0

    def hold(self, error: float) -> bool:
        """Whether the interval contains this error."""
        return -self.below <= error <= self.above


ByClass = Mapping[str, Sequence[LeftOutError]]


def within(by_class: ByClass, name: str, device: str = "", without: str = "") -> float:
    """The half-width of the intervals of a class, in logarithms divided by `LeftOutError.per`.

    - name: the class of questions.
    - device: the class of devices; empty for all.
    - without: a source whose rows are not used.
    """
    errors, weights = _weighted(by_class, name, device, without)
    return quantile(np.abs(errors), weights)


def ends(by_class: ByClass, name: str, device: str = "", without: str = "") -> Ends:
    """The interval of a class, with equal shares of the errors below and above. Its middle need not be 0. The
    arguments are those of `within`.
    """
    errors, weights = _weighted(by_class, name, device, without)
    below = quantile(-errors, weights, ONE_SIDE)
    above = quantile(errors, weights, ONE_SIDE)
    return Ends(max(below, 0.0), max(above, 0.0))


class WeightedErrors(NamedTuple):
    """The errors of all classes (`LeftOutError.relative`), and their weights for one class of questions and
    one class of devices.
    """

    errors: Array
    weights: Array


def _weighted(by_class: ByClass, name: str, device: str, without: str) -> WeightedErrors:
    """The errors of all sources except `without`, with their weights for the class `name` on `device`. A
    weight is the product of three weights: of the independent rows of the source (`_independent`), of the
    class (`BORROWED`) and of the device (`OTHER_DEVICES`).
    """
    rows = _rows(by_class, without)
    errors = np.array([row.error.relative for row in rows])
    of_classes = [1.0 if row.class_name == name else BORROWED for row in rows]
    of_devices = [1.0 if not device or row.cell == (name, device) else OTHER_DEVICES for row in rows]
    weights = _independent(errors, rows) * np.array(of_classes) * np.array(of_devices)
    return WeightedErrors(errors, weights)


@dataclass(frozen=True, slots=True)
class _Row:
    """One error, with its class of questions.

    - number: its number among the rows. A row without a series is a series of its own.
    """

    number: int
    class_name: str
    error: LeftOutError

    @property
    def cell(self) -> tuple[str, str]:
        """The class of questions and the class of devices."""
        return self.class_name, self.error.device

    @property
    def source(self) -> Hashable:
        """The source in this cell."""
        return self.cell, self.error.source

    @property
    def series(self) -> Hashable:
        """The series in this source."""
        series = self.number if self.error.series is None else self.error.series
        return self.source, series


def _rows(by_class: ByClass, without: str) -> list[_Row]:
    """The errors of all classes that count, except those of the source `without`."""
    rows: list[_Row] = []
    for class_name, errors in by_class.items():
        for error in errors:
            if error.counts and not alike(error.source, without):
                rows.append(_Row(len(rows) + 1, class_name, error))
    return rows


def _independent(errors: Array, rows: Sequence[_Row]) -> Array:
    """The weights with which a source counts as its effective number of independent rows. This number follows
    from the common error of the source or from the common errors of its series, whichever gives fewer rows.

    - errors: the relative error of each row.
    """
    cells = ["/".join(row.cell) for row in rows]
    sources = [row.source for row in rows]
    series = [row.series for row in rows]
    of_sources = HeldOutErrors(errors, cells, sources).weights("", borrowed=1.0)
    of_series = HeldOutErrors(errors, cells, series).weights("", borrowed=1.0)
    weights = np.empty(len(rows))
    for index in grouped(range(len(rows)), sources.__getitem__).values():
        weights[index] = min(of_sources[index], of_series[index], key=np.sum)
    return weights


def fitted(by_class: ByClass, name: str) -> SourceError:
    """The error that the file states for a class, with intervals that are symmetric around the prediction."""
    counted = [e for e in by_class[name] if e.counts]
    devices = sorted({e.device for e in counted} - {""})
    return SourceError(
        log_within=within(by_class, name),
        sources=len({e.source for e in counted}),
        rows=len(counted),
        devices={device: within(by_class, name, device) for device in devices},
    )


def fitted_speedups(by_class: ByClass, name: str) -> SourceError:
    """The error that the file states for a class of speedups, whose intervals need not be symmetric
    (`ends`).
    """
    symmetric = fitted(by_class, name)
    whole = ends(by_class, name)
    on = {device: ends(by_class, name, device) for device in symmetric.devices}
    return symmetric.replace(
        log_within=whole.half,
        log_middle=whole.middle,
        devices={device: each.half for device, each in on.items()},
        middles={device: each.middle for device, each in on.items()},
    )


def covered(by_class: ByClass, name: str, of_speedups: bool = False) -> dict[str, Any]:
    """The coverage of a class, with widths that were fitted without the source of each row.

    - of_speedups: whether the intervals come from `ends`; otherwise they come from `within`.

    The result has these keys:

    - ``inside``: the share of rows inside their interval.
    - ``inside_sources``: the mean of this share over sources.
    - ``inside_all``: this share of all rows, including those that were left out by judgement.
    - ``ratio``: the mean half-width over the mean error.
    """
    errors = by_class[name]
    places = dict.fromkeys((e.device, e.source) for e in errors)
    if of_speedups:
        without = {place: ends(by_class, name, *place) for place in places}
    else:
        without = {place: Ends(half, half) for place in places for half in [within(by_class, name, *place)]}

    def width_of(e: LeftOutError) -> float:
        return e.per * without[e.device, e.source].half

    def inside(some: Sequence[LeftOutError]) -> float:
        return float(np.mean([without[e.device, e.source].hold(e.relative) for e in some]))

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
