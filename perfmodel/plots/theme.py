"""The style of all pictures: colours, axes of batches and contexts, captions, and file output. The same
numbers give the same file.

The colours are from Paul Tol's schemes (technical note SRON/EPS/TN/09-002), which people with any kind of
colour vision can distinguish. Where possible, line styles or markers also distinguish what colours
distinguish.
"""

import textwrap
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from perfmodel.answers.point.calibrated import Calibrated
from perfmodel.answers.question import Query, resolve
from perfmodel.errors import in_names, library
from perfmodel.speculation import Scenario
from perfmodel.writing import destination, write

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.legend import Legend
    from matplotlib.lines import Line2D
else:  # loaded on use only; the other modules take these names from here
    Axes = Figure = Any

Span = tuple[float, float]
Draw = TypeVar("Draw", bound=Callable[..., "Figure"])

BRIGHT = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377")
"""Colours of lines and points, in this order (Tol's "bright")."""
GREY, DARK, PALE = "#bbbbbb", "#444444", "#eeeeee"
"""Colours of minor parts, of text and limits, and of areas without data."""
STAGES = {"baseline": BRIGHT[0], "draft": BRIGHT[1], "verify": BRIGHT[2], "overhead": GREY}
"""Colours of the parts of an iteration, the same in every picture."""
STAGE_NAMES = {
    "baseline": "baseline step",
    "draft": "draft step",
    "verify": "verification",
    "overhead": "outside the passes",
}
"""Names of the parts of an iteration, in legends."""
PARTS = {
    "linear": ("linear layers: weights", "#77aadd"),
    "attention": ("attention: KV", "#ee8866"),
    "small": ("small kernels", "#eedd88"),
    "allreduce": ("all-reduce", "#ffaabb"),
    "fixed": ("launches, fixed costs", "#aaaa00"),
    "overhead": ("outside the passes", "#dddddd"),
}
"""Components of the time of a pass: word and colour (Tol's "light")."""
BELOW = ("#f6d3c9", "#e58267", "#b2182b", "#4d0712")
ABOVE = ("#d6e6f1", "#92c5de", "#4393c3", "#2166ac", "#0b3d70", "#04142b")
"""Colours from break even to the largest slowdown and speedup. Red and blue also differ in how fast they
darken.
"""
SEQUENCE = ("#cae0e4", "#90c2cf", "#5a9fb8", "#3b7a9e", "#2b5680", "#22335c", "#160f30")
"""Colours from few to many, light to dark."""
STYLE = Path(__file__).with_name("perfmodel.mplstyle")
"""The file of matplotlib settings for all pictures."""
FORMATS = (".png", ".svg", ".pdf")
"""Suffixes of files that `save` can write."""
UNDATED: dict[str, dict[str, None]] = {
    ".png": {"Software": None},
    ".svg": {"Date": None},
    ".pdf": {"CreationDate": None},
}
"""Metadata that are left out, so that equal pictures have equal bytes."""
DPI = 160
"""Resolution of .png files, in dots per inch."""


@contextmanager
def style() -> Iterator[None]:
    """A context manager in which matplotlib uses the style of all pictures. Raises InputError if matplotlib
    is not installed.
    """
    library("matplotlib", "plot", "plot")
    with library("matplotlib.style").context(STYLE):
        yield


def styled(draw: Draw) -> Draw:
    """Decorates a drawing function so that it uses the style of all pictures."""
    return in_names(style()(draw))  # type: ignore[return-value]


def scenario_of(question: Query | Scenario) -> Scenario:
    """The scenario of a picture, from a question or from a scenario."""
    return resolve(question) if isinstance(question, Query) else question


def panels(columns: int = 1, size: tuple[float, float] = (7.2, 4.4), rows: int = 1) -> "list[Axes]":
    """The axes of a new figure, row by row. The figure never opens a window.

    - size: width and height of the figure in inches.
    """
    from matplotlib.figure import Figure

    return list(Figure(figsize=size).subplots(rows, columns, squeeze=False).ravel())


def figure_of(axes: "Axes") -> "Figure":
    """The figure to which axes belong."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    return figure


def label(axes: "Axes", title: str, caption: str) -> "Figure":
    """Adds the title (above) and the caption (below) to a picture, and returns the figure."""
    figure = figure_of(axes)
    figure.suptitle(title, x=0.012, ha="left", fontsize=10.5, fontweight="bold")
    figure.supxlabel(
        textwrap.fill(caption, int(figure.get_figwidth() * 13.4), break_on_hyphens=False),
        x=0.012,
        ha="left",
        fontsize=9,
        color=DARK,
    )
    return figure


def sign(words: str, **look: Any) -> "Line2D":
    """A line or marker that only appears in the legend."""
    from matplotlib.lines import Line2D

    return Line2D([], [], label=words, **look)


def legend_above(axes: "Axes", columns: int, handles: "Sequence[Any] | None" = None) -> "Legend":
    """Adds a legend between the title and the axes, where it covers no data, and returns it.

    - columns: number of its columns.
    """
    if handles is None:
        handles = axes.get_legend_handles_labels()[0]
    legend = axes.legend(
        handles=list(handles),
        loc="lower left",
        bbox_to_anchor=(0.0, 1.0),
        ncols=columns,
        borderaxespad=0.2,
        borderpad=0.2,
        handlelength=1.8,
        columnspacing=1.4,
    )
    legend.set_visible(bool(handles))
    return legend


def caption(scenario: Scenario, gamma: int | None = None, *, acceptance: bool = True) -> str:
    """The caption of a picture: the model, device, draft, number formats and calibration, and every other
    setting that differs from its default.
    """
    machine = scenario.machine
    draft = scenario.draft
    parts = [f"{scenario.target.name} on {machine.tensor_parallel} × {machine.gpu.name}"]
    view = draft.kv.label().partition(",")[0]
    parts.append(f"draft {', '.join([draft.name, view, *unusual(draft.kv), *unusual(draft)])}")
    if gamma is not None:
        parts.append(f"γ {gamma}" if gamma else "γ 0: baseline")
    if acceptance:
        alpha = None if scenario.acceptance is None else scenario.acceptance.alpha
        parts.append(scenario.acceptance_source if alpha is None else f"acceptance α {alpha:g}")
    if draft.tensor_parallel != machine.tensor_parallel:
        parts.append(f"draft on {draft.tensor_parallel}")
    own, target = (f"{p.weights.name} weights, {p.kv.name} KV" for p in (draft.precision, scenario.precision))
    parts.append(target if own == target else f"{target} (draft: {own})")
    recurrent = scenario.target.linear_attention
    if recurrent is not None:
        parts.append(f"{recurrent.state_dtype} states")
    parts += [*unusual(replace(machine, tensor_parallel=1)), *unusual(replace(scenario, acceptance=None))]
    made = Calibrated.of(scenario)
    return "; ".join([*parts, f"calibration {made.name} ({made.kind})"])


def unusual(settings: Any) -> list[str]:
    """The fields of a settings object that differ from their defaults, each as a text with name and value."""
    usual = {f.name: f.default for f in fields(settings) if f.init and f.default is not MISSING}
    given = {name: getattr(settings, name) for name in usual}
    return [f"{name.replace('_', ' ')} {value}" for name, value in given.items() if value != usual[name]]


def point_labels(points: Sequence[tuple[float, float]]) -> tuple[list[str], list[str]]:
    """A label for each pair of batch and context, and the common part of all pairs for the caption. A label
    states only the values that differ between the pairs.
    """
    columns = [[f"batch {b:g}" for b, _ in points], [f"context {tokens(c)}" for _, c in points]]
    same = [column[0] for column in columns if len({*column}) == 1 and len(points) > 1]
    kept = [column for column in columns if column[0] not in same] or columns
    return [", ".join(names) for names in zip(*kept, strict=True)], same


def tokens(value: float) -> str:
    """A number of tokens or sequences as a tick label: 4096 becomes ``4k``, 1536 becomes ``1.5k``. A number
    without such a short form is written in full, such as ``100,000``.
    """
    if value < 1000:
        return f"{value:.4g}"
    for suffix, unit in (("M", 2**20), ("k", 2**10)):
        if value >= unit and (value / unit * 10).is_integer():
            return f"{value / unit:.4g}{suffix}"
    return f"{value:,.0f}"


def octaves(low: float, high: float, count: int = 8) -> list[float]:
    """Ticks of a logarithmic axis: the powers of two from `low` to `high`. If there are more than `count`,
    only every second or third power (and so on) is used. If there are fewer than two, the ticks are `low` and
    `high`.
    """
    first = int(np.ceil(np.log2(low) - 1e-9))
    last = int(np.floor(np.log2(high) + 1e-9))
    step = max(1, -(-(last - first + 1) // count))
    if last > first:
        return [float(2**power) for power in range(first, last + 1, step)]
    return [low, high]


def log_axis(axes: "Axes", which: str, low: float, high: float, name: str, count: int = 8) -> None:
    """Makes the x or the y axis logarithmic from `low` to `high`, with ticks at powers of two."""
    axis = axes.xaxis if which == "x" else axes.yaxis
    axes.set(**{f"{which}scale": "log", f"{which}lim": (low, high), f"{which}label": name})
    ticks = octaves(low, high, count)
    axis.set_ticks(ticks, [tokens(tick) for tick in ticks])
    axis.set_ticks([], minor=True)


def shades(count: int) -> list[Any]:
    """`count` colours from light to dark. All are dark enough for a line on a white page."""
    from matplotlib.colors import LinearSegmentedColormap

    ramp = LinearSegmentedColormap.from_list("perfmodel", SEQUENCE[1:])
    if count > 1:
        return [ramp(place) for place in np.linspace(0.1, 1.0, count)]
    return [ramp(0.55)]


@in_names
def save(figure: "Figure", path: str | Path) -> Path:
    """Writes a figure to a .png, .svg or .pdf file, and returns its path. The same numbers give the same
    bytes.

    Raises InputError if the path has another suffix or cannot be written to.
    """
    where = destination(path, *FORMATS)
    with style(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph", UserWarning)  # a letter that no font has becomes a box
        write(where, lambda fresh: figure.savefig(fresh, dpi=DPI, metadata=UNDATED[where.suffix.lower()]))
    return where
