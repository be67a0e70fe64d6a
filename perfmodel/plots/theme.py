"""The style of every picture: palette, figures, axes of batches and contexts, captions, and files with equal
bytes.

Colours are Paul Tol's schemes (his technical note SRON/EPS/TN/09-002), which people with any colour vision
can distinguish; line styles or markers repeat the information of colours where possible. matplotlib is loaded
on use.
"""

import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from perfmodel.answers.point.verdict import Calibrated
from perfmodel.answers.question.query import Query, resolve
from perfmodel.answers.text import draft_in_words
from perfmodel.drafts.base import Draft
from perfmodel.errors import InputError, in_names, not_installed
from perfmodel.kv import parse_kv
from perfmodel.operations import Mask
from perfmodel.speculation.capacity import DEFAULT_MEMORY_FRACTION
from perfmodel.speculation.chain import DEFAULT_MAX_GAMMA
from perfmodel.speculation.scenario import Scenario
from perfmodel.writing import destination, write

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.legend import Legend
    from matplotlib.lines import Line2D
else:  # loaded on use only; the other modules take these names from here
    Axes = Figure = Any

Draw = TypeVar("Draw", bound=Callable[..., "Figure"])

BRIGHT = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377")
"""For lines and points, in this order (Tol's "bright")."""
GREY, DARK, PALE = "#bbbbbb", "#444444", "#eeeeee"
STAGES = {"baseline": BRIGHT[0], "draft": BRIGHT[1], "verify": BRIGHT[2], "overhead": GREY}
"""The parts of an iteration, in every picture."""
STAGE_NAMES = {
    "baseline": "baseline step",
    "draft": "draft step",
    "verify": "verification",
    "overhead": "outside the passes",
}
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
"""From break even to the largest slowdown and speedup; red and blue also differ in how fast they darken."""
SEQUENCE = ("#cae0e4", "#90c2cf", "#5a9fb8", "#3b7a9e", "#2b5680", "#22335c", "#160f30")
"""From few to many, light to dark."""
STYLE = Path(__file__).with_name("perfmodel.mplstyle")
FORMATS = (".png", ".svg")
DPI = 160


@contextmanager
def style() -> Iterator[None]:
    """matplotlib set up as all pictures have it. Raises InputError where it is not installed."""
    try:
        from matplotlib import style as looks
    except ModuleNotFoundError:
        raise not_installed("plot", "matplotlib", "plot") from None
    with looks.context(STYLE):
        yield


def styled(draw: Draw) -> Draw:
    """A drawing function in the style."""
    return in_names(style()(draw))  # type: ignore[return-value]


def scenario_of(asked: Query | Scenario) -> Scenario:
    """The subject of a picture: a question in the user's words, or its resolved scenario."""
    return resolve(asked) if isinstance(asked, Query) else asked


def panels(columns: int = 1, size: tuple[float, float] = (7.2, 4.4), rows: int = 1) -> "list[Axes]":
    """Axes of a new figure that no window manager knows of, row by row."""
    from matplotlib.figure import Figure

    return list(Figure(figsize=size).subplots(rows, columns, squeeze=False).ravel())


def figure_of(axes: "Axes") -> "Figure":
    """The whole figure that axes belong to."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    return figure


def label(axes: "Axes", title: str, caption: str) -> "Figure":
    """Adds the title (above) and the subject (below) to a picture; returns the whole figure."""
    figure = figure_of(axes)
    figure.suptitle(title, x=0.012, ha="left", fontsize=10.5, fontweight="bold")
    text = textwrap.fill(caption, int(figure.get_figwidth() * 17.5), break_on_hyphens=False)
    figure.supxlabel(text, x=0.012, ha="left", fontsize=7, color=DARK)
    return figure


def label_panel(axes: "Axes", title: str, caption: str) -> "Figure":
    """The same above and below axes of a figure that somebody else made."""
    figure, legend = figure_of(axes), axes.get_legend()
    rows = 0 if legend is None else -(-len(legend.get_texts()) // getattr(legend, "_ncols", 1))
    axes.set_title(title, loc="left", fontsize=9, fontweight="bold", pad=6 + 14 * rows)
    wide = int(max(axes.get_position().width * figure.get_figwidth() * 22, 30))
    axes.annotate(
        textwrap.fill(caption, wide, break_on_hyphens=False),
        (0, 0),
        (0, -38),
        xycoords="axes fraction",
        textcoords="offset points",
        va="top",
        fontsize=6.5,
        color=DARK,
    )
    return figure


def inside(mask: Mask, wide: float, high: float) -> tuple[float, float] | None:
    """Place in a region (axes: rows upwards, columns) where words fit that need a share of its width and
    height.

    Returns the fractions (x, y) of the place that is farthest from the region's edges, or None.
    """
    rows, columns = mask.shape
    across, up = round(wide * columns / 2), max(round(high * rows / 2), 1)
    around = np.pad(mask, ((up, up), (across, across)))
    fits = np.lib.stride_tricks.sliding_window_view(around, (2 * up + 1, 2 * across + 1)).all((-2, -1))
    kept, found = np.pad(fits, 1), None
    while kept.any():
        y, x = np.argwhere(kept).T
        at = np.hypot(y - y.mean(), x - x.mean()).argmin()
        found = ((x[at] - 0.5) / columns, (y[at] - 0.5) / rows)
        kept = kept & np.roll(kept, 1, 0) & np.roll(kept, -1, 0) & np.roll(kept, 1, 1) & np.roll(kept, -1, 1)
    return found


def name_region(axes: "Axes", mask: Mask, words: str, colour: str = DARK, ground: str = "none") -> None:
    """Write words, on one line or two, into a region of evenly drawn axes where they fit."""
    for lines in ([words], textwrap.wrap(words, 2 + len(words) // 2)):
        where = inside(mask, 0.02 + 0.0135 * max(map(len, lines)), 0.05 * len(lines))
        if where is not None:
            axes.text(
                *where,
                "\n".join(lines),
                transform=axes.transAxes,
                ha="center",
                va="center",
                color=colour,
                backgroundcolor=ground,
                fontsize=8.5,
                fontstyle="italic",
            )
            return


def sign(words: str, **look: Any) -> "Line2D":
    """A line or marker of a legend that is in no picture."""
    from matplotlib.lines import Line2D

    return Line2D([], [], label=words, **look)


def above(axes: "Axes", columns: int, handles: "Sequence[Any] | None" = None) -> "Legend":
    """A legend between title and axes, where it covers no data; returns it."""
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
    """Everything that a reader needs to repeat the question, without defaults."""
    machine, draft, precision = scenario.machine, scenario.draft, scenario.precision
    degree, own = machine.tensor_parallel, draft.precision
    device = f"{degree} × {machine.gpu.name}" if degree > 1 else machine.gpu.name
    parts = [
        f"{scenario.target.name} on {device}",
        draft_in_words(_drafter(draft), kv_name(scenario)),
    ]
    if draft.tensor_parallel != degree:
        parts[1] += f" on {draft.tensor_parallel}"
    if gamma is not None:
        parts.append(f"γ {gamma}" if gamma else "γ 0: baseline")
    if acceptance:
        parts.append(accepted(scenario.acceptance.alpha, scenario.acceptance.source))
    parts.append(format_notes(precision.weights.name, precision.kv.name, own.weights.name, own.kv.name))
    if machine.kv_reread is not None:
        parts.append(f"verification reads the KV {machine.kv_reread:g} times")
    if machine.attention_backend is not None:
        parts.append(f"attention by {machine.attention_backend}")
    for share, held in ((machine.host_layers, "layers"), (machine.host_experts, "routed experts")):
        if share:
            parts.append(f"{share:.0%} of the {held} on a host of {machine.host_bytes_per_s / 1e9:g} GB/s")
    parts += pages(scenario.kv_page)
    if scenario.routing_independence not in (None, 1):
        parts.append(f"routing independence {scenario.routing_independence:g}")
    for groups, word in ((scenario.expert_parallel, "expert"), (scenario.data_parallel, "data")):
        if groups > 1:
            parts.append(f"{word} parallelism {groups}")
    if scenario.context_std:
        parts.append(f"contexts differ by {scenario.context_std:g} tokens (standard deviation)")
    if scenario.topk_reuse:
        parts.append(f"{scenario.topk_reuse:g} of a choice of tokens made again")
    if scenario.state_rollback != "keep":
        parts.append("verification replays states")
    if scenario.core_ops:
        parts.append("linear layers and attention alone")
    used = Calibrated.of(scenario)
    made, kind = used.name, used.kind
    return "; ".join([*parts, f"calibration {made}" if made == kind else f"calibration {made} ({kind})"])


def accepted(alpha: float | None, source: str) -> str:
    """The assumed acceptance: its constant, or the source of its positions."""
    return f"acceptance by position ({source})" if alpha is None else f"acceptance α {alpha:g}"


def format_notes(weights: str, kv: str, draft_weights: str, draft_kv: str) -> str:
    """Formats of weights and KV, the draft's where they are its own."""
    its_own = [f"{draft_weights} weights"] * (draft_weights != weights) + [f"{draft_kv} KV"] * (
        draft_kv != kv
    )
    return f"{weights} weights, {kv} KV" + (f" (draft: {', '.join(its_own)})" if its_own else "")


def pages(kv_page: int) -> list[str]:
    """The size of KV pages, where it is not one token."""
    return [f"KV pages of {kv_page} tokens"] if kv_page != 1 else []


def limits(max_gamma: int | None = None, memory_fraction: float = DEFAULT_MEMORY_FRACTION) -> list[str]:
    """Words for how far a search went, where not as far as by default."""
    longest = [f"γ at most {max_gamma}"] if max_gamma not in (None, DEFAULT_MAX_GAMMA) else []
    return longest + [f"{memory_fraction:.4g} of the memory"] * (memory_fraction != DEFAULT_MEMORY_FRACTION)


def _drafter(draft: Draft) -> str:
    """The draft as it would be typed, its options among it."""
    common = {"model", "kv", "tensor_parallel", "precision", "target_weights"}
    given = {f.name: getattr(draft, f.name) for f in fields(draft) if f.name not in common}
    own = [
        f"{name}={value}" for name, value in given.items() if value and not draft.name.endswith(str(value))
    ]
    return "self" if draft.name == "self" else draft.name + (f":{','.join(own)}" if own else "")


def kv_name(scenario: Scenario) -> str:
    """The draft's KV method as it would be typed: without options that are at their defaults."""
    full = scenario.draft.kv.label()
    short = full.partition(",")[0]
    with suppress(InputError):
        return short if parse_kv(short).label() == full else full
    return full


def told_apart(points: Sequence[tuple[float, float]]) -> tuple[list[str], list[str]]:
    """Labels of (batch, context) points by their differences, and the common part for the caption."""
    columns = [[f"batch {b:g}" for b, _ in points], [f"context {tokens(c)}" for _, c in points]]
    same = [column[0] for column in columns if len({*column}) == 1 and len(points) > 1]
    kept = [column for column in columns if column[0] not in same] or columns
    return [", ".join(names) for names in zip(*kept, strict=True)], same


def tokens(value: float) -> str:
    """A count of tokens or sequences on an axis: 4096 is 4k, 100000 is 98k, 1.5k where that is exact."""
    if value < 1000:
        return f"{value:.4g}"
    for suffix, unit in (("M", 2**20), ("k", 2**10)):
        if value >= unit and (value / unit * 10).is_integer():
            return f"{value / unit:.4g}{suffix}"
    return f"{value:,.0f}"


def octaves(low: float, high: float, count: int = 8) -> list[float]:
    """Powers of two within a span, thinned out evenly to about `count`; the ends of a span with fewer than
    two.
    """
    first, last = int(np.ceil(np.log2(low) - 1e-9)), int(np.floor(np.log2(high) + 1e-9))
    step = max(1, -(-(last - first + 1) // count))
    return [float(2**power) for power in range(first, last + 1, step)] if last > first else [low, high]


def log_axis(axes: "Axes", which: str, low: float, high: float, name: str, count: int = 8) -> None:
    """Make x or y logarithmic over a span, with ticks at powers of two."""
    axis = axes.xaxis if which == "x" else axes.yaxis
    axes.set(**{f"{which}scale": "log", f"{which}lim": (low, high), f"{which}label": name})
    ticks = octaves(low, high, count)
    axis.set_ticks(ticks, [tokens(tick) for tick in ticks])
    axis.set_ticks([], minor=True)


def shades(count: int) -> list[Any]:
    """`count` colours from light to dark, all dark enough for a line on white."""
    from matplotlib.colors import LinearSegmentedColormap

    ramp = LinearSegmentedColormap.from_list("perfmodel", SEQUENCE[1:])
    return [ramp(place) for place in np.linspace(0.1, 1.0, count)] if count > 1 else [ramp(0.55)]


@in_names
def save(figure: "Figure", path: str | Path) -> Path:
    """Writes a picture as .png or .svg; the same numbers give the same bytes. Raises InputError for a wrong
    path.
    """
    where = destination(path, *FORMATS)
    undated: dict[str, None] = {"Date": None} if where.suffix.lower() == ".svg" else {"Software": None}
    with style():
        write(where, lambda fresh: figure.savefig(fresh, dpi=DPI, metadata=undated))
    return where
