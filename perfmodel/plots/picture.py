"""A figure that a notebook shows without further settings: sharp on any screen, at the width of a page."""

import io
from typing import Any

from matplotlib.figure import Figure

from perfmodel.plots.palette import style, theme_of

PIXEL = 1 / 96
"""Size of a pixel of a page in inches."""
SHARPNESS = 2
"""Number of stored pixels for each pixel of a page, along each side."""


class Picture(Figure):
    """A matplotlib figure for `_repr_mimebundle_`, which IPython calls."""

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """The picture as a .png with its size on a page, and its title."""
        stored = io.BytesIO()
        with style(theme_of(self.get_facecolor())):
            self.savefig(stored, format="png", dpi=SHARPNESS / PIXEL, metadata={"Software": None})
        width, height = (round(inches / PIXEL) for inches in self.get_size_inches())
        title = " ".join(self.get_suptitle().split())
        data = {"image/png": stored.getvalue(), "text/plain": title}
        return data, {"image/png": {"width": width, "height": height}}
