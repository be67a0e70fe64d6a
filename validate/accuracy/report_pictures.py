"""Pictures of a machine's page; the same numbers give the same bytes."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib.figure import Figure

from perfmodel.validate.accuracy.beside import FIGURES, LABELS, Side

PASSES = ("target_s", "draft_s", "verify_s")
PARTS = {
    "param_load_s": ("parameters", "#4477aa"),
    "kv_load_s": ("KV", "#66ccee"),
    "flop_s": ("FLOPs", "#228833"),
    "comm_s": ("communication", "#aa3377"),
    "fixed_s": ("fixed", "#bbbbbb"),
}
COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377")
MOST_BARS = 24


def draw(compared: Sequence[Side], stem: Path) -> list[Path]:
    """``<stem>-scatter.png``, ``-breakdown.png`` and ``-speedup.png``."""
    drawn = {"scatter": scatter(compared), "breakdown": breakdown(compared), "speedup": speedup(compared)}
    paths = []
    for name, figure in drawn.items():
        path = stem.with_name(f"{stem.name}-{name}.png")
        figure.savefig(path, dpi=110, metadata={"Software": None})
        paths.append(path)
    return paths


def scatter(compared: Sequence[Side]) -> Figure:
    """Predicted over measured, every time in one panel and the speedups in another."""
    figure = Figure(figsize=(11, 5), layout="constrained")
    times, ratios = figure.subplots(1, 2)
    for figure_name, colour in zip(FIGURES[:-1], COLOURS, strict=False):
        pairs = [(c, s.predicted[figure_name]) for s in compared if (c := s.measured(figure_name)) is not None]
        if pairs:
            x, y = zip(*pairs, strict=True)
            times.loglog(x, y, "o", ms=4, alpha=0.7, color=colour, label=LABELS[figure_name])
    pairs = [(c, s.predicted["speedup"]) for s in compared if (c := s.measured("speedup")) is not None]
    if pairs:
        x, y = zip(*pairs, strict=True)
        ratios.plot(x, y, "o", ms=4, color=COLOURS[0])
    for axes, what in ((times, "seconds"), (ratios, "speedup")):
        low, high = _limits(axes)
        axes.plot([low, high], [low, high], color="black", lw=0.8)
        axes.fill_between([low, high], [low * 0.9, high * 0.9], [low * 1.1, high * 1.1], color="#dddddd", zorder=0)
        axes.set(xlabel=f"measured {what}", ylabel=f"predicted {what}")
    ratios.axhline(1, color="black", lw=0.5, ls=":")
    ratios.axvline(1, color="black", lw=0.5, ls=":")
    if times.get_legend_handles_labels()[0]:
        times.legend(fontsize=8)
    return figure


def breakdown(compared: Sequence[Side]) -> Figure:
    """For each pass: what the engine counts at peak rates, stacked, the predicted time and the measured one beside."""
    figure = Figure(figsize=(12, 8), layout="constrained")
    panels = figure.subplots(3, 1)
    for axes, name in zip(panels, PASSES, strict=True):
        seen: dict[str, Side] = {}
        for side in compared:
            r = side.point.row
            label = f"{r.target}\nB{r.batch} S{r.context}"
            label += "" if name == "target_s" else f"\nγ{r.gamma} {r.draft_kv}"
            if side.measured(name) is not None:
                seen.setdefault(label, side)
        shown = list(seen.items())[:: max(1, -(-len(seen) // MOST_BARS))]
        _bars(axes, name, shown)
    panels[0].legend(fontsize=8, ncols=4)
    return figure


def _bars(axes: Any, name: str, shown: list[tuple[str, Side]]) -> None:
    steps = [side.step(name) for _, side in shown]
    base = [0.0] * len(steps)
    places = range(len(steps))
    for part, (label, colour) in PARTS.items():
        heights = [float(getattr(step, part)) * 1e3 for step in steps]
        axes.bar([p - 0.2 for p in places], heights, 0.36, bottom=base, color=colour, label=label)
        base = [b + h for b, h in zip(base, heights, strict=True)]
    axes.plot([p - 0.2 for p in places], [float(s.predicted_s) * 1e3 for s in steps], "k_", ms=14, label="predicted")
    clocks = [(side.measured(name) or 0.0) * 1e3 for _, side in shown]
    axes.bar([p + 0.2 for p in places], clocks, 0.36, color="#ee6677", label="measured")
    axes.set_xticks(list(places), [label for label, _ in shown], fontsize=6)
    axes.set(ylabel=f"{LABELS[name]}, ms")


def speedup(compared: Sequence[Side]) -> Figure:
    """Speedup over context, a line for each batch (measured points, predicted lines); a panel for a pair and gamma."""
    groups: dict[tuple[str, str, int], dict[int, list[Side]]] = {}
    for side in compared:
        r = side.point.row
        if side.measured("speedup") is not None:
            groups.setdefault((r.target, f"{r.draft} {r.draft_kv}", r.gamma), {}).setdefault(r.batch, []).append(side)
    columns = min(3, max(1, len(groups)))
    rows = max(1, -(-len(groups) // columns))
    figure = Figure(figsize=(4.2 * columns, 3.2 * rows), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes, ((target, draft, gamma), batches) in zip(panels, groups.items(), strict=False):
        for colour, (batch, mine) in zip(COLOURS * 4, sorted(batches.items()), strict=False):
            mine = sorted(mine, key=lambda side: side.point.row.context)
            contexts = [side.point.row.context for side in mine]
            axes.plot(contexts, [s.predicted["speedup"] for s in mine], "_-", color=colour, lw=1, ms=12)
            axes.plot(contexts, [s.measured("speedup") for s in mine], "o", color=colour, ms=5, label=f"B {batch}")
        axes.axhline(1, color="black", lw=0.6, ls=":")
        axes.set_xscale("log", base=2)
        axes.set(title=f"{target}, {draft}, γ {gamma}", xlabel="context", ylabel="speedup")
        axes.title.set_fontsize(8)
        axes.legend(fontsize=7)
    for axes in panels[len(groups) :]:
        axes.set_visible(False)
    figure.suptitle("points measured, lines predicted", fontsize=9)
    return figure


def _limits(axes: Any) -> tuple[float, float]:
    low = min(axes.get_xlim()[0], axes.get_ylim()[0])
    return low, max(axes.get_xlim()[1], axes.get_ylim()[1])
