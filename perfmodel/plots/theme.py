"""What all pictures share: names of parts, axes of batches and contexts, captions, and file output. The same
numbers give the same file.
"""

import io
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import MISSING, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from perfmodel.answers.point.calibrated import Calibrated
from perfmodel.answers.question import Query, resolve
from perfmodel.costs.layout import ONE_BOX
from perfmodel.errors import in_names
from perfmodel.plots.palette import style, theme_of
from perfmodel.speculation import Scenario
from perfmodel.writing import destination, write

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
else:  # loaded on use only; the other modules take these names from here
    Axes = Figure = Any

Span = tuple[float, float]
Draw = TypeVar("Draw", bound=Callable[..., "Figure"])

STAGES = {
    "baseline": ("baseline step", ""),
    "draft": ("draft steps", "//"),
    "verify": ("verification", r"\\"),
    "overhead": ("outside the passes", "xx"),
}
"""Parts of an iteration: words and hatch."""
PARTS = {
    "linear": ("linear layers: weights", ""),
    "attention": ("attention: KV", "//"),
    "small": ("small kernels", r"\\"),
    "allreduce": ("all-reduce", "xx"),
    "fixed": ("launches, fixed costs", "--"),
}
"""Components of the time of a pass: words and hatch."""
DRAFTS = {
    "self": "A sparse self-draft",
    "eagle": "EAGLE",
    "eagle3": "EAGLE-3",
    "peagle": "P-EAGLE",
    "medusa": "Medusa",
    "mtp": "MTP",
    "ngram": "N-gram lookup",
}
"""Name of a draft -> its name at the beginning of a title."""
FORMATS = (".png", ".svg", ".pdf")
"""Suffixes of files that `save` can write."""
UNDATED: dict[str, dict[str, None]] = {
    ".png": {"Software": None},
    ".svg": {"Date": None},
    ".pdf": {"CreationDate": None},
}
"""Metadata that are left out, so that equal pictures have equal bytes."""
DPI = 200
"""Resolution of .png files, in dots per inch."""
LONG = re.compile(r"(?<![\d.])(?!0\.0)(\d+\.\d\d)\d+(?=[\s\"),;])")
"""A number in an .svg file with more decimals than can be seen. Numbers that begin with 0.0, such as scales
of glyphs, keep their decimals, because two would not suffice for them.
"""


def styled(draw: Draw) -> Draw:
    """Decorates a drawing function so that it uses the style of all pictures."""
    return in_names(style()(draw))  # type: ignore[return-value]


def scenario_of(question: Query | Scenario) -> Scenario:
    """The scenario of a picture, from a question or from a scenario."""
    return resolve(question) if isinstance(question, Query) else question


def is_ideal(scenario: Scenario) -> bool:
    """Whether the calibration is the ideal roofline."""
    return scenario.machine.calibration.name == "ideal"


def drafter(scenario: Scenario) -> str:
    """The draft at the beginning of a title."""
    return draft_in_title(scenario.draft.name)


def draft_in_title(name: str) -> str:
    """A draft at the beginning of a title, from its name."""
    return DRAFTS.get(name, f"The {name} draft")


def subject(scenario: Scenario, gamma: int | None = None) -> str:
    """The subtitle of a picture: the model, the devices, the draft and its length."""
    machine = scenario.machine
    draft = scenario.draft
    view = draft.kv.label().partition(",")[0]
    words = ", ".join([draft.name, *([view] if view != "full" else []), *unusual(draft.kv), *unusual(draft)])
    devices = machine.tensor_parallel * scenario.layout.stages
    parts = [f"{scenario.target.name} on {devices} × {machine.gpu.name}", f"draft {words}"]
    if gamma is not None:
        parts.append(f"γ {gamma}" if gamma else "γ 0: baseline")
    return "; ".join(parts)


def caption(scenario: Scenario, *, acceptance: bool = True) -> str:
    """The caption of a picture: the acceptance, number formats and calibration, and every other setting that
    differs from its default.
    """
    machine = scenario.machine
    draft = scenario.draft
    parts = []
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
    # the numbers of devices and of schedulers follow from other parts, and the host's figures from the engine
    parts += unusual(replace(machine, tensor_parallel=1, schedulers=1, host=None))
    parts += unusual(replace(scenario, acceptance=None, layout=ONE_BOX))
    if scenario.layout != ONE_BOX:
        parts.append(str(scenario.layout))
    made = Calibrated.of(scenario)
    kind = "" if made.kind == made.name else f" ({made.kind})"
    return "; ".join([*parts, f"calibration {made.name}{kind}"])


def unusual(settings: Any) -> list[str]:
    """The fields of a settings object that differ from their defaults, each as a text with name and value.
    Fractions have four digits.
    """
    usual = {f.name: f.default for f in fields(settings) if f.init and f.default is not MISSING}
    given = {name: getattr(settings, name) for name in usual}
    return [
        f"{name.replace('_', ' ')} {f'{value:.4g}' if isinstance(value, float) else value}"
        for name, value in given.items()
        if value != usual[name]
    ]


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


@in_names
def save(figure: "Figure", path: str | Path) -> Path:
    """Writes a figure to a .png, .svg or .pdf file, and returns its path. The same numbers give the same
    bytes.

    Raises InputError if the path has another suffix or cannot be written to.
    """
    where = destination(path, *FORMATS)
    suffix = where.suffix.lower()
    stored = io.BytesIO()
    with style(theme_of(figure.get_facecolor())), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph", UserWarning)  # a letter that no font has becomes a box
        figure.savefig(stored, format=suffix[1:], dpi=DPI, metadata=UNDATED[suffix])
    content = stored.getvalue()
    write(where, LONG.sub(r"\1", content.decode()) if suffix == ".svg" else content)
    return where
