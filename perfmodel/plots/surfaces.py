"""Draws the predicted speedup of speculation over batch and context."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from perfmodel.answers.question import Query
from perfmodel.answers.text import tokens
from perfmodel.operations import Array, Ints, Mask
from perfmodel.plots.layout import figure_of, label, legend_above, panels, sign
from perfmodel.plots.memory import fits_in_memory
from perfmodel.plots.palette import colours
from perfmodel.plots.surface_claim import round_batches, round_contexts, surface_claim
from perfmodel.plots.theme import (
    Axes,
    Figure,
    Span,
    caption,
    drafter,
    is_ideal,
    log_axis,
    scenario_of,
    styled,
    subject,
)
from perfmodel.speculation import (
    DEFAULT_BATCH_RANGE,
    DEFAULT_MAX_GAMMA,
    Scenario,
    check_draft_length,
    inflection_context,
    speedups,
)

BATCHES = (1.0, 256.0)
CONTEXTS = (1024.0, 131072.0)
"""Default ends of the axes."""
POINTS = 65
"""Default number of points along each axis."""
SLOWER = (0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.35, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
FASTER = (
    1.1,
    1.2,
    1.3,
    1.4,
    1.5,
    1.6,
    1.7,
    1.8,
    1.9,
    2.0,
    2.25,
    2.5,
    3.0,
    3.5,
    4.0,
    5.0,
    6.0,
    8.0,
    12.0,
    16.0,
    24.0,
)
LEVELS = (*SLOWER, *FASTER)
"""Speedups at which the colour changes."""
SPREAD = ((0, FASTER.index(3.0), len(FASTER)), (0.0, 0.85, 1.0))
"""Number of a band above break even -> its place in the colours. Most are for speedups up to three."""
MAX_TICKS = 9
"""Largest number of ticks on the scale of colours."""
BELOW_RIGHT: dict[str, Any] = {"xytext": (6, -1), "ha": "left", "va": "top"}
ABOVE: dict[str, Any] = {"xytext": (0, 6), "ha": "center", "va": "bottom"}
"""Positions of the number of a measured point: to its right, and above it where the axes end."""
NEAR_EDGE = 0.92
"""Position on the horizontal axis from which a number to the right of a point would leave the axes."""
INFLECTION = "above the inflection context, a larger batch does not reduce the speedup"
"""The words of the caption for the dashed line."""
EXTENDED = {
    (False, False): "neither",
    (True, False): "min",
    (False, True): "max",
    (True, True): "both",
}
"""Whether values are below, and above, all levels -> the bands that matplotlib adds for them."""


class MeasuredPoint(NamedTuple):
    """A measured speedup with its batch and its context."""

    batch: float
    context: float
    speedup: float


@styled
def surface(
    question: Query | Scenario,
    *,
    gamma: int | None = None,
    batch: Span = BATCHES,
    context: Span = CONTEXTS,
    max_gamma: int = DEFAULT_MAX_GAMMA,
    batch_range: Span = DEFAULT_BATCH_RANGE,
    memory_fraction: float | None = None,
    measured: Iterable[tuple[float, float, float]] = (),
    points: int = POINTS,
) -> Figure:
    """The predicted speedup over ranges of batch and context.

    - gamma: the draft length; None means the best length at each point.

    On the black line, the speedup is 1. The dashed line marks the inflection context and is only drawn for a
    given gamma. At longer contexts, a larger batch within `batch_range` does not reduce the speedup. Areas
    that do not fit in memory are hatched.

    - measured: measured points (batch, context, speedup), drawn as dots in the colour of their speedup.

    Returns the figure.
    """
    scenario = scenario_of(question)
    batches = np.geomspace(*batch, points)
    contexts = np.geomspace(*context, points)
    check_draft_length(scenario.draft, gamma or 0)
    gammas = np.arange(scenario.longest(max_gamma) + 1) if gamma is None else np.array([gamma])
    every = speedups(scenario, batches[:, None], contexts, gammas)
    values = every.max(-1)
    drafted = gammas[every.argmax(-1)]
    drafting = every[..., gammas > 0].max(-1) if gammas.any() else values
    (axes,) = panels(height=3.6)
    fits = _fits(scenario, batches, contexts, drafted, memory_fraction)
    fitting = values[fits] if fits.any() else values  # points that do not fit do not affect the scale
    levels, filling = _levels(fitting)
    extended = EXTENDED[bool(fitting.min() < levels[0]), bool(fitting.max() > levels[-1])]
    axes.set_facecolor(colours().pale)
    # between a point that fits and one that does not, the fill has no gap
    inside = np.where(fits, drafting, np.minimum(drafting, levels[-1] * (1 - 1e-9)))
    filled = axes.contourf(contexts, batches, inside, levels, colors=filling, extend=extended)
    handles = _break_even(axes, batches, contexts, drafting)
    explained = ""
    if gamma:
        inflection = inflection_context(scenario, gamma, batch_range)
        if inflection is not None and _is_seen(inflection, batches, contexts, fits, batch_range):
            handles += _inflection(axes, inflection, batch, batch_range)
            explained = f"; {INFLECTION}"
    handles += _memory(axes, batches, contexts, fits)
    if not gamma and drafting.min() < 1.0:
        handles.append(sign("do not speculate", color=colours().pale, linewidth=7.0, solid_capstyle="butt"))
    log_axis(axes, "x", *context, "context, cached tokens per sequence")
    log_axis(axes, "y", *batch, "batch, sequences", 9)
    axes.grid(False)
    handles += _dots(axes, _within(measured, batch, context))
    legend_above(axes, handles)
    _add_colour_bar(axes, filled, levels)
    searched = "" if gamma else f"; best γ to {max_gamma} at each point"
    share = "the engine's share" if memory_fraction is None else f"a share of {memory_fraction:.4g}"
    limits = scenario.account.server.stated
    return label(
        axes,
        surface_claim(drafter(scenario), *_stated(scenario, batch, context, gammas, memory_fraction)),
        f"{subject(scenario, gamma)}{searched}",
        f"{caption(scenario)}; memory: {share}{limits}{explained}",
        ideal=is_ideal(scenario),
    )


def _stated(
    scenario: Scenario, batch: Span, context: Span, gammas: Ints, fraction: float | None
) -> tuple[Array, Array, Array]:
    """The batches and contexts that a title may name, and the speedups there, [batch, context]; NaN where a
    point does not fit in memory.
    """
    batches, contexts = round_batches(batch), round_contexts(context)
    every = speedups(scenario, batches[:, None], contexts, gammas)
    fits = _fits(scenario, batches, contexts, gammas[every.argmax(-1)], fraction)
    drafting = every[..., gammas > 0].max(-1) if gammas.any() else every.max(-1)
    return batches, contexts, np.where(fits, drafting, np.nan)


def _break_even(axes: Axes, batches: Array, contexts: Array, speedup: Array) -> list[Any]:
    """Draws the line where the speedup is 1; returns the entry of the legend."""
    if not speedup.min() < 1.0 < speedup.max():
        return []
    ink = colours().ink
    axes.contour(contexts, batches, speedup, [1.0], colors=ink, linewidths=2.0)
    return [sign("break even", color=ink, linewidth=2.0)]


def _is_seen(inflection: float, batches: Array, contexts: Array, fits: Mask, batch_range: Span) -> bool:
    """Whether a part of the line of the inflection context is within the axes and fits in memory."""
    if not contexts[0] < inflection < contexts[-1]:
        return False
    of_line = (batch_range[0] <= batches) & (batches <= batch_range[1])
    return bool(fits[of_line, np.searchsorted(contexts, inflection)].any())


def _inflection(axes: Axes, inflection: float, batches: Span, batch_range: Span) -> list[Any]:
    """Draws the inflection context over its batches; returns the entry of the legend."""
    low, high = max(batches[0], batch_range[0]), min(batches[1], batch_range[1])
    name = f"inflection context ({tokens(inflection)}, batches {batch_range[0]:g} to {batch_range[1]:g})"
    look: dict[str, Any] = {"color": colours().ink, "linewidth": 1.2, "linestyle": (0, (4, 3))}
    return axes.plot([inflection, inflection], [low, high], label=name, **look)


def _add_colour_bar(axes: Axes, filled: Any, levels: Sequence[float]) -> None:
    """Adds the scale of the colours. It has at most `MAX_TICKS` ticks. One of them is at 1, and the last one
    is at the end of the scale or at 1.
    """
    step = -(-len(levels) // MAX_TICKS)
    *ticks, last = levels[levels.index(1.0) % step :: step]
    ticks.append(last if last == 1.0 else levels[-1])
    bar = figure_of(axes).colorbar(
        filled, ax=axes, orientation="horizontal", ticks=ticks, pad=0.02, aspect=28
    )
    bar.set_label("predicted speedup over the baseline")
    bar.ax.set_xticklabels([f"{level:g}×" for level in ticks])


def _within(
    measured: Iterable[tuple[float, float, float]], batch: Span, context: Span
) -> Sequence[MeasuredPoint]:
    """The measurements within both axes, sorted by batch."""
    every = (MeasuredPoint(*each) for each in measured)
    return sorted(
        each
        for each in every
        if batch[0] <= each.batch <= batch[1] and context[0] <= each.context <= context[1]
    )


def _levels(values: Array) -> tuple[list[float], list[Any]]:
    """Levels from just below the values to just above, including 1, and a colour for each band.

    Values beyond all levels have an additional band. A colour depends only on its speedup, so two pictures
    can be compared. No two bands share a colour.
    """
    low = min(float(values.min()), 1.0)
    high = max(float(values.max()), 1.0)
    first = int(np.searchsorted(LEVELS, low, "right")) - 1
    last = int(np.searchsorted(LEVELS, high))
    if first == last:  # all values are 1, and there is at least one band
        last += 1
    return list(LEVELS[max(first, 0) : last + 1]), _bands()[first + 1 : last + 1]


def _bands() -> list[tuple[float, ...]]:
    """The colours below, between and beyond `LEVELS`."""
    from matplotlib.colors import LinearSegmentedColormap

    look = colours()
    slower = LinearSegmentedColormap.from_list("slower", look.below[::-1])(
        np.linspace(0.0, 1.0, len(SLOWER)) ** 1.2
    )
    faster = LinearSegmentedColormap.from_list("faster", look.above)(
        np.interp(np.arange(len(FASTER) + 1), *SPREAD)
    )
    return [tuple(colour) for colour in (*slower, *faster)]


def _fits(scenario: Scenario, batches: Array, contexts: Array, gamma: Ints, fraction: float | None) -> Mask:
    """Whether memory suffices, over [batch, context]."""
    return fits_in_memory(scenario, batches[:, None], contexts, gamma.astype(np.float64), fraction)


def _memory(axes: Axes, batches: Array, contexts: Array, fits: Mask) -> list[Any]:
    """Hatches the points that do not fit; returns the entry of the legend."""
    if fits.all():
        return []
    from matplotlib.patches import Patch

    look = colours()
    above: dict[str, Any] = {"levels": [0.5, 1.5], "zorder": 2.1}  # hides lines at points that do not fit
    axes.contourf(contexts, batches, ~fits, colors=[look.page], **above)
    hatched = axes.contourf(contexts, batches, ~fits, colors="none", hatches=["///"], **above)
    hatched.set(edgecolor=look.grey, linewidth=0.0)
    return [Patch(facecolor=look.page, edgecolor=look.grey, hatch="///", label="does not fit in memory")]


def _dots(axes: Axes, measured: Sequence[MeasuredPoint]) -> list[Any]:
    """Draws a dot in the colour of each measured value, with its number; returns the entry of the legend. The
    edges of the axes do not clip the dots.
    """
    if not measured:
        return []
    bands = _bands()
    look = colours()
    contexts = [each.context for each in measured]
    batches = [each.batch for each in measured]
    (dots,) = axes.plot(contexts, batches, "o", color=look.ink, markersize=7)
    dots.set(label="measured, filled in its colour", markerfacecolor=look.page, clip_on=False, zorder=3)
    behind: dict[str, Any] = {"facecolor": look.page, "edgecolor": "none", "pad": 0.6, "alpha": 0.8}
    for sequences, length, speedup in measured:
        colour = bands[int(np.searchsorted(LEVELS, speedup, "right"))]
        axes.plot(length, sequences, "o", color=colour, markersize=5.2, clip_on=False, zorder=4)
        across = axes.transAxes.inverted().transform(axes.transData.transform((length, sequences)))[0]
        side = ABOVE if across > NEAR_EDGE else BELOW_RIGHT
        axes.annotate(
            f"{speedup:.2f}",
            (length, sequences),
            textcoords="offset points",
            fontsize=9,
            bbox=behind,
            **side,
        )
    return [dots]
