"""Draws one result of a sweep over batch, context or gamma. Each combination of the other swept arguments has
its own line.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from perfmodel.answers.grid.blocks import COLUMNS, is_time
from perfmodel.answers.grid.grid import AXES, HEADS
from perfmodel.answers.grid.sweep import Sweep
from perfmodel.errors import unknown_name
from perfmodel.parse import parse_text
from perfmodel.plots.theme import (
    DARK,
    Axes,
    Figure,
    caption,
    label,
    legend_above,
    log_axis,
    panels,
    shades,
    styled,
    tokens,
)

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
WIDE = 14
"""Largest number of characters in the label of a line that takes a quarter of the width of the legend. Longer
labels take half of it.
"""
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
    groups = _groups(sweep, over)
    scale = MS_PER_S if is_time(figure) else 1.0
    for (words, rows), colour in zip(groups, shades(len(groups)), strict=True):
        axes.plot(rows[over], rows[figure] * scale, color=colour, marker=".", label=words)
        if figure == "speedup" and len(groups) <= MOST_BANDS:
            axes.fill_between(
                rows[over], rows["speedup_low"], rows["speedup_high"], color=colour, alpha=0.15, linewidth=0
            )
    if figure == "speedup":
        axes.axhline(1.0, color="black", linewidth=1.0)
    dots = sorted(measured)
    if dots:
        places, values = zip(*dots, strict=True)
        axes.plot(places, [value * scale for value in values], "o", color=DARK, label="measured")
    _horizontal(axes, over, [value for _, rows in groups for value in rows[over]])
    short, long = _names(figure)
    axes.set_ylabel(long)
    wide = max(len(words) for words, _ in groups) > WIDE
    legend_above(axes, 2 if wide else 4, axes.get_legend_handles_labels()[0])
    of = HORIZONTAL.get(over, (over, over))[0]
    return label(axes, f"{short} by {of}", _subject(sweep, figure, groups))


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


def _subject(sweep: Sweep, figure: str, groups: list[tuple[str, "DataFrame"]]) -> str:
    """The caption of the picture: the batch or context if it does not vary, and the question of the first
    line.
    """
    varied = _lists(sweep)
    fixed = [
        f"{name} {tokens(sweep.grid.axis(name)[0])}" for name in ("batch", "context") if name not in varied
    ]
    gamma = sweep.grid.axis("gamma")[0] if "gamma" not in varied else None
    band = ["band: 90 % interval"] if figure == "speedup" and len(groups) <= MOST_BANDS else []
    subject = caption(sweep.blocks[0].scenario, gamma, acceptance="alpha" not in varied)
    if any(name in varied for name in HEADS if name != "alpha"):
        subject = f"the first line: {subject}"
    return "; ".join([*fixed, subject, *band])
