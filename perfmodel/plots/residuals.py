"""Draws the relative errors of predictions against their measurements."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import cycle
from typing import Any

import numpy as np

from perfmodel.errors import InputError
from perfmodel.plots.layout import label, legend_above, panels, sign
from perfmodel.plots.palette import colours
from perfmodel.plots.theme import Axes, Figure, log_axis, styled

QUANTITIES = {
    "target_s": ("baseline step", 1e3, "measured, ms"),
    "draft_s": ("draft step", 1e3, "measured, ms"),
    "verify_s": ("verification", 1e3, "measured, ms"),
    "speedup": ("speedup", 1.0, "measured speedup"),
}
"""Quantity -> its name, the factor to the unit of its axis (logarithmic for times), and the axis."""
MARKERS = "osD^vP"
"""Markers of the devices, in this order."""
BAND = 0.1
"""Relative error at the edges of the grey band."""
MAX_ERROR = 0.5
"""Largest relative error on the vertical axis. Larger errors are arrows at its end."""

MOST_SOURCES = 3
"""Largest number of sources that the caption names."""


@styled
def residuals(cells: Iterable[Any], *, note: str = "") -> Figure:
    """The relative error of each prediction (vertical axis) over the measured value (horizontal axis), with a
    panel for each quantity.

    - cells: comparisons from `perfmodel.validate.accuracy.compare`.

    The grey band spans errors from -10 % to +10 %. An arrow at the end of the axis marks a larger error.
    Raises InputError if no cell has a known quantity. Returns the figure.
    """
    shown = [c for c in cells if c.quantity in QUANTITIES]
    kinds = [name for name in QUANTITIES if any(c.quantity == name for c in shown)]
    if not shown:
        raise InputError(f"residuals: there is no cell of {', '.join(QUANTITIES)} to draw")
    places = panels(len(kinds), 1.75)
    devices = dict.fromkeys(c.point.hardware for c in shown)
    marks = dict(zip(devices, zip(cycle(MARKERS), cycle(colours().bright), strict=False), strict=False))
    limit = min(max(abs(c.error) for c in shown) * 1.1, MAX_ERROR)
    for panel, kind in zip(places, kinds, strict=True):
        _errors(panel, [c for c in shown if c.quantity == kind], marks, limit)
    if len(marks) > 1:
        signs = [
            sign(name, marker=marker, linestyle="none", color=colour)
            for name, (marker, colour) in marks.items()
        ]
        legend_above(places[0], signs)
    near = sum(abs(c.error) <= BAND for c in shown)
    return label(
        places[0],
        f"{near} of {len(shown)} predictions are within {100 * BAND:.0f} % of the measurement",
        "error of each prediction in %: predicted / measured - 1",
        _summary(shown, note, any(abs(c.error) > limit for c in shown)),
    )


def _errors(axes: Axes, cells: Sequence[Any], marks: Mapping[str, tuple[str, str]], limit: float) -> None:
    """Draws the errors of one quantity over its measured values, and writes their mean.

    - marks: device -> its marker and colour.
    - limit: the largest relative error on the axis.
    """
    words, scale, unit = QUANTITIES[cells[0].quantity]
    for c in cells:
        marker, colour = marks[c.point.hardware]
        beyond = abs(c.error) > limit
        arrow = (6 if c.error > 0 else 7) if beyond else marker  # matplotlib's caret up and caret down
        axes.plot(
            scale * c.measured,
            100 * np.clip(c.error, -limit, limit),
            marker=arrow,
            color=colour,
            markersize=4.5,
            alpha=0.7,
            mew=0,
            clip_on=False,
        )
    look = colours()
    axes.axhspan(-100 * BAND, 100 * BAND, color=look.grey, alpha=0.3, linewidth=0, zorder=0.2)
    axes.axhline(0, color=look.ink, linewidth=0.8, zorder=1)
    values = [scale * c.measured for c in cells]
    ends = min(values) / 1.2, max(values) * 1.2
    if scale == 1:
        axes.set(xlim=ends, xlabel=unit)
    else:
        log_axis(axes, "x", *ends, unit)
    axes.set(ylim=(-100 * limit, 100 * limit))
    mean = 100 * float(np.mean([abs(c.error) for c in cells]))
    axes.set_title(f"{words}: {len(cells)} rows, {mean:.1f} % off on average")


def _summary(shown: list[Any], note: str, arrows: bool) -> str:
    """The caption of the picture.

    - arrows: whether some errors are beyond the axis.
    """
    devices = ", ".join(dict.fromkeys(c.point.hardware for c in shown))
    calibrations = ", ".join(dict.fromkeys(c.calibration for c in shown))
    limits = f"the band is {100 * BAND:.0f} % to either side"
    if arrows:
        limits += ", an arrow lies beyond the panel"
    parts = [_sources(shown), limits, f"on {devices}", f"calibrations: {calibrations}"]
    if note:
        parts.insert(0, note)
    return "; ".join(parts)


def _sources(shown: list[Any]) -> str:
    """The stacks and sources of the measurements, with all tables of a paper in one list."""
    places: dict[str, dict[str, None]] = {}
    for stack, source in sorted({(c.point.stack, c.point.source) for c in shown}):
        paper, separator, table = source.partition(", Table ")
        places.setdefault(f"{stack}, {paper}", {}).update({table: None} if separator else {})
    named = []
    for paper, tables in places.items():
        word = "Table" if len(tables) == 1 else "Tables"
        named.append(f"{paper}, {word} {', '.join(tables)}" if tables else paper)
    more = f"; and {len(named) - MOST_SOURCES} more" if len(named) > MOST_SOURCES else ""
    return f"measurements: {'; '.join(named[:MOST_SOURCES])}{more}"
