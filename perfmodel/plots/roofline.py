"""Draws the passes of an iteration below the roofline of the device."""

from typing import Any, NamedTuple

import numpy as np

from perfmodel.answers.question import Query
from perfmodel.costs.operation import Op
from perfmodel.costs.pass_time import LIMITERS
from perfmodel.costs.roofline import Machine
from perfmodel.plots.layout import figure_of, label, legend_above, panels, sign
from perfmodel.plots.palette import colours
from perfmodel.plots.passes import StagePass, stage_passes
from perfmodel.plots.theme import (
    STAGES,
    Axes,
    Figure,
    caption,
    is_ideal,
    scenario_of,
    styled,
    subject,
    tokens,
)
from perfmodel.speculation import Scenario

WHOLE = "pass"
"""Key for all operations of a pass together."""
MARKERS = {"linear": ("linear layers", "^"), "attention": ("attention", "s"), WHOLE: ("whole pass", "o")}
"""Kind of operation -> its words and its marker."""
MARKS: dict[str, dict[str, Any]] = {
    "baseline": {"markersize": 11, "fillstyle": "none", "markeredgewidth": 1.6, "zorder": 3},
    "draft": {"markersize": 5, "zorder": 5},
    "verify": {"markersize": 8, "fillstyle": "left", "zorder": 4},
}
"""Look of the points of a pass. Points of several passes at one place are visible inside each other."""
DOES_LIMIT = {
    "param_load": "reading weights limits",
    "kv_load": "reading the KV cache limits",
    "flops": "compute limits",
    "activations": "moving activations limits",
    "comm": "all-reduce limits",
    "fixed": "kernel launches limit",
    "host": "the host limits",
}
"""Limiter of a pass -> the words in the title."""
TERA = 1e12
LABEL_AT = 0.15
"""Where the label of the bandwidth begins, as a share of the visible slope on its logarithmic scale."""


class Reached(NamedTuple):
    """A point under the roofline: FLOPs per byte, and teraFLOPs per predicted second."""

    intensity: float
    tera_flops: float


@styled
def roofline(question: Query | Scenario, batch: float, context: float, gamma: int) -> Figure:
    """The predicted FLOP/s of linear layers, attention and whole passes over their FLOPs per byte. Each pass
    has its own colour.

    The lines are the limits of the device: its bandwidth, and the peak of each number format in which a pass
    computes. Points lie below the lines because no software reaches full efficiency. A draft that runs no
    model has no points. At gamma 0 only the baseline step has points. Returns the figure.
    """
    scenario = scenario_of(question)
    passes = stage_passes(scenario, batch, context, gamma)
    (axes,) = panels(height=3.4)
    look = colours()
    bandwidth = scenario.machine.gpu.memory_bandwidth_bytes_per_s / TERA  # in TB/s
    roofs = _roofs(scenario.machine, [op for each in passes.values() for op in each.ops])
    reached = []
    names = []
    for stage, each in passes.items():
        drawn = {"color": look.stages[stage], "linestyle": "none", **MARKS[stage]}
        reached += _draw_points(axes, each, drawn)
        words = f"{STAGES[stage][0]}: limited by {_limit(each)}"
        names.append(sign(words, marker="o", **drawn))
    x, y = (np.array(values) for values in zip(*reached, strict=True))
    low = 0.5 * min(x.min(), 1.0)
    high = 6.0 * max(x.max(), max(roofs) / bandwidth)
    axes.set(xscale="log", yscale="log", xlim=(low, high), ylim=(0.3 * y.min(), 3.5 * max(roofs)))
    axes.set(xlabel="FLOPs per byte moved")
    axes.set_title("TFLOP/s of one device")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:g}")
    _draw_roofs(axes, bandwidth, roofs)
    kinds = [sign(word, color=look.ink, linestyle="none", marker=marker) for word, marker in MARKERS.values()]
    legend_above(axes, [*names, *kinds])
    ridges = ", ".join(f"{peak / bandwidth:.0f} ({formats})" for peak, formats in roofs.items())
    return label(
        axes,
        _claim(passes),
        f"{subject(scenario, gamma)}; batch {batch:g}, context {tokens(context)}",
        f"predicted; ridge at {ridges} FLOPs/byte; {caption(scenario, acceptance=False)}",
        ideal=is_ideal(scenario),
    )


def _limit(stage_pass: StagePass) -> str:
    """The word for what limits a pass."""
    return LIMITERS[str(stage_pass.time.limiter)]


def _claim(passes: dict[str, StagePass]) -> str:
    """The title: what limits the passes."""
    parts: dict[str, list[str]] = {}
    for stage, each in passes.items():
        parts.setdefault(str(each.time.limiter), []).append(STAGES[stage][0])
    words = [f"{DOES_LIMIT[limiter]} the {_joined(names)}" for limiter, names in parts.items()]
    claim = "; ".join(words)
    return f"{claim[:1].upper()}{claim[1:]}"


def _joined(names: list[str]) -> str:
    """Names as a list in a sentence."""
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _draw_points(axes: Axes, stage_pass: StagePass, look: dict[str, Any]) -> list[Reached]:
    """Draws a point for each kind of operation that a pass has, and returns the points."""
    reached = []
    for kind, (_, marker) in MARKERS.items():
        ops = [op for op in stage_pass.ops if kind in (op.kind, WHOLE)]
        if not ops:
            continue
        seconds = (
            stage_pass.predicted_s
            if kind == WHOLE
            else sum(float(stage_pass.machine.op_predicted_s(op)) for op in ops)
        )
        reached.append(_reached(ops, seconds))
        axes.plot(*reached[-1], marker=marker, **look)
    return reached


def _reached(ops: list[Op], seconds: float) -> Reached:
    """The point of operations that take this time together."""
    flops = sum((float(op.cost.flops) for op in ops), start=0.0)
    moved = sum((float(op.cost.bytes) for op in ops), start=0.0)
    return Reached(flops / moved, flops / seconds / TERA)


def _roofs(machine: Machine, ops: list[Op]) -> dict[float, str]:
    """Peak in TFLOP/s -> the formats in use that compute at it."""
    roofs: dict[float, str] = {}
    for compute in sorted({op.compute for op in ops if float(op.cost.flops) > 0}):
        peak = machine.gpu.peak_flops(compute) / TERA
        roofs[peak] = f"{roofs[peak]}, {compute}" if peak in roofs else compute
    return roofs


def _draw_roofs(axes: Axes, bandwidth: float, roofs: dict[float, str]) -> None:
    """Draws the slope of the bandwidth up to a level for each peak, with labels above the highest line. The
    labels of the other lines are below them, because the slope passes above.

    - bandwidth: in TB/s.
    """
    from matplotlib.transforms import offset_copy

    low, high = axes.get_xlim()
    start = max(low, axes.get_ylim()[0] / bandwidth)
    falling = sorted(roofs, reverse=True)
    for peak in falling:
        roof = np.array([low, peak / bandwidth, high])
        axes.plot(roof, np.minimum(roof * bandwidth, peak), color=colours().ink, zorder=2)
        axes.annotate(
            f"{peak:,.0f} TFLOP/s ({roofs[peak]})",
            (1.0, peak),
            (0, 4 if peak == falling[0] else -4),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            fontsize=9,
            ha="right",
            va="baseline" if peak == falling[0] else "top",
        )
    ridge = falling[0] / bandwidth
    left = start * (ridge / start) ** LABEL_AT
    axes.text(
        left,
        left * bandwidth,
        f"{1e3 * bandwidth:,.0f} GB/s",
        fontsize=9,
        rotation=np.degrees(np.arctan(bandwidth)),
        rotation_mode="anchor",
        transform_rotates_text=True,
        transform=offset_copy(axes.transData, figure_of(axes), -4, 6, units="points"),
    )
