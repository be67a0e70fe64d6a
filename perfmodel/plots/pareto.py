"""Throughput per device against time per token, with and without a draft, from an answer of `advise`."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from perfmodel.answers.advice.advice import Advice
from perfmodel.answers.advice.picks import Pick
from perfmodel.answers.advice.ranking import FrontPoint
from perfmodel.answers.declaration import Question, arguments
from perfmodel.errors import InputError
from perfmodel.plots.theme import BRIGHT, DARK, Axes, Figure, label, legend_above, panels, styled

BASELINE: dict[str, Any] = {"color": BRIGHT[0], "marker": "s"}
SPECULATING: dict[str, Any] = {"color": BRIGHT[5], "marker": "o"}
CHOSEN: dict[str, Any] = {
    "color": BRIGHT[3],
    "markeredgecolor": "black",
    "markersize": 13,
    "linestyle": "none",
    "zorder": 4,
}
ABOVE: dict[str, Any] = {"xytext": (-5, 5), "ha": "right", "va": "bottom"}
BELOW: dict[str, Any] = {"xytext": (5, -5), "ha": "left", "va": "top"}
"""Places of the words of a point: above the front with a draft, below the baseline's."""
NAMED = 4
"""Most points of a front that have words."""
MILLISECONDS = 1e3


@styled
def pareto(advice: Advice) -> Figure:
    """The Pareto fronts of the baseline and of speculation over batch and layout: throughput per device
    against time per output token.

    Words at points are the batch of one server and, where layouts differ, the layout. The star is the chosen
    point, the dotted line the bound on time per token. Raises InputError where nothing fits in memory, and
    for an answer under a load, which has no fronts.
    """
    if advice.query.has_load:
        raise InputError("pareto: needs a question without a load; `perfmodel plot traffic` draws one")
    fronts = advice.pareto
    every = (*fronts.baseline, *fronts.speculating)
    if not every:
        raise InputError(f"pareto: {advice.reason}")
    several = len({point.layout for point in every}) > 1
    (axes,) = panels()
    _front(axes, fronts.baseline, "baseline", BASELINE, BELOW, several)
    _front(axes, fronts.speculating, "speculating", SPECULATING, ABOVE, several)
    if advice.chosen is not None:
        axes.plot(*_place(advice.chosen), "*", **CHOSEN, label=_in_words(advice.chosen))
    if advice.query.max_tpot_ms is not None:
        axes.axvline(advice.query.max_tpot_ms, color=DARK, linestyle=":", label="bound")
    axes.set(xlabel="time per output token of one sequence, ms", ylabel="throughput per device, tokens/s")
    axes.set(xlim=(0, 1.15 * axes.dataLim.x1), ylim=(0, 1.15 * axes.dataLim.y1))
    legend_above(axes, 2)
    words = "batch and layout" if several else "batch"
    made = "none" if advice.calibration is None else advice.calibration.name
    title = f"The latency-throughput trade-off with and without a draft (labels: {words})"
    return label(axes, title, f"{_asked(advice.query)}; calibration {made}")


def _front(
    axes: Axes,
    front: Sequence[FrontPoint],
    name: str,
    look: dict[str, Any],
    beside: dict[str, Any],
    several: bool,
) -> None:
    """One front as a line, with words at a few of its points."""
    if not front:
        return
    places = np.array([_place(point) for point in front])
    axes.plot(places[:, 0], places[:, 1], "-", **look, markersize=2.5, label=name)
    for point in _spread(front):
        words = f"{point.layout}, {point.batch}" if several else f"{point.batch}"
        axes.annotate(
            words, _place(point), textcoords="offset points", color=look["color"], fontsize=7.5, **beside
        )


def _place(point: Pick | FrontPoint) -> tuple[float, float]:
    """Milliseconds per token, and tokens per second and device."""
    return MILLISECONDS * point.tpot_s, point.throughput_tokens_per_s_per_device


def _in_words(chosen: Pick) -> str:
    """The chosen point for the legend."""
    draft = "baseline"
    if chosen.draft is not None:
        method = (chosen.draft_kv or "").partition(",")[0]
        draft = f"{chosen.draft} ({method}), γ {chosen.gamma}"
    return f"chosen: {draft}, batch {chosen.batch}, {chosen.layout}"


def _spread(front: Sequence[FrontPoint]) -> list[FrontPoint]:
    """A few points at even distances along the front's throughput, including its last one."""
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
            words.append(f"{name.replace('_', ' ')} {_plain(stated[name])}")
    return "; ".join(words)


def _plain(value: Any) -> str:
    """A value without brackets and quotes."""
    if isinstance(value, dict):
        return ", ".join(f"{key}={each}" for key, each in value.items())
    if isinstance(value, tuple | list):
        return ", ".join(map(str, value))
    return str(value)
