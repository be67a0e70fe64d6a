"""Draws the times of a draft step and of a verification, divided by the time of a baseline step."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from perfmodel.answers.question import Query
from perfmodel.immutable import Immutable
from perfmodel.plots.theme import (
    DARK,
    Axes,
    Figure,
    Span,
    caption,
    label,
    legend_above,
    log_axis,
    panels,
    scenario_of,
    shades,
    sign,
    styled,
    tokens,
)
from perfmodel.specs import load_calibration
from perfmodel.speculation import Scenario, Workload, predict, with_calibration

SOLID = "-"
"""Line style of the calibrated times."""
DASHED = (0, (3, 2))
"""Line style of the ideal times."""
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
    points: int = 121,
) -> Figure:
    """The time of a draft step (left) and of a verification (right), divided by the time of a baseline step,
    over a range of contexts. Each batch in `lines` has its own line.

    - span: the two ends of the horizontal axis.
    - over: the quantity on the horizontal axis, ``context`` or ``batch``; with ``batch``, each context in
      `lines` has its own line.
    - ideal: whether to add dashed lines for the ideal calibration, which has full efficiency and no fixed
      costs.
    - points: number of points per line.

    Returns the figure.
    """
    scenario = scenario_of(question)
    left, right = panels(2, (7.6, 4.0))
    steps = np.geomspace(*span, points)
    values = np.asarray(lines, float)[:, None]
    batch, context = (values, steps) if over == "context" else (steps, values)
    names = [f"batch {line:g}" if over == "context" else f"context {tokens(line)}" for line in lines]
    drawn = [Drawn(scenario, SOLID, "calibrated")]
    if ideal and scenario.machine.calibration.name != "ideal":
        drawn.append(Drawn(_on_ideal_roofline(scenario), DASHED, "ideal roofline"))
    for each in drawn:
        p = predict(each.scenario, Workload.of(batch, context, gamma), max(gamma, 1))
        for axes, ratio in ((left, p.draft_to_target), (right, p.verify_to_target)):
            curves = np.broadcast_to(ratio, (len(lines), points))
            for curve, colour, name in zip(curves, shades(len(lines)), names, strict=True):
                axes.plot(steps, curve, linestyle=each.dashes, color=colour, label=name)
    _finish(left, "one draft step, T_D / T_T", span, over)
    _finish(right, "one verification, T_V / T_T", span, over)
    left.set_ylim(bottom=0.0)
    right.set_ylim(bottom=min(right.get_ylim()[0], 0.98))
    legend_above(left, 2, left.lines[: len(lines)])
    if len(drawn) > 1:
        signs = [sign(each.words, color=DARK, linestyle=each.dashes) for each in drawn]
        legend_above(right, 2, signs)
    return label(
        left,
        "Cost of a draft step and of verification, in baseline steps",
        caption(scenario, gamma, acceptance=False),
    )


def _on_ideal_roofline(scenario: Scenario) -> Scenario:
    """The same scenario without fixed costs and with full efficiency, which is the same for all attention
    backends.
    """
    plain = replace(scenario, machine=replace(scenario.machine, attention_backend=None))
    return with_calibration(plain, load_calibration("ideal"))


def _finish(axes: Axes, name: str, span: Span, over: str) -> None:
    """Makes the axes of one ratio. An axis that reaches `NEAR_ONE` also has a line at one baseline step."""
    log_axis(axes, "x", *span, HORIZONTAL[over], 6)
    axes.set_ylabel(name, labelpad=8)
    if axes.get_ylim()[1] > NEAR_ONE:
        axes.axhline(1.0, color="black", linewidth=1.0)
