"""The layout of all pictures: narrow enough for a phone, panels below each other, words outside the axes.

A picture is `WIDTH` inches wide. On a phone, a page is about 350 px wide, so that a letter of `SMALL` points
is at least 9 px high.
"""

import re
import warnings
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from perfmodel.plots.palette import colours

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.legend import Legend
    from matplotlib.lines import Line2D

WIDTH = 4.7
"""Width of a picture in inches."""
SMALL, LARGE = 9.0, 11.0
"""Sizes of all words, and of the title, in points."""
LINE = 1.3
"""Height of a line of words, as a multiple of their size."""
MARGIN = 6.0
"""Distance of words from the edge of the picture, in points."""
GAP = 4.0
"""Distance between title, subtitle, axes and caption, in points."""
HANDLE = 31.0
"""Width of the sign of an entry of a legend, with the gaps around it, in points."""
AXIS = 46.0
"""Width of what is to the left of an axis, in points."""
HINTED = 0.97
"""Width of words in outlines, as a share of the width of the same words in pixels."""
INCH = 72.0
COMMON = ("A", "The", "At", "Speedup", "Throughput", "Reading", "Moving", "Compute", "Kernel")
"""First words of titles that are no names."""
TOGETHER = re.compile(r"(?<=[γα×]) (?=\w)|(?<=batch) (?=\d)|(?<=context) (?=\d)|(?<=\d) (?=[×%])")
"""Spaces at which no line ends."""


def panels(rows: int = 1, height: float = 2.9) -> "list[Axes]":
    """The axes of a new picture, below each other. The picture never opens a window.

    - height: height of a panel with its ticks and the name of its axis, in inches.
    """
    from perfmodel.plots.picture import Picture

    return list(Picture(figsize=(WIDTH, rows * height)).subplots(rows, 1, squeeze=False).ravel())


def figure_of(axes: "Axes") -> "Figure":
    """The figure to which axes belong."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    return figure


def label(axes: "Axes", title: str, subtitle: str, caption: str, *, ideal: bool = False) -> "Figure":
    """Adds words to a picture, for which it grows, and returns the figure.

    - title: what the picture shows, as a sentence.
    - subtitle: what it is about: the model, the devices and the draft.
    - caption: all other settings, below the axes.
    - ideal: whether all numbers are those of the ideal roofline, which title and subtitle then state.
    """
    figure = figure_of(axes)
    if ideal:
        title, subtitle = f"On the ideal roofline, {continued(title)}", f"ideal roofline; {subtitle}"
    width = HINTED * (INCH * WIDTH - 2 * MARGIN)
    look = colours()
    heading = balanced(title, width, LARGE, "bold")
    about = wrapped(subtitle, width)
    notes = wrapped(caption, width)
    head = MARGIN + LINE * (LARGE * len(heading) + SMALL * len(about)) + 2 * GAP
    foot = MARGIN + LINE * SMALL * len(notes) + GAP
    height = INCH * figure.get_figheight() + head + foot
    figure.set_figheight(height / INCH)
    x = MARGIN / (INCH * WIDTH)
    spacing: dict[str, Any] = {"ha": "left", "linespacing": LINE}
    figure.suptitle(
        "\n".join(heading), x=x, y=1 - MARGIN / height, va="top", fontsize=LARGE, fontweight="bold", **spacing
    )
    below = MARGIN + LINE * LARGE * len(heading) + GAP
    figure.text(
        x, 1 - below / height, "\n".join(about), va="top", fontsize=SMALL, color=look.muted, **spacing
    )
    figure.supxlabel(
        "\n".join(notes), x=x, y=MARGIN / height, va="bottom", fontsize=SMALL, color=look.muted, **spacing
    )
    engine = figure.get_layout_engine()
    assert engine is not None
    engine.set(rect=(0.0, foot / height, 1.0, 1.0 - (head + foot) / height))  # type: ignore[call-arg]
    return figure


def continued(sentence: str) -> str:
    """A sentence as the end of another one: articles and common nouns begin with a small letter."""
    first = sentence.partition(" ")[0]
    return sentence[:1].lower() + sentence[1:] if first in COMMON else sentence


def sign(words: str, **look: Any) -> "Line2D":
    """A line or marker that only appears in the legend."""
    from matplotlib.lines import Line2D

    return Line2D([], [], label=words, **look)


def legend_above(axes: "Axes", handles: "Sequence[Any] | None" = None, left: float = AXIS) -> "Legend":
    """Adds a legend above the axes and above their title, where it covers no data, and returns it. The legend
    has as many columns as fit, and the picture grows by its height.

    - left: width of what is to the left of the axis, in points.
    """
    from matplotlib.transforms import offset_copy

    if handles is None:
        handles = axes.get_legend_handles_labels()[0]
    names = [str(handle.get_label()) for handle in handles]
    columns = _columns([width_of(name) + HANDLE for name in names], INCH * WIDTH - left - 2 * MARGIN)
    above = GAP + (LINE * SMALL if axes.get_title(loc="left") else 0.0)
    legend = axes.legend(
        handles=list(handles),
        loc="lower left",
        bbox_to_anchor=(0.0, 1.0),
        bbox_transform=offset_copy(axes.transAxes, figure_of(axes), 0, above, units="points"),
        ncols=columns,
        borderaxespad=0.0,
        borderpad=0.2,
        handlelength=2.0,
        handletextpad=0.5,
        columnspacing=1.0,
        labelspacing=0.3,
    )
    legend.set_visible(bool(handles))
    rows = -(-len(names) // columns)
    figure_of(axes).set_figheight(figure_of(axes).get_figheight() + rows * LINE * SMALL / INCH)
    return legend


def _columns(widths: Sequence[float], most: float) -> int:
    """The number of columns of a legend that is at most `most` points wide, for its entries' widths: the
    smallest with the fewest rows.
    """
    fitting = [
        columns
        for columns in range(2, min(len(widths), 4) + 1)
        if sum(max(column) for column in np.array_split(widths, columns)) <= most
    ]
    return min([1, *fitting], key=lambda columns: -(-len(widths) // columns))


def wrapped(words: str, width: float, size: float = SMALL, weight: str = "normal") -> list[str]:
    """The lines of a text, none of which is wider than `width` points. A word that is wider is cut."""
    lines: list[str] = []
    for word in _cut(TOGETHER.sub("\u00a0", words).split(" "), width, size, weight):
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and width_of(longer, size, weight) <= width:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


def balanced(words: str, width: float, size: float, weight: str) -> list[str]:
    """As `wrapped`, with lines of about the same width."""
    lines = wrapped(words, width, size, weight)
    while len(shorter := wrapped(words, width := width - size, size, weight)) == len(lines) and width > size:
        lines = shorter
    return lines


def _cut(words: Iterable[str], width: float, size: float, weight: str) -> Iterable[str]:
    """The words, those that are too wide in parts."""
    for word in words:
        rest = word
        while width_of(rest, size, weight) > width:
            fits = next(n for n in range(len(rest) - 1, 0, -1) if width_of(rest[:n], size, weight) <= width)
            comma = rest.rfind(",", 0, fits) + 1
            yield rest[: comma or fits]
            rest = rest[comma or fits :]
        yield rest


@lru_cache(4096)
def width_of(words: str, size: float = SMALL, weight: str = "normal") -> float:
    """The width of a text in points."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    font = FontProperties(family="DejaVu Sans", size=size, weight=weight)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph", UserWarning)  # a letter that no font has becomes a box
        width: float = text_to_path.get_text_width_height_descent(words, font, ismath=False)[0]
    return width
