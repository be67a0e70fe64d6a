"""Latency against the request rate, with and without drafts: where each is saturated, and what the SLO allows."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from perfmodel.answers.text import devices
from perfmodel.answers.traffic import Traffic
from perfmodel.answers.traffic_rows import TrafficRow
from perfmodel.errors import InputError
from perfmodel.plots.theme import BRIGHT, GREY, canvases, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANELS = (("ttft_s", "TTFT, s"), ("tpot_s", "TPOT, ms"))


@styled
def traffic(found: Traffic, *, slo: dict[str, float] | None = None, axes: "Sequence[Axes] | None" = None) -> "Figure":
    """Mean (line) and 99th percentile (dotted) of both latencies over the loads of an answer, a colour a draft length.

    slo: limits to draw, in milliseconds, as the question had them. Vertical lines are saturation rates. Raises
    InputError for fewer than two loads.
    """
    loads = sorted({_load(row) for row in found.rows})
    if len(loads) < 2:
        raise InputError("traffic: needs an answer at two loads or more")
    figure, panels = canvases(axes, 1, 2, (8.6, 4.0))
    lengths = sorted({str(row.gamma) for row in found.rows}, key=lambda gamma: (gamma != "0", gamma))
    for place, (name, title) in zip(panels, PANELS, strict=True):
        scale = 1e3 if "ms" in title else 1.0
        for number, gamma in enumerate(lengths):
            rows = [row for row in found.rows if str(row.gamma) == gamma and getattr(row, name) is not None]
            at = [_load(row) for row in rows]
            colour = BRIGHT[number % len(BRIGHT)]
            words = "baseline" if gamma == "0" else f"{gamma} draft tokens" if gamma != "table" else "by the table"
            place.plot(at, [scale * getattr(row, name).mean for row in rows], color=colour, label=words)
            place.plot(at, [scale * getattr(row, name).p99 for row in rows], color=colour, linestyle=":")
            if rows and rows[0].concurrency is None and loads[0] <= rows[0].saturation_rate <= loads[-1]:
                place.axvline(rows[0].saturation_rate, color=colour, linewidth=0.8, linestyle="--")
        if slo and name[:4] in slo:
            place.axhline(slo[name[:4]] * scale / 1e3, color=GREY, linewidth=0.8)
        place.set_xlabel("clients" if found.rows[0].concurrency is not None else "requests/s")
        place.set_ylabel(title)
    panels[0].set_yscale("log")
    panels[1].set_ylim(bottom=0)
    panels[0].legend(fontsize="small")
    figure.suptitle(
        f"{found.model} on {devices(found.hardware, found.tp)}, drafted by {found.draft}", fontsize="medium"
    )
    return figure


def _load(row: TrafficRow) -> float:
    return float(row.concurrency or 0) if row.request_rate is None else row.request_rate
