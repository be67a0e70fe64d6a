"""Draws the times of a draft step and of a verification, divided by the time of a baseline step."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import cycle
from typing import Any

import numpy as np

from perfmodel.answers.question import Query
from perfmodel.immutable import Immutable
from perfmodel.operations import Array, Ints
from perfmodel.plots.layout import label, legend_above, panels, sign
from perfmodel.plots.memory import fits_in_memory
from perfmodel.plots.palette import colours, shades
from perfmodel.plots.theme import (
    Axes,
    Figure,
    Span,
    caption,
    is_ideal,
    log_axis,
    scenario_of,
    styled,
    subject,
    tokens,
)
from perfmodel.specs import load_calibration
from perfmodel.speculation import Scenario, Workload, predict, with_calibration

SOLID = "-"
"""Line style of the calibrated times."""
DASHED = (0, (3, 2))
"""Line style of the ideal times."""
MARKERS = "os^Dv"
"""Markers of the lines, in this order."""
MARKED = 6
"""Number of markers on a line."""
THIN = 0.6
"""Width of a line, in points, where it does not fit in memory."""
NEAR_ONE = 0.7
"""An axis that reaches at least this value has a line at 1. On a shorter axis, this line would leave half
of the axis empty.
"""
HORIZONTAL = {"context": "context, cached tokens per sequence", "batch": "batch, sequences"}
"""Quantity along the axis -> its label."""


class Drawn(Immutable):
    """A scenario to draw.

    - dashes: the line style.
    - words: the label in the legend.
    """

    scenario: Scenario
    dashes: Any
    words: str


@styled
def ratios(
    question: Query | Scenario,
    lines: Sequence[float],
    span: Span,
    gamma: int,
    *,
    over: str = "context",
    ideal: bool = True,
    memory_fraction: float | None = None,
    points: int = 121,
) -> Figure:
    """The time of a draft step (above) and of a verification (below), divided by the time of a baseline step,
    over a range of contexts. Each batch in `lines` has its own line.

    - span: the two ends of the horizontal axis.
    - over: the quantity on the horizontal axis, ``context`` or ``batch``; with ``batch``, each context in
      `lines` has its own line.
    - ideal: whether to add dashed lines for the ideal calibration, which has full efficiency and no fixed
      costs.
    - memory_fraction: the share of the memory that the engine uses; None means the engine's default.
    - points: number of points per line.

    Lines are thin and without markers where the point does not fit in memory. The title is about the line
    that fits furthest. Returns the figure.
    """
    scenario = scenario_of(question)
    above, below = panels(2, 2.2)
    steps = np.geomspace(*span, points)
    values = np.asarray(lines, float)[:, None]
    batch, context = (values, steps) if over == "context" else (steps, values)
    names = [f"batch {line:g}" if over == "context" else f"context {tokens(line)}" for line in lines]
    drawn = [Drawn(scenario, SOLID, "calibrated")]
    if ideal and scenario.machine.calibration.name != "ideal":
        drawn.append(Drawn(_on_ideal_roofline(scenario), DASHED, "ideal roofline"))
    room = fits_in_memory(scenario, batch, context, float(gamma), memory_fraction)
    ends = room.sum(axis=-1)  # each line fits up to one point, as the needed memory grows along the axis
    looks = [*zip(shades(len(lines)), cycle(MARKERS), names, ends, strict=False)]
    shown: list[Array] = []
    every = max(points // MARKED, 1)
    for each in drawn:
        p = predict(each.scenario, Workload.of(batch, context, gamma), max(gamma, 1))
        for axes, ratio in ((above, p.draft_to_target), (below, p.verify_to_target)):
            curves = np.broadcast_to(ratio, (len(lines), points))
            shown.append(curves)
            for number, (curve, (colour, marker, name, end)) in enumerate(zip(curves, looks, strict=True)):
                style = {"linestyle": each.dashes, "color": colour}
                (line,) = axes.plot(steps[:end], curve[:end], label=name, **style)
                places = range(number * every // len(lines), end, every)
                line.set(marker=marker, markevery=[*places] or [end - 1] * bool(end))
                if each.dashes != SOLID:
                    line.set(markerfacecolor=colours().page, markersize=4)
                beyond = slice(max(end - 1, 0), None)
                if end < points:
                    axes.plot(steps[beyond], curve[beyond], linewidth=THIN, **style)
    above.set_title("draft step / baseline step")
    below.set_title("verification / baseline step")
    for axes in (above, below):
        _finish(axes, span, over)
    above.set(xlabel="", ylim=(0.0, None))
    below.set_ylim(bottom=min(below.get_ylim()[0], 0.98))
    signs = [sign(each.words, color=colours().ink, linestyle=each.dashes) for each in drawn]
    signs = signs if len(drawn) > 1 else []
    if not room.all():
        signs.append(sign("thin: does not fit in memory", color=colours().ink, linewidth=THIN))
    handles, words = above.get_legend_handles_labels()
    legend_above(above, [handles[words.index(name)] for name in names] + signs)
    claim = _claim(names, over, steps, ends, shown[0], shown[1])
    details = f"predicted; {caption(scenario, acceptance=False)}"
    return label(above, claim, subject(scenario, gamma), details, ideal=is_ideal(scenario))


def _claim(names: list[str], over: str, steps: Array, ends: Ints, draft: Array, verify: Array) -> str:
    """The title: how the two ratios change along the line that fits in memory furthest. Of several such
    lines, the last one is named.

    - ends: the number of points of each line that fit.
    - draft, verify: the ratios, [line, point].
    """
    most = int(ends.max())
    number = int(np.flatnonzero(ends == most)[-1])
    fitting = slice(0, most or None)
    from_to = " to ".join(
        dict.fromkeys(tokens(float(end)) for end in np.floor(steps[fitting][[0, -1]] + 1e-9))
    )
    nothing = "" if most else "Nothing fits in memory. "
    return (
        f"{nothing}At {names[number]} and {over} {from_to}, a draft step {_change(draft[number, fitting])} "
        f"of a baseline step, a verification {_change(verify[number, fitting])}"
    )


def _change(ratio: Array) -> str:
    """The first and the last value of a ratio in words."""
    first, last = (f"{100 * value:.0f}" for value in (float(ratio[0]), float(ratio[-1])))
    if first == last:
        return f"takes {first} %"
    return f"{'falls' if ratio[-1] < ratio[0] else 'grows'} from {first} % to {last} %"


def _on_ideal_roofline(scenario: Scenario) -> Scenario:
    """The same scenario without fixed costs and with full efficiency, which is the same for all attention
    backends.
    """
    plain = replace(scenario, machine=replace(scenario.machine, attention_backend=None))
    return with_calibration(plain, load_calibration("ideal"))


def _finish(axes: Axes, span: Span, over: str) -> None:
    """Makes the axes of one ratio. An axis that reaches `NEAR_ONE` also has a line at one baseline step."""
    log_axis(axes, "x", *span, HORIZONTAL[over])
    if axes.get_ylim()[1] > NEAR_ONE:
        axes.axhline(1.0, color=colours().ink, linewidth=1.0)
