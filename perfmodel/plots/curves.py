"""Draws one result of a sweep over batch, context or gamma. Each combination of the other swept arguments has
its own line.
"""

from collections.abc import Iterable
from itertools import cycle
from typing import TYPE_CHECKING, Any

from perfmodel.answers.grid.blocks import COLUMNS, is_time
from perfmodel.answers.grid.grid import AXES, HEADS
from perfmodel.answers.grid.sweep import Sweep
from perfmodel.errors import unknown_name
from perfmodel.parse import parse_text
from perfmodel.plots.layout import label, legend_above, panels
from perfmodel.plots.palette import colours, shades
from perfmodel.plots.theme import Axes, Figure, caption, is_ideal, log_axis, styled, subject, tokens

if TYPE_CHECKING:
    from pandas import DataFrame

HORIZONTAL = {
    "context_tokens": ("context", "context, cached tokens per sequence"),
    "batch": ("batch", "batch, sequences"),
    "gamma": ("draft length", "draft length γ"),
}
"""Column -> its name in the title, and its name on the horizontal axis. Other columns have their own
names.
"""
VERTICAL = {
    "speedup": ("Speedup", "predicted speedup over the baseline"),
    "tpot_s": ("TPOT", "time per output token, ms"),
    "throughput_tokens_per_s": ("Throughput", "throughput, tokens/s"),
}
"""Column -> its name in the title, and its name on the vertical axis. Other columns have their own names."""
MARKERS = "os^Dv"
"""Markers of the lines, in this order."""
MOST_BANDS = 2
"""Largest number of lines with a band of their interval. More bands would cover each other."""
MS_PER_S = 1e3
Measured = tuple[float, float]
"""A value on the horizontal axis and a measured figure."""


@styled
def curves(
    sweep: Sweep,
    figure: str = "speedup",
    over: str = "context_tokens",
    *,
    measured: Iterable[Measured] = (),
) -> Figure:
    """Draws one numeric column of a sweep (`figure`) over another one (`over`).

    Each combination of the other swept arguments has its own line. If the column is the speedup and there are
    only one or two lines, a band shows the 90 % interval of each line.

    - measured: pairs of a value of `over` and a measured value of `figure`, drawn as dots.

    Returns the figure.

    Raises InputError for an unknown column, or if pandas or matplotlib is not installed.
    """
    for name in (figure, over):
        if parse_text(name, "curves") not in COLUMNS:
            raise unknown_name("curves", "column", name, COLUMNS)
    (axes,) = panels()
    look = colours()
    groups = _groups(sweep, over)
    scale = MS_PER_S if is_time(figure) else 1.0
    for (words, rows), colour, marker in zip(groups, shades(len(groups)), cycle(MARKERS), strict=False):
        axes.plot(rows[over], rows[figure] * scale, color=colour, marker=marker, markersize=4.5, label=words)
        if figure == "speedup" and len(groups) <= MOST_BANDS:
            axes.fill_between(
                rows[over], rows["speedup_low"], rows["speedup_high"], color=colour, alpha=0.15, linewidth=0
            )
    if figure == "speedup":
        axes.axhline(1.0, color=look.ink, linewidth=1.0)
    dots = sorted(measured)
    if dots:
        places, values = zip(*dots, strict=True)
        axes.plot(
            places, [value * scale for value in values], "*", color=look.ink, markersize=9, label="measured"
        )
    _horizontal(axes, over, [value for _, rows in groups for value in rows[over]])
    axes.set_title(_names(figure)[1])
    legend_above(axes)
    about, details = _captions(sweep, figure, groups)
    ideal = all(is_ideal(block.scenario) for block in sweep.blocks)
    return label(axes, _claim(figure, over, groups), about, details, ideal=ideal)


def _claim(figure: str, over: str, groups: list[tuple[str, "DataFrame"]]) -> str:
    """The title: how the best draft length changes from line to line, or the range of the figure."""
    if (figure, over) == ("speedup", "gamma") and len(groups) > 1:
        return _best_lengths(groups)
    short = _names(figure)[0]
    of = HORIZONTAL.get(over, (over, over))[0]
    points = [
        (float(value), ", ".join(filter(None, (words, f"{of} {tokens(place)}"))))
        for words, rows in groups
        for value, place in zip(rows[figure], rows[over], strict=True)
    ]
    (low, least), (high, most) = min(points), max(points)
    if figure == "speedup":
        return f"Speedup from {low:.2f}× at {least} to {high:.2f}× at {most}"
    scale, unit = (MS_PER_S, " ms") if is_time(figure) else (1.0, "")
    return f"{short} by {of}: {scale * low:,.3g} to {scale * high:,.3g}{unit}"


def _best_lengths(groups: list[tuple[str, "DataFrame"]]) -> str:
    """The title: the draft length with the largest speedup on the first and on the last line."""
    ends = groups[0], groups[-1]
    one, two = (int(rows["gamma"].iloc[int(rows["speedup"].argmax())]) for _, rows in ends)
    first, last = (words for words, _ in ends)
    if one == two:
        return f"The best draft length is {one} at {first} and at {last}"
    change = "grows" if two > one else "falls"
    return f"The best draft length {change} from {one} at {first} to {two} at {last}"


def _names(figure: str) -> tuple[str, str]:
    """The name of a figure in the title, and its name on the vertical axis."""
    if figure in VERTICAL:
        return VERTICAL[figure]
    return figure, f"{figure.removesuffix('_s')}, ms" if is_time(figure) else figure


def _groups(sweep: Sweep, over: str) -> list[tuple[str, "DataFrame"]]:
    """The label of each line, which states the values that distinguish it, and the rows of the line."""
    frame = sweep.to_frame()
    columns = ["context_tokens" if name == "context" else name for name in _lists(sweep)]
    others = [name for name in columns if name != over]
    if not others:
        return [("", frame.sort_values(over))]
    return [
        (", ".join(map(_in_words, others, values)), rows.sort_values(over))
        for values, rows in frame.groupby(others, sort=True)
    ]


def _lists(sweep: Sweep) -> list[str]:
    """The axes of a sweep with more than one value."""
    return [name for name in AXES if len(sweep.grid.axis(name)) > 1]


def _in_words(name: str, value: Any) -> str:
    """The value of a column, as part of the label of a line."""
    if name == "context_tokens":
        return f"context {tokens(value)}"
    if name in ("model", "hardware", "draft_kv"):
        return str(value)
    symbol = {"gamma": "γ", "alpha": "α"}.get(name, name)
    return f"{symbol} {value:g}"


def _horizontal(axes: Axes, over: str, values: list[float]) -> None:
    """Makes the horizontal axis. It is logarithmic for batches and contexts."""
    name = HORIZONTAL.get(over, (over, over))[1]
    if over in ("batch", "context_tokens") and min(values) < max(values):
        log_axis(axes, "x", min(values), max(values), name)
    else:
        axes.set_xlabel(name)


def _captions(sweep: Sweep, figure: str, groups: list[tuple[str, "DataFrame"]]) -> tuple[str, str]:
    """The subtitle, and the caption: the batch or context if it does not vary, and the question of the first
    line.
    """
    varied = _lists(sweep)
    fixed = [
        f"{name} {tokens(sweep.grid.axis(name)[0])}" for name in ("batch", "context") if name not in varied
    ]
    gamma = sweep.grid.axis("gamma")[0] if "gamma" not in varied else None
    band = ["band: 90 % interval"] if figure == "speedup" and len(groups) <= MOST_BANDS else []
    first = sweep.blocks[0].scenario
    about = subject(first, gamma)
    if any(name in varied for name in HEADS if name != "alpha"):
        about = f"the first line: {about}"
    details = caption(first, acceptance="alpha" not in varied)
    return "; ".join([about, *fixed]), "; ".join([details, *band])
