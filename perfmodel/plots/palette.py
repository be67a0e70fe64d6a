"""The colours of all pictures, on a light and on a dark page.

The hues are from Paul Tol's schemes (technical note SRON/EPS/TN/09-002), which people with any kind of colour
vision can distinguish. Markers, line styles or hatches also distinguish whatever colours distinguish.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from perfmodel.errors import library, unknown_name

STYLE = Path(__file__).with_name("perfmodel.mplstyle")
"""The file of matplotlib settings for all pictures."""


@dataclass(frozen=True, slots=True)
class Palette:
    """The colours on one page.

    - page: the page itself. ink: text and strong lines. muted: captions. grid: lines of the grid.
    - grey: minor parts. pale: areas without a value.
    - bright: lines and points, in this order.
    - below, above: from break even to the largest slowdown and speedup.
    - sequence: lines of increasing values.
    - parts: components of the time of a pass.
    """

    page: str
    ink: str
    muted: str
    grid: str
    grey: str
    pale: str
    bright: tuple[str, ...]
    below: tuple[str, ...]
    above: tuple[str, ...]
    sequence: tuple[str, ...]
    parts: Mapping[str, str]

    @property
    def stages(self) -> dict[str, str]:
        """The colours of the parts of an iteration, the same in every picture."""
        return dict(
            zip(("baseline", "draft", "verify", "overhead"), (*self.bright[:3], self.grey), strict=True)
        )

    @property
    def settings(self) -> dict[str, Any]:
        """The matplotlib settings that depend on the page."""
        of_ink = ("text.color", "axes.labelcolor", "xtick.color", "ytick.color", "axes.titlecolor")
        of_page = ("figure.facecolor", "axes.facecolor", "savefig.facecolor")
        lines = {"axes.edgecolor": self.muted, "hatch.color": self.ink, "grid.color": self.grid}
        return dict.fromkeys(of_ink, self.ink) | dict.fromkeys(of_page, self.page) | lines


PALETTES = {
    "light": Palette(
        page="#ffffff",
        ink="#1f2328",
        muted="#50565e",
        grid="#e4e4e4",
        grey="#bbbbbb",
        pale="#ececec",
        bright=("#3f6fa3", "#d9485b", "#228833", "#9a8a12", "#1f8fb8", "#aa3377"),
        below=("#f6d3c9", "#e58267", "#b2182b", "#4d0712"),
        above=("#d6e6f1", "#92c5de", "#4393c3", "#2166ac", "#0b3d70", "#04142b"),
        sequence=("#d9792b", "#c23b67", "#7b3294", "#1d1450"),
        parts={
            "linear": "#77aadd",
            "attention": "#ee8866",
            "small": "#44bb99",
            "allreduce": "#ffaabb",
            "fixed": "#aaaa00",
        },
    ),
    "dark": Palette(
        page="#1b1e25",
        ink="#e8eaef",
        muted="#b3b9c4",
        grid="#343945",
        grey="#767d8a",
        pale="#353a45",
        bright=("#7fb0e6", "#ff8795", "#63c377", "#d8c64f", "#72d6f2", "#e389bd"),
        below=("#5b2a26", "#a9503e", "#ee8063", "#ffd9c9"),
        above=("#1d3b52", "#23638f", "#3a90c8", "#79bfe6", "#b4ddf3", "#f0f9ff"),
        sequence=("#8f7ee0", "#d673c4", "#f79a76", "#fde68a"),
        parts={
            "linear": "#4d7fb3",
            "attention": "#c9623f",
            "small": "#31907a",
            "allreduce": "#c4677c",
            "fixed": "#80801a",
        },
    ),
}
"""Theme -> its colours."""
_THEME: ContextVar[str | None] = ContextVar("theme", default=None)


def colours() -> Palette:
    """The colours of the theme in use."""
    return PALETTES[_THEME.get() or "light"]


@contextmanager
def style(theme: str | None = None) -> Iterator[None]:
    """A context manager in which matplotlib uses the style of all pictures.

    - theme: ``light`` or ``dark``. None means the theme in use, which is ``light`` unless another `style` is
      active.

    Raises InputError for an unknown theme, or if matplotlib is not installed.
    """
    if theme is not None and theme not in PALETTES:
        raise unknown_name("style", "theme", str(theme), PALETTES)
    library("matplotlib", "plot", "plot")
    token = _THEME.set(theme or _THEME.get())
    try:
        with library("matplotlib.style").context([STYLE, colours().settings]):
            yield
    finally:
        _THEME.reset(token)


def theme_of(page: Any) -> str:
    """The theme whose page has this colour. A page of another colour is light."""
    from matplotlib.colors import to_hex

    return next((name for name, palette in PALETTES.items() if palette.page == to_hex(page)), "light")


def shades(count: int) -> list[Any]:
    """`count` colours for lines of increasing values. All contrast with the page."""
    from matplotlib.colors import LinearSegmentedColormap

    ramp = LinearSegmentedColormap.from_list("perfmodel", colours().sequence)
    if count > 1:
        return [ramp(place) for place in np.linspace(0.0, 1.0, count)]
    return [ramp(0.55)]
