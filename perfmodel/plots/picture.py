"""A figure that a notebook shows without further settings: sharp on any screen, at the width of a page."""

import io
from typing import Any

from matplotlib.figure import Figure
from PIL import Image

from perfmodel.plots.palette import style, theme_of

PIXEL = 1 / 96
"""Size of a pixel of a page in inches."""
SHARPNESS = 2
"""Number of stored pixels for each pixel of a page, along each side."""
COLOURS = 128
"""Number of colours of a stored picture, which is a third as large as with all."""


class Picture(Figure):
    """A matplotlib figure for `_repr_mimebundle_`, which IPython calls."""

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """The picture as a .png with its size on a page, and its title."""
        drawn, stored = io.BytesIO(), io.BytesIO()
        with style(theme_of(self.get_facecolor())):
            self.savefig(drawn, format="png", dpi=SHARPNESS / PIXEL)
        few = Image.open(drawn).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
        few.save(stored, "png", optimize=True)
        width, height = (round(inches / PIXEL) for inches in self.get_size_inches())
        title = " ".join(self.get_suptitle().split())
        data = {"image/png": stored.getvalue(), "text/plain": title}
        return data, {"image/png": {"width": width, "height": height}}
