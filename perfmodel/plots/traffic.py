"""Latency against the request rate, with and without drafts: saturation and SLO."""

from perfmodel.answers.load.traffic import Traffic
from perfmodel.answers.load.traffic_rows import TrafficRow
from perfmodel.answers.text import devices
from perfmodel.errors import InputError
from perfmodel.plots.theme import BRIGHT, DARK, Figure, label, panels, styled
from perfmodel.queueing.policies import in_words

PANELS = (("ttft_s", "time to the first token (s)", 1.0), ("tpot_s", "time per output token (ms)", 1e3))


@styled
def traffic(found: Traffic, *, slo: dict[str, float] | None = None) -> Figure:
    """Mean (line) and 99th percentile (dotted) of both latencies over the loads of an answer, a colour per
    draft length.

    slo: limits to draw, in milliseconds, as in the question. A cross on the axis marks the saturation rate of
    a length. Raises InputError for fewer than two loads.
    """
    from matplotlib.ticker import FuncFormatter

    loads = sorted({_load(row) for row in found.rows})
    if len(loads) < 2:
        raise InputError("traffic: needs an answer at two loads or more")
    left, right = panels(2, (8.6, 4.2))
    closed = found.rows[0].concurrency is not None
    lengths = sorted({row.gamma for row in found.rows}, key=lambda gamma: (gamma != 0, str(gamma)))
    for place, (name, title, scale) in zip((left, right), PANELS, strict=True):
        for number, gamma in enumerate(lengths):
            rows = [row for row in found.rows if row.gamma == gamma and row.ttft_s is not None]
            at = [_load(row) for row in rows]
            times = [getattr(row, name) for row in rows]
            colour = BRIGHT[number % len(BRIGHT)]
            place.plot(
                at,
                [scale * t.mean for t in times],
                color=colour,
                label=in_words(gamma) if gamma else "baseline",
            )
            place.plot(at, [scale * t.p99 for t in times], color=colour, linestyle=":")
            if rows and not closed and loads[0] <= (end := rows[0].saturation_rate) <= loads[-1] * 1.1:
                place.plot(
                    [end], [0.0], "x", color=colour, transform=place.get_xaxis_transform(), clip_on=False
                )
        if slo and name[:4] in slo:
            limit = slo[name[:4]] * scale / 1e3
            place.axhline(limit, color=DARK, linewidth=0.8)
            place.annotate("SLO", (loads[0], limit), xytext=(0, 3), textcoords="offset points", color=DARK)
        place.set_xlabel("clients" if closed else "requests/s")
        place.set_title(title, loc="left", fontsize="medium")
    left.set_yscale("log")
    left.yaxis.set_major_formatter(FuncFormatter(lambda seconds, _: f"{seconds:g}"))
    right.set_ylim(bottom=0)
    left.legend(fontsize="small", loc="upper left")
    drafted = f"; draft: {found.draft}" if len(lengths) > 1 else ""
    ends = "" if closed else "; crosses: saturated from there on"
    caption = (
        f"Lines: means over requests; dotted: 99th percentiles{ends}. Calibration {found.calibration.name}."
    )
    return label(left, f"Latency of {found.model} on {devices(found.hardware, found.tp)}{drafted}", caption)


def _load(row: TrafficRow) -> float:
    if row.request_rate is None:
        return float(row.concurrency or 0)
    return row.request_rate
