"""Single passes: operations under the roofline, components of the time, and the cost of a pass in baseline
steps.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from perfmodel.answers.question import Query
from perfmodel.costs.operation import Op
from perfmodel.costs.pass_time import LIMITERS
from perfmodel.costs.roofline import Machine
from perfmodel.plots.theme import (
    DARK,
    PARTS,
    STAGE_NAMES,
    STAGES,
    Axes,
    Figure,
    Span,
    caption,
    figure_of,
    label,
    legend_above,
    log_axis,
    panels,
    point_labels,
    scenario_of,
    shades,
    sign,
    styled,
    tokens,
)
from perfmodel.specs import load_calibration
from perfmodel.speculation import Prediction, Scenario, Workload, predict, with_calibration

PITCH = 4.4
"""Rows of a point in `breakdown`: its name, three bars and a gap."""
MARKERS = {"linear": ("linear layers", "^"), "attention": ("attention", "s"), "pass": ("whole pass", "o")}
TERA = 1e12


@styled
def roofline(question: Query | Scenario, batch: float, context: float, gamma: int) -> Figure:
    """FLOP/s over FLOPs per byte of the linear layers, of attention and of the whole pass, a colour for each
    pass.

    The lines are the device's limits, one for each peak in use. Points lie below them by the calibrated
    efficiency of the software. Passes that do not exist (a draft without a model, all but the baseline step
    at gamma 0) have no points. Returns the figure.
    """
    scenario = scenario_of(question)
    passes = _passes(scenario, batch, context, gamma)
    (axes,) = panels(1, (7.2, 4.2))
    bandwidth = scenario.machine.gpu.memory_bandwidth_bytes_per_s / TERA
    roofs = _roofs(scenario.machine, [op for _, ops, _ in passes.values() for op in ops])
    reached = []
    names = []
    for stage, (timer, ops, new) in passes.items():
        for kind, (_, marker) in MARKERS.items():
            if of_kind := [op for op in ops if kind in (op.kind, "pass")]:
                reached.append(_achieved(timer, of_kind, kind, new))
                look: dict[str, Any] = {"color": STAGES[stage], "markersize": 8, "markeredgecolor": "white"}
                axes.plot(*reached[-1], marker, **look)
        limiter = LIMITERS[str(timer.time(ops, new).limiter)]
        names.append(
            sign(
                f"{STAGE_NAMES[stage]}, limited by {limiter}",
                color=STAGES[stage],
                linestyle="none",
                marker="o",
            )
        )
    x, y = (np.array(values) for values in zip(*reached, strict=True))
    low = 0.5 * min(x.min(), 1.0)
    high = 4.0 * max(x.max(), max(roofs) / bandwidth)
    axes.set(xscale="log", yscale="log", xlim=(low, high), ylim=(0.3 * y.min(), 3.0 * max(roofs)))
    axes.set(xlabel="FLOPs per byte moved", ylabel="TFLOP/s of one device")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:g}")
    _draw_roofs(axes, bandwidth, roofs)
    kinds = [sign(word, color=DARK, linestyle="none", marker=marker) for word, marker in MARKERS.values()]
    legend_above(axes, 2, [*names, *kinds])
    where = f"batch {batch:g}, context {tokens(context)}"
    return label(axes, "Under the roofline", f"{where}; {caption(scenario, gamma, acceptance=False)}")


@styled
def breakdown(question: Query | Scenario, points: Iterable[tuple[float, float]], gamma: int) -> Figure:
    """The predicted time of each pass by component (left), and the time per token (right), for each (batch,
    context).

    The parts sum to the predicted time. A tick in a bar is the physical lower bound of its pass. Returns the
    figure.
    """
    scenario = scenario_of(question)
    from matplotlib.patches import Patch

    where = list(points)
    left, right = panels(2, (8.6, 1.5 + 0.17 * PITCH * len(where)))
    names, same = point_labels(where)
    used: dict[str, None] = {}
    for place, (batch, context) in enumerate(where):
        p = predict(scenario, Workload.of(batch, context, gamma), max(gamma, 1))
        for stage, (timer, ops, new) in _passes(scenario, batch, context, gamma).items():
            row = row_of(place, stage)
            part_seconds = _seconds_by_part(timer, ops, new)
            used |= dict.fromkeys(
                _stack(left, row, {PARTS[part][1]: 1e3 * s for part, s in part_seconds.items()})
            )
            bound = 1e3 * float(timer.time(ops, new).lower_s)
            left.plot([bound, bound], [row - 0.4, row + 0.4], color="black", linewidth=1.4)
        _per_token(right, place, p)
    for one, bars, unit in (
        (left, ("baseline", "draft", "verify"), "one pass, predicted, ms"),
        (right, ("baseline", "speculating"), "time per token, predicted, ms"),
    ):
        _bar_names(one, names, bars)
        one.set(xlabel=unit)
        one.margins(x=0.12)
        one.set_xlim(left=0.0)
    parts = [Patch(color=colour, label=word) for word, colour in PARTS.values() if colour in used]
    legend_above(
        left,
        2,
        [*parts, sign("lower bound", color="black", linestyle="none", marker="|", markersize=9)],
    )
    legend_above(right, 2, [Patch(color=STAGES[name], label=STAGE_NAMES[name]) for name in STAGES])
    return label(left, "What the time goes into", "; ".join([*same, caption(scenario, gamma)]))


def row_of(place: int, stage: str) -> float:
    """Row, counted from above, of the bar of a pass in `breakdown`, for the point with this number."""
    return place * PITCH + 1.0 + ("baseline", "draft", "verify").index(stage)


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
    """T_D/T_T (left) and T_V/T_T (right) over a span of contexts, a line for each batch; or with exchanged
    axes.

    ideal: adds dashed lines on the roofline without fixed costs at full efficiency. Returns the figure.
    """
    scenario = scenario_of(question)
    places = panels(2, (7.6, 4.0))
    steps = np.geomspace(*span, points)
    values = np.asarray(lines, float)[:, None]
    batch, context = (values, steps) if over == "context" else (steps, values)
    drawn: list[tuple[Scenario, Any]] = [(scenario, "-")]
    if ideal and scenario.machine.calibration.name != "ideal":
        plain = replace(scenario, machine=replace(scenario.machine, attention_backend=None))
        drawn.append((with_calibration(plain, load_calibration("ideal")), (0, (3, 2))))
    for each, dashes in drawn:
        p = predict(each, Workload.of(batch, context, gamma), max(gamma, 1))
        for axes, ratio in zip(places, (p.draft_to_target, p.verify_to_target), strict=True):
            for line, colour, number in zip(
                np.broadcast_to(ratio, (len(lines), points)), shades(len(lines)), lines, strict=True
            ):
                name = f"batch {number:g}" if over == "context" else f"context {tokens(number)}"
                axes.plot(steps, line, linestyle=dashes, color=colour, label=name)
    words = "context, cached tokens per sequence" if over == "context" else "batch, sequences"
    for axes, name in zip(places, ("one draft step, T_D / T_T", "one verification, T_V / T_T"), strict=True):
        log_axis(axes, "x", *span, words, 6)
        axes.set_ylabel(name, labelpad=8)
        if axes.get_ylim()[1] > 0.7:  # else half of the axis would be empty
            axes.axhline(1.0, color="black", linewidth=1.0)
    handles = places[0].lines[: len(lines)]
    places[0].set_ylim(bottom=0.0)
    places[1].set_ylim(bottom=min(places[1].get_ylim()[0], 0.98))
    legend_above(places[0], 2, handles)
    if len(drawn) > 1:
        styles: list[tuple[Any, str]] = [("-", "calibrated"), ((0, (3, 2)), "ideal roofline")]
        legend_above(places[1], 2, [sign(word, color=DARK, linestyle=dash) for dash, word in styles])
    return label(
        places[0],
        "Cost of a draft step and of verification, in baseline steps",
        caption(scenario, gamma, acceptance=False),
    )


def _passes(
    scenario: Scenario, batch: float, context: float, gamma: int
) -> dict[str, tuple[Machine, list[Op], float]]:
    """Stage -> machine, ops and new tokens of its pass, for the passes that exist."""
    passes = {"baseline": (scenario.machine, scenario.target_ops(batch, context), batch)}
    if np.any(scenario.draft.passes(gamma)):
        query = float(scenario.draft.query(gamma))
        passes["draft"] = (scenario.draft_machine, scenario.draft_ops(batch, context, query), batch * query)
    if gamma:
        passes["verify"] = (
            scenario.machine,
            scenario.target_ops(batch, context, gamma + 1.0),
            batch * (gamma + 1.0),
        )
    return passes


def _achieved(timer: Machine, ops: list[Op], kind: str, new: float) -> tuple[float, float]:
    """FLOPs per byte, and TFLOPs per predicted second."""
    flops = sum((float(op.cost.flops) for op in ops), start=0.0)
    moved = sum((float(op.cost.bytes) for op in ops), start=0.0)
    seconds = sum((float(timer.op_predicted_s(op)) for op in ops), start=0.0)
    seconds = float(timer.predicted_s(ops, new)) if kind == "pass" else seconds
    return flops / moved, flops / seconds / TERA


def _seconds_by_part(timer: Machine, ops: list[Op], new: float) -> dict[str, float]:
    """Part -> seconds of a pass; they sum to its predicted time. Launches are separate from their kinds."""
    base = timer.time([], 0.0)
    part_seconds = {}
    for part in ("linear", "attention", "small", "allreduce"):
        alone = timer.time([op for op in ops if op.kind == part], 0.0)
        launches = float(alone.fixed_s) - float(base.fixed_s)
        part_seconds[part] = float(alone.predicted_s) - float(base.predicted_s) - launches
    return part_seconds | {"fixed": float(timer.predicted_s(ops, new)) - sum(part_seconds.values())}


def _stack(axes: Axes, row: float, parts: dict[str, float]) -> list[str]:
    """One bar of coloured parts. Returns the colours that are visible."""
    start = 0.0
    for colour, length in parts.items():
        axes.barh(row, length, 0.8, left=start, color=colour, zorder=2)
        start += length
    return [colour for colour, length in parts.items() if length > 0]


def _per_token(axes: Axes, place: int, p: Prediction) -> None:
    gained = float(p.tokens_per_iteration)
    overhead = float(p.overhead_s)
    stages = {"draft": float(p.gamma * p.draft_s), "verify": float(p.verify_s), "overhead": overhead}
    parts = {STAGES[stage]: 1e3 * seconds / gained for stage, seconds in stages.items()}
    _stack(axes, row_of(place, "baseline"), {STAGES["baseline"]: 1e3 * float(p.target_s)})
    _stack(axes, row_of(place, "draft"), parts)
    at = (sum(parts.values()), row_of(place, "draft"))
    axes.annotate(f"{float(p.speedup):.2f}×", at, (4, 0), textcoords="offset points", va="center")


def _bar_names(axes: Axes, names: list[str], bars: tuple[str, ...]) -> None:
    """Labels of the bars, below those of the points."""
    rows = [place * PITCH + 1.0 + bar for place in range(len(names)) for bar in range(len(bars))]
    axes.set_yticks(rows, list(bars) * len(names))
    axes.tick_params(axis="y", length=0)
    axes.grid(False, axis="y")
    axes.set_ylim(PITCH * len(names) - 0.6, -0.6)
    for place, name in enumerate(names):
        axes.annotate(
            name,
            (0.0, place * PITCH),
            (3, 0),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            va="center",
            fontweight="bold",
            fontsize=8,
        )


def _roofs(machine: Machine, ops: list[Op]) -> dict[float, str]:
    """Peak in TFLOP/s -> the formats in use that compute at it."""
    roofs: dict[float, str] = {}
    for compute in sorted({op.compute for op in ops if float(op.cost.flops) > 0}):
        peak = machine.gpu.peak_flops(compute) / TERA
        roofs[peak] = f"{roofs[peak]}, {compute}" if peak in roofs else compute
    return roofs


def _draw_roofs(axes: Axes, bandwidth: float, roofs: dict[float, str]) -> None:
    """Draws the slope of the bandwidth up to a level for each peak, with labels."""
    from matplotlib.transforms import offset_copy

    low, high = axes.get_xlim()
    start = max(low, axes.get_ylim()[0] / bandwidth)
    falling = sorted(roofs, reverse=True)
    for peak in falling:
        roof = np.array([low, peak / bandwidth, high])
        axes.plot(roof, np.minimum(roof * bandwidth, peak), color="black", zorder=2)
        if len(falling) == 1:
            aligned = "center"
        elif peak == falling[0]:
            aligned = "bottom"
        elif peak == falling[-1]:
            aligned = "top"
        else:
            aligned = "center"
        axes.annotate(
            f"{peak:,.0f} TFLOP/s ({roofs[peak]})\nridge: {peak / bandwidth:.0f} FLOPs/byte",
            (1.0, peak),
            (4, 0),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            fontsize=8,
            va=aligned,
        )
    at = start * (falling[0] / bandwidth / start) ** 0.25
    axes.text(
        at,
        at * bandwidth,
        f"{1e3 * bandwidth:,.0f} GB/s",
        fontsize=8,
        rotation=np.degrees(np.arctan(bandwidth)),
        rotation_mode="anchor",
        transform_rotates_text=True,
        transform=offset_copy(axes.transData, figure_of(axes), -4, 8, units="points"),
    )
