"""Choosing: what a draft's KV budget must buy, the front of throughput against time per token, devices side by side."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from perfmodel.errors import InputError
from perfmodel.answers.inverse import solve
from perfmodel.kv import parse_kv
from perfmodel.ops import Array
from perfmodel.plots.theme import (
    BRIGHT,
    DARK,
    GREY,
    above,
    accepted,
    canvas,
    canvases,
    caption,
    counting,
    formats,
    label,
    limits,
    log_axis,
    shades,
    styled,
    tokens,
)
from perfmodel.answers.query import Query, resolve
from perfmodel.specs.gpu import load_gpu

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PLAIN, SPECULATING = BRIGHT[0], BRIGHT[5]
NAMED = 4
"""Points of a front whose batch is written beside them."""
ROOM = (0.05, 0.05)
"""Share of the width and the height that such a number needs."""


@styled
def pareto(found: Mapping[str, Any], *, axes: "Axes | None" = None) -> "Figure":
    """Throughput against time per token of the best plain and the best speculating points, from an answer of `advise`.

    Numbers are batch sizes; the star is the one chosen, the dotted line the bound on time per token. Raises InputError
    where nothing fits in memory. Returns the figure.
    """
    fronts: dict[str, list[Mapping[str, Any]]] = found["pareto"]
    if not any(fronts.values()):
        raise InputError(f"pareto: {found['reason']}")
    own, request, chosen = axes is None, found["request"], found["chosen"]
    figure, axes = canvas(axes)
    places = {name: np.array([_place(p) for p in front]).reshape(-1, 2) for name, front in fronts.items()}
    stars = [] if chosen is None else [_place(chosen)]
    far, top = 1.1 * np.concatenate([*places.values(), *(np.array([star]) for star in stars)]).max(0)
    axes.set(xlim=(0, far), ylim=(0, top))
    ahead, taken = _ahead(**places), [np.divide(star, (far, top)) for star in stars]
    for name, words, colour, marker in (
        ("plain", "plain decoding", PLAIN, "s"),
        ("speculating", "speculating", SPECULATING, "o"),
    ):
        if not fronts[name]:
            continue
        axes.plot(*places[name].T, "-", color=colour, marker=marker, markersize=2.5, label=words)
        side = 1 if name == ahead else -1
        for point in _spread(fronts[name]):
            at = _place(point)
            axes.plot(*at, marker, color=colour, markersize=5)
            words_at = np.divide(at, (far, top)) + side * np.multiply(ROOM, (-0.5, 0.5))
            if any(np.all(np.abs(words_at - other) < ROOM) for other in taken):
                continue
            taken.append(words_at)
            axes.annotate(
                f"{point['batch']}", at, (-5 * side, 5 * side), textcoords="offset points", color=colour, fontsize=7.5,
                ha="right" if side > 0 else "left", va="bottom" if side > 0 else "top",
            )  # fmt: skip
    for star in stars:
        axes.plot(*star, "*", color=BRIGHT[3], markeredgecolor="black", markersize=13, zorder=4, linestyle="none",
                  label=_chosen(chosen, request))  # fmt: skip
    if request["max_tpot_s"] is not None and 1e3 * request["max_tpot_s"] < far:
        axes.axvline(1e3 * request["max_tpot_s"], color=DARK, linestyle=":", label="bound")
    axes.set(xlabel="time per output token of one sequence, ms", ylabel="throughput of the group, tokens/s")
    above(axes, 2)
    label(axes, own, "Throughput against time per token (numbers: batch)", "; ".join(_searched(found)))
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
    told = [where, f"γ {gamma}", caption(scenario, acceptance=False), *limits(None if query.gamma else query.max_gamma)]
    label(axes, own, "How good a draft a KV budget must buy", "; ".join(told))
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
    calibrations = {a["calibration"]["name"] for a in found}
    made = f"calibration {calibrations.pop()}" if len(calibrations) == 1 else "each device's calibration"
    draft = f"draft {q['draft']} through {q['draft_kv'].partition(',')[0]}"
    parts = [
        f"{q['model']} on {q['tp']} of each, batch {q['batch']:g}, context {tokens(q['context'])}",
        draft if q["draft_tp"] == q["tp"] else f"{draft} on {q['draft_tp']}",
        "γ " + "/".join(map(str, sorted({a["query"]["gamma"] for a in found}))),
        accepted(found[0]["acceptance"]["alpha"], found[0]["acceptance"]["source"]),
        formats(q["weights"], q["kv_dtype"], q["draft_weights"], q["draft_kv_dtype"]),
    ]
    rereads = sorted({a["query"]["kv_reread"] for a in found})
    if rereads != [1.0]:
        parts.append("verification reads the KV " + "/".join(f"{reread:g}" for reread in rereads) + " times")
    return "; ".join([*parts, *counting(q["kv_page"], q["accounting"], q["new_tokens"]), made])


def _searched(found: Mapping[str, Any]) -> list[str]:
    """What was asked of `advise`, in words."""
    r, calibration = found["request"], found["calibration"]
    degrees, batches = "/".join(map(str, r["tps"])), " to ".join(f"{b}" for b in dict.fromkeys(r["batches"]))
    parts = [f"{r['model']} on {degrees} × {r['hardware']}, context {tokens(r['context'])}, batch {batches}"]
    for name, words in (("drafts", "drafts"), ("draft_kvs", "through")):
        if r[name] is not None:
            parts.append(f"{words} {', '.join(r[name])}")
    if r["draft_tps"] != (0,):
        parts.append(f"drafts on {'/'.join(map(str, r['draft_tps']))}")
    if r["rates"]:
        parts.append("rates " + ", ".join(f"{draft}={rate}" for draft, rate in r["rates"].items()))
    if r["acceptance"] is not None:
        parts.append(f"acceptance of {r['acceptance']}")
    own = "the checkpoint's"
    parts += [f"{r['weights'] or own} weights, {r['kv_dtype'] or own} KV", "what fits in memory"]
    parts += limits(r["max_gamma"], r["memory_fraction"])
    price = "" if r["price_per_gpu_hour"] is None else f" at ${r['price_per_gpu_hour']:g} per device and hour"
    bound = "" if r["max_tpot_s"] is None else f" within {1e3 * r['max_tpot_s']:g} ms per token"
    parts.append(f"chosen for {r['objective']}{price}{bound}")
    made = "no calibration" if calibration is None else f"calibration {calibration['name']} ({calibration['kind']})"
    return [*parts, made]


def _chosen(p: Mapping[str, Any], request: Mapping[str, Any]) -> str:
    kv = (p["draft_kv"] or "").partition(",")[0]
    through = "" if kv in ("", "full") else f" {kv}"
    who = "plain" if p["draft"] is None else f"{p['draft']}{through}, γ {p['gamma']}"
    cost = f", ${p['cost_per_million_tokens']:.3g} per million tokens" if request["objective"] == "cost" else ""
    return f"chosen: {who}, batch {p['batch']}, TP {p['tp']}{cost}"


def _place(p: Mapping[str, Any]) -> tuple[float, float]:
    """Milliseconds per token and tokens per second of a point."""
    return 1e3 * p["tpot_s"], p["throughput_tokens_per_s"]


def _ahead(plain: Array, speculating: Array) -> str:
    """The front that lies above the other on the whole: its numbers go above it, the other's below."""
    if not plain.size or not speculating.size:
        return "speculating" if speculating.size else "plain"
    beyond = speculating[:, 1] - np.interp(speculating[:, 0], plain[:, 0], plain[:, 1], left=0.0)
    return "speculating" if beyond.mean() >= 0 else "plain"


def _spread(front: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """A few points, evenly apart along the front's throughput, its last one among them; none where fronts crowd."""
    if not front:
        return []
    rates = np.array([p["throughput_tokens_per_s"] for p in front])
    places = {int(np.abs(rates - rate).argmin()) for rate in np.linspace(0.25, 1.0, NAMED) * rates[-1]}
    return [front[place] for place in sorted(places)]
