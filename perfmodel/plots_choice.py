"""Choosing: what a draft's KV budget must buy, the front of throughput against time per token, devices side by side."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from perfmodel.inverse import solve
from perfmodel.kv import parse_kv
from perfmodel.plots_style import (
    BRIGHT,
    GREY,
    above,
    canvas,
    canvases,
    caption,
    label,
    log_axis,
    shades,
    styled,
    tokens,
)
from perfmodel.query import Query, resolve
from perfmodel.specs.gpu import load_gpu

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PLAIN, SPECULATING = BRIGHT[0], BRIGHT[5]
NAMED = 4
"""Points of a front whose batch is written beside them."""


@styled
def pareto(found: Mapping[str, Any], *, axes: "Axes | None" = None) -> "Figure":
    """Throughput against time per token of the best plain and the best speculating points, from an answer of `advise`.

    Numbers are batch sizes; the star is the one chosen. Returns the figure.
    """
    own = axes is None
    figure, axes = canvas(axes)
    fronts = (
        ("plain", "plain decoding", PLAIN, "s", (6, -9)),
        ("speculating", "speculating", SPECULATING, "o", (-5, 6)),
    )
    for name, words, colour, marker, offset in fronts:
        front = found["pareto"][name]
        x, y = [1e3 * p["tpot_s"] for p in front], [p["throughput_tokens_per_s"] for p in front]
        axes.plot(x, y, "-", color=colour, marker=marker, markersize=2.5, label=words if front else None)
        for point in _spread(front):
            at = (1e3 * point["tpot_s"], point["throughput_tokens_per_s"])
            axes.plot(*at, marker, color=colour, markersize=5)
            axes.annotate(
                f"{point['batch']}", at, offset, textcoords="offset points", color=colour, fontsize=7.5,
                ha="right" if offset[0] < 0 else "left",
            )  # fmt: skip
    if (chosen := found["chosen"]) is not None:
        star = (1e3 * chosen["tpot_s"], chosen["throughput_tokens_per_s"])
        axes.plot(*star, "*", color=BRIGHT[3], markeredgecolor="black", markersize=13, zorder=4, linestyle="none",
                  label=_chosen(chosen))  # fmt: skip
    axes.set(xlabel="time per output token of one sequence, ms", ylabel="throughput of the group, tokens/s")
    axes.set(xlim=(0, None), ylim=(0, None))
    axes.margins(x=0.06, y=0.08)
    above(axes, 3)
    request, calibration = found["request"], found["calibration"]
    made = "no calibration" if calibration is None else f"calibration {calibration['name']} ({calibration['kind']})"
    degrees = "/".join(str(tp) for tp in request["tps"])
    subject = f"{request['model']} on {degrees} × {request['hardware']}, context {tokens(request['context'])}"
    text = f"{subject}; what fits in memory; chosen for {request['objective']}; {made}"
    label(axes, own, "Throughput against time per token (numbers: batch)", text)
    return figure


@styled
def alpha_needed(
    query: Query, budgets: Sequence[int], wanted: Sequence[float] = (1.0, 1.25, 1.5), *, axes: "Axes | None" = None
) -> "Figure":
    """The acceptance that a KV budget must reach for a speedup to be as wanted, a line for each. Returns the figure.

    The query's method is tried at every budget, at the query's gamma or the best one at its own acceptance. Where no
    acceptance up to 1 suffices, a line ends.
    """
    own = axes is None
    figure, axes = canvas(axes)
    method = query.draft_kv.partition(":")[0]
    parse_kv(f"{method}:{budgets[0]}")
    asked = [replace(query, draft_kv=f"{method}:{budget}") for budget in budgets]
    for aim, colour, marker in zip(wanted, shades(len(wanted)), "os^Dv" * 3, strict=False):
        alphas = [solve(one, aim).smallest_alpha for one in asked]
        shown = [np.nan if alpha is None else alpha for alpha in alphas]
        axes.plot(budgets, shown, marker=marker, color=colour, label="break even" if aim == 1 else f"{aim:g}×")
    if query.alpha is not None:
        axes.axhline(query.alpha, color=GREY, linestyle="--", label=f"α {query.alpha:g}, as asked")
    log_axis(axes, "x", min(budgets) / 1.1, max(budgets) * 1.1, f"KV budget of {method}, tokens a draft step reads")
    axes.set(ylabel="smallest acceptance α that suffices", ylim=(0.0, 1.0))
    above(axes, 5)
    scenario = resolve(query)
    where = f"batch {query.batch:g}, context {tokens(query.context)}"
    gamma = "best" if query.gamma is None else query.gamma
    text = f"{where}; γ {gamma}; {caption(scenario, acceptance=False)}"
    label(axes, own, "How good a draft a KV budget must buy", text)
    return figure


@styled
def devices(answers: Iterable[Mapping[str, Any]], *, axes: "Sequence[Axes] | None" = None) -> "Figure":
    """Devices side by side, from answers of `whatif`: FLOPs per byte of each (left), speedup and interval (right).

    Hollow points stand on another device's calibration. Returns the figure.
    """
    from matplotlib.lines import Line2D

    found, own = list(answers), axes is None
    figure, (left, right) = canvases(axes, 1, 2, (8.2, 1.6 + 0.34 * len(found)))
    names = [a["query"]["hardware"] for a in found]
    places = list(range(len(found)))[::-1]
    for place, a in zip(places, found, strict=True):
        gpu = load_gpu(a["query"]["hardware"])
        ridge = gpu.peak_flops("bf16") / gpu.memory_bandwidth_bytes_per_s
        left.barh(place, ridge, 0.62, color=BRIGHT[0], zorder=2)
        left.annotate(f"{ridge:.0f}", (ridge, place), (3, 0), textcoords="offset points", va="center", fontsize=8)
        if a["speedup_interval"] is not None:
            right.plot(a["speedup_interval"], [place, place], "-", color=SPECULATING, linewidth=2.0)
        borrowed = a["calibration"]["kind"] == "transferred"
        right.plot(a["speedup"], place, "o", color="white" if borrowed else SPECULATING, markersize=7,
                   markeredgecolor=SPECULATING)  # fmt: skip
        beyond = a["speedup"] if a["speedup_interval"] is None else a["speedup_interval"][1]
        right.annotate(
            f"{a['speedup']:.2f}×", (beyond, place), (7, 0), textcoords="offset points", va="center", fontsize=8
        )
    right.axvline(1.0, color="black", linewidth=1.0)
    for axes_, ticks in ((left, names), (right, [""] * len(names))):
        axes_.set_yticks(places, ticks)
        axes_.tick_params(axis="y", length=0)
        axes_.grid(False, axis="y")
        axes_.set_ylim(-0.6, len(found) - 0.4)
    left.set(xlabel="bf16 peak over bandwidth, FLOPs per byte")
    left.margins(x=0.14)
    right.set(xlabel="predicted speedup, with its interval" if found[0]["speedup_interval"] else "predicted speedup")
    right.margins(x=0.2)
    if any(a["calibration"]["kind"] == "transferred" for a in found):
        kinds = (("white", "another device's calibration"), (SPECULATING, "its own"))
        above(right, 2, [Line2D([], [], marker="o", linestyle="none", color=c, markeredgecolor=SPECULATING, label=w)
                         for c, w in kinds])  # fmt: skip
    label(left, own, "Devices side by side", _question(found))
    return figure


def _question(found: list[Mapping[str, Any]]) -> str:
    q = found[0]["query"]
    gammas = sorted({a["query"]["gamma"] for a in found})
    gamma = "/".join(map(str, gammas))
    calibrations = {a["calibration"]["name"] for a in found}
    made = f"calibration {calibrations.pop()}" if len(calibrations) == 1 else "each device's calibration"
    kv = q["draft_kv"].partition(",")[0]
    return (
        f"{q['model']} on {q['tp']} of each, batch {q['batch']:g}, context {tokens(q['context'])}; draft {q['draft']} "
        f"through {kv}; γ {gamma}; {q['weights']} weights, {q['kv_dtype']} KV; {made}"
    )


def _chosen(p: Mapping[str, Any]) -> str:
    if p["draft"] is None:
        return f"chosen: plain, batch {p['batch']}"
    kv = (p["draft_kv"] or "").partition(",")[0]
    through = "" if kv in ("", "full") else f" {kv}"
    return f"chosen: {p['draft']}{through}, γ {p['gamma']}, batch {p['batch']}"


def _spread(front: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """A few points, evenly apart along the front's throughput, its last one among them; none where fronts crowd."""
    if not front:
        return []
    rates = np.array([p["throughput_tokens_per_s"] for p in front])
    places = {int(np.abs(rates - rate).argmin()) for rate in np.linspace(0.25, 1.0, NAMED) * rates[-1]}
    return [front[place] for place in sorted(places)]
