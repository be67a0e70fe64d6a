"""Choices: the acceptance that a KV budget needs, throughput against time per token, devices side by side."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from perfmodel.answers.advice.advise import Advice, Pick
from perfmodel.answers.advice.candidates import AdviseQuery
from perfmodel.answers.advice.prices import FrontPoint
from perfmodel.answers.point.inverse import inverse
from perfmodel.answers.point.whatif import WhatIf
from perfmodel.answers.question.query import Query, resolve
from perfmodel.errors import InputError
from perfmodel.kv import parse_kv
from perfmodel.operations import Array
from perfmodel.plots.theme import (
    BRIGHT,
    DARK,
    GREY,
    Figure,
    above,
    accepted,
    caption,
    format_notes,
    label,
    limits,
    log_axis,
    pages,
    panels,
    shades,
    sign,
    styled,
    tokens,
)
from perfmodel.specs.devices.gpu import load_gpu

BASELINE, SPECULATING = BRIGHT[0], BRIGHT[5]
NAMED = 4
"""Points of a front that are labelled with their batch."""
ROOM = (0.05, 0.05)
"""Share of the width and the height that such a number needs."""


@styled
def pareto(found: Advice) -> Figure:
    """Throughput against time per token of the best baseline and the best speculating points, from `advise`.

    Numbers are batch sizes; the star is the one chosen, the dotted line the bound on time per token. Raises
    InputError where nothing fits in memory. Returns the figure.
    """
    fronts = {"baseline": found.pareto.baseline, "speculating": found.pareto.speculating}
    if not any(fronts.values()):
        raise InputError(f"pareto: {found.reason}")
    asked, chosen = found.query, found.chosen
    (axes,) = panels()
    places = {name: np.array([_place(p) for p in front]).reshape(-1, 2) for name, front in fronts.items()}
    stars = [] if chosen is None else [_place(chosen)]
    far, top = 1.1 * np.concatenate([*places.values(), *(np.array([star]) for star in stars)]).max(0)
    axes.set(xlim=(0, far), ylim=(0, top))
    ahead, taken = _ahead(**places), [np.divide(star, (far, top)) for star in stars]
    for name, colour, marker in (("baseline", BASELINE, "s"), ("speculating", SPECULATING, "o")):
        if not fronts[name]:
            continue
        axes.plot(*places[name].T, "-", color=colour, marker=marker, markersize=2.5, label=name)
        side = 1 if name == ahead else -1
        for point in _spread(fronts[name]):
            at = _place(point)
            axes.plot(*at, marker, color=colour, markersize=5)
            words_at = np.divide(at, (far, top)) + side * np.multiply(ROOM, (-0.5, 0.5))
            if any(np.all(np.abs(words_at - other) < ROOM) for other in taken):
                continue
            taken.append(words_at)
            axes.annotate(
                f"{point.batch}",
                at,
                (-5 * side, 5 * side),
                textcoords="offset points",
                color=colour,
                fontsize=7.5,
                ha="right" if side > 0 else "left",
                va="bottom" if side > 0 else "top",
            )
    if chosen is not None:
        axes.plot(
            *stars[0],
            "*",
            color=BRIGHT[3],
            markeredgecolor="black",
            markersize=13,
            zorder=4,
            linestyle="none",
            label=_chosen(chosen, asked),
        )
    if asked.max_tpot_ms is not None and float(asked.max_tpot_ms) < far:
        axes.axvline(float(asked.max_tpot_ms), color=DARK, linestyle=":", label="bound")
    axes.set(xlabel="time per output token of one sequence, ms", ylabel="throughput of the group, tokens/s")
    above(axes, 2)
    return label(axes, "Throughput against time per token (numbers: batch)", "; ".join(_searched(found)))


@styled
def alpha_needed(query: Query, budgets: Sequence[int], targets: Sequence[float] = (1.0, 1.25, 1.5)) -> Figure:
    """The acceptance that a KV budget must reach for each target speedup, a line for each. Returns the
    figure.

    The query's method is tried at every budget, at the query's gamma or the best one at its own acceptance. A
    line ends where no acceptance up to 1 suffices.
    """
    (axes,) = panels()
    method = resolve(query).draft.kv.name
    parse_kv(f"{method}:{budgets[0]}")
    asked = [replace(query, draft_kv=f"{method}:{budget}") for budget in budgets]
    for aim, colour, marker in zip(targets, shades(len(targets)), "os^Dv" * 3, strict=False):
        alphas = [inverse(one, speedup=aim).smallest_alpha for one in asked]
        shown = [np.nan if alpha is None else alpha for alpha in alphas]
        axes.plot(
            budgets, shown, marker=marker, color=colour, label="break even" if aim == 1 else f"{aim:g}×"
        )
    if query.alpha is not None:
        alpha = query.alpha
        axes.axhline(alpha, color=GREY, linestyle="--", label=f"α {alpha:g}, as asked")
    log_axis(
        axes, "x", min(budgets) / 1.1, max(budgets) * 1.1, f"KV budget of {method}, tokens a draft step reads"
    )
    axes.set(ylabel="smallest acceptance α that suffices", ylim=(0.0, 1.0))
    above(axes, 5)
    scenario = resolve(query)
    where = f"batch {query.batch}, context {tokens(float(query.context))}"
    gamma = "best" if query.gamma is None else query.gamma
    told = [
        where,
        f"γ {gamma}",
        caption(scenario, acceptance=False),
        *limits(None if query.gamma else query.max_gamma),
    ]
    return label(axes, "How good a draft a KV budget must buy", "; ".join(told))


@styled
def devices(answers: Iterable[WhatIf]) -> Figure:
    """Devices side by side, from answers of `whatif`: FLOPs per byte of each (left), speedup and interval
    (right).

    Hollow points use another device's calibration. Returns the figure.
    """
    found = list(answers)
    left, right = panels(2, (8.2, 1.6 + 0.34 * len(found)))
    names = [a.query.hardware for a in found]
    places = list(range(len(found)))[::-1]
    for place, a in zip(places, found, strict=True):
        gpu = load_gpu(a.query.hardware)
        ridge = gpu.peak_flops("bf16") / gpu.memory_bandwidth_bytes_per_s
        left.barh(place, ridge, 0.62, color=BRIGHT[0], zorder=2)
        left.annotate(
            f"{ridge:.0f}", (ridge, place), (3, 0), textcoords="offset points", va="center", fontsize=8
        )
        if a.speedup is None:
            continue
        if a.speedup_interval is not None:
            right.plot(a.speedup_interval, [place, place], "-", color=SPECULATING, linewidth=2.0)
        borrowed = a.calibration.kind == "transferred"
        right.plot(
            a.speedup,
            place,
            "o",
            color="white" if borrowed else SPECULATING,
            markersize=7,
            markeredgecolor=SPECULATING,
        )
        beyond = a.speedup if a.speedup_interval is None else a.speedup_interval[1]
        right.annotate(
            f"{a.speedup:.2f}×", (beyond, place), (7, 0), textcoords="offset points", va="center", fontsize=8
        )
    right.axvline(1.0, color="black", linewidth=1.0)
    for axes, ticks in ((left, names), (right, [""] * len(names))):
        axes.set_yticks(places, ticks)
        axes.tick_params(axis="y", length=0)
        axes.grid(False, axis="y")
        axes.set_ylim(-0.6, len(found) - 0.4)
    left.set(xlabel="bf16 peak over bandwidth, FLOPs per byte")
    left.margins(x=0.14)
    right.set(
        xlabel="predicted speedup, with its interval" if found[0].speedup_interval else "predicted speedup"
    )
    right.margins(x=0.2)
    if any(a.calibration.kind == "transferred" for a in found):
        kinds = (("white", "another device's calibration"), (SPECULATING, "its own"))
        dot = {"marker": "o", "linestyle": "none", "markeredgecolor": SPECULATING}
        above(right, 2, [sign(words, color=colour, **dot) for colour, words in kinds])
    return label(left, "Devices side by side", _question(found))


def _question(found: list[WhatIf]) -> str:
    q, acceptance = found[0].query, found[0].acceptance
    calibrations = {a.calibration.name for a in found}
    made = f"calibration {calibrations.pop()}" if len(calibrations) == 1 else "each device's calibration"
    draft = f"draft {q.draft} through {(q.draft_kv or '').partition(',')[0]}"
    parts = [
        f"{q.model} on {q.tp} of each, batch {q.batch}, context {tokens(float(q.context))}",
        draft if q.draft_tp == q.tp else f"{draft} on {q.draft_tp}",
        "γ " + "/".join(map(str, sorted({int(a.query.gamma or 0) for a in found}))),
        accepted(acceptance.alpha, acceptance.source),
        format_notes(q.weights or "", q.kv_dtype or "", q.draft_weights or "", q.draft_kv_dtype or ""),
    ]
    rereads = sorted({float(a.query.kv_reread or 1.0) for a in found})
    if rereads != [1.0]:
        parts.append("verification reads the KV " + "/".join(f"{reread:g}" for reread in rereads) + " times")
    return "; ".join([*parts, *pages(q.kv_page), made])


def _searched(found: Advice) -> list[str]:
    """The question of `advise` in words."""
    q, calibration = found.query, found.calibration
    degrees, batches = (
        "/".join(map(str, q.tp)),
        " to ".join(f"{b:g}" for b in np.unique(q.batches[[0, -1]])),
    )
    parts = [f"{q.model} on {degrees} × {q.hardware}, context {tokens(float(q.context))}, batch {batches}"]
    parts += [
        f"{words} {', '.join(named)}"
        for named, words in ((q.draft, "drafts"), (q.draft_kv, "through"))
        if named
    ]
    if q.draft_tp is not None:
        parts.append(f"drafts on {'/'.join(map(str, q.draft_degrees))}")
    if q.rate:
        parts.append("rates " + ", ".join(f"{draft}={rate}" for draft, rate in q.rate.items()))
    if q.acceptance is not None:
        parts.append(f"acceptance of {q.acceptance}")
    own = "the checkpoint's"
    weights, kv = q.weights or own, q.kv_dtype or own
    parts += [format_notes(weights, kv, q.draft_weights or weights, q.draft_kv_dtype or kv)]
    parts += ["what fits in memory", *limits(q.max_gamma, q.memory_fraction)]
    price = "" if q.price is None else f" at ${q.price:g} per device and hour"
    bound = "" if q.max_tpot_ms is None else f" within {q.max_tpot_ms:g} ms per token"
    parts.append(f"chosen for {q.objective}{price}{bound}")
    made = "no calibration" if calibration is None else f"calibration {calibration.name} ({calibration.kind})"
    return [*parts, made]


def _chosen(p: Pick, asked: AdviseQuery) -> str:
    kv = (p.draft_kv or "").partition(",")[0]
    through = "" if kv in ("", "full") else f" {kv}"
    who = "baseline" if p.draft is None else f"{p.draft}{through}, γ {p.gamma}"
    cost = f", ${p.cost_per_million_tokens:.3g} per million tokens" if asked.objective == "cost" else ""
    return f"chosen: {who}, batch {p.batch}, TP {p.tp}{cost}"


def _place(p: Pick | FrontPoint) -> tuple[float, float]:
    """Milliseconds per token and tokens per second of a point."""
    return 1e3 * p.tpot_s, p.throughput_tokens_per_s


def _ahead(baseline: Array, speculating: Array) -> str:
    """The front that lies above the other on the whole: its numbers go above it, the other's below."""
    if not baseline.size or not speculating.size:
        return "speculating" if speculating.size else "baseline"
    beyond = speculating[:, 1] - np.interp(speculating[:, 0], baseline[:, 0], baseline[:, 1], left=0.0)
    return "speculating" if beyond.mean() >= 0 else "baseline"


def _spread(front: Sequence[FrontPoint]) -> list[FrontPoint]:
    """A few points, evenly apart along the front's throughput, including its last one; empty where fronts are
    close.
    """
    if not front:
        return []
    rates = np.array([p.throughput_tokens_per_s for p in front])
    places = {int(np.abs(rates - rate).argmin()) for rate in np.linspace(0.25, 1.0, NAMED) * rates[-1]}
    return [front[place] for place in sorted(places)]
