"""Draws the relative errors of predictions against their measurements."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import cycle
from typing import Any

import numpy as np

from perfmodel.errors import InputError
from perfmodel.plots.theme import (
    BRIGHT,
    GREY,
    Axes,
    Figure,
    figure_of,
    label,
    log_axis,
    panels,
    sign,
    styled,
)

QUANTITIES = {
    "target_s": ("baseline step T_T", 1e3, "measured, ms"),
    "draft_s": ("draft step T_D", 1e3, "measured, ms"),
    "verify_s": ("verification T_V", 1e3, "measured, ms"),
    "speedup": ("speedup", 1.0, "measured speedup"),
}
"""Quantity -> its name, the factor to the unit of its axis (logarithmic for times), and the axis."""
MARKERS = "osD^vP"
"""Markers of the devices, in this order."""
MAX_ERROR = 0.4
"""Largest relative error on the vertical axis. Larger errors are arrows at its end."""


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
    rows, columns = (1, len(kinds)) if len(kinds) < 3 else (2, 2)
    places = panels(columns, (8.6, 0.8 + 2.5 * rows), rows)
    devices = dict.fromkeys(c.point.hardware for c in shown)
    marks = dict(zip(devices, zip(cycle(MARKERS), cycle(BRIGHT), strict=False), strict=False))
    limit = min(max(abs(c.error) for c in shown) * 1.1, MAX_ERROR)
    for panel, kind in zip(places, kinds, strict=False):
        _errors(panel, [c for c in shown if c.quantity == kind], marks, limit)
    for panel in places[len(kinds) :]:
        panel.set_visible(False)
    places[0].set_ylabel("prediction's error, %")
    if len(marks) > 1:
        figure_of(places[0]).legend(
            handles=[
                sign(name, marker=marker, linestyle="none", color=colour)
                for name, (marker, colour) in marks.items()
            ],
            loc="outside upper right",
            ncols=len(marks),
            borderpad=0.0,
            handlelength=1.0,
        )
    return label(
        places[0],
        "Error of each prediction",
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
            clip_on=not beyond,
        )
    axes.axhspan(-10, 10, color=GREY, alpha=0.3, linewidth=0, zorder=0.2)
    axes.axhline(0, color="black", linewidth=0.8, zorder=1)
    values = [scale * c.measured for c in cells]
    ends = min(values) / 1.2, max(values) * 1.2
    if scale == 1:
        axes.set(xlim=ends, xlabel=unit)
    else:
        log_axis(axes, "x", *ends, unit, 6)
    axes.set(ylim=(-100 * limit, 100 * limit))
    mean = 100 * float(np.mean([abs(c.error) for c in cells]))
    axes.set_title(f"{words}: {len(cells)} rows, {mean:.1f} % off on average", loc="left")


def _summary(shown: list[Any], note: str, arrows: bool) -> str:
    """The caption of the picture.

    - arrows: whether some errors are beyond the axis.
    """
    devices = ", ".join(dict.fromkeys(c.point.hardware for c in shown))
    calibrations = ", ".join(dict.fromkeys(c.calibration for c in shown))
    limits = "predicted / measured - 1; the band is 10 % to either side"
    if arrows:
        limits += ", an arrow lies beyond the panel"
    parts = [limits, f"on {devices}", f"calibrations: {calibrations}"]
    if note:
        parts.insert(0, note)
    return "; ".join(parts)
