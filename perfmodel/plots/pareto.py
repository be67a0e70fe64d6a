"""Draws an answer of `advise`: throughput per device over time per token, with and without a draft."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from perfmodel.answers.advice.advice import Advice
from perfmodel.answers.advice.picks import Pick
from perfmodel.answers.advice.ranking import FrontPoint
from perfmodel.answers.declaration import Question, arguments
from perfmodel.errors import InputError
from perfmodel.plots.theme import BRIGHT, DARK, Axes, Figure, label, legend_above, panels, styled, tokens

BASELINE: dict[str, Any] = {"color": BRIGHT[0], "marker": "s"}
SPECULATING: dict[str, Any] = {"color": BRIGHT[5], "marker": "o"}
"""The look of the two fronts."""
CHOSEN: dict[str, Any] = {
    "color": BRIGHT[3],
    "markeredgecolor": "black",
    "markersize": 13,
    "linestyle": "none",
    "zorder": 4,
}
"""The look of the choice, which is a star."""
ABOVE: dict[str, Any] = {"xytext": (-5, 5), "ha": "right", "va": "bottom"}
BELOW: dict[str, Any] = {"xytext": (5, -5), "ha": "left", "va": "top"}
"""Positions of the label of a point: above the front with a draft, and below the front of the baseline."""
LEFT = 0.2
"""Share of the picture, at its left end, in which a label to the left of a point would touch the axis."""
PAPER: dict[str, Any] = {"facecolor": "white", "edgecolor": "none", "pad": 0.8, "alpha": 0.85}
"""The box behind a label."""
CLOSE = 0.05
"""Distance that a label needs from another line, as a share of the axis."""
LETTER = 0.01
"""Width of a letter, as a share of the axis."""
NAMED = 4
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
    (axes,) = panels()
    _line(axes, fronts.baseline, "baseline", BASELINE)
    _line(axes, fronts.speculating, "speculating", SPECULATING)
    named_below = _far_from(fronts.speculating, _spread(fronts.baseline), several)
    named_above = _far_from(fronts.baseline, _spread(fronts.speculating), several)
    if advice.chosen is not None:
        axes.plot(*_place(advice.chosen), "*", **CHOSEN, label=_in_words(advice.chosen))
    if advice.query.max_tpot_ms is not None:
        axes.axvline(advice.query.max_tpot_ms, color=DARK, linestyle=":", label="bound")
    axes.set(xlabel="time per output token of one sequence, ms", ylabel="throughput per device, tokens/s")
    axes.set(xlim=(0, 1.15 * axes.dataLim.x1), ylim=(0, 1.15 * axes.dataLim.y1))
    edge = LEFT * axes.get_xlim()[1]
    _name(axes, named_below, several, BELOW, BASELINE["color"])
    for point in named_above:
        beside = BELOW if _place(point)[0] < edge else ABOVE
        _name(axes, [point], several, beside, SPECULATING["color"])
    legend_above(axes, 2)
    words = "batch and layout" if several else "batch"
    made = "none" if advice.calibration is None else advice.calibration.name
    title = f"The latency-throughput trade-off with and without a draft (labels: {words})"
    return label(axes, title, f"{_asked(advice.query)}; calibration {made}")


def _line(axes: Axes, front: Sequence[FrontPoint], name: str, look: dict[str, Any]) -> None:
    """Draws one front."""
    if front:
        places = _places(front)
        axes.plot(places[:, 0], places[:, 1], "-", **look, markersize=2.5, markeredgewidth=0, label=name)


def _name(
    axes: Axes, points: Sequence[FrontPoint], several: bool, beside: dict[str, Any], color: str
) -> None:
    """Writes the labels of points, each on a box in the colour of the page."""
    look: dict[str, Any] = {"color": color, "fontsize": 7.5, "bbox": PAPER, **beside}
    for point in points:
        axes.annotate(_words(point, several), _place(point), textcoords="offset points", **look)


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
        draft = f"{chosen.draft} ({method}), γ {chosen.gamma}"
    return f"chosen: {draft}, batch {chosen.batch}, {chosen.layout}"


def _spread(front: Sequence[FrontPoint]) -> list[FrontPoint]:
    """A few points at even distances along the front's throughput, including its last one."""
    if not front:
        return []
    rates = np.array([point.throughput_tokens_per_s_per_device for point in front])
    wanted = np.linspace(0.25, 1.0, NAMED) * rates[-1]
    nearest = {int(np.abs(rates - rate).argmin()) for rate in wanted}
    return [front[place] for place in sorted(nearest)]


def _asked(question: Question) -> str:
    """The arguments of a question that differ from their defaults."""
    declared = arguments(type(question))
    stated = question.as_dict()
    words = []
    for name in stated:
        value = getattr(question, name)
        if value is True and value != declared[name].fallback:
            words.append(name.replace("_", " "))
        elif value != declared[name].fallback:
            plain = tokens(value) if name == "context" else _plain(stated[name])
            words.append(f"{name.replace('_', ' ')} {plain}")
    return "; ".join(words)


def _plain(value: Any) -> str:
    """A value without brackets and quotes."""
    if isinstance(value, dict):
        return ", ".join(f"{key}={each}" for key, each in value.items())
    if isinstance(value, list):  # the ends of a range
        return " to ".join(map(str, dict.fromkeys(value)))
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return str(value)
