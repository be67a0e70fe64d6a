"""Choices: throughput against time per token, as `advise` finds it."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from perfmodel.answers.advice.advise import Advice, Pick
from perfmodel.answers.advice.prices import FrontPoint
from perfmodel.errors import InputError
from perfmodel.plots.theme import BRIGHT, DARK, Figure, above, asked, label, panels, styled

SIDES = {"baseline": (-1, BRIGHT[0], "s"), "speculating": (1, BRIGHT[5], "o")}
"""Front -> the side of its line with its numbers (1 above, -1 below), its colour and its marker."""
NAMED = 4
"""Most points of a front that are labelled with their batch."""


@styled
def pareto(found: Advice) -> Figure:
    """Throughput against time per token of the best baseline and the best speculating points, from `advise`.

    Numbers are batch sizes. The star is the chosen point, the dotted line the bound on time per token. Raises
    InputError where nothing fits in memory. Returns the figure.
    """
    fronts = {"baseline": found.pareto.baseline, "speculating": found.pareto.speculating}
    if not any(fronts.values()):
        raise InputError(f"pareto: {found.reason}")
    (axes,) = panels()
    for name, (side, colour, marker) in SIDES.items():
        if not fronts[name]:
            continue
        places = np.array([_place(point) for point in fronts[name]]).T
        axes.plot(*places, "-", color=colour, marker=marker, markersize=2.5, label=name)
        aligned: dict[str, Any] = {
            "ha": "right" if side > 0 else "left",
            "va": "bottom" if side > 0 else "top",
        }
        for point in _spread(fronts[name]):
            apart: dict[str, Any] = {"xytext": (-5 * side, 5 * side), "textcoords": "offset points"}
            axes.annotate(f"{point.batch}", _place(point), color=colour, fontsize=7.5, **apart, **aligned)
    if (chosen := found.chosen) is not None:
        star: dict[str, Any] = {
            "color": BRIGHT[3],
            "markeredgecolor": "black",
            "markersize": 13,
            "linestyle": "none",
        }
        axes.plot(*_place(chosen), "*", **star, zorder=4, label=_in_words(chosen))
    if found.query.max_tpot_ms is not None:
        axes.axvline(found.query.max_tpot_ms, color=DARK, linestyle=":", label="bound")
    axes.set(xlabel="time per output token of one sequence, ms", ylabel="throughput of the group, tokens/s")
    axes.set(xlim=(0, 1.1 * axes.dataLim.x1), ylim=(0, 1.1 * axes.dataLim.y1))
    above(axes, 2)
    made = "none" if found.calibration is None else found.calibration.name
    words = f"{asked(found.query)}; calibration {made}"
    return label(axes, "Throughput against time per token (numbers: batch)", words)


def _in_words(p: Pick) -> str:
    kv = (p.draft_kv or "").partition(",")[0]
    who = "baseline" if p.draft is None else f"{p.draft} ({kv}), γ {p.gamma}"
    return f"chosen: {who}, batch {p.batch}, TP {p.tp}"


def _place(p: Pick | FrontPoint) -> tuple[float, float]:
    """Milliseconds per token and tokens per second of a point."""
    return 1e3 * p.tpot_s, p.throughput_tokens_per_s


def _spread(front: Sequence[FrontPoint]) -> list[FrontPoint]:
    """A few points at even distances along the front's throughput, including its last one."""
    rates = np.array([p.throughput_tokens_per_s for p in front])
    places = {int(np.abs(rates - rate).argmin()) for rate in np.linspace(0.25, 1.0, NAMED) * rates[-1]}
    return [front[place] for place in sorted(places)]
