"""Draws TTFT and TPOT over the load, with and without a draft. Saturation rates and latency limits are
marked.
"""

from collections.abc import Sequence

from perfmodel.answers.load.traffic import Traffic
from perfmodel.answers.load.traffic_rows import MadeBy, Percentiles, TrafficRow
from perfmodel.answers.text import devices
from perfmodel.errors import InputError
from perfmodel.plots.theme import BRIGHT, DARK, Axes, Figure, label, panels, styled
from perfmodel.queueing.policies import in_words

BASELINE = DARK
COLOURS = BRIGHT
"""Colours of the draft lengths, beginning with the shortest. The baseline is dark."""
MARKERS = ("o", "s", "^", "D", "v", "P")
"""Markers of the baseline and of the draft lengths, in this order."""
MARKED = 8
"""Number of markers on a line. They distinguish the lines without colours."""
MILLISECONDS = 1e3


@styled
def traffic(answer: Traffic, *, slo: dict[str, float] | None = None) -> Figure:
    """Draws TTFT (left) and TPOT (right) over the loads of an answer. Means are solid lines, 99th percentiles
    dotted lines. Each draft length has its own colour and marker.

    - slo: latency limits to draw, in milliseconds, as in the question.

    A cross on the axis marks the saturation rate of a draft length. Its lines end there. Raises InputError
    for fewer than two loads.
    """
    loads = sorted({_load(row) for row in answer.rows})
    if len(loads) < 2:
        raise InputError("traffic: needs an answer at two loads or more")
    left, right = panels(2, (9.6, 4.4))
    closed = answer.rows[0].request_rate is None
    lengths = sorted({row.gamma for row in answer.rows}, key=_order)
    for number, gamma in enumerate(lengths):
        rows = [row for row in answer.rows if row.gamma == gamma and not row.saturated]
        if not rows:
            continue
        style = _style(number)
        name = in_words(gamma) if gamma else "baseline"
        _line(left, rows, [row.ttft_s for row in rows], name, style)
        _line(right, rows, [row.tpot_s for row in rows], name, style)
        if not closed and loads[0] <= rows[0].saturation_rate <= loads[-1] * 1.1:
            for place in (left, right):
                _cross(place, rows[0].saturation_rate, style[0])
    for place, limit, title in (
        (left, "ttft", "time to the first token (ms)"),
        (right, "tpot", "time per output token (ms)"),
    ):
        if slo and limit in slo:
            _limit(place, slo[limit], loads[0])
        place.set_xlabel("clients" if closed else "requests/s")
        place.set_title(title, loc="left", fontsize="medium")
    left.set_yscale("log")
    left.yaxis.set_major_formatter(_plain)
    left.yaxis.set_minor_formatter(_minor)
    right.set_ylim(bottom=0)
    right.legend(fontsize="small", loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False)
    drafted = f"; draft: {answer.draft}" if len(lengths) > 1 else ""
    title = f"Latency of {answer.model} on {devices(answer.hardware, answer.tp)}{drafted}"
    return label(left, title, _caption(answer, closed))


def _order(gamma: int | str) -> tuple[bool, int, str]:
    """A sort key: the baseline is first, then draft lengths by number, and then policies."""
    if isinstance(gamma, int):
        return False, gamma, ""
    return True, 0, gamma


def _style(number: int) -> tuple[str, str]:
    """The colour and the marker of a line. Line 0 is the baseline."""
    if number == 0:
        return BASELINE, MARKERS[0]
    return COLOURS[(number - 1) % len(COLOURS)], MARKERS[number % len(MARKERS)]


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
    place.plot(loads, [p99 for _, _, p99 in points], color=colour, linestyle=":")


def _cross(place: Axes, rate: float, colour: str) -> None:
    """Draws a cross on the axis at the rate at which a draft length saturates."""
    place.plot([rate], [0.0], "x", color=colour, transform=place.get_xaxis_transform(), clip_on=False)


def _limit(place: Axes, limit_ms: float, least_load: float) -> None:
    """Draws a line at a latency limit, with its name above its left end."""
    place.axhline(limit_ms, color=DARK, linewidth=0.8, linestyle="--")
    place.annotate(
        f"SLO {limit_ms:g} ms",
        (least_load, limit_ms),
        xytext=(0, 3),
        textcoords="offset points",
        color=DARK,
        fontsize="small",
    )


def _plain(value: float, _: object) -> str:
    """A number of milliseconds without an exponent."""
    return f"{value:,.0f}" if value >= 1 else f"{value:g}"


def _minor(value: float, _: object) -> str:
    """The label of a minor tick: that of `_plain` at 2 and 5 times a power of ten, and otherwise empty."""
    first = f"{value:e}"[0]
    return _plain(value, _) if first in "25" else ""


def _caption(answer: Traffic, closed: bool) -> str:
    """The caption of the picture.

    - closed: whether the loads are numbers of clients.
    """
    lines = ["Lines: means over requests; dotted: 99th percentiles"]
    if not closed:
        lines.append("crosses: saturated from there on, where the lines end")
    loads = {row.gamma: {_load(one) for one in answer.rows if one.gamma == row.gamma} for row in answer.rows}
    if len({frozenset(of_length) for of_length in loads.values()}) > 1:
        lines.append("each draft length at the loads where it is the best")
    if any(row.made_by is MadeBy.REPLAY for row in answer.rows):
        lines.append("simulated request by request where the closed form is not valid")
    return f"{'; '.join(lines)}. Calibration {answer.calibration.name}."


def _load(row: TrafficRow) -> float:
    """The request rate of a row, or its number of clients."""
    if row.request_rate is None:
        return float(row.concurrency or 0)
    return row.request_rate
