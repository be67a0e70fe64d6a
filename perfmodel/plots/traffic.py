"""Draws TTFT and TPOT over the load, with and without a draft. Saturation rates and latency limits are
marked.
"""

from collections.abc import Sequence
from typing import Any

from perfmodel.answers.load.traffic import Traffic
from perfmodel.answers.load.traffic_query import TrafficQuery
from perfmodel.answers.load.traffic_rows import MadeBy, Percentiles, TrafficRow
from perfmodel.answers.question.rates import GIVEN
from perfmodel.answers.text import devices, model_and_shape
from perfmodel.errors import InputError
from perfmodel.plots.asked import asked
from perfmodel.plots.layout import label, legend_above, panels, sign
from perfmodel.plots.palette import colours
from perfmodel.plots.theme import Axes, Figure, styled
from perfmodel.queueing.policies import in_words

MARKERS = ("o", "s", "^", "D", "v", "P")
"""Markers of the baseline and of the draft lengths, in this order."""
SLO = (0, (5, 3))
"""Line style of the latency limits."""
MARKED = 8
"""Number of markers on a line. They distinguish the lines without colours."""
MILLISECONDS = 1e3
WORDS = {"input_len": "prompt tokens", "output_len": "output tokens", "alpha": "acceptance α"}
"""Argument -> its words in the caption. Other arguments have their own names."""
ON_AXES = ("model", "hardware", "tp", "draft", "gamma", "request_rate", "slo")
"""Arguments in the subtitle, in the legend or along the axis."""


@styled
def traffic(
    answer: Traffic, question: TrafficQuery | None = None, *, slo: dict[str, float] | None = None
) -> Figure:
    """Draws TTFT (above) and TPOT (below) over the loads of an answer. Means are solid lines, 99th
    percentiles dotted lines. Each draft length has its own colour and marker.

    - question: the question of the answer, whose settings are in the caption.
    - slo: latency limits to draw, in milliseconds. None means those of the question.

    A hollow marker on the axis shows the saturation rate of a draft length. Its lines end there. Raises
    InputError for fewer than two loads.
    """
    loads = sorted({_load(row) for row in answer.rows})
    if len(loads) < 2:
        raise InputError("traffic: needs an answer at two loads or more")
    above, below = panels(2, 2.2)
    ink = colours().ink
    ends: list[Any] = []
    closed = answer.rows[0].request_rate is None
    lengths = sorted({row.gamma for row in answer.rows}, key=_order)
    for number, gamma in enumerate(lengths):
        rows = [row for row in answer.rows if row.gamma == gamma and not row.saturated]
        if not rows:
            continue
        style = _style(number)
        name = in_words(gamma) if gamma else "baseline"
        _line(above, rows, [row.ttft_s for row in rows], name, style)
        _line(below, rows, [row.tpot_s for row in rows], name, style)
        if not closed and loads[0] <= rows[0].saturation_rate <= loads[-1] * 1.1:
            hollow = {"linestyle": "none", "marker": MARKERS[0], "markerfacecolor": colours().page}
            ends = [sign("on the axis: saturated", color=ink, markeredgewidth=1.6, **hollow)]
            for place in (above, below):
                _end(place, rows[0].saturation_rate, style)
    limits = []
    if slo is None and question is not None:
        slo = question.slo
    for place, limit, title in (
        (above, "ttft", "time to the first token, ms"),
        (below, "tpot", "time per output token, ms"),
    ):
        if slo and limit in slo:
            place.axhline(slo[limit], color=ink, linewidth=1.0, linestyle=SLO)
            limits.append(f"{limit.upper()} {slo[limit]:,g} ms")
        place.set_title(title)
    below.set_xlabel("clients" if closed else "requests/s")
    above.set_yscale("log")
    above.yaxis.set_major_formatter(_plain)
    above.yaxis.set_minor_formatter(_minor)
    below.set_ylim(bottom=0)
    kinds = [sign("mean", color=ink), sign("99th percentile", color=ink, linestyle=":")]
    if limits:
        kinds.append(sign(f"SLO: {', '.join(limits)}", color=ink, linewidth=1.0, linestyle=SLO))
    legend_above(above, [*above.get_legend_handles_labels()[0], *kinds, *ends])
    drafted = f"; draft {answer.draft}" if len(lengths) > 1 else ""
    model = model_and_shape(answer.model, answer.shape)
    about = f"{model} on {devices(answer.hardware, answer.tp * answer.pp)}{drafted}"
    return label(
        above, _claim(answer, "clients" if closed else "requests/s"), about, _caption(answer, question)
    )


def _claim(answer: Traffic, unit: str) -> str:
    """The title: by how much the best draft length changes TPOT at the smallest and at the largest load."""
    served = [row for row in answer.rows if not row.saturated]
    at = {load: [row for row in served if _load(row) == load] for load in sorted({*map(_load, served)})}
    changes = []
    for load, rows in at.items():
        baseline = next((row.tpot_s.mean for row in rows if row.gamma == 0), None)
        drafted = [row for row in rows if row.gamma]
        if baseline and drafted:
            best = min(drafted, key=lambda row: row.tpot_s.mean)
            percent = 100 * (best.tpot_s.mean / baseline - 1)
            side = "shorter" if percent < 0 else "longer"
            changes.append(
                f"{abs(percent):.0f} % {side} with {in_words(best.gamma)} at {_short(load)} {unit}"
            )
    if changes:
        return f"TPOT is {', '.join(dict.fromkeys((changes[0], changes[-1])))}"
    means = [1e3 * row.tpot_s.mean for row in served]
    return f"TPOT is {min(means):.2g} to {max(means):.2g} ms" if means else "Every load saturates the server"


def _short(load: float) -> str:
    """A load for the title: a number of clients, or a request rate with two digits."""
    return f"{load if load.is_integer() else float(f'{load:.2g}'):,g}"


def _order(gamma: int | str) -> tuple[bool, int, str]:
    """A sort key: the baseline is first, then draft lengths by number, and then policies."""
    if isinstance(gamma, int):
        return False, gamma, ""
    return True, 0, gamma


def _style(number: int) -> tuple[str, str]:
    """The colour and the marker of a line. Line 0 is the baseline."""
    if number == 0:
        return colours().ink, MARKERS[0]
    bright = colours().bright
    return bright[(number - 1) % len(bright)], MARKERS[number % len(MARKERS)]


def _line(
    place: Axes,
    rows: Sequence[TrafficRow],
    times: Sequence[Percentiles | None],
    name: str,
    style: tuple[str, str],
) -> None:
    """Draws the means of one draft length as a solid line, and the 99th percentiles as a dotted line."""
    colour, marker = style
    points = [
        (_load(row), MILLISECONDS * time.mean, MILLISECONDS * time.p99)
        for row, time in zip(rows, times, strict=True)
        if time is not None
    ]
    points.sort()
    loads = [load for load, _, _ in points]
    every = max(len(loads) // MARKED, 1)
    place.plot(
        loads,
        [mean for _, mean, _ in points],
        color=colour,
        label=name,
        marker=marker,
        markevery=every,
        markersize=3.5,
    )
    look: dict[str, Any] = {"marker": marker, "markersize": 3.5, "markevery": (every // 2, every)}
    place.plot(loads, [p99 for _, _, p99 in points], color=colour, linestyle=":", mfc="none", **look)


def _end(place: Axes, rate: float, style: tuple[str, str]) -> None:
    """Draws a hollow marker on the axis at the rate at which a draft length saturates."""
    colour, marker = style
    look: dict[str, Any] = {"color": colour, "markerfacecolor": colours().page, "markeredgewidth": 1.6}
    where = place.get_xaxis_transform()
    place.plot([rate], [0.0], marker, **look, markersize=6.5, zorder=5, transform=where, clip_on=False)


def _plain(value: float, _: object) -> str:
    """A number of milliseconds without an exponent."""
    return f"{value:,.0f}" if value >= 1 else f"{value:g}"


def _minor(value: float, _: object) -> str:
    """The label of a minor tick: that of `_plain` at 2 and 5 times a power of ten, and otherwise empty."""
    first = f"{value:e}"[0]
    return _plain(value, _) if first in "25" else ""


def _caption(answer: Traffic, question: TrafficQuery | None) -> str:
    """The caption: the settings of the question, how the rows were made, and the calibration."""
    lines = ["predicted"]
    if question is not None:
        axis = () if question.opens else ("max_concurrency",)
        lines.append(asked(question, WORDS, (*ON_AXES, *axis)))
    if answer.acceptance_source != GIVEN:
        lines.append(answer.acceptance_source)
    loads = {row.gamma: {_load(one) for one in answer.rows if one.gamma == row.gamma} for row in answer.rows}
    if len({frozenset(of_length) for of_length in loads.values()}) > 1:
        lines.append("each draft length at the loads where it is the best")
    if any(row.made_by is MadeBy.REPLAY for row in answer.rows):
        lines.append("simulated request by request where the closed form is not valid")
    return "; ".join([*lines, f"calibration {answer.calibration.name}"])


def _load(row: TrafficRow) -> float:
    """The request rate of a row, or its number of clients."""
    if row.request_rate is None:
        return float(row.concurrency or 0)
    return row.request_rate
