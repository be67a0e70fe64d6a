"""The model against measurements: predicted beside measured, and how sure a prediction is."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from perfmodel.answers.query import Query
from perfmodel.errors import InputError
from perfmodel.plots.theme import (
    BRIGHT,
    DARK,
    GREY,
    STAGES,
    above,
    canvas,
    canvases,
    caption,
    label,
    log_axis,
    scenario_of,
    styled,
)
from perfmodel.specs.fits import COVERAGE
from perfmodel.speculation.chain import speedups
from perfmodel.speculation.scenario import Scenario
from perfmodel.speculation.uncertainty import speedup_interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from perfmodel.plots.surfaces import Span

QUANTITIES = {
    "target_s": ("baseline step T_T", STAGES["baseline"]),
    "draft_s": ("draft step T_D", STAGES["draft"]),
    "verify_s": ("verification T_V", STAGES["verify"]),
    "speedup": ("speedup", BRIGHT[5]),
}
MARKERS = "osD^vP"
MAX_ERROR = 0.4


class Cell(Protocol):
    """One measured figure and its prediction, as `perfmodel.validate.accuracy.compare` has them."""

    @property
    def quantity(self) -> str: ...
    @property
    def hardware(self) -> str: ...
    @property
    def context(self) -> int: ...
    @property
    def calibration(self) -> str: ...
    @property
    def measured(self) -> float: ...
    @property
    def predicted(self) -> float: ...
    @property
    def error(self) -> float: ...


@styled
def residuals(cells: Iterable[Cell], *, note: str = "", axes: "Sequence[Axes] | None" = None) -> "Figure":
    """Predicted against measured times (left), and relative errors over the context, speedups among them (right).

    The band is 10 % to either side; errors beyond the right panel are arrows at its edge. Raises InputError where
    there is no cell of a known quantity. Returns the figure.
    """
    from matplotlib.lines import Line2D

    shown = [c for c in cells if c.quantity in QUANTITIES]
    if not shown:
        raise InputError(f"residuals: there is no cell of {', '.join(QUANTITIES)} to draw")
    own = axes is None
    figure, (left, right) = canvases(axes, 1, 2, (8.6, 4.4))
    marks = dict(zip(dict.fromkeys(c.hardware for c in shown), MARKERS * 8, strict=False))
    limit = min(max(abs(c.error) for c in shown) * 1.1, MAX_ERROR)
    for c in shown:
        colour, marker = QUANTITIES[c.quantity][1], marks[c.hardware]
        if c.quantity != "speedup":
            left.plot(1e3 * c.measured, 1e3 * c.predicted, marker, color=colour, markersize=4, alpha=0.75, mew=0)
        beyond = abs(c.error) > limit
        arrow = (6 if c.error > 0 else 7) if beyond else marker  # matplotlib's caret up and caret down
        error = 100 * np.clip(c.error, -limit, limit)
        right.plot(c.context, error, marker=arrow, color=colour, markersize=4, alpha=0.75, mew=0, clip_on=not beyond)
    times = [1e3 * t for c in shown if c.quantity != "speedup" for t in (c.measured, c.predicted)] or [1.0, 10.0]
    ends = np.array([min(times) / 1.5, max(times) * 1.5])
    left.fill_between(ends, 0.9 * ends, 1.1 * ends, color=GREY, alpha=0.4, linewidth=0, zorder=0.2)
    left.plot(ends, ends, color="black", linewidth=0.8, zorder=1)
    left.set(xscale="log", yscale="log", xlim=ends, ylim=ends, xlabel="measured, ms", ylabel="predicted, ms")
    for axis in (left.xaxis, left.yaxis):
        axis.set_major_formatter("{x:g}")
    right.axhspan(-10, 10, color=GREY, alpha=0.4, linewidth=0, zorder=0.2)
    right.axhline(0, color="black", linewidth=0.8, zorder=1)
    contexts = [c.context for c in shown]
    log_axis(right, "x", min(contexts) / 1.3, max(contexts) * 1.3, "context, cached tokens per sequence", 7)
    right.set(ylabel="predicted over measured, error in %", ylim=(-100 * limit, 100 * limit))
    seen = [name for name in QUANTITIES if any(c.quantity == name for c in shown)]
    above(left, 2, [Line2D([], [], marker="o", linestyle="none", color=QUANTITIES[q][1], label=QUANTITIES[q][0])
                    for q in seen])  # fmt: skip
    above(
        right,
        2,
        [Line2D([], [], marker=mark, linestyle="none", color=DARK, label=name) for name, mark in marks.items()],
    )
    label(left, own, "The model against measurements", _summary(shown, note))
    return figure


@styled
def band(
    asked: Query | Scenario,
    batch: float,
    span: "Span",
    gamma: int,
    *,
    measured: Iterable[tuple[float, float]] = (),
    points: int = 25,
    axes: "Axes | None" = None,
) -> "Figure":
    """Predicted speedup over a span of contexts with its interval, and measured (context, speedup)s as dots.

    Where the calibration states no observed error there is no interval. Returns the figure.
    """
    scenario = scenario_of(asked)
    own = axes is None
    figure, axes = canvas(axes, (7.2, 3.8))
    contexts = np.geomspace(*span, points)
    values = speedups(scenario, batch, contexts, np.array([gamma]))[..., 0]
    found = [
        speedup_interval(scenario, batch, float(c), gamma, float(v)) for c, v in zip(contexts, values, strict=True)
    ]
    sure = [interval for interval in found if interval is not None]
    if len(sure) == points:
        axes.fill_between(contexts, [i.low for i in sure], [i.high for i in sure], color=BRIGHT[4], alpha=0.35,
                          linewidth=0, label=f"{COVERAGE:.0%} interval")  # fmt: skip
    axes.plot(contexts, values, color=STAGES["baseline"], label="predicted")
    if dots := list(measured):
        axes.plot([c for c, _ in dots], [s for _, s in dots], "o", color="black", label="measured")
    axes.axhline(1.0, color="black", linewidth=1.0)
    log_axis(axes, "x", *span, "context, cached tokens per sequence")
    axes.set(ylabel="speedup")
    above(axes, 3)
    label(axes, own, "Speedup, and how sure it is", f"batch {batch:g}; {caption(scenario, gamma)}")
    return figure


def _summary(shown: list[Cell], note: str) -> str:
    parts = [note] if note else []
    for name, (words, _) in QUANTITIES.items():
        errors = [abs(c.error) for c in shown if c.quantity == name]
        if errors:
            parts.append(f"{words}: {len(errors)} rows, mean |error| {100 * float(np.mean(errors)):.1f} %")
    calibrations = ", ".join(dict.fromkeys(c.calibration for c in shown))
    return "; ".join([*parts, f"calibrations: {calibrations}"])
