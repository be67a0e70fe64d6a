"""Draws an answer of `advise`: throughput per device over time per token, with and without a draft."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from perfmodel.answers.advice.advice import Advice
from perfmodel.answers.advice.picks import Pick
from perfmodel.answers.advice.ranking import FrontPoint
from perfmodel.errors import InputError
from perfmodel.plots.asked import asked
from perfmodel.plots.layout import (
    AXIS,
    INCH,
    SMALL,
    WIDTH,
    continued,
    label,
    legend_above,
    panels,
    width_of,
)
from perfmodel.plots.palette import colours
from perfmodel.plots.theme import Axes, Figure, draft_in_title, styled, tokens

CHOSEN: dict[str, Any] = {
    "markersize": 13,
    "linestyle": "none",
    "zorder": 4,
}
"""The look of the choice, which is a star."""
BESIDE = 5.0
"""Distance of a label from its point, in points."""
ABOVE: dict[str, Any] = {"xytext": (-BESIDE, BESIDE), "ha": "right", "va": "bottom"}
BELOW: dict[str, Any] = {"xytext": (BESIDE, -BESIDE), "ha": "left", "va": "top"}
"""Positions of the label of a point: above the front with a draft, and below the front of the baseline."""
OF_PICTURE = ("model", "hardware", "context")
"""Arguments in the subtitle."""
WORDS = {
    "tp": "GPUs of a server",
    "batch": "batch of a server",
    "rate": "acceptance",
    "any_draft": "drafts that no engine runs are included",
    "max_tpot_ms": "bound on the time per token in ms",
}
"""Argument -> its words in the caption. Other arguments have their own names."""
GAINS = {
    "throughput": "{:.2f}× the throughput per device of the best baseline",
    "latency": "{:.2f}× as fast as the best baseline",
    "cost": "{:.2f}× the tokens per dollar of the best baseline",
}
"""Objective -> the words for a gain."""
HEIGHT = 3.3
"""Height of the panel with its ticks, in inches."""
PANEL = INCH * np.array([WIDTH, HEIGHT]) - AXIS
"""About the width and the height of the axes, in points."""
CLOSE = 0.05
"""Distance that a label needs from another line, as a share of the axis."""
LETTER = 0.01
"""Width of a letter, as a share of the axis."""
NAMED = 3
"""Largest number of points of a front that have labels."""
MILLISECONDS = 1e3


@styled
def pareto(advice: Advice) -> Figure:
    """The Pareto fronts of the baseline and of speculation: throughput per device over time per output token.
    A combination of batch and layout is on a front if no other combination has both a higher throughput and a
    shorter time per token.

    A point is labelled with the batch of one server and, if layouts differ, the layout. The star marks the
    choice of `advise`. The dotted line is the user's bound on the time per token. Raises InputError if
    nothing fits in memory, or if the answer is about a load, because such an answer has no fronts.
    """
    if advice.query.has_load:
        raise InputError("pareto: needs a question without a load; `perfmodel plot traffic` draws one")
    fronts = advice.pareto
    every = (*fronts.baseline, *fronts.speculating)
    if not every:
        raise InputError(f"pareto: {advice.reason}")
    several = len({point.layout for point in every}) > 1
    (axes,) = panels(height=HEIGHT)
    look = colours()
    of_baseline = {"color": look.bright[0], "marker": "s", "linestyle": "--"}
    of_draft = {"color": look.bright[5], "marker": "o", "linestyle": "-"}
    words = "batch and layout" if several else "batch"
    named_below = _far_from(fronts.speculating, _spread(fronts.baseline, advice.chosen), several)
    named_above = _far_from(fronts.baseline, _spread(fronts.speculating, advice.chosen), several)
    _line(axes, fronts.baseline, named_below, f"baseline (labels: {words})", of_baseline)
    _line(axes, fronts.speculating, named_above, "speculating", of_draft)
    if advice.chosen is not None:
        axes.plot(
            *_place(advice.chosen),
            "*",
            color=look.bright[3],
            markeredgecolor=look.ink,
            **CHOSEN,
            label=_in_words(advice.chosen),
        )
    if advice.query.max_tpot_ms is not None:
        axes.axvline(advice.query.max_tpot_ms, color=look.ink, linestyle=":", label="bound")
    axes.set(xlabel="time per output token of one sequence, ms")
    axes.set_title("throughput per device, tokens/s")
    axes.set(xlim=(0, 1.15 * axes.dataLim.x1), ylim=(0, 1.15 * axes.dataLim.y1))
    _name(axes, named_below, several, BELOW, look.bright[0])
    for point in named_above:
        beside = _clear_side(axes, point, _words(point, several), fronts.baseline)
        _name(axes, [point], several, beside, look.bright[5])
    legend_above(axes)
    query = advice.query
    about = f"{query.model} on {query.hardware}, context {tokens(query.context)}"
    return label(axes, _claim(advice), about, _caption(advice))


def _claim(advice: Advice) -> str:
    """The title: the gain of the choice over the best baseline."""
    chosen = advice.chosen
    if chosen is None:
        return "No configuration is within the bounds"
    if chosen.draft is None:
        return "The best configuration does not speculate"
    gain = advice.gain(chosen)
    name = draft_in_title(chosen.draft)
    if gain is None:
        return f"{name} meets the bounds, which no baseline does"
    times = GAINS[advice.objective.name].format(gain)
    if advice.verdict == "too_close_to_call":
        return f"Too close to call: {continued(name)} is predicted to give {times}"
    return f"{name} is predicted to give {times}"


def _caption(advice: Advice) -> str:
    """The caption: the interval of the gain in the title, the question and the calibration."""
    parts = ["predicted"]
    drafts = advice.chosen is not None and advice.chosen.draft is not None
    interval = advice.robustness.gain_over_baseline_interval if drafts and advice.robustness else None
    if interval is not None:
        parts.append("90 % interval of the gain: {:.2f}× to {:.2f}×".format(*interval))
    made = "none" if advice.calibration is None else advice.calibration.name
    parts += [asked(advice.query, WORDS, OF_PICTURE), f"calibration {made}"]
    return "; ".join(filter(None, parts))


def _line(
    axes: Axes, front: Sequence[FrontPoint], named: Sequence[FrontPoint], name: str, look: dict[str, Any]
) -> None:
    """Draws one front, with markers at the points that have labels."""
    if front:
        places = _places(front)
        marked = [front.index(point) for point in named]
        axes.plot(places[:, 0], places[:, 1], **look, markevery=marked, label=name)


def _name(
    axes: Axes, points: Sequence[FrontPoint], several: bool, beside: dict[str, Any], color: str
) -> None:
    """Writes the labels of points, each on a box in the colour of the page."""
    paper = {"facecolor": colours().page, "edgecolor": "none", "pad": 0.6, "alpha": 0.85}
    look: dict[str, Any] = {"color": color, "fontsize": 9, "bbox": paper, **beside}
    for point in points:
        axes.annotate(_words(point, several), _place(point), textcoords="offset points", **look)


def _clear_side(axes: Axes, point: FrontPoint, words: str, other: Sequence[FrontPoint]) -> dict[str, Any]:
    """The side of a point on which its label is farther from the other front, and does not touch the axis."""
    per_unit = PANEL / np.array([axes.get_xlim()[1], axes.get_ylim()[1]])
    at = _place(point) * per_unit
    if at[0] < width_of(words) + 2 * BESIDE:
        return BELOW
    if not other:
        return ABOVE
    middle = np.array([-width_of(words), SMALL]) / 2 + np.array([-BESIDE, BESIDE])
    line = _places(other) * per_unit
    above, below = (np.hypot(*(line - at - offset).T).min() for offset in (middle, -middle))
    return ABOVE if above >= below else BELOW


def _words(point: FrontPoint, several: bool) -> str:
    """The batch of a point, after its layout if layouts differ."""
    return f"{point.layout}, {point.batch}" if several else f"{point.batch}"


def _far_from(other: Sequence[FrontPoint], points: Sequence[FrontPoint], several: bool) -> list[FrontPoint]:
    """The points whose labels do not touch the other front."""
    if not other or not points:
        return list(points)
    across = _places(other)
    size = np.maximum(across.max(axis=0), _places(points).max(axis=0))
    far = []
    for point in points:
        distance = np.abs((across - _place(point)) / size).sum(axis=1).min()
        if distance > CLOSE + LETTER * len(_words(point, several)):
            far.append(point)
    return far


def _place(point: Pick | FrontPoint) -> tuple[float, float]:
    """Milliseconds per token, and tokens per second and device."""
    return MILLISECONDS * point.tpot_s, point.throughput_tokens_per_s_per_device


def _places(points: Sequence[FrontPoint]) -> Any:
    """`_place` of each point, [point, 2]."""
    return np.array([_place(point) for point in points])


def _in_words(chosen: Pick) -> str:
    """The chosen point for the legend."""
    draft = "baseline"
    if chosen.draft is not None:
        method = (chosen.draft_kv or "").partition(",")[0]
        read = f" ({method})" if method not in ("", "full") else ""
        draft = f"{chosen.draft}{read}, γ {chosen.gamma}"
    return f"chosen: {draft}, batch {chosen.batch}, {chosen.layout}"


def _spread(front: Sequence[FrontPoint], chosen: Pick | None) -> list[FrontPoint]:
    """A few points at even distances along the front's throughput, including its last one. The choice, if it
    is on the front, replaces the points that its star covers.
    """
    if not front:
        return []
    rates = np.array([point.throughput_tokens_per_s_per_device for point in front])
    wanted = np.linspace(0.25, 1.0, NAMED) * rates[-1]
    nearest = {int(np.abs(rates - rate).argmin()) for rate in wanted}
    places = _places(front) / _place(front[-1])
    starred = {place for place, point in enumerate(front) if chosen and _place(point) == _place(chosen)}
    for star in starred:
        covered = {place for place in nearest if np.abs(places[place] - places[star]).max() < CLOSE}
        nearest = nearest - covered | ({star} if covered else set())
    return [front[place] for place in sorted(nearest)]
