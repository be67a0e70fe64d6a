"""Draws the predicted time of each pass by component, and the predicted time per token."""

from collections.abc import Iterable

from perfmodel.answers.question import Query
from perfmodel.plots.layout import label, legend_above, panels, sign
from perfmodel.plots.palette import colours
from perfmodel.plots.passes import StagePass, stage_passes
from perfmodel.plots.theme import (
    PARTS,
    STAGES,
    Axes,
    Figure,
    caption,
    drafter,
    is_ideal,
    point_labels,
    scenario_of,
    styled,
    subject,
)
from perfmodel.speculation import Prediction, Scenario, Workload, predict

PITCH = 4.4
"""Height of a point in rows: its name, three bars and a gap."""
BARS = ("baseline", "draft", "verify")
"""The bars of a point, from top to bottom."""
NAMES = 60.0
"""Width of the names of bars, in points."""
MOST_IN_TITLE = 2
"""Largest number of points of which the title states each."""
MS_PER_S = 1e3


@styled
def breakdown(question: Query | Scenario, points: Iterable[tuple[float, float]], gamma: int) -> Figure:
    """The predicted time of each pass by component (above) and per token (below), for each pair of batch
    and context in `points`.

    The components of a bar add up to the predicted time. A tick in a bar marks the roofline's lower bound on
    the time of the pass. Returns the figure.
    """
    scenario = scenario_of(question)
    from matplotlib.patches import Patch

    where = list(points)
    above, below = panels(2, 0.5 + 0.17 * PITCH * len(where))
    look = colours()
    names, same = point_labels(where)
    visible: set[str] = set()
    speedups: list[float] = []
    for place, (batch, context) in enumerate(where):
        for stage, each in stage_passes(scenario, batch, context, gamma).items():
            visible |= _draw_pass(above, row_of(place, stage), each)
        prediction = predict(scenario, Workload.of(batch, context, gamma), max(gamma, 1))
        _draw_per_token(below, place, prediction)
        speedups.append(float(prediction.speedup))
    _bar_names(above, names, BARS)
    _bar_names(below, names, ("baseline", "speculating"))
    above.set_title("time of one pass, ms")
    below.set_title("time per token, ms")
    for axes in (above, below):
        axes.margins(x=0.14)
        axes.set_xlim(left=0.0)
    bound = sign("lower bound", color=look.ink, linestyle="none", marker="|", markersize=9, mew=1.4)
    parts = [
        Patch(facecolor=look.parts[part], hatch=hatch, label=word, edgecolor=look.ink, linewidth=0.0)
        for part, (word, hatch) in PARTS.items()
        if part in visible
    ]
    legend_above(above, [*parts, bound], NAMES)
    stages = [
        Patch(facecolor=look.stages[stage], hatch=hatch, label=word, edgecolor=look.ink, linewidth=0.0)
        for stage, (word, hatch) in STAGES.items()
    ]
    legend_above(below, stages, NAMES)
    about = "; ".join([subject(scenario, gamma), *same])
    return label(
        above, _claim(drafter(scenario), names, speedups), about, caption(scenario), ideal=is_ideal(scenario)
    )


def _claim(draft: str, names: list[str], speedups: list[float]) -> str:
    """The title: the speedup at each point, or the smallest and the largest of many."""
    each = [f"{speedup:.2f}× at {point}" for point, speedup in zip(names, speedups, strict=True)]
    if len(names) <= MOST_IN_TITLE:
        return f"{draft}: predicted speedup {', '.join(each)}"
    ends = (each[speedups.index(end(speedups))] for end in (min, max))
    return f"{draft}: predicted speedup {' to '.join(ends)}"


def row_of(place: int, stage: str) -> float:
    """The vertical position of a pass's bar.

    - place: index of the point, counted from the top.
    - stage: one of `BARS`.
    """
    return place * PITCH + 1.0 + BARS.index(stage)


def seconds_by_part(stage_pass: StagePass) -> dict[str, float]:
    """The predicted seconds of a pass by component (a key of `theme.PARTS`). Kernel launches are a separate
    component (``fixed``) and are not counted in the other components.
    """
    machine = stage_pass.machine
    empty = machine.time([], 0.0)
    part_seconds = {}
    for part in ("linear", "attention", "small", "allreduce"):
        alone = machine.time([op for op in stage_pass.ops if op.kind == part], 0.0)
        launches = float(alone.fixed_s) - float(empty.fixed_s)
        part_seconds[part] = float(alone.predicted_s) - float(empty.predicted_s) - launches
    return part_seconds | {"fixed": stage_pass.predicted_s - sum(part_seconds.values())}


def _draw_pass(axes: Axes, row: float, stage_pass: StagePass) -> set[str]:
    """Draws the bar of a pass and the tick of its lower bound. Returns the visible parts."""
    seconds = seconds_by_part(stage_pass)
    look = colours()
    bars = [(look.parts[part], PARTS[part][1], MS_PER_S * of_part) for part, of_part in seconds.items()]
    _stack(axes, row, bars)
    bound = MS_PER_S * float(stage_pass.time.lower_s)
    axes.plot([bound, bound], [row - 0.4, row + 0.4], color=look.ink, linewidth=1.6)
    return {part for part, of_part in seconds.items() if of_part > 0}


def _stack(axes: Axes, row: float, parts: list[tuple[str, str, float]]) -> None:
    """Draws one bar.

    - parts: the colour, the hatch and the length of each part.
    """
    start = 0.0
    for colour, hatch, length in parts:
        ink = colours().ink
        axes.barh(
            row, length, 0.8, left=start, color=colour, hatch=hatch, edgecolor=ink, linewidth=0, zorder=2
        )
        start += length


def _draw_per_token(axes: Axes, place: int, p: Prediction) -> None:
    """Draws the times per token of a point without and with a draft, and the speedup next to the latter."""
    stages_s = {"draft": p.gamma * p.draft_s, "verify": p.verify_s, "overhead": p.overhead_s}
    per_iteration = float(p.tokens_per_iteration)
    look = colours().stages
    parts = [
        (look[stage], STAGES[stage][1], MS_PER_S * float(s) / per_iteration) for stage, s in stages_s.items()
    ]
    _stack(axes, row_of(place, "baseline"), [(look["baseline"], "", MS_PER_S * float(p.target_s))])
    _stack(axes, row_of(place, "draft"), parts)
    end = (sum(length for _, _, length in parts), row_of(place, "draft"))
    axes.annotate(f"{float(p.speedup):.2f}×", end, (4, 0), textcoords="offset points", va="center")


def _bar_names(axes: Axes, names: list[str], bars: tuple[str, ...]) -> None:
    """Writes the name of each point, and the names of its bars below it."""
    rows = [row_of(place, stage) for place in range(len(names)) for stage in BARS[: len(bars)]]
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
            fontsize=9,
        )
