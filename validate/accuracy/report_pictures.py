"""Pictures of a machine's page: those of `perfmodel.plots`, with the measurements drawn in."""

from collections.abc import Sequence
from pathlib import Path

from perfmodel import plots
from perfmodel.plots.passes import row_of
from perfmodel.plots.residuals import speedup_line
from perfmodel.plots.theme import Figure, above, caption, label, panels, shades, sign, styled
from perfmodel.specs.calibrations.calibration import Calibration
from perfmodel.validate.accuracy.compare import Cell
from perfmodel.validate.accuracy.trends import chain_of
from perfmodel.validate.fit.counted_points import scenario_of
from perfmodel.validate.solving import grouped

Place = tuple[float, float]
"""Batch and context."""
PASSES = {"target_s": "baseline", "draft_s": "draft", "verify_s": "verify"}
MAX_POINTS = 6


def draw(cells: Sequence[Cell], calibration: Calibration, stem: Path) -> list[Path]:
    """``<stem>-errors.png``; of the chains with the most points ``-passes.png`` and ``-speedup.png``."""
    drawn = {"errors": plots.residuals(cells)}
    if chains := [c for c in cells if c.point.gamma is not None]:
        mine = max(grouped(chains, chain_of).values(), key=len)
        drawn |= {"passes": passes(mine, calibration), "speedup": speedup(mine, calibration)}
    return [plots.save(figure, stem.with_name(f"{stem.name}-{name}.png")) for name, figure in drawn.items()]


def _at(c: Cell) -> Place:
    return float(c.point.batch), float(c.point.asked_context or c.point.context)


@styled
def passes(cells: Sequence[Cell], calibration: Calibration) -> Figure:
    """Draws the predicted times of the passes by term, and the measured ones as dots."""
    p, found = cells[0].point, sorted({_at(c) for c in cells}, key=lambda place: place[::-1])
    shown = found[:: -(-len(found) // MAX_POINTS)]
    figure = plots.breakdown(scenario_of(p, calibration), shown, p.gamma or 0)
    axes = figure.axes[0]
    for c in cells:
        if c.quantity in PASSES and _at(c) in shown:
            row = row_of(shown.index(_at(c)), PASSES[c.quantity])
            axes.plot(1e3 * c.measured, row, "o", color="white", markeredgecolor="black", zorder=3)
    legend = axes.get_legend()
    assert legend is not None
    dot = sign("measured", marker="o", linestyle="none", color="white", markeredgecolor="black")
    above(axes, 2, [*legend.legend_handles, dot])
    return figure


@styled
def speedup(cells: Sequence[Cell], calibration: Calibration) -> Figure:
    """Draws the predicted speedup over context, a line per batch, and the measurements as dots of
    its colour.
    """
    p, measured = cells[0].point, [(_at(c), c.measured) for c in cells if c.quantity == "speedup"]
    contexts = [context for (_, context), _ in measured]
    batches = sorted({batch for (batch, _), _ in measured})
    span = (min(contexts) / 1.3, max(contexts) * 1.3)
    (axes,) = panels(size=(7.2, 4.0))
    scenario = scenario_of(p, calibration)
    for batch, colour in zip(batches, shades(len(batches)), strict=True):
        dots = [(at[1], value) for at, value in measured if at[0] == batch]
        speedup_line(axes, scenario, batch, span, p.gamma or 0, dots, colour=colour, name=f"batch {batch:g}")
    handles = [h for h in axes.get_legend_handles_labels()[0] if str(h.get_label()).startswith("batch")]
    dot = sign("measured", marker="o", linestyle="none", color="white", markeredgecolor="black")
    above(axes, 5, [*handles, dot])
    return label(axes, "Speedup, predicted (lines) and measured (dots)", caption(scenario, p.gamma))
